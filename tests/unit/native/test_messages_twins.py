"""A client's messages: out of records and into text, by both twins."""

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from pyromq.protocol.message import Host, ReceivedMessage
from pyromq.protocol.properties import Property
from pyromq.protocol.records import salvage
from pyromq.protocol.records.host import unpack_host
from pyromq.protocol.records.record import encode_record
from pyromq.protocol.records.salvage import take_plain
from tests.unit.native import samples
from tests.unit.native.twins import as_values, needs_core, outcome, twins

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
