"""The columns of a message: their names, types and order, for sources and sinks alike. No Spark, no I/O."""

from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations

from pyromq.spark.errors import ColumnError

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
PROPERTIES: Final = pa.map_(pa.string(), pa.string())

COLUMNS: Final[dict[str, tuple[str, pa.DataType]]] = {
    "topic": ("string", pa.string()),
    "brokerName": ("string", pa.string()),
    "queueId": ("int", pa.int32()),
    "queueOffset": ("bigint", pa.int64()),
    "msgId": ("string", pa.string()),
    "tags": ("string", pa.string()),
    "keys": ("string", pa.string()),
    "body": ("binary", pa.binary()),
    "properties": ("map<string,string>", PROPERTIES),
    "bornTimestamp": ("timestamp", TIMESTAMP),
    "storeTimestamp": ("timestamp", TIMESTAMP),
    "flag": ("int", pa.int32()),
    "reconsumeTimes": ("int", pa.int32()),
    "sysFlag": ("int", pa.int32()),
    "bornHost": ("string", pa.string()),
    "storeHost": ("string", pa.string()),
    "commitLogOffset": ("bigint", pa.int64()),
    "storeSize": ("int", pa.int32()),
    "bodyCrc": ("int", pa.int32()),
    "preparedTransactionOffset": ("bigint", pa.int64()),
    "fault": ("string", pa.string()),
}
"""Every column with its type in Spark's words and in Arrow's."""

DEFAULT: Final = tuple(COLUMNS)[:13]
"""The columns without a choice: up to `reconsumeTimes`."""


def check_columns(names: Iterable[str]) -> tuple[str, ...]:
    """The canonical names, in the given order. Raises ColumnError for unknown ones and repetitions."""
    by_lower = {name.lower(): name for name in COLUMNS}
    found = []
    for name in names:
        canonical = by_lower.get(name.strip().lower())
        if canonical is None:
            raise ColumnError(f"there is no column {name.strip()!r}; a message has {', '.join(COLUMNS)}")
        if canonical in found:
            raise ColumnError(f"column {canonical} is asked for twice")
        found.append(canonical)
    return tuple(found)


def ddl(names: Sequence[str], *, text_properties: bool = False, text_body: bool = False) -> str:
    """The columns as Spark's DDL; properties and body may be text instead of a map and bytes."""
    types = {name: kind for name, (kind, _) in COLUMNS.items()}
    if text_properties:
        types["properties"] = "string"
    if text_body:
        types["body"] = "string"
    return ", ".join(f"{name} {types[name]}" for name in names)
