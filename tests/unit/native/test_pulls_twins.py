"""Runs of plain pulls come to what their requests come to one by one: answers and when they are written, offsets,
figures, what waits."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pyromq.errors import PyroMQError
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command, Serialization, encode
from pyromq.protocol.frame import FrameReader, commands_of, cut_run, first_of
from pyromq.protocol.headers.base import encode_header
from pyromq.protocol.headers.consume import COMMIT_OFFSET, SUBSCRIPTION, SUSPEND, PullMessageHeader
from pyromq.protocol.headers.pullrun import PullRun
from pyromq.store.log.soundness import CrcOnRead
from tests.fuzz.targets import recorded
from tests.unit.native import samples
from tests.unit.native.pullworld import GROUPS, STORED, TOPICS, World, agree, core_is, exchange, header, plain
from tests.unit.native.test_sends_twins import plain as plain_send
from tests.unit.native.test_sends_twins import read
from tests.unit.native.twins import needs_core
from tests.unit.store.storage import message

pytestmark = needs_core

SUBSCRIPTIONS = ("*", "a", "a || b", "b||größe", "none", "", "null", "a > 1", "TAGS = 'a'", 'quo"te')
FLAGS = (SUBSCRIPTION, SUBSCRIPTION | SUSPEND, SUBSCRIPTION | SUSPEND | COMMIT_OFFSET)
ODD_FLAGS = (0, COMMIT_OFFSET, SUSPEND, SUSPEND | 16, COMMIT_OFFSET | SUSPEND, -1, *FLAGS)


@st.composite
def pull_headers(draw: st.DrawFn, odd: bool) -> PullMessageHeader:
    """Plain, or nearly so."""
    return header(
        draw(st.one_of(st.integers(0, STORED), st.integers(-1, STORED + 3), samples.LONGS if odd else st.just(0))),
        draw(st.sampled_from([1, 3, 8, 32, 1000, 0, -1])),
        consumer_group=draw(st.sampled_from(GROUPS if odd else GROUPS[:2])),
        topic=draw(st.sampled_from(TOPICS if odd else TOPICS[:2])),
        queue_id=draw(st.integers(-1, 3) if odd else st.sampled_from([0, 0, 0, 1])),
        sys_flag=draw(st.sampled_from(ODD_FLAGS if odd else FLAGS)),
        commit_offset=draw(st.one_of(st.integers(-1, STORED + 3), st.just(0))),
        suspend_timeout_millis=draw(st.sampled_from([15_000, 0, -1])),
        subscription=draw(st.one_of(st.none(), st.sampled_from(SUBSCRIPTIONS)) if odd else st.sampled_from("*a")),
        sub_version=draw(st.sampled_from([0, 1, 1_700_000_000_000, (1 << 63) - 1])) if odd else 0,
        expression_type=draw(st.sampled_from([None, "TAG", "SQL92", "", "other"])) if odd else "TAG",
        max_msg_bytes=draw(st.sampled_from([None, 300, (1 << 31) - 1])),
        request_source=draw(st.sampled_from([None, 1])),
        proxy_forward_client_id=draw(st.sampled_from([None, "client@1"])),
        request_type=draw(st.sampled_from([None, None, 0, 1]) if odd else st.sampled_from([None, None, None, 0])),
        bname=draw(st.sampled_from([None, "broker-a"])),
        lo=draw(st.sampled_from([None, False, True])),
    )


@st.composite
def pull_frames(draw: st.DrawFn) -> bytes:
    odd = draw(st.integers(0, 5)) == 0
    fields = draw(pull_headers(odd))
    code = draw(st.sampled_from([RequestCode.PULL_MESSAGE, RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE]))
    opaque = draw(st.integers(-9, 9))
    kind = draw(st.integers(0, 6))
    if kind == 0:
        members = encode_header(fields)
        head = {"code": int(code), "flag": draw(st.sampled_from([0, 2])), "opaque": opaque, "language": "JAVA"}
        ext = samples.spelled(draw, samples.as_members(draw, members) if odd else members)
        if draw(st.booleans()):
            inner = ",".join(f'"{name}":{value!r}'.replace("'", '"') for name, value in head.items())
            return samples.frame(f'{{{inner},"extFields":'.encode() + ext + b"}")
        return samples.frame(samples.spelled(draw, head | {"extFields": samples.Spelled(ext.decode())}))
    body = b"what for?" if odd and draw(st.booleans()) else b""
    command = Command.request(code, fields, opaque=opaque, body=body, oneway=odd and draw(st.booleans()))
    if kind <= 2:
        command.serialization = Serialization.ROCKETMQ
    return encode(command)


@st.composite
def walks(draw: st.DrawFn) -> bytes:
    """Pulls of a queue one behind the other, as a consumer has several under way."""
    at, step = draw(st.integers(0, STORED)), draw(st.sampled_from([1, 5, 8, 32]))
    queue_id, binary = draw(st.integers(0, 1)), draw(st.booleans())
    subscription = draw(st.sampled_from(["*", "*", "a", "none"]))
    flag = draw(st.sampled_from(FLAGS))
    frames = []
    for _ in range(draw(st.integers(1, 12))):
        frames.append(
            plain(
                at, step, binary=binary, queue_id=queue_id, subscription=subscription, sys_flag=flag, commit_offset=at
            )
        )
        at += step
    return b"".join(frames)


PULLS = st.lists(
    st.one_of(pull_frames(), walks(), walks(), st.integers(0, 99).map(plain_send)), min_size=1, max_size=8
).map(b"".join)
STREAMS = st.lists(st.one_of(pull_frames(), pull_frames(), walks(), samples.FRAMES), max_size=8).map(b"".join)


@settings(max_examples=300, deadline=None)
@given(samples.pieces(samples.damaged(STREAMS)))
def test_a_stream_with_runs_is_read_as_one_without(pieces: list[bytes]) -> None:
    assert read(pieces, runs=True) == read(pieces, runs=False)


EXT = (
    '"consumerGroup":"g","topic":"orders","queueId":"0","queueOffset":"3","maxMsgNums":"8","sysFlag":"4",'
    '"commitOffset":"0","suspendTimeoutMillis":"15000","subVersion":"0","expressionType":"TAG","subscription":"a"'
)
HEAD = '{"code":11,"extFields":{%s},"flag":0,"opaque":7}'
HEADS = (
    HEAD,
    # Java, Go, C++ and this client, as they order and space it.
    '{"code":11,"extFields":{%s},"flag":0,"language":"JAVA","opaque":7,"serializeTypeCurrentRPC":"JSON","version":493}',
    '{"code":11,"language":"GO","version":317,"opaque":7,"flag":0,"remark":"","extFields":{%s}}',
    '{"code":11,"extFields":{%s},"flag":0,"language":"CPP","opaque":7,"version":321}\n',
    '{"code":11,"language":9,"version":0,"opaque":7,"flag":0,"extFields":{%s}}',
    '{"extFields":{%s},"code":11,"opaque":7}',
    '{"code":361,"extFields":{%s},"opaque":7}',
    '{"code":"11","extFields":{%s}}',
    '{"code":11,"code":10,"extFields":{%s}}',
    '{"code":11,"extFields":{%s},"flag":2}',
    '{"code":11,"extFields":{%s},"flag":1}',
    '{"code":11,"extFields":{%s},"opaque":2147483648}',
    '{"code":11,"extFields":{%s},"remark":null}',
    '{"code":11,"extFields":{%s}}}',
    '{"code":11,"extFields":{%s}',
    '{"code":11,"extFields":[%s]}',
)
NUMBERS = (
    "3",
    '"03"',
    '"+3"',
    '" 3"',
    '"3.0"',
    '"3e0"',
    '"-1"',
    '"9223372036854775808"',
    '"null"',
    "null",
    '""',
    "true",
)
TEXTS = ("null", '"null"', '""', '"\\u0061"', '"a\\"b"', '"größe"', "7", "true", '"' + "a" * 300 + '"')
ODD = (
    EXT,
    *(EXT.replace('"queueOffset":"3"', f'"queueOffset":{number}') for number in NUMBERS),
    *(EXT.replace('"queueId":"0"', f'"queueId":{number}') for number in NUMBERS),
    *(EXT.replace('"sysFlag":"4"', f'"sysFlag":{number}') for number in NUMBERS),
    *(EXT.replace('"subVersion":"0"', f'"subVersion":{number}') for number in NUMBERS),
    *(EXT + f',"maxMsgBytes":{number}' for number in NUMBERS),
    *(EXT + f',"ReqT":{number}' for number in NUMBERS),
    *(EXT.replace('"subscription":"a"', f'"subscription":{text}') for text in TEXTS),
    *(EXT.replace('"expressionType":"TAG"', f'"expressionType":{text}') for text in TEXTS),
    *(EXT.replace('"consumerGroup":"g"', f'"consumerGroup":{text}') for text in TEXTS),
    *(EXT.replace('"topic":"orders"', f'"topic":{text}') for text in TEXTS),
    *(EXT + f',"proxyFrowardClientId":"{"x" * count}"' for count in (1, 1024, 1025)),
    *(EXT + f',"lo":{word}' for word in ('"true"', '"TRUE"', '"1"', "true", "null", '""')),
    EXT + ',"subscription":"b"',
    EXT + ',"unknown":"1","unknown":"2"',
    EXT + ',"unknown":{"a":[]}',
    EXT.replace('"topic"', '"t\\u006fpic"'),
    EXT.replace('"topic":"orders",', ""),
)


def test_odd_headers_are_answered_the_same() -> None:
    heads = [HEAD.replace("%s", fields) for fields in ODD] + [head.replace("%s", EXT) for head in HEADS]
    legible = []
    for head in heads:
        data = samples.frame(head.encode()) * 2
        expected = read([data], runs=False)
        assert read([data], runs=True) == expected
        if expected.error is None:
            legible.append(data)
    assert len(legible) > len(heads) * 3 / 4
    assert exchange(*legible, native_core=True) == exchange(*legible, native_core=False)


EXCHANGES = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.generate],
)
WORLDS = st.fixed_dictionaries(
    {},
    optional={
        "reset": st.booleans(),
        "damage": st.sampled_from([0, 3, 7]),
        "reopened": st.booleans(),
        "unsent_high": st.sampled_from([1, 700, 3000, 1 << 20]),
        "offsets": st.booleans(),
        "slave_read": st.booleans(),
        "access_message_in_memory_max_ratio": st.sampled_from([0, 40]),
        "check_crc_on_read": st.sampled_from(CrcOnRead),
        "max_transfer_bytes_on_message_in_memory": st.sampled_from([500, 1 << 18]),
        "max_transfer_count_on_message_in_memory": st.sampled_from([2, 32, 500]),
        "max_filter_message_size": st.sampled_from([20, 100, 16_000]),
    },
)


@EXCHANGES
@given(st.lists(PULLS, min_size=1, max_size=4), WORLDS)
def test_pulls_are_answered_the_same(pieces: list[bytes], world: dict[str, Any]) -> None:
    agree(*pieces, **world)


@EXCHANGES
@given(samples.pieces(samples.damaged(STREAMS)))
def test_broken_streams_are_answered_the_same(pieces: list[bytes]) -> None:
    agree(*pieces)


WALK = b"".join(
    plain(n * 4, 4, binary=n % 3 == 0, sys_flag=SUBSCRIPTION | COMMIT_OFFSET, commit_offset=n) for n in range(14)
)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"unsent_high": 1},
        {"unsent_high": 2000},
        {"damage": 5, "check_crc_on_read": CrcOnRead.ALWAYS},
        {"damage": 1, "reopened": True},
        {"damage": 4, "check_crc_on_read": CrcOnRead.NEVER},
        {"reset": True},
        {"offsets": False},
        {"slave_read": True, "access_message_in_memory_max_ratio": 0},
        {"mapped_file_size_commit_log": 1 << 20},
    ],
)
def test_a_walk_over_a_queue_is_answered_the_same(changes: dict[str, Any]) -> None:
    facts = agree(WALK, WALK[:-3], WALK[-3:], plain(0), *(plain(n, 1, subscription="a") for n in range(8)), **changes)
    assert facts["remoting"] == (37, 0, 37, 0, 0)


def test_sends_among_pulls_wake_those_that_wait() -> None:
    pulls = [plain(STORED + n, queue_id=0, sys_flag=SUBSCRIPTION | SUSPEND) for n in range(3)]
    facts = agree(b"".join([*pulls, plain(0), plain_send(1), plain(STORED - 4), plain_send(2), plain(STORED)]))
    assert facts["waiting"] == (0, False, 0)


def test_large_answers_are_slices_of_the_log(tmp_path: Path) -> None:
    """Copied with their neighbours or not, they hold the same and keep within what a peer may be sent at once."""
    answers = []
    for on in (True, False):
        with core_is(on):
            world = World(tmp_path / str(on), mapped_file_size_commit_log=1 << 20, unsent_high=250_000)
            for size in (70_000, 100, 90_000, 60_000, 200_000):
                world.store.put(message("orders", 1, bytes(size)))
            frames = b"".join(plain(offset, 2, queue_id=1) for offset in range(STORED // 2 - 2, STORED // 2 + 5))
            asyncio.run(world.exchange([frames]))
            answers.append(world.facts())
    assert answers[0] == answers[1]
    assert isinstance(answers[0]["writes"], list)
    assert len(answers[0]["writes"]) > 1


def test_plain_pulls_are_carried_by_the_core(tmp_path: Path) -> None:
    world = World(tmp_path, mapped_file_size_commit_log=1 << 20)

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("a run was taken apart")

    world.store.get = fail  # type: ignore[assignment]
    live: dict[str, Any] = {"consumer_group": "live", "sys_flag": SUSPEND | COMMIT_OFFSET, "sub_version": 5}
    world.core.offsets.commit("live", "orders", 0, 1)
    asyncio.run(
        world.exchange(
            [
                b"".join(plain(n, binary=n % 2 == 0) for n in range(40)),
                plain(7, lite=True, subscription="a || b"),
                plain(9, **live) + plain(11, **live),
                plain(3, lo=True, bname="broker-a", max_msg_bytes=7, request_source=1),
            ]
        )
    )
    assert [each.code for each in world.rig.transport.commands] == [0] * 44
    world.facts()


def test_a_run_is_cut_where_it_stops_being_one() -> None:
    def lengths(*frames: bytes) -> list[int]:
        items = FrameReader(runs=True).receive(b"".join(frames))
        return [len(item) if not isinstance(item, Command) else 0 for item in items]

    assert lengths(plain(1), plain(2, 5), plain(3, binary=True, commit_offset=2)) == [3]
    assert lengths(plain(1), plain(2, queue_id=1), plain(3)) == [1, 1, 1]
    assert lengths(plain(1), plain(2, lite=True)) == [1, 1]
    assert lengths(plain(1), plain(2, subscription="a"), plain(3, subscription=None)) == [1, 1, 1]
    assert lengths(plain(1), plain(2, request_type=0, max_msg_bytes=1), plain(3)) == [1, 1, 1]
    assert lengths(plain(1, max_msg_bytes=1), plain(2, max_msg_bytes=2), plain(3, request_type=0)) == [3]
    assert lengths(plain_send(1), plain(2), plain(3), plain_send(4)) == [1, 2, 1]
    assert lengths(*[plain(1)] * 300) == [128, 128, 44]


def test_pulls_of_released_clients_are_plain() -> None:
    codes = {RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE}
    pulls = []
    for frame in recorded():
        with suppress(PyroMQError):
            (command,) = FrameReader().feed(frame)
            if command.code in codes and not command.is_response:
                pulls.append(frame)
    assert len(pulls) >= 5
    for frame in pulls:
        assert cut_run(frame, 0, 1 << 20) is not None, frame


def test_the_rest_of_a_run_is_one() -> None:
    run = cast("PullRun", cut_run(b"".join(plain(n, commit_offset=n) for n in range(5)), 0, 1 << 20))
    rest = run.rest(3)
    assert (len(rest), list(rest.commits(9)), rest.end) == (2, [3, 4], run.end)
    assert [each.opaque for each in commands_of(rest)] == [3, 4]
    assert first_of(rest).opaque == 3
    assert len(run.rest(9)) == 0
