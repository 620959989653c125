"""The matrix: which scenario works between which client and which server, as tables for people."""

from dataclasses import dataclass, field
from typing import NamedTuple

SCENARIOS = (
    "sync", "async", "oneway", "batch", "selector", "queue", "compression", "properties", "large", "namespace",
    "tags", "sql92", "concurrent", "orderly", "broadcast", "litePull", "litePullAssign", "sharing", "pop",
    "delayLevel", "timed", "transaction", "retry", "deadLetter", "requestReply",
    "query", "offsets", "offsetReset", "trace",
    "aclOff", "restartNamesrv", "restartBroker", "killBroker",
)  # fmt: skip
"""What every client is tried with, as far as it can do it; drivers know them by these names."""

WORDS = {"passed": "yes", "failed": "NO", "skipped": "-"}

INTRODUCTION = """\
# Compatibility

Written by `make interop`: published clients and servers of Apache RocketMQ, as processes of their own, with PyroMQ on
the other side. `yes` passed, `NO` failed, `-` the client cannot do it (the reasons are below each table).
"""


class Cell(NamedTuple):
    """A place in the matrix."""

    section: str
    row: str
    column: str


@dataclass
class Table:
    """One section of the matrix."""

    rows: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    cells: dict[tuple[str, str], str] = field(default_factory=dict)
    notes: dict[tuple[str, str], str] = field(default_factory=dict)


class Matrix:
    """Outcomes by section, row and column; rows and columns appear in the order in which they were met."""

    def __init__(self) -> None:
        self._sections: dict[str, Table] = {}

    def __bool__(self) -> bool:
        return bool(self._sections)

    def put(self, cell: Cell, outcome: str, reason: str = "") -> None:
        """Note one outcome (passed, failed, skipped); a failure is not overwritten."""
        section, row, column = cell
        table = self._sections.setdefault(section, Table())
        for names, name in ((table.rows, row), (table.columns, column)):
            if name not in names:
                names.append(name)
        if table.cells.get((row, column)) != "failed":
            table.cells[row, column] = outcome
        if outcome == "skipped" and reason:
            table.notes[row, column] = reason

    def text(self) -> str:
        """Aligned columns for a terminal."""
        parts = []
        for section, table in self._sections.items():
            grid = _grid(section, table)
            widths = [max(len(row[index]) for row in grid) for index in range(len(grid[0]))]
            lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in grid]
            parts.append("\n".join(line.rstrip() for line in lines))
        return "\n\n".join(parts)

    def page(self) -> str:
        """A page of Markdown."""
        parts = [INTRODUCTION]
        for section, table in self._sections.items():
            head, *rows = _grid("", table)
            lines = [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
            parts.append(f"## {section}\n\n" + "\n".join(lines) + "\n")
            reasons: dict[str, list[str]] = {}
            for (row, column), reason in table.notes.items():
                reasons.setdefault(f"{column}, {reason}", []).append(row)
            if reasons:
                parts.append("\n".join(f"- {', '.join(named)}: {reason}" for reason, named in reasons.items()) + "\n")
        return "\n".join(parts)


def _grid(corner: str, table: Table) -> list[list[str]]:
    head = [corner, *table.columns]
    rows = [
        [row, *(WORDS.get(table.cells.get((row, column), ""), "") for column in table.columns)] for row in table.rows
    ]
    return [head, *rows]
