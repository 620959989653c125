"""Runs of plain sends and batches (`cut_run`, `write_sends`, `answer_sends`) come to what their requests come to one
by one: commands, records, entries, index, answers."""

import asyncio
import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pyromq import native
from pyromq.broker.admin.stats import Stat
from pyromq.broker.config import BrokerConfig
from pyromq.broker.refusals import guarded
from pyromq.broker.send.sender import Sender
from pyromq.broker.writers.writers import Writers
from pyromq.protocol.bodies.enums import TopicFilterType
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command, Serialization, encode
from pyromq.protocol.errors import FrameError
from pyromq.protocol.frame import FrameReader, commands_of
from pyromq.protocol.handles.writer import WRITER_FIELD
from pyromq.protocol.headers.base import encode_header
from pyromq.protocol.headers.send import SendMessageV2Header
from pyromq.protocol.message import Message
from pyromq.protocol.properties import encode_properties
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.batch import encode_batch
from pyromq.store.arrival import Arrival
from pyromq.store.config import FlushDiskType
from pyromq.store.messagestore import MessageStore
from tests.unit.broker.cores import STORE_HOST, make_core
from tests.unit.native import samples
from tests.unit.native.twins import as_values, needs_core
from tests.unit.remoting.fakes import Rig, turn
from tests.unit.store.storage import Clock

pytestmark = needs_core

TOPICS = ("orders", "größe", "order-only", "many-tags", "SCHEDULE_TOPIC_XXXX", "missing", "%RETRY%g", "x" * 127)
UNIQUE = st.sampled_from(["0A00000910E118B4AAC2000000000001", "u", 'q"\\\x7f', "schlüssel-😀"])
PROPERTIES = st.fixed_dictionaries(
    {"UNIQ_KEY": UNIQUE},
    optional={
        "WAIT": st.sampled_from(["true", "true", "true", "false"]),
        "TAGS": st.sampled_from(["TagA", "größe", "😀"]),
        "KEYS": st.sampled_from(["k1", "k1  k2", " ", "ключ"]),
        "a": st.sampled_from(["b", "c\x01d"]),
        "DELAY": st.sampled_from(["1", "0"]),
        "TRAN_MSG": st.just("true"),
        "MSG_REGION": st.just("mine"),
        "INNER_NUM": st.just("2"),
    },
)


@st.composite
def property_texts(draw: st.DrawFn) -> str:
    """Mostly plain ones; now and then spelled in another way."""
    chosen = draw(PROPERTIES)
    for name in ("DELAY", "TRAN_MSG", "MSG_REGION", "INNER_NUM"):
        if draw(st.integers(0, 7)):
            chosen.pop(name, None)
    text = encode_properties(chosen).decode()
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return text[:-1]
    if kind == 1:
        return text + "UNIQ_KEY\x01\x02UNIQ_KEY\x01later\x02\x02TAGS\x02KEYS\x01"
    if kind == 2:
        return text.replace("UNIQ_KEY", draw(st.sampled_from(["NO_KEY", "", "UNIQ"])))
    return text


