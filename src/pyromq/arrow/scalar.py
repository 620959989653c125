"""Rows made of messages one by one: for what the vectorised decoder leaves out, and as the measure of its results."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations

from pyromq.arrow.columns import COLUMNS
from pyromq.protocol.message import ReceivedMessage
from pyromq.protocol.properties import Property

MIN_TIME: Final = -62_135_596_800_000
MAX_TIME: Final = 253_402_300_799_999
"""Milliseconds of the years 1 to 9999: times outside, which only a broken clock writes, become null."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(millis: int) -> datetime | None:
    """A time of a record as Spark has it."""
    return _EPOCH + timedelta(milliseconds=millis) if MIN_TIME <= millis <= MAX_TIME else None


_FIELDS: dict[str, Callable[[ReceivedMessage], Any]] = {
    "topic": lambda message: message.topic,
    "brokerName": lambda message: message.broker_name,
    "queueId": lambda message: message.queue_id,
    "queueOffset": lambda message: message.queue_offset,
    "msgId": lambda message: message.message_id,
    "tags": lambda message: message.tags,
    "keys": lambda message: message.properties.get(Property.KEYS),
    "body": lambda message: message.body,
    "properties": lambda message: list(message.properties.items()),
    "bornTimestamp": lambda message: moment(message.born_timestamp),
    "storeTimestamp": lambda message: moment(message.store_timestamp),
    "flag": lambda message: message.flag,
    "reconsumeTimes": lambda message: message.reconsume_times,
    "sysFlag": lambda message: message.sys_flag,
    "bornHost": lambda message: str(message.born_host),
    "storeHost": lambda message: str(message.store_host),
    "commitLogOffset": lambda message: message.physical_offset,
    "storeSize": lambda message: message.store_size,
    "bodyCrc": lambda message: message.body_crc,
    "preparedTransactionOffset": lambda message: message.prepared_transaction_offset,
    "fault": lambda message: message.fault,
}


def arrays(
    messages: Sequence[ReceivedMessage], names: Sequence[str], *, text_properties: bool = False, text_body: bool = False
) -> dict[str, pa.Array]:
    """The columns of some messages."""
    made = {}
    for name in names:
        if name == "properties" and text_properties:
            texts = [msgspec.json.encode(message.properties).decode() for message in messages]
            made[name] = pa.array(texts, pa.string())
        elif name == "body" and text_body:
            made[name] = pa.array([message.body.decode("utf-8", "replace") for message in messages], pa.string())
        else:
            made[name] = pa.array(map(_FIELDS[name], messages), COLUMNS[name])
    return made
