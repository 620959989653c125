"""Random and mutated frames: a reader answers with commands or with errors of the protocol, and keeps little memory."""

import random
import time
import tracemalloc
from contextlib import suppress
from typing import Any

import pytest

from pyromq.protocol.command import MAX_HEADER, Command, Serialization, encode
from pyromq.protocol.errors import FrameError, ProtocolError
from pyromq.protocol.frame import FrameReader
from pyromq.protocol.headers.base import Header
from pyromq.protocol.headers.consume import PullMessageHeader, PullMessageResponseHeader
from pyromq.protocol.headers.namesrv import GetRouteInfoByTopicHeader
from pyromq.protocol.headers.pop import PopMessageHeader
from pyromq.protocol.headers.send import SendMessageHeader, SendMessageResponseHeader, SendMessageV2Header

CASES = 110_000
LONG_CASES = 3_000_000
MAX_FRAME = 4096
# Everything one of these cases may hold at once: the input, its commands and their decoded fields.
MEMORY_LIMIT = 1024 * 1024

SEND: dict[str, Any] = {
    "producer_group": "PG",
    "topic": "TopicTest",
    "default_topic": "TBW102",
    "default_topic_queue_nums": 4,
    "queue_id": 3,
    "sys_flag": 0,
    "born_timestamp": 1700000000000,
    "flag": 0,
    "properties": "TAGS\x01TagA\x02KEYS\x01é中😀\x02",
    "batch": True,
}
PULL = PullMessageHeader(
    consumer_group="CG",
    topic="TopicTest",
    queue_id=0,
    queue_offset=12,
    max_msg_nums=32,
    sys_flag=3,
    commit_offset=11,
    suspend_timeout_millis=15000,
    sub_version=1700000000001,
)
HEADERS: list[Header] = [
    SendMessageV2Header(**SEND),
    SendMessageHeader(**SEND),
    PULL,
    GetRouteInfoByTopicHeader(topic="TopicTest", accept_standard_json_only=True),
    SendMessageResponseHeader(msg_id="0A00000100002A9F000000000001E240", queue_id=3, queue_offset=7),
    PullMessageResponseHeader(suggest_which_broker_id=0, next_begin_offset=5, min_offset=0, max_offset=9),
]
HEADER_TYPES: list[type[Header]] = [*(type(header) for header in HEADERS), PopMessageHeader]
TOKENS = [
    b"null", b"true", b'"1"', b"-1", b"1e400", b"99999999999999999999", b"[[[[", b"{}", b'{"$ref":"$"}', b'"\\ud800"',
    b"\xff\xfe", b"\x00", b'"', b"\\", b",", b":", b"}", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x00",
    b'"extFields":', b'"language":7', b'"remark":{}', b'{"code":1}',
]  # fmt: skip


def seeds(body: bytes) -> list[bytes]:
    return [
        encode(Command(310, flag, 77, header, body, remark, serialization=serialization))
        for serialization in Serialization
        for header in HEADERS
        for flag, remark in ((0, None), (1, "some remark é"))
    ]


ORIGINALS = seeds(b"x" * 40)
BODILESS = seeds(b"")


def mutated(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        position = rng.randrange(len(out) + 1)
        match rng.randrange(6):
            case 0 if position < len(out):
                out[position] = rng.randrange(256)
            case 1 if position < len(out):
                out[position] ^= 1 << rng.randrange(8)
            case 2:
                out[position:position] = rng.choice(TOKENS)
            case 3:
                out[position : position + rng.randrange(1, 9)] = rng.choice(TOKENS)
            case 4:
                del out[position : position + rng.randrange(1, 20)]
            case _:
                other = rng.randrange(len(out) + 1)
                out[position:position] = out[other : other + rng.randrange(1, 20)]
    return bytes(out)


def with_true_lengths(data: bytes) -> bytes:
    """Repair the two length words, so that the damage is found by what reads the header."""
    header = data[8:]
    return (4 + len(header)).to_bytes(4, "big") + data[4:5] + len(header).to_bytes(3, "big") + header


def one_case(rng: random.Random) -> bytes:
    match rng.randrange(8):
        case 0:
            return rng.randbytes(rng.randrange(64))
        case 1:
            serialization = bytes((0, 0, 0, 0, rng.randrange(3), 0, 0, 0))
            return with_true_lengths(serialization + rng.randbytes(rng.randrange(64)))
        case 2 | 3 | 4:
            return with_true_lengths(mutated(rng.choice(BODILESS), rng))
        case _:
            return mutated(rng.choice(ORIGINALS), rng)


def read_everything(data: bytes, rng: random.Random) -> int:
    """Feed `data`, whole or cut in two, and decode what comes out; how many commands came out."""
    reader = FrameReader(MAX_FRAME)
    cut = rng.randrange(len(data) + 1) if rng.random() < 0.3 else len(data)
    commands: list[Command] = []
    try:
        for piece in (data[:cut], data[cut:]):
            commands += reader.feed(piece)
    except FrameError as error:
        commands += error.commands
    assert reader.buffered <= len(data)
    for command in commands:
        with suppress(ProtocolError):
            command.header(rng.choice(HEADER_TYPES))
        with suppress(ProtocolError):
            assert all(type(text) is str for pair in command.ext.items() for text in pair)
            encode(command)
        repr(command)
    return len(commands)


def run(seed: int, cases: int) -> int:
    """Run that many cases; how many commands came out of them. Prints how to repeat a failure."""
    rng = random.Random(seed)
    survivors = 0
    data = b""
    try:
        for _ in range(cases):
            data = one_case(rng)
            survivors += read_everything(data, rng)
    except BaseException:
        print(f"seed {seed}, input {data!r}")  # noqa: T201 - shown by pytest with the failure
        raise
    return survivors


def test_random_and_mutated_frames(long_run: bool) -> None:
    cases = LONG_CASES if long_run else CASES
    survivors = run(time.time_ns() if long_run else 20240229, cases)
    # The test is of little use when nearly everything or nearly nothing gets through.
    assert cases // 20 < survivors < cases


def test_memory_stays_bounded() -> None:
    run(1, 500)  # from here on all decoders exist, and what grows was left by a case
    tracemalloc.start()
    try:
        run(2, 5_000)
        left, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MEMORY_LIMIT
    assert left < MEMORY_LIMIT // 10


@pytest.mark.parametrize("serialization", Serialization)
def test_largest_header_full_of_fields(serialization: Serialization) -> None:
    # The worst that one frame can make us hold: a large header of the shortest fields there are.
    request = Command.request(10, ext={f"{n:x}": "1" for n in range(30_000)}, serialization=serialization)
    data = encode(request)
    assert len(data) > MAX_HEADER // 4
    tracemalloc.start()
    try:
        (command,) = FrameReader().feed(data)
        assert len(command.ext) == 30_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 * MAX_HEADER
