"""Message properties: their names and their text form, `name 0x01 value 0x02` repeated.

Writers here always end the text with 0x02. Readers accept a text without it (Java 4.9.1 to 5.1.4) and, like every other
client, drop pieces with an empty name or an empty value; of two entries with one name the later wins.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from pyromq.protocol.errors import MessageError

NAME_VALUE_SEPARATOR: Final = "\x01"
PROPERTY_SEPARATOR: Final = "\x02"
MAX_PROPERTIES: Final = 32767
"""Largest encoded size in bytes: the length is a signed 16-bit number on the wire and on disk."""

Raw = bytes | bytearray | memoryview


class Property:
    """Names of the properties that RocketMQ gives a meaning to."""

    KEYS: Final = "KEYS"
    TAGS: Final = "TAGS"
    WAIT: Final = "WAIT"
    DELAY: Final = "DELAY"
    RETRY_TOPIC: Final = "RETRY_TOPIC"
    REAL_TOPIC: Final = "REAL_TOPIC"
    REAL_QUEUE_ID: Final = "REAL_QID"
    TRANSACTION_PREPARED: Final = "TRAN_MSG"
    PRODUCER_GROUP: Final = "PGROUP"
    MIN_OFFSET: Final = "MIN_OFFSET"
    MAX_OFFSET: Final = "MAX_OFFSET"
    BUYER_ID: Final = "BUYER_ID"
    ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
    TRANSFER_FLAG: Final = "TRANSFER_FLAG"
    CORRECTION_FLAG: Final = "CORRECTION_FLAG"
    MQ2_FLAG: Final = "MQ2_FLAG"
    RECONSUME_TIME: Final = "RECONSUME_TIME"
    MAX_RECONSUME_TIMES: Final = "MAX_RECONSUME_TIMES"
    MSG_REGION: Final = "MSG_REGION"
    TRACE_ON: Final = "TRACE_ON"
    UNIQ_KEY: Final = "UNIQ_KEY"
    EXTEND_UNIQ_INFO: Final = "EXTEND_UNIQ_INFO"
    CONSUME_START_TIME: Final = "CONSUME_START_TIME"
    INNER_NUM: Final = "INNER_NUM"
    INNER_BASE: Final = "INNER_BASE"
    DUP_INFO: Final = "DUP_INFO"
    CHECK_IMMUNITY_TIME: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
    TRANSACTION_PREPARED_QUEUE_OFFSET: Final = "TRAN_PREPARED_QUEUE_OFFSET"
    TRANSACTION_ID: Final = "__transactionId__"
    TRANSACTION_CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
    INSTANCE_ID: Final = "INSTANCE_ID"
    CORRELATION_ID: Final = "CORRELATION_ID"
    REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
    TTL: Final = "TTL"
    ARRIVE_TIME: Final = "ARRIVE_TIME"
    PUSH_REPLY_TIME: Final = "PUSH_REPLY_TIME"
    CLUSTER: Final = "CLUSTER"
    MSG_TYPE: Final = "MSG_TYPE"
    POP_CK: Final = "POP_CK"
    POP_CK_OFFSET: Final = "POP_CK_OFFSET"
    FIRST_POP_TIME: Final = "1ST_POP_TIME"
    SHARDING_KEY: Final = "__SHARDINGKEY"
    FORWARD_QUEUE_ID: Final = "PROPERTY_FORWARD_QUEUE_ID"
    REDIRECT: Final = "REDIRECT"
    INNER_MULTI_DISPATCH: Final = "INNER_MULTI_DISPATCH"
    INNER_MULTI_QUEUE_OFFSET: Final = "INNER_MULTI_QUEUE_OFFSET"
    TRACE_CONTEXT: Final = "TRACE_CONTEXT"
    TIMER_DELAY_SEC: Final = "TIMER_DELAY_SEC"
    TIMER_DELAY_MS: Final = "TIMER_DELAY_MS"
    TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"
    TIMER_ENQUEUE_MS: Final = "TIMER_ENQUEUE_MS"
    TIMER_DEQUEUE_MS: Final = "TIMER_DEQUEUE_MS"
    TIMER_ROLL_TIMES: Final = "TIMER_ROLL_TIMES"
    TIMER_OUT_MS: Final = "TIMER_OUT_MS"
    TIMER_DEL_UNIQ_KEY: Final = "TIMER_DEL_UNIQKEY"
    TIMER_DELAY_LEVEL: Final = "TIMER_DELAY_LEVEL"
    BORN_HOST: Final = "__BORNHOST"
    BORN_TIMESTAMP: Final = "BORN_TIMESTAMP"
    DLQ_ORIGIN_TOPIC: Final = "DLQ_ORIGIN_TOPIC"
    DLQ_ORIGIN_MESSAGE_ID: Final = "DLQ_ORIGIN_MESSAGE_ID"
    CRC32: Final = "__CRC32#"
    FAULT: Final = "PYROMQ_FAULT"
    """On the copy of a damaged message (a retry, a dead letter): what was wrong with the record it was made from."""
    TRANSIENT_TOPIC_SYS_FLAG: Final = "__RMQ.TRANSIENT.TOPIC_SYS_FLAG"
    TRANSIENT_GROUP_SYS_FLAG: Final = "__RMQ.TRANSIENT.GROUP_SYS_FLAG"


_FREE = {
    Property.INNER_NUM,
    Property.INNER_BASE,
    Property.CHECK_IMMUNITY_TIME,
    Property.TRANSACTION_ID,
    Property.TRANSACTION_CHECK_TIMES,
    Property.SHARDING_KEY,
    Property.FORWARD_QUEUE_ID,
    Property.REDIRECT,
    Property.INNER_MULTI_DISPATCH,
    Property.TRACE_CONTEXT,
    Property.TRANSIENT_TOPIC_SYS_FLAG,
    Property.TRANSIENT_GROUP_SYS_FLAG,
    Property.FAULT,
}

RESERVED: Final[frozenset[str]] = frozenset(
    value for name, value in vars(Property).items() if not name.startswith("_") and value not in _FREE
)
"""Names that a user property may not have."""


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """The text form, ending with 0x02; entries with an empty name or value are left out, as no reader sees them.

    Raises MessageError when a name or value holds a separator or the text is longer than MAX_PROPERTIES bytes.
    """
    text = "".join([f"{name}\x01{value}\x02" for name, value in properties.items() if name and value])
    # One count for all entries; looked at singly only when it is off.
    if text.count("\x02") != len(properties) or text.count("\x01") != len(properties):
        _check_separators(properties)
    try:
        raw = text.encode()
    except UnicodeEncodeError as error:
        raise MessageError(f"properties are not valid Unicode text: {error.reason}") from None
    if len(raw) > MAX_PROPERTIES:
        raise MessageError(f"properties take {len(raw)} bytes, more than {MAX_PROPERTIES}")
    return raw


def _check_separators(properties: Mapping[str, str]) -> None:
    for name, value in properties.items():
        if "\x01" in name or "\x02" in name:
            raise MessageError(f"property name {name!r} contains a separator character (0x01 or 0x02)")
        if "\x02" in value:
            raise MessageError(f"value of property {name!r} contains the separator character 0x02")


def decode_properties(raw: Raw | str) -> dict[str, str]:
    """Properties by name. Bytes that are not UTF-8 become U+FFFD, as in the other clients; never raises.

    >>> decode_properties(b"a\\x01\\x02c\\x01d")
    {'c': 'd'}
    """
    text = raw if isinstance(raw, str) else str(raw, "utf-8", "replace")
    properties = {}
    for piece in text.split("\x02"):
        name, _, value = piece.partition("\x01")
        if name and value:
            properties[name] = value
    return properties


@lru_cache(maxsize=256)
def _pattern(name: str) -> bytes:
    return f"\x02{name}\x01".encode("utf-8", "surrogatepass")


def find_property(raw: Raw, name: str) -> str | None:
    """One property out of the text form, without decoding the others; the same answer as `decode_properties` has."""
    data = bytes(raw)
    pattern = _pattern(name)
    at = data.rfind(pattern)
    while at >= 0:
        if value := _value(data, at + len(pattern)):
            return value
        at = data.rfind(pattern, 0, at + 1)
    # The first entry has no separator before it.
    return _value(data, len(pattern) - 1) or None if data.startswith(pattern[1:]) else None


def _value(data: bytes, start: int) -> str:
    end = data.find(b"\x02", start)
    return (data[start:end] if end >= 0 else data[start:]).decode("utf-8", "replace")


def append_properties(raw: Raw, extra: Mapping[str, str]) -> bytes:
    """The text form with more entries at its end, where they override earlier ones; repairs a missing last 0x02."""
    tail = encode_properties(extra)
    joined = b"".join((raw, b"" if not raw or raw[-1] == 2 else b"\x02", tail))
    if len(joined) > MAX_PROPERTIES:
        raise MessageError(f"properties take {len(joined)} bytes, more than {MAX_PROPERTIES}")
    return joined
