"""A client's messages: out of records and into text, by both twins."""

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command, encode
from pyromq.protocol.headers.send import (
    FRAME_END,
    SendMessageV2Header,
    frame_head,
    frame_tail,
    send_fields,
    send_frame,
    send_head,
    send_tail,
)
from pyromq.protocol.message import Host, ReceivedMessage
from pyromq.protocol.properties import Property, encode_properties
from pyromq.protocol.records import salvage
from pyromq.protocol.records.host import unpack_host
from pyromq.protocol.records.record import encode_record
from pyromq.protocol.records.salvage import take_plain
from tests.unit.native import samples
from tests.unit.native.twins import agree, as_values, needs_core, outcome, twins

HOST = Host("10.0.0.1", 10911)


def record(properties: dict[str, str] | None = None, *, offset: int = 0, topic: str = "t") -> bytes:
    """One that is plain unless its properties are not."""
    message = ReceivedMessage(topic, b"body", properties or {}, queue_offset=offset, born_host=HOST, store_host=HOST)
    return encode_record(message)


def taken(data: bytes, offset: int = 0, delta: int = 0) -> tuple[list[ReceivedMessage], int]:
    """What both twins read, and where they stopped."""
    both = twins(take_plain)
    python: list[ReceivedMessage] = []
    native: list[ReceivedMessage] = []
    expected = outcome(both.python, data, offset, delta, ReceivedMessage, unpack_host, python)
    assert outcome(both.native, data, offset, delta, ReceivedMessage, unpack_host, native) == expected
    assert as_values(native) == as_values(python)
    assert expected.error is None
    assert isinstance(expected.value, int)
    return python, expected.value


@needs_core
@given(samples.damaged(samples.PULLED), st.sampled_from([0, 0, 1, 91, 10**6]), st.one_of(st.just(0), samples.LONGS))
@example(record(offset=2**63 - 1), 0, 1)
@example(record(offset=-(2**63)), 0, -1)
@example(record({"TRAN_MSG": "true", "UNIQ_KEY": "id"}), 0, 0)
@example(record({"TRAN_MSG": "true"}), 0, 0)
@example(record({"TRAN_MSG": "True", "UNIQ_KEY": "id"}), 0, 0)
@example(record({Property.FAULT: "broken"}), 0, 0)
@example(record(topic="x" * 128), 0, 0)
@example(record(topic="größe") + record(topic="x") + record(topic="größe"), 0, 0)
def test_plain_records_are_the_same_messages(data: bytes, offset: int, delta: int) -> None:
    taken(data, offset, delta)


@needs_core
def test_what_is_plain_is_taken_by_the_core() -> None:
    whole = record({"TAGS": "a", "UNIQ_KEY": "id"}) + record(topic="x" * 128) + record()
    messages, end = taken(whole)
    assert end == len(whole)
    assert [message.topic for message in messages] == ["t", "x" * 128, "t"]


@needs_core
@given(samples.damaged(samples.PULLED), st.integers(0, 40), st.sampled_from([None, 0, 1, 40]), st.integers(-3, 3))
def test_salvage_is_the_same(data: bytes, low: int, high: int | None, delta: int) -> None:
    bounds: dict[str, Any] = {"low": low, "high": high, "delta": delta}
    whole = salvage.salvage_records(data, **bounds)
    both = twins(take_plain)
    salvage.take_plain = both.python
    try:
        expected = salvage.salvage_records(data, **bounds)
    finally:
        salvage.take_plain = take_plain
    assert as_values(whole) == as_values(expected)


NUMBERS = st.one_of(st.just(0), samples.INTS, samples.LONGS, st.sampled_from([2**63, -(2**70), True]))
HEAD = send_head("g", "t", "TBW102", 4)
TAIL = send_tail(False, False, "broker-a")
ANY_PROPERTIES = st.one_of(
    samples.PROPERTIES,
    st.dictionaries(st.one_of(samples.TEXTS, st.text(max_size=3)), st.one_of(samples.TEXTS, st.text(max_size=3))),
    st.sampled_from(
        [{"a": "\ud800"}, {"": "a"}, {"a": ""}, {"a": "x" * 32764}, {"a": "x" * 32765}, {"ä": "\x7f\x00\x1f"}]
    ),
)


@needs_core
@given(NUMBERS, NUMBERS, NUMBERS, NUMBERS, ANY_PROPERTIES, NUMBERS)
def test_fields_of_a_send_are_the_same(
    queue_id: int, sys_flag: int, born: int, flag: int, properties: dict[str, str], retries: int
) -> None:
    agree(send_fields, HEAD, queue_id, sys_flag, born, flag, properties, retries, TAIL, partial=True)


@needs_core
def test_what_a_producer_sends_is_left_to_the_core() -> None:
    properties = {"TAGS": 'a "tag"', "KEYS": "größe 😀", "WAIT": "true", "UNIQ_KEY": "0A" * 16}
    arguments = HEAD, 3, 8, 1_700_000_000_000, -1, properties, 0, TAIL
    assert twins(send_fields).native(*arguments) == twins(send_fields).python(*arguments)


@needs_core
@given(NUMBERS, NUMBERS, ANY_PROPERTIES, NUMBERS, st.sampled_from([b"", b"body", bytearray(b"x"), b"x" * 70_000]))
def test_a_send_is_the_same_frame(
    queue_id: int, flag: int, properties: dict[str, str], opaque: int, body: bytes
) -> None:
    head, tail = frame_head(310, "g", "t", "TBW102", 4), frame_tail(False, False, "a")
    agree(send_frame, head, queue_id, 0, 1, flag, properties, 0, tail, opaque, FRAME_END, body, partial=True)


@given(samples.GROUPS, samples.TOPICS, samples.INTS, samples.PROPERTIES, st.booleans(), st.booleans())
def test_text_of_a_send_is_that_of_its_header(
    group: str, topic: str, number: int, properties: dict[str, str], unit: bool, batch: bool
) -> None:
    header = SendMessageV2Header(
        producer_group=group,
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=number,
        sys_flag=0,
        born_timestamp=number,
        flag=number,
        properties=encode_properties(properties).decode(),
        reconsume_times=0,
        unit_mode=unit,
        batch=batch,
        bname="broker-a",
    )
    tail = send_tail(unit, batch, "broker-a")
    text = send_fields(send_head(group, topic, "TBW102", 4), number, 0, number, number, properties, 0, tail)
    assert text == header.to_json()
    written, plain = (Command(RequestCode.SEND_MESSAGE_V2, fields=fields, body=b"x") for fields in (text, header))
    assert encode(written) == encode(plain)
    frame = send_frame(
        frame_head(RequestCode.SEND_MESSAGE_V2, group, topic, "TBW102", 4),
        *(number, 0, number, number, properties, 0, frame_tail(unit, batch, "broker-a"), 0, FRAME_END, b"x"),
    )
    assert frame == encode(plain)
    assert written.ext == plain.ext
    assert written.header(SendMessageV2Header) == header
