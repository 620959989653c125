"""How an Iceberg table is divided, as people write it: `shop`, `day(ts)`, `bucket(16, id)`, `truncate(4, name)`.

Reading this needs no library, so that a definition can be checked where none is installed.
"""

import re
from typing import TYPE_CHECKING, NamedTuple

from pyromq.spark.errors import SinkError

if TYPE_CHECKING:
    from pyiceberg.table import Table

_FIELD = re.compile(
    r"(?:(?P<transform>\w+)\s*\(\s*(?:(?P<width>\d+)\s*,\s*)?(?P<inner>[\w.]+)\s*\)|(?P<column>[\w.]+))"
)
_TIMES = ("year", "month", "day", "hour")
_WIDE = ("bucket", "truncate")


class Partition(NamedTuple):
    """One of the values that decide where a row goes."""

    column: str
    transform: str = "identity"
    """As the library calls it, for example `bucket[16]`."""

    def __str__(self) -> str:
        if self.transform == "identity":
            return self.column
        name, _, width = self.transform.rstrip("]").partition("[")
        return f"{name}({width}, {self.column})" if width else f"{name}({self.column})"


def parse_partition(text: str) -> Partition:
    """Raises SinkError."""
    match = _FIELD.fullmatch(text.strip())
    if match is None:
        raise SinkError(f"{text[:80]!r} is no partition; write a column, day(column) or bucket(16, column)")
    if match["column"] is not None:
        return Partition(match["column"])
    name, width = match["transform"].lower(), match["width"]
    if name.removesuffix("s") in _TIMES and width is None:
        return Partition(match["inner"], name.removesuffix("s"))
    if name in _WIDE and width is not None and int(width) > 0:
        return Partition(match["inner"], f"{name}[{int(width)}]")
    if name in ("identity", "void") and width is None:
        return Partition(match["inner"], name)
    known = ", ".join([*(f"{each}(column)" for each in _TIMES), *(f"{each}(16, column)" for each in _WIDE)])
    raise SinkError(f"{text[:80]!r} is no partition; there are {known} and the column alone")


def table_partitions(table: "Table") -> list[Partition]:
    """Those of a table."""
    schema = table.schema()
    return [
        Partition(schema.find_column_name(field.source_id) or str(field.source_id), str(field.transform))
        for field in table.spec().fields
        if str(field.transform) != "void"
    ]
