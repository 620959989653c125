"""The columns of a message: their names, types and order, for all who make or take rows."""

from collections.abc import Iterable
from typing import Final

import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations

from pyromq.arrow.errors import ColumnError

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
PROPERTIES: Final = pa.map_(pa.string(), pa.string())

COLUMNS: Final[dict[str, pa.DataType]] = {
    "topic": pa.string(),
    "brokerName": pa.string(),
    "queueId": pa.int32(),
    "queueOffset": pa.int64(),
    "msgId": pa.string(),
    "tags": pa.string(),
    "keys": pa.string(),
    "body": pa.binary(),
    "properties": PROPERTIES,
    "bornTimestamp": TIMESTAMP,
    "storeTimestamp": TIMESTAMP,
    "flag": pa.int32(),
    "reconsumeTimes": pa.int32(),
    "sysFlag": pa.int32(),
    "bornHost": pa.string(),
    "storeHost": pa.string(),
    "commitLogOffset": pa.int64(),
    "storeSize": pa.int32(),
    "bodyCrc": pa.int32(),
    "preparedTransactionOffset": pa.int64(),
    "fault": pa.string(),
}
"""Every column with its type."""

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