@st.composite
def send_frames(draw: st.DrawFn) -> bytes:
    """A send that is plain, or nearly so."""
    odd = draw(st.integers(0, 5)) == 0
    header = SendMessageV2Header(
        producer_group=draw(samples.GROUPS) if odd else "g",
        topic=draw(st.sampled_from(TOPICS if odd else TOPICS[:2])),
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=draw(st.integers(-1, 4) if odd else st.integers(0, 1)),
        sys_flag=draw(samples.SYS_FLAGS) if odd else draw(st.sampled_from([0, sysflag.COMPRESSED])),
        born_timestamp=draw(st.sampled_from([1_700_000_000_000, 0, -1, (1 << 63) - 1])),
        flag=draw(st.sampled_from([0, -7, (1 << 31) - 1])),
        properties=draw(property_texts()),
        reconsume_times=draw(st.sampled_from([None, 0, 3])),
        unit_mode=draw(st.sampled_from([None, False, True])),
        max_reconsume_times=draw(st.sampled_from([None, 16])),
        batch=draw(st.sampled_from([None, False, True])) if odd else False,
        bname=draw(st.sampled_from([None, "broker-a"])),
    )
    kind = draw(st.sampled_from(["send", "send", "long", "batch"]))
    code = CODES[kind]
    fields = samples.plain_send_header(header) if kind == "long" else header
    if kind == "batch":
        header.batch = True if not odd else header.batch
        header.properties = draw(st.sampled_from([header.properties, None, "", "WAIT\x01true\x02"]))
        body = draw(samples.damaged(samples.BATCHES) if odd else samples.BATCHES)
    else:
        body = draw(st.sampled_from([b"", b"hello", b"x" * 300, b"y" * 1500] if odd else [b"", b"hello"]))
    opaque = draw(st.integers(-9, 9))
    form = draw(st.integers(0, 5))
    if form == 0:
        members = encode_header(fields)
        if odd and draw(st.booleans()):
            members[WRITER_FIELD] = "sink"
        head = {"code": int(code), "flag": draw(st.sampled_from([0, 2])), "opaque": opaque, "language": "JAVA"}
        ext = samples.spelled(draw, samples.as_members(draw, members) if odd else members)
        text = draw(st.sampled_from(["ours", "another's"]))
        if text == "ours":
            inner = ",".join(f'"{name}":{value!r}'.replace("'", '"') for name, value in head.items())
            return samples.frame(f'{{{inner},"extFields":'.encode() + ext + b"}", body)
        return samples.frame(samples.spelled(draw, head | {"extFields": samples.Spelled(ext.decode())}), body)
    command = Command.request(code, fields, body=body, opaque=opaque, oneway=draw(st.integers(0, 4)) == 0)
    if form <= 2:
        command.serialization = Serialization.ROCKETMQ
    return encode(command)


CODES = {
    "send": RequestCode.SEND_MESSAGE_V2,
    "long": RequestCode.SEND_MESSAGE,
    "batch": RequestCode.SEND_BATCH_MESSAGE,
}
STREAMS = st.lists(st.one_of(send_frames(), send_frames(), send_frames(), samples.FRAMES), max_size=8).map(b"".join)
SENDS = st.lists(send_frames(), min_size=1, max_size=8).map(b"".join)


class Read(NamedTuple):
    """What a reader made of some pieces."""

    commands: list[object]
    error: str | None
    buffered: int


def read(pieces: Sequence[bytes], *, runs: bool) -> Read:
    reader = FrameReader(1 << 20, runs=runs)
    commands: list[Command] = []
    try:
        for piece in pieces:
            items = reader.receive(piece)
            commands += [
                each for item in items for each in ([item] if isinstance(item, Command) else commands_of(item))
            ]
    except FrameError as error:
        return Read([as_values(each) for each in (*commands, *error.commands)], str(error), reader.buffered)
    return Read([as_values(each) for each in commands], None, reader.buffered)


@settings(max_examples=300, deadline=None)
@given(samples.pieces(samples.damaged(STREAMS)))
def test_a_stream_with_runs_is_read_as_one_without(pieces: list[bytes]) -> None:
    assert read(pieces, runs=True) == read(pieces, runs=False)


def test_frames_at_which_the_core_fails_are_read_by_python(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_arguments: object) -> None:
        raise native.NativeCoreError("of a test")

    stream = encode(Command.request(RequestCode.HEART_BEAT, body=b"{}")) * 3
    as_ever = read([stream], runs=False)
    monkeypatch.setattr("pyromq.protocol.frame.cut_run", fails)
    assert read([stream], runs=True) == as_ever
    assert len(as_ever.commands) == 3


