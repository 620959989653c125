"""Rows as messages: which column means what, and the same for a pipeline's rows, whose body is made of their columns.

Columns are checked once, by their types; a row is refused with a sentence that says which it was.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations

from pyromq.arrow.errors import ColumnError
from pyromq.protocol.properties import RESERVED, Property
from pyromq.spark.errors import RowError

JSON = "json"
_ENCODER = msgspec.json.Encoder(decimal_format="number")
ID_SEPARATOR = "|"


class Outgoing(NamedTuple):
    """A message to be sent; `alone` for those that may not share a frame, `key` is what makes it the same again."""

    topic: str | None
    body: bytes
    properties: dict[str, str]
    flag: int = 0
    queue: int | None = None
    shard: str | None = None
    key: str | None = None
    alone: bool = False


class MessageShape(msgspec.Struct, frozen=True, kw_only=True):
    """How a pipeline's rows become messages: the body is one column, or all of them as JSON."""

    body: str = JSON
    keys: list[str] = []
    tags: str | None = None
    shard: list[str] = []
    id: list[str] = []


RowMessages = Callable[[pa.RecordBatch], Iterator[Outgoing]]


def _text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _bytes(kind: pa.DataType) -> bool:
    return _text(kind) or bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _texts(kind: pa.DataType) -> bool:
    return _text(kind) or (bool(pa.types.is_list(kind)) and _text(kind.value_type))


def _text_map(kind: pa.DataType) -> bool:
    return bool(pa.types.is_map(kind)) and _text(kind.key_type) and _text(kind.item_type)


_MEANINGS: dict[str, tuple[str, Callable[[pa.DataType], bool]]] = {
    "body": ("string or binary", _bytes),
    "topic": ("string", _text),
    "tags": ("string", _text),
    "keys": ("string or array<string>", _texts),
    "properties": ("map<string,string>", _text_map),
    "queueId": ("int", lambda kind: bool(pa.types.is_integer(kind))),
    "shardingKey": ("string", _text),
    "delayLevel": ("int", lambda kind: bool(pa.types.is_integer(kind))),
    "deliverAt": ("timestamp", lambda kind: bool(pa.types.is_timestamp(kind))),
    "flag": ("int", lambda kind: bool(pa.types.is_integer(kind))),
    "idKey": ("string", _text),
}
"""Columns of the sink, with what they may be."""


def check_message_columns(schema: pa.Schema) -> None:
    """Raises ColumnError for a column that means nothing or has the wrong type, and without a body."""
    names = schema.names
    for field in schema:
        wanted = _MEANINGS.get(field.name)
        if wanted is None:
            raise ColumnError(f"column {field.name!r} means nothing to a topic; there are {', '.join(_MEANINGS)}")
        if not wanted[1](field.type):
            raise ColumnError(f"column {field.name} must be {wanted[0]}, not {field.type}")
    if "body" not in names:
        raise ColumnError("the rows have no column body")
    for pair in (("queueId", "shardingKey"), ("delayLevel", "deliverAt")):
        if all(name in names for name in pair):
            raise ColumnError(f"{pair[0]} and {pair[1]} exclude each other")


def message_rows(batch: pa.RecordBatch) -> Iterator[Outgoing]:
    """Rows with the columns of `check_message_columns`. Raises RowError for a row that cannot be a message."""
    names = batch.schema.names
    none: list[Any] = [None] * batch.num_rows
    columns = [batch.column(name).to_pylist() if name in names else none for name in _MEANINGS]
    for number, row in enumerate(zip(*columns, strict=True)):
        body, topic, tags, keys, more, queue, shard, level, deliver_at, flag, key = row
        if body is None:
            raise RowError(f"row {number} has no body")
        properties: dict[str, str] = _free_properties(more) if more else {}
        if tags:
            properties[Property.TAGS] = tags
        if keys:
            properties[Property.KEYS] = keys if isinstance(keys, str) else " ".join(filter(None, keys))
        if shard is not None:
            properties[Property.SHARDING_KEY] = shard
        if level:
            properties[Property.DELAY] = str(level)
        if deliver_at is not None:
            properties[Property.TIMER_DELIVER_MS] = str(_millis(deliver_at))
        data = body.encode() if isinstance(body, str) else body
        timed = bool(level) or deliver_at is not None
        yield Outgoing(topic, data, properties, flag or 0, queue, shard, key, timed)


def shaped_rows(shape: MessageShape, schema: pa.Schema) -> RowMessages:
    """The same for rows of a pipeline. Raises ColumnError for columns that the rows do not have."""
    wanted = [*shape.keys, *([shape.tags] if shape.tags else []), *shape.shard, *shape.id]
    if shape.body != JSON:
        wanted.append(shape.body)
    missing = [name for name in wanted if name not in schema.names]
    if missing:
        raise ColumnError(f"the rows have no column {', '.join(missing)}; they have {', '.join(schema.names)}")
    if shape.body != JSON and not _bytes(schema.field(shape.body).type):
        raise ColumnError(f"column {shape.body} must be string or binary to be a body, or say body: json")

    def rows(batch: pa.RecordBatch) -> Iterator[Outgoing]:
        for number, row in enumerate(batch.to_pylist()):
            body = _ENCODER.encode(row) if shape.body == JSON else row[shape.body]
            if body is None:
                raise RowError(f"row {number} has no {shape.body}")
            properties = {}
            if shape.tags and row[shape.tags] is not None:
                properties[Property.TAGS] = str(row[shape.tags])
            if keys := " ".join(str(row[name]) for name in shape.keys if row[name] is not None):
                properties[Property.KEYS] = keys
            yield Outgoing(
                None,
                body.encode() if isinstance(body, str) else body,
                properties,
                shard=_joined(row, shape.shard),
                key=_joined(row, shape.id),
            )

    return rows


def _joined(row: dict[str, Any], names: Sequence[str]) -> str | None:
    return ID_SEPARATOR.join(_ENCODER.encode(row[name]).decode() for name in names) if names else None


def _free_properties(given: Sequence[tuple[str, str | None]]) -> dict[str, str]:
    """Without those that RocketMQ or this sink sets: rows may come from another topic, with all they had there."""
    return {
        name: value
        for name, value in given
        if value is not None and name not in RESERVED and not name.startswith("PYROMQ_")
    }


def _millis(moment: datetime) -> int:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(aware.timestamp() * 1000)
