"""The columns of a message in Spark's words."""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations

from pyromq.arrow.columns import COLUMNS, PROPERTIES, TIMESTAMP

_WORDS: Final = {
    pa.string(): "string",
    pa.binary(): "binary",
    pa.int32(): "int",
    pa.int64(): "bigint",
    TIMESTAMP: "timestamp",
    PROPERTIES: "map<string,string>",
}


def word(name: str) -> str:
    """The type of a column."""
    return _WORDS[COLUMNS[name]]


def ddl(names: Sequence[str], *, text_properties: bool = False, text_body: bool = False) -> str:
    """The columns as Spark's DDL; properties and body may be text instead of a map and bytes."""
    texts = {"properties"} if text_properties else set()
    texts |= {"body"} if text_body else set()
    return ", ".join(f"{name} {'string' if name in texts else word(name)}" for name in names)