FIELDS = '"a":"g","b":"orders","c":"T","d":"4","e":"0","f":"0","g":"0","h":"0"'
EXT = FIELDS + ',"i":"UNIQ_KEY\\u0001u\\u0002"'
ODD_TEXTS = [
    '"UNIQ_KEY\x01u\x02"',
    '"UNIQ_KEY\\u0001\\ud83d\\ude00\\u0002"',
    '"UNIQ_KEY\\u0001\\ud83d\\u0002"',
    '"UNIQ_KEY\\u0001\\ude00\\ud83d"',
    '"UNIQ_KEY\\u0001\\x\\u0002"',
    '"UNIQ_KEY\\u0001\\u00"',
    '"\\u0001',
    '"UNIQ_KEY\\u0001\\b\\f\\n\\r\\t\\/\\"\\\\\\u0000\\u0002"',
    '"UNIQ_KEY\\u0001ä€😀\\u00e4\\u20AC"',
    '"\\uD83D\\u0041"',
    *("null", "7", "true", "[]", "NaN"),
]
ODD_NUMBERS = [
    *("1", '"01"', '"-0"', '"+1"', '" 1"', '"1.0"', '"1e3"', '"2147483648"', '"-2147483648"', '"9999999999999999999"'),
    *("NaN", "-Infinity", '"NaN"', "1e999", "true", "null", '"\uff11"', '""', "[1]"),
]
ODD_WORDS = ['"true"', '"TRUE"', '"1"', "true", "false", '"false"', "null", '""']
ODD_FIELDS = [
    *(f'{FIELDS},"i":{text}' for text in ODD_TEXTS),
    *(f'{EXT},"j":{number}' for number in ODD_NUMBERS),
    *(f'{EXT},"m":{word}' for word in ODD_WORDS),
    *(f'{EXT},"k":{word}' for word in ODD_WORDS),
    *(EXT.replace('"a":"g"', f'"a":"{name}"') for name in ("", "g" * 255, "g" * 256, "ä" * 200, "\\u00e4")),
    *(EXT.replace('"b":"orders"', f'"b":"{name}"') for name in ("", "o" * 128, "\\u006frders", ".", "a/b")),
    EXT,
    FIELDS,
    EXT + ',"i":"UNIQ_KEY\\u0001v\\u0002"',
    EXT + ',"e":"1"',
    EXT + ',"z":"1","z":"2"',
    EXT + ',"z":1',
    EXT + ',"z":{"a":[]}',
    EXT + ',"z":' + "[" * 2000 + "]" * 2000,
    EXT + ",",
    "",
    '"a"',
    EXT.replace('"a":"g",', ""),
    EXT.replace('"a"', '"\\u0061"'),
]
HEADS = [
    '{"code":310,"extFields":{%s},"flag":0,"opaque":7}',
    '{"code":310,"opaque":7,"extFields":{%s}}',
    '{"extFields":{%s},"code":310,"opaque":7}',
    '{"code":310,"code":310,"extFields":{%s}}',
    '{"code":310,"code":34,"extFields":{%s}}',
    '{"code":"310","extFields":{%s}}',
    '{"code":310.0,"extFields":{%s}}',
    '{"code":3.1e2,"extFields":{%s}}',
    '{"code":310,"extFields":{%s},"opaque":2147483648}',
    '{"code":310,"extFields":{%s},"opaque":-2147483648}',
    '{"code":310,"extFields":{%s},"opaque":-0}',
    '{"code":310,"extFields":{%s},"opaque":007}',
    '{"code":310,"extFields":{%s},"flag":3}',
    '{"code":310,"extFields":{%s},"flag":1}',
    '{"code":310,"extFields":{%s},"flag":6}',
    '{"code":310,"extFields":{%s},"flag":null}',
    '{"code":310,"extFields":{%s},"unknown":1}',
    '{"code":310,"extFields":{%s},"unknown":}',
    '{"code":310,"extFields":{%s},"language":12,"version":null}',
    '{"code":310,"extFields":{%s},"language":"LUA","remark":null,"version":-5}',
    '{"code":310,"extFields":{%s},"remark":"a\\u0041"}',
    '{"code":310,"extFields":{%s},"remark":"a\x01"}',
    '{"code":310,"extFields":{%s}} ',
    '{"code":310,"extFields":{%s}}}',
    '{"code":310,"extFields":{%s}',
    '{"code":310,"extFields":{%s},}',
    '\ufeff{"code":310,"extFields":{%s}}',
    "[%s]",
]


def test_odd_headers_are_read_the_same() -> None:
    heads = [HEADS[0].replace("%s", fields) for fields in ODD_FIELDS] + [head.replace("%s", EXT) for head in HEADS]
    legible = []
    for head in heads:
        data = samples.frame(head.encode(), b"body") * 2
        expected = read([data], runs=False)
        assert read([data], runs=True) == expected
        if expected.error is None:
            legible.append(data)
    assert len(legible) > len(heads) / 2
    assert exchange(*legible, native_core=True) == exchange(*legible, native_core=False)


def test_text_that_is_not_utf_8_is_read_the_same() -> None:
    for place in (b'"g"', b'"orders"', b'"UNIQ_KEY'):
        header = HEADS[0].replace("%s", EXT).encode().replace(place, place[:-1] + b"\xff" + place[-1:])
        data = samples.frame(header)
        assert read([data], runs=True) == read([data], runs=False)


@contextmanager
def core_is(on: bool) -> Iterator[None]:
    before, native.core.on = native.core.on, on
    try:
        yield
    finally:
        native.core.on = before


