"""Batch bodies: golden bytes, round trips, what may travel together, inner batches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.protocol.errors import MessageError, ValidationError
from pyromq.protocol.message import Host, Message, ReceivedMessage
from pyromq.protocol.properties import decode_properties
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.batch import MAX_INNER_BATCH, check_batch, encode_batch, iter_batch, unwrap
from tests.unit.protocol.test_properties import property_maps

GOLDEN = bytes.fromhex(
    "0000001f000000000000000000000000000000026d3100075441475301410200000018000000000000000000000005000000026d320000"
)


def bare(body: bytes, flag: int = 0, **properties: str) -> Message:
    message = Message("t", body, flag=flag)
    message.properties = properties
    return message


# P-111
def test_two_messages() -> None:
    assert encode_batch([bare(b"m1", TAGS="A"), bare(b"m2", flag=5)]) == GOLDEN
    first, second = iter_batch(GOLDEN)
    assert (first.flag, bytes(first.body), bytes(first.properties)) == (0, b"m1", b"TAGS\x01A\x02")
    assert (second.flag, bytes(second.body), bytes(second.properties)) == (5, b"m2", b"")


# P-112
def test_one_record() -> None:
    encoded = encode_batch([Message("t", b"hi", tags="A")])
    assert len(encoded) == 41
    assert encoded == bytes.fromhex(
        "00000029 00000000 00000000 00000000 00000002 6869 0011 5441475301410257414954017472756502"
    )


def test_items_are_views_not_copies() -> None:
    body = bytearray(GOLDEN)
    item = next(iter_batch(body))
    body[body.index(b"m1")] = ord("M")
    assert bytes(item.body) == b"M1"
    item.body.release()
    item.properties.release()


@given(st.lists(st.tuples(st.binary(max_size=50), st.integers(-(2**31), 2**31 - 1), property_maps), max_size=6))
def test_round_trip(items: list[tuple[bytes, int, dict[str, str]]]) -> None:
    encoded = encode_batch(bare(body, flag, **properties) for body, flag, properties in items)
    assert [(bytes(i.body), i.flag, decode_properties(i.properties)) for i in iter_batch(encoded)] == items


def test_what_cannot_be_written() -> None:
    with pytest.raises(MessageError, match="message 1"):
        encode_batch([bare(b"x"), bare(b"x", flag=2**31)])
    with pytest.raises(MessageError, match="more than 32767"):
        encode_batch([bare(b"x", a="x" * 40_000)])


def test_every_cut_and_every_wrong_length_is_noticed() -> None:
    for end in range(1, len(GOLDEN)):
        if end != 31:
            with pytest.raises(MessageError):
                list(iter_batch(GOLDEN[:end]))
    assert len(list(iter_batch(GOLDEN[:31]))) == 1
    for position in (3, 19, 23):
        for value in (0, 1, 0x1E, 0x20, 0xFF):
            broken = bytearray(GOLDEN)
            broken[position] = value
            if broken != GOLDEN:
                with pytest.raises(MessageError, match="batch"):
                    list(iter_batch(broken))
    assert list(iter_batch(b"")) == []


# P-109
def test_what_may_travel_together() -> None:
    check_batch([Message("t", b"1", tags="A"), Message("t", b"2", tags="B")])
    for messages, reason in (
        ([], "at least one"),
        ([Message("t", b"1"), Message("u", b"2")], "one topic"),
        ([Message("t", b"1"), Message("t", b"2", wait_store_ok=False)], "wait_store_ok"),
        ([Message("t", b"1"), Message("t", b"2", delay_level=1)], "delay level"),
        ([Message("%RETRY%g", b"1")], "retry topic"),
    ):
        with pytest.raises(ValidationError, match=reason):
            check_batch(messages)


def test_inner_batch_gets_consecutive_offsets() -> None:
    host = Host("10.0.0.1", 10911)
    batch = ReceivedMessage(
        "t",
        GOLDEN,
        {"INNER_NUM": "2"},
        queue_id=3,
        queue_offset=100,
        physical_offset=99,
        born_timestamp=1,
        store_timestamp=2,
        store_host=host,
        sys_flag=sysflag.WRAPPED_BATCH | sysflag.COMMIT,
    )
    first, second = unwrap(batch)
    assert (first.queue_offset, first.body, first.tags, first.flag) == (100, b"m1", "A", 0)
    assert (second.queue_offset, second.body, second.properties, second.flag) == (101, b"m2", {}, 5)
    for message in (first, second):
        assert (message.topic, message.queue_id, message.physical_offset) == ("t", 3, 99)
        assert (message.born_timestamp, message.store_timestamp, message.store_host) == (1, 2, host)
        assert message.sys_flag == sysflag.COMMIT


def test_inner_batches_have_a_bound() -> None:
    one = encode_batch([bare(b"")])
    assert len(unwrap(ReceivedMessage("t", one * MAX_INNER_BATCH, {}))) == MAX_INNER_BATCH
    with pytest.raises(MessageError, match="more than 32767"):
        unwrap(ReceivedMessage("t", one * (MAX_INNER_BATCH + 1), {}))
