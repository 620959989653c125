"""Rules for names, bodies and what may be sent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.protocol import names
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.errors import ValidationError
from pyromq.protocol.message import Message
from pyromq.protocol.names import (
    check_body,
    check_consumer_group,
    check_group,
    check_message,
    check_producer_group,
    check_sendable,
    check_topic,
)


# P-59
@pytest.mark.parametrize(
    "topic", ["T", "a" * 127, "%RETRY%" + "g" * 248, "%DLQ%" + "g" * 250, "Az09_-|%", "TBW102", "%LMQ%x"]
)
def test_legal_topics(topic: str) -> None:
    check_topic(topic)


# P-59
@pytest.mark.parametrize(
    "topic", ["", " ", "\t\n", "a" * 128, "%RETRY%" + "g" * 249, "a b", "a/b", "../x", "a.b", "a+b", "ü", "a\n", "a\0"]
)
def test_illegal_topics(topic: str) -> None:
    with pytest.raises(ValidationError) as caught:
        check_topic(topic)
    assert caught.value.code == ResponseCode.INVALID_PARAMETER


@given(st.text())
def test_a_legal_topic_is_no_path(topic: str) -> None:
    try:
        check_topic(topic)
    except ValidationError:
        return
    assert topic.isascii()
    assert not set(topic) & set("./\\\0")


# P-23
def test_groups() -> None:
    check_group("g" * 120)
    check_group("g" * 255, longest=names.MAX_GROUP_OF_OLD_CLIENTS)
    check_group("DEFAULT_PRODUCER")
    check_producer_group("orders-service")
    check_consumer_group("orders-service")
    for bad in ("", "  ", "g" * 121, "a.b", "a b"):
        with pytest.raises(ValidationError) as caught:
            check_group(bad)
        assert caught.value.code == ResponseCode.INVALID_PARAMETER
    with pytest.raises(ValidationError, match="DEFAULT_PRODUCER"):
        check_producer_group("DEFAULT_PRODUCER")
    with pytest.raises(ValidationError, match="DEFAULT_CONSUMER"):
        check_consumer_group("DEFAULT_CONSUMER")


# P-60
def test_topics_nobody_may_send_to() -> None:
    forbidden = {
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
        "rmq_sys_pyromq_writers",
    }
    assert forbidden == names.FORBIDDEN_TOPICS
    for topic in forbidden:
        with pytest.raises(ValidationError, match="forbidden") as caught:
            check_sendable(topic)
        assert caught.value.code == ResponseCode.NO_PERMISSION
        with pytest.raises(ValidationError, match="forbidden"):
            check_message(Message(topic, b"x"))
    check_sendable("TBW102")


# P-58
def test_message_check_finds_the_first_fault_in_order() -> None:
    def fault(message: Message | None, max_size: int = names.MAX_BODY) -> tuple[str, int]:
        with pytest.raises(ValidationError) as caught:
            check_message(message, max_size=max_size)
        return str(caught.value), caught.value.code

    illegal = ResponseCode.MESSAGE_ILLEGAL
    message = Message("", None, properties={"INNER_MULTI_DISPATCH": "a/b"})  # type: ignore[arg-type] # what is refused
    assert fault(None) == ("the message is None", illegal)
    assert "blank" in fault(message)[0]
    message.topic = "SELF_TEST_TOPIC"
    assert "forbidden" in fault(message)[0]
    message.topic = "orders"
    assert fault(message) == ("the message has no body", illegal)
    message.body = b""
    assert fault(message) == ("the message body is empty", illegal)
    message.body = b"12345"
    assert fault(message, 4) == ("the message body has 5 bytes, more than 4", illegal)
    assert "INNER_MULTI_DISPATCH" in fault(message, 5)[0]
    message.properties["INNER_MULTI_DISPATCH"] = "%LMQ%a,%LMQ%b"
    check_message(message, max_size=5)


# P-19, P-58
def test_bodies() -> None:
    check_body(bytes(4_194_304))
    check_body(memoryview(b"x"))
    with pytest.raises(ValidationError, match="4194305 bytes"):
        check_body(bytes(4_194_305))
    with pytest.raises(ValidationError, match="must be bytes, not str"):
        check_body("text")  # type: ignore[arg-type] # what is refused


def test_system_topics_and_groups() -> None:
    for topic in ("TBW102", "RMQ_SYS_TRACE_TOPIC", "CHECKPOINT_TOPIC", "rmq_sys_wheel_timer", "rmq_sys_REVIVE_LOG_c"):
        assert names.is_system_topic(topic)
    for topic in ("orders", "%RETRY%TBW102", "RMQ_SYS_other"):
        assert not names.is_system_topic(topic)
    for group in ("CID_RMQ_SYS_x", "TOOLS_CONSUMER", "__MONITOR_CONSUMER", "CID_ONSAPI_PULL"):
        assert names.is_system_group(group)
    assert not names.is_system_group("orders-service")


def test_derived_topics() -> None:
    assert names.retry_topic("g") == "%RETRY%g"
    assert names.dlq_topic("g") == "%DLQ%g"
    assert names.reply_topic("DefaultCluster") == "DefaultCluster_REPLY_TOPIC"
    assert names.pop_retry_topic("g", "t") == "%RETRY%g_t"
    assert names.pop_retry_topic("g", "t", plus=True) == "%RETRY%g+t"
    assert names.is_retry_topic("%RETRY%g")
    assert names.is_dlq_topic("%DLQ%g")
    assert names.is_lmq("%LMQ%x")
    assert not any(ask("g") for ask in (names.is_retry_topic, names.is_dlq_topic, names.is_lmq))