class World:
    """A sender on a store of its own, behind a connection."""

    def __init__(self, root: Path, flush: FlushDiskType, *, trace: bool = True, **changes: Any) -> None:
        self.root, self.clock = root, Clock()
        sizes: dict[str, Any] = {
            "mapped_file_size_commit_log": 16384,
            "mapped_file_size_consume_queue": 20 * 5,
            "allocate_step_commit_log": 4096,
            "max_hash_slot_num": 7,
            "max_index_num": 9,
            **changes,
        }
        config = BrokerConfig(
            store_path_root_dir=root, flush_disk_type=flush, trace_on=trace, auto_create_topic_enable=False
        )
        small = replace(config.store_config(), **sizes)
        self.store = MessageStore(small, clock=self.clock, disk_usage=lambda _: 0.1)
        self.store.store_host = STORE_HOST
        self.store.open()
        self.store._worker.submit(int).result()
        self.core = make_core(config, self.clock, self.store)
        self.core.topics.load()
        made = [TopicConfig(topic_name=name, read_queue_nums=3, write_queue_nums=2) for name in ("orders", "größe")]
        made += [TopicConfig(topic_name=name) for name in ("x" * 127, "%RETRY%g", "%RETRY%group")]
        made.append(TopicConfig(topic_name="order-only", order=True))
        made.append(TopicConfig(topic_name="many-tags", topic_filter_type=TopicFilterType.MULTI_TAG))
        for topic in made:
            self.core.topics.put(topic).check()
        self.arrivals: list[Arrival] = []
        self.store.add_listener(self.arrivals.append)
        self.store.add_hook(lambda _: None, ["DELAY"])
        self.sender = Sender(self.core)
        self.sender._imprint.ids = lambda: "made"
        self.rig = Rig(guarded({**self.sender.handlers(), **Writers(self.core, self.sender).handlers()}))

    async def exchange(self, pieces: Sequence[bytes]) -> None:
        for piece in pieces:
            self.rig.connection.data_received(piece)
            await turn()
            self.clock.now += 7
            self.store.flush()
            self.store.tick()
            await turn()

    def facts(self) -> tuple[object, ...]:
        """Everything one can see afterwards."""
        self.store.close()
        files = {
            str(path.relative_to(self.root)): path.read_bytes()
            for folder in ("commitlog", "consumequeue")
            for path in sorted((self.root / folder).rglob("*"))
            if path.is_file()
        }
        # Their names tell when they were made, which is up to how many keys are written at a time.
        index = [path.read_bytes() for path in sorted((self.root / "index").iterdir())]
        facts = "topic", "queue_id", "queue_offset", "physical_offset", "size", "tags_code", "sys_flag", "properties"
        seen = [[getattr(each, name) for name in facts] for each in self.arrivals]
        put = self.store.stats
        stats = put.put_count, put.put_bytes, put.put_failed, self.sender._answers.busy
        topics = [self.core.stats.total(stat, topic) for stat in Stat for topic in TOPICS]
        remoting = self.rig.stats
        counts = remoting.requests, remoting.oneways, remoting.responses, remoting.faults, remoting.requests_in_flight
        # A refusal is not held back by messages that wait for the disk unless it came in one group with them.
        answers = sorted(encode(each) for each in self.rig.transport.commands)
        return answers, files, index, sorted(seen, key=repr), stats, topics, counts, self.rig.transport.closing


def exchange(
    *pieces: bytes, native_core: bool, flush: FlushDiskType = FlushDiskType.ASYNC_FLUSH, **changes: Any
) -> tuple[object, ...]:
    # A group that is taken apart chooses once more.
    with core_is(native_core), patch.object(random, "randrange", lambda _: 0), tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), flush, **changes)
        asyncio.run(world.exchange(pieces))
        return world.facts()


EXCHANGES = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.generate],
)


@pytest.mark.parametrize("flush", FlushDiskType)
@EXCHANGES
@given(st.lists(SENDS, min_size=1, max_size=4))
def test_sends_leave_the_same_behind(flush: FlushDiskType, pieces: list[bytes]) -> None:
    assert exchange(*pieces, native_core=True, flush=flush) == exchange(*pieces, native_core=False, flush=flush)


@EXCHANGES
@given(samples.pieces(samples.damaged(STREAMS)))
def test_broken_streams_leave_the_same_behind(pieces: list[bytes]) -> None:
    assert exchange(*pieces, native_core=True) == exchange(*pieces, native_core=False)


