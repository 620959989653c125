"""Messages as users build and read them."""

import pytest

from pyromq.protocol.errors import ValidationError
from pyromq.protocol.message import Host, Message, MessageQueue, ReceivedMessage
from pyromq.protocol.properties import RESERVED, Property


# P-12, P-13, P-19, P-20
def test_fields_and_their_defaults() -> None:
    message = Message("orders", b"\x00\xff")
    assert (message.topic, message.body, message.flag, message.transaction_id) == ("orders", b"\x00\xff", 0, None)
    assert message.properties == {"WAIT": "true"}
    message.transaction_id = "0A"
    assert message.transaction_id == "0A"
    assert not hasattr(message, "sys_flag")


# P-20c
def test_constructor_forms() -> None:
    assert Message("t", b"b", tags="A").properties == {"TAGS": "A", "WAIT": "true"}
    assert Message("t", b"b", tags="A", keys="k").properties == {"TAGS": "A", "KEYS": "k", "WAIT": "true"}
    full = Message("t", b"b", tags="A", keys="k", flag=7, wait_store_ok=False)
    assert full.flag == 7
    assert full.properties == {"TAGS": "A", "KEYS": "k", "WAIT": "false"}
    assert Message("t", b"b", tags="", keys="").properties == {"WAIT": "true"}
    assert Message("t", b"b", tags=None, keys=[]).properties == {"WAIT": "true"}


# P-15
def test_tags_are_a_view_on_the_properties() -> None:
    message = Message("t", b"b")
    assert message.tags is None
    message.tags = "paid"
    assert message.properties["TAGS"] == "paid"
    message.properties["TAGS"] = "open"
    assert message.tags == "open"
    message.tags = None
    assert "TAGS" not in message.properties


# P-16
def test_keys_are_joined_by_one_blank() -> None:
    message = Message("t", b"b", keys=["o-17", "c-4"])
    assert message.properties["KEYS"] == "o-17 c-4"
    assert message.keys == ("o-17", "c-4")
    message.keys = "a  b"
    assert message.keys == ("a", "b")
    message.keys = ()
    assert message.keys == ()
    assert "KEYS" not in message.properties


# P-17
def test_waiting_for_the_store_is_the_default() -> None:
    message = Message("t", b"b")
    del message.properties["WAIT"]
    assert message.wait_store_ok
    message.properties["WAIT"] = "TRUE"
    assert message.wait_store_ok
    message.wait_store_ok = False
    assert message.properties["WAIT"] == "false"
    assert not message.wait_store_ok


# P-18
def test_delays() -> None:
    message = Message("t", b"b", delay_level=3)
    assert message.properties["DELAY"] == "3"
    assert message.delay_level == 3
    assert message.is_delayed
    message.delay_level = 0
    assert "DELAY" not in message.properties
    assert not message.is_delayed
    message.properties["DELAY"] = "soon"
    assert message.delay_level == 0

    for name, timed in (
        ("TIMER_DELAY_SEC", Message("t", b"b", delay_seconds=90)),
        ("TIMER_DELAY_MS", Message("t", b"b", delay_ms=90)),
        ("TIMER_DELIVER_MS", Message("t", b"b", deliver_at_ms=90)),
    ):
        assert timed.properties == {name: "90", "WAIT": "true"}
        assert timed.is_delayed
    timed.deliver_at_ms = 1_700_000_000_000
    assert timed.properties["TIMER_DELIVER_MS"] == "1700000000000"


def test_other_views() -> None:
    message = Message("t", b"b", sharding_key="user-7")
    message.unique_id = "0A"
    message.correlation_id = "c"
    message.reply_to_client = "1.2.3.4@1"
    message.ttl_ms = 3000
    message.instance_id = "N"
    assert message.properties == {
        "__SHARDINGKEY": "user-7",
        "WAIT": "true",
        "UNIQ_KEY": "0A",
        "CORRELATION_ID": "c",
        "REPLY_TO_CLIENT": "1.2.3.4@1",
        "TTL": "3000",
        "INSTANCE_ID": "N",
    }
    assert (message.sharding_key, message.ttl_ms, message.get_property("TTL")) == ("user-7", 3000, "3000")
    assert message.get_property("none", "x") == "x"


# P-20b
@pytest.mark.parametrize("name", sorted(RESERVED))
def test_reserved_property_names_are_refused(name: str) -> None:
    message = Message("t", b"b")
    with pytest.raises(ValidationError, match="reserved"):
        message.put_property(name, "v")
    with pytest.raises(ValidationError, match="reserved"):
        Message("t", b"b", properties={name: "v"})
    assert message.properties == {"WAIT": "true"}


# P-20b
@pytest.mark.parametrize(
    ("name", "value"), [("", "v"), ("  ", "v"), ("n", ""), ("n", "\t "), ("n\x01", "v"), ("n\x02", "v"), ("n", "v\x02")]
)
def test_blank_properties_and_separators_are_refused(name: str, value: str) -> None:
    with pytest.raises(ValidationError):
        Message("t", b"b").put_property(name, value)


def test_own_properties() -> None:
    message = Message("t", b"b", properties={"colour": "red"}, tags="A")
    message.put_property(Property.SHARDING_KEY, "k")
    assert message.properties == {"colour": "red", "TAGS": "A", "WAIT": "true", "__SHARDINGKEY": "k"}
    assert repr(message).startswith("Message('t', 1 bytes")


def test_ids_of_a_received_message() -> None:
    message = ReceivedMessage("t", b"b", {}, physical_offset=123456, store_host=Host("10.0.0.1", 10911))
    assert message.offset_message_id == "0A00000100002A9F000000000001E240"
    assert message.message_id == message.offset_message_id
    message.unique_id = "0A00000910E118B4AAC20012D687002A"
    assert message.message_id == "0A00000910E118B4AAC20012D687002A"
    assert "0A00000910E118B4AAC20012D687002A" in repr(message)


# P-20
def test_transaction_id_of_a_received_message() -> None:
    assert ReceivedMessage("t", b"b", {"UNIQ_KEY": "0A"}).transaction_id is None
    assert ReceivedMessage("t", b"b", {"UNIQ_KEY": "0A", "TRAN_MSG": "true"}).transaction_id == "0A"


def test_queues_sort_by_topic_broker_and_number() -> None:
    queues = [
        MessageQueue("b", "x", 0),
        MessageQueue("a", "y", 0),
        MessageQueue("a", "x", 10),
        MessageQueue("a", "x", 9),
    ]
    assert sorted(queues) == [queues[3], queues[2], queues[1], queues[0]]
    assert len({MessageQueue("a", "x", 1), MessageQueue("a", "x", 1)}) == 1
    assert ReceivedMessage("a", b"", {}, broker_name="x", queue_id=9).queue == queues[3]


def test_hosts_print_as_addresses() -> None:
    assert str(Host("10.0.0.1", 10911)) == "10.0.0.1:10911"
    assert str(Host("2001:db8::1", 10911)) == "[2001:db8::1]:10911"
