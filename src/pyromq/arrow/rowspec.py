"""What a reader says about records and wants as rows: whose records they are, and how the rows should look."""

from dataclasses import dataclass
from typing import NamedTuple

from pyromq.arrow.policy import CorruptRecords


class Segment(NamedTuple):
    """What a number of records in a row have in common; `topic` None leaves it to the records.

    Only offsets in [start, end) are kept; `delta` is added to those that the records carry. `records` counts for
    segments that come one after another.
    """

    records: int
    topic: str | None
    broker: str
    start: int = 0
    end: int = 2**63 - 1
    delta: int = 0


@dataclass(frozen=True)
class RowSpec:
    """What the rows should look like. Travels to tasks."""

    columns: tuple[str, ...]
    text_properties: bool = False
    text_body: bool = False
    decompress: bool = True
    verify_crc: bool = False
    corrupt: CorruptRecords = CorruptRecords.FAIL
    tags: frozenset[str] | None = None
    """Tags that pass; None lets all pass."""