def plain(number: int, queue: int = 0, *, binary: bool = False, oneway: bool = False, body: bytes = b"hello") -> bytes:
    header = SendMessageV2Header(
        producer_group="g", topic="orders", default_topic="T", default_topic_queue_nums=4, queue_id=queue, sys_flag=0,
        born_timestamp=1, flag=0, properties=f"UNIQ_KEY\x01u{number}\x02TAGS\x01a\x02KEYS\x01k{number % 3} x\x02",
        batch=False,
    )  # fmt: skip
    command = Command.request(RequestCode.SEND_MESSAGE_V2, header, body=body, opaque=number, oneway=oneway)
    command.serialization = Serialization.ROCKETMQ if binary else Serialization.JSON
    return encode(command)


def batch(number: int, queue: int = 0, *, binary: bool = False, oneway: bool = False, count: int = 3) -> bytes:
    body = encode_batch(Message("orders", b"%d" % number, tags="a", keys=[f"k{each}"]) for each in range(count))
    header = SendMessageV2Header(
        producer_group="g", topic="orders", default_topic="T", default_topic_queue_nums=4, queue_id=queue, sys_flag=0,
        born_timestamp=1, flag=0, properties="UNIQ_KEY\x01u\x02" if number % 2 else "", batch=True,
    )  # fmt: skip
    command = Command.request(RequestCode.SEND_BATCH_MESSAGE, header, body=body, opaque=number, oneway=oneway)
    command.serialization = Serialization.ROCKETMQ if binary else Serialization.JSON
    return encode(command)


MANY = b"".join(plain(n, n % 3, binary=n % 5 == 0, oneway=n % 7 == 0) for n in range(300))


@pytest.mark.parametrize("flush", FlushDiskType)
@pytest.mark.parametrize("trace", [True, False])
def test_many_sends_leave_the_same_behind(flush: FlushDiskType, trace: bool) -> None:
    roomy = {
        "mapped_file_size_commit_log": 1 << 20,
        "allocate_step_commit_log": 1 << 17,
        "max_index_num": 500,
        "trace": trace,
    }
    batches = b"".join(batch(n, n % 2, binary=n % 5 == 0, oneway=n % 7 == 0, count=1 + n % 9) for n in range(60))
    for pieces in ([MANY], [MANY[:5000], MANY[5000:]], [plain(n, n % 2) for n in range(40)], [batches, MANY, batches]):
        one, other = (exchange(*pieces, native_core=on, flush=flush, **roomy) for on in (True, False))
        assert one == other


def test_plain_sends_are_carried_by_the_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, FlushDiskType.ASYNC_FLUSH, mapped_file_size_commit_log=1 << 20)

    def fail(*_: object) -> None:
        raise AssertionError("a run was taken apart")

    asyncio.run(world.exchange([plain(0)]))  # the first message of a queue finds it not there
    world.store.put = fail  # type: ignore[assignment]
    world.store.put_many = fail  # type: ignore[assignment]
    world.store.put_batch = fail  # type: ignore[assignment]
    beyond_what_is_reserved = b"".join(plain(number, body=b"x" * 1000) for number in range(4, 20))
    asyncio.run(world.exchange([plain(1) + plain(2), plain(3, binary=True), beyond_what_is_reserved]))
    asyncio.run(world.exchange([batch(20) + batch(21), batch(22, binary=True, count=4)]))
    assert len(world.rig.transport.commands) == 23
    assert [each.queue_offset for each in world.arrivals] == list(range(30))
    world.facts()


def test_a_flush_that_takes_too_long_is_said_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = []
    for on in (True, False):
        with core_is(on), tempfile.TemporaryDirectory() as folder:
            world = World(
                Path(folder),
                FlushDiskType.SYNC_FLUSH,
                mapped_file_size_commit_log=1 << 20,
                allocate_step_commit_log=1 << 20,
            )
            asyncio.run(world.exchange([plain(0)]))
            monkeypatch.setattr(world.store._flusher, "wake", lambda: None)

            async def late(world: World = world) -> None:
                world.rig.connection.data_received(plain(1) + plain(2, oneway=True) + plain(3, binary=True))
                world.rig.connection.data_received(batch(4) + batch(5, binary=True))
                world.clock.now += 60_000
                world.store.tick()
                await turn()

            asyncio.run(late())
            answers.append(b"".join(world.rig.transport.writes))
            assert [each.code for each in world.rig.transport.commands] == [0, 10, 10, 10, 10]
            world.facts()
    assert answers[0] == answers[1]
