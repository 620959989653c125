"""Stored messages as consumers get them: every field that clients insist on, and nothing that is not the user's."""

from hashlib import md5
from typing import Any

import pytest

from pyromq.protocol.message import Host, ReceivedMessage
from pyromq.protocol.properties import Property
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.compression import CompressionType, compress
from pyromq.protocol.records.record import encode_record
from pyromq.protocol.records.salvage import salvage_records
from pyromq.proxy.messages.delivery import HIDDEN, fill
from pyromq.proxy.schema import messages
from pyromq.proxy.schema.enums import DigestType, Encoding, MessageType

BORN, STORED = 1_700_000_000_123, 1_700_000_000_456


def stored(properties: dict[str, str], body: bytes = b"hello", topic: str = "t") -> ReceivedMessage:
    return ReceivedMessage(
        topic,
        body,
        properties,
        queue_id=3,
        queue_offset=42,
        physical_offset=4096,
        born_timestamp=BORN,
        born_host=Host("10.0.0.9", 1234),
        store_timestamp=STORED,
        store_host=Host("10.0.0.1", 10911),
    )


def delivered(message: ReceivedMessage, handle: str = "h", invisible: int = 1500) -> Any:
    target = messages.Message()
    fill(target, message, messages.Resource(name="mine", resource_namespace="ns"), handle, invisible)
    return messages.Message.FromString(target.SerializeToString())


def test_every_field_is_there() -> None:
    message = delivered(
        stored({"UNIQ_KEY": "id", "TAGS": "paid", "KEYS": "k1 k2", "TRACE_CONTEXT": "tc", "colour": "red"})
    )
    assert (message.topic.name, message.topic.resource_namespace, message.body) == ("mine", "ns", b"hello")
    assert dict(message.user_properties) == {"colour": "red"}
    system = message.system_properties
    assert (system.tag, list(system.keys), system.message_id) == ("paid", ["k1", "k2"], "id")
    assert system.body_digest.type == DigestType.MD5
    assert system.body_digest.checksum == "5D41402ABC4B2A76B9719D911017C592"
    assert (system.body_encoding, system.message_type) == (Encoding.IDENTITY, MessageType.NORMAL)
    assert system.born_timestamp.ToMilliseconds() == BORN
    assert system.store_timestamp.ToMilliseconds() == STORED
    assert (system.born_host, system.store_host) == ("10.0.0.9", "10.0.0.1:10911")
    assert (system.queue_id, system.queue_offset, system.delivery_attempt) == (3, 42, 1)
    assert system.receipt_handle == "h"
    assert system.invisible_duration.ToMilliseconds() == 1500
    assert system.trace_context == "tc"


def test_what_a_message_does_not_have_is_absent() -> None:
    system = delivered(stored({}), handle="", invisible=0).system_properties
    for name in ("tag", "message_group", "trace_context", "delivery_timestamp", "receipt_handle", "dead_letter_queue"):
        assert not system.HasField(name), name
    assert system.message_id == stored({}).offset_message_id
    assert list(system.keys) == []


def test_attempts_count_from_one() -> None:
    message = stored({})
    for times, attempt in ((0, 1), (3, 4), (-1, 1)):
        message.reconsume_times = times
        assert delivered(message).system_properties.delivery_attempt == attempt


@pytest.mark.parametrize(
    ("properties", "kind"),
    [
        ({}, MessageType.NORMAL),
        ({"__SHARDINGKEY": "g"}, MessageType.FIFO),
        ({"TIMER_DELIVER_MS": "5"}, MessageType.DELAY),
        ({"DELAY": "3", "__SHARDINGKEY": "g"}, MessageType.DELAY),
        ({"TIMER_DELAY_SEC": "3"}, MessageType.DELAY),
        ({"TIMER_DELAY_MS": "3"}, MessageType.DELAY),
        ({"TRAN_MSG": "true", "DELAY": "3"}, MessageType.TRANSACTION),
        ({"TRAN_MSG": "false"}, MessageType.NORMAL),
    ],
)
def test_the_type_follows_from_the_properties(properties: dict[str, str], kind: MessageType) -> None:
    assert delivered(stored(properties)).system_properties.message_type == kind


def test_groups_times_and_senders() -> None:
    properties = {"__SHARDINGKEY": "g", "TIMER_DELIVER_MS": "1700000000789", "__BORNHOST": "there"}
    system = delivered(stored(properties)).system_properties
    assert (system.message_group, system.born_host) == ("g", "there")
    assert system.delivery_timestamp.ToMilliseconds() == 1_700_000_000_789
    assert not delivered(stored({"TIMER_DELIVER_MS": "soon"})).system_properties.HasField("delivery_timestamp")


def test_properties_that_are_not_the_users_are_hidden() -> None:
    message = delivered(stored(dict.fromkeys(HIDDEN, "1") | {"own": "1"}))
    assert dict(message.user_properties) == {"own": "1"}
    assert {Property.SHARDING_KEY, Property.TRACE_CONTEXT, Property.CHECK_IMMUNITY_TIME} <= HIDDEN


@pytest.mark.parametrize(
    ("topic", "properties", "origin"),
    [
        ("%DLQ%g", {"DLQ_ORIGIN_TOPIC": "t", "DLQ_ORIGIN_MESSAGE_ID": "id"}, ("t", "id")),
        ("%DLQ%g", {"RETRY_TOPIC": "t", "ORIGIN_MESSAGE_ID": "0A"}, ("t", "0A")),
        ("t", {"RETRY_TOPIC": "t", "ORIGIN_MESSAGE_ID": "0A"}, ("", "")),
        ("%DLQ%g", {}, ("", "")),
    ],
)
def test_a_dead_letter_says_where_it_comes_from(topic: str, properties: dict[str, str], origin: Any) -> None:
    letter = delivered(stored(properties, topic=topic)).system_properties.dead_letter_queue
    assert (letter.topic, letter.message_id) == origin


@pytest.mark.parametrize("kind", CompressionType)
def test_compressed_bodies_are_unpacked_first(kind: CompressionType) -> None:
    message = stored({}, compress(b"plain text", kind))
    message.sys_flag = kind.flag
    (read,) = salvage_records(encode_record(message)).messages
    assert not read.sys_flag & sysflag.COMPRESSED
    made = delivered(read)
    assert made.body == b"plain text"
    assert made.system_properties.body_digest.checksum == md5(b"plain text").hexdigest().upper()  # noqa: S324
    assert made.system_properties.body_encoding == Encoding.IDENTITY
