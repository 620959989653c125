"""Receipts out of what a client's connection read, by both twins, and by the reader of all frames."""

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from pyromq.protocol.command import Command, encode
from pyromq.protocol.frame import FrameReader
from pyromq.protocol.headers.send import SendMessageResponseHeader
from pyromq.protocol.headers.sendreply import SendReplies
from pyromq.protocol.receipts import ReceiptHeader, cut_receipts
from tests.unit.native import samples
from tests.unit.native.twins import needs_core, twins

MAX = 4096
NUMBERS = st.one_of(samples.INTS, samples.LONGS, st.sampled_from([0, 1, -1, "0", "-0", "01", "1.0", "", None, True]))
NAMES = st.sampled_from(
    [
        *("msgId", "queueId", "queueOffset", "transactionId", "MSG_REGION", "TRACE_ON"),
        *("batchUniqId", "recallHandle", "x"),
    ]
)
FIELDS = st.dictionaries(NAMES, st.one_of(samples.TEXTS, NUMBERS.map(str), NUMBERS, st.sampled_from(["true", "false"])))


def framed(header: str | bytes, body: bytes = b"") -> bytes:
    raw = header.encode() if isinstance(header, str) else header
    return (4 + len(raw) + len(body)).to_bytes(4) + len(raw).to_bytes(4) + raw + body


PLAIN = st.builds(
    lambda opaque, queue_id, offset, key: SendReplies("größe", trace_on=opaque % 2 == 0).frame(
        opaque, "0A" * 16, queue_id, offset, key
    ),
    samples.INTS,
    samples.INTS,
    samples.LONGS,
    samples.TEXTS,
)
HEADS = st.fixed_dictionaries(
    {"code": st.sampled_from([0, 0, "0", 1, 10]), "flag": st.sampled_from([1, 1, 1, 0, 2, 3]), "opaque": NUMBERS},
    optional={
        "extFields": st.one_of(FIELDS, st.none()),
        "language": st.sampled_from(["JAVA", "PYTHON", 3, None]),
        "version": NUMBERS,
        "remark": st.one_of(st.none(), samples.TEXTS),
        "serializeTypeCurrentRPC": st.just("JSON"),
    },
)
SPELLED = st.builds(
    lambda head, spaced, body: framed(json.dumps(head, separators=(", ", ": ") if spaced else (",", ":")), body),
    HEADS,
    st.booleans(),
    st.sampled_from([b"", b"", b"x"]),
)
STREAMS = st.lists(st.one_of(PLAIN, PLAIN, SPELLED), max_size=5).map(b"".join)


def as_read(data: bytes, start: int) -> tuple[Any, ...]:
    """What the reader of all frames makes of the frame that begins there."""
    end = start + 4 + int.from_bytes(data[start : start + 4])
    (command,) = FrameReader(MAX).feed(data[start:end])
    header = command.header(ReceiptHeader)
    assert (command.code, command.flag, command.body) == (0, 1, b"")
    assert (header.batch_uniq_id, header.recall_handle) == (None, None)
    traced = header.trace_on != "false"
    return (
        *(command.opaque, header.msg_id, header.queue_id, header.queue_offset, header.transaction_id),
        *(header.region, traced, start),
    )


def compared(data: bytes, position: int = 0, max_frame: int = MAX) -> None:
    """The core takes as many as Python or less, and all of them are what every reader sees."""
    both = twins(cut_receipts)
    end, expected = both.python(data, position, max_frame)
    seen_end, seen = both.native(data, position, max_frame)
    assert seen == expected[: len(seen)]
    assert seen_end == (end if len(seen) == len(expected) else expected[len(seen)][-1])
    for receipt in expected:
        assert receipt == as_read(data, receipt[-1])


@needs_core
@given(samples.damaged(STREAMS), st.sampled_from([0, 0, 0, 1, 10**6]), st.sampled_from([MAX, 64, 0]))
@example(framed('{"code":0,"flag":1,"opaque":1,"extFields":{"msgId":"","queueId":"0","queueOffset":"0"}}'), 0, MAX)
def test_the_core_takes_receipts_as_python_does(data: bytes, position: int, max_frame: int) -> None:
    compared(data, position, max_frame)


@needs_core
def test_what_brokers_answer_is_left_to_the_core() -> None:
    ours = SendReplies("DefaultRegion", trace_on=False).frame(7, "0A" * 16, 3, 2**40, "key")
    header = SendMessageResponseHeader(msg_id="0B" * 16, queue_id=0, queue_offset=5)
    java = {
        "code": 0,
        "extFields": {"queueId": "2", "TRACE_ON": "true", "MSG_REGION": "r", "msgId": "0C" * 16, "queueOffset": "9"},
        "flag": 1,
        "language": "JAVA",
        "opaque": -3,
        "serializeTypeCurrentRPC": "JSON",
        "version": 401,
    }
    stream = ours + encode(Command(10, opaque=9).reply(0, header)) + framed(json.dumps(java, separators=(",", ":")))
    end, receipts = twins(cut_receipts).native(stream, 0, MAX)
    assert end == len(stream)
    assert [receipt[:7] for receipt in receipts] == [
        (7, "0A" * 16, 3, 2**40, "key", "DefaultRegion", False),
        (9, "0B" * 16, 0, 5, None, "DefaultRegion", True),
        (-3, "0C" * 16, 2, 9, None, "r", True),
    ]


def test_other_frames_are_left_alone() -> None:
    receipt = SendReplies("r", trace_on=True).frame(1, "0A" * 16, 0, 0, "k")
    delayed = SendMessageResponseHeader(msg_id="x", queue_id=0, queue_offset=0, recall_handle="h")
    for other in (
        encode(Command(10, opaque=9).reply(1, remark="no")),
        encode(Command(10, opaque=9).reply(0, delayed)),
        encode(Command(10, opaque=9)),
        receipt[:-1],
        b"\0\0\0",
    ):
        assert cut_receipts(receipt + other, 0, MAX)[0] == len(receipt)
