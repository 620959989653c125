"""The matrix: which scenario works between which client and which server, as tables for people."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tests.interop.admin_commands import COMMANDS, LEFT_OUT

SCENARIOS = (
    "sync", "async", "oneway", "batch", "selector", "queue", "compression", "properties", "large", "namespace",
    "tags", "sql92", "concurrent", "orderly", "broadcast", "litePull", "litePullAssign", "sharing", "pop",
    "delayLevel", "timed", "transaction", "retry", "deadLetter", "requestReply",
    "query", "offsets", "offsetReset", "trace",
    "aclOff", "restartNamesrv", "restartBroker", "killBroker",
)  # fmt: skip
"""What every client is tried with, as far as it can do it; drivers know them by these names."""

SECTIONS = CLIENTS, SECURITY, MIXED, MQADMIN, FILES, REPLICATION = (
    "Clients",
    "Security",
    "Mixed cluster",
    "mqadmin, the same output as of Apache's servers",
    "Files",
    "Replication",
)

ORDER = (*SECTIONS, *SCENARIOS, *(command.split()[0] for command in (*COMMANDS, *LEFT_OUT)))

WORDS = {"passed": "yes", "failed": "NO", "skipped": "-"}

INTRODUCTION = """\
# Compatibility

Written by `make interop`: published clients and servers of Apache RocketMQ, as processes of their own, with PyroMQ on
the other side. `yes` passed, `NO` failed, `-` the client cannot do it (the reasons are below each table).
"""


Note = Callable[[str, str, str], None]
"""Says to which section, row and column a test belongs; the fixture `note` is one."""


@dataclass
class Table:
    """One section of the matrix."""

    rows: set[str] = field(default_factory=set)
    columns: set[str] = field(default_factory=set)
    cells: dict[tuple[str, str], str] = field(default_factory=dict)
    notes: dict[tuple[str, str], str] = field(default_factory=dict)


class Matrix:
    """Outcomes by section, row and column, in an order that does not depend on who was ready first."""

    def __init__(self) -> None:
        self._tables: dict[str, Table] = {}

    def __bool__(self) -> bool:
        return bool(self._tables)

    def put(self, section: str, row: str, column: str, outcome: str, reason: str = "") -> None:
        """Note one outcome (passed, failed, skipped); a failure is not overwritten."""
        table = self._tables.setdefault(section, Table())
        table.rows.add(row)
        table.columns.add(column)
        if table.cells.get((row, column)) != "failed":
            table.cells[row, column] = outcome
        if outcome == "skipped" and reason:
            table.notes[row, column] = reason

    def text(self) -> str:
        """Aligned columns for a terminal."""
        parts = []
        for section, table in self._sections():
            grid = _grid(section, table)
            widths = [max(len(row[index]) for row in grid) for index in range(len(grid[0]))]
            lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in grid]
            parts.append("\n".join(line.rstrip() for line in lines))
        return "\n\n".join(parts)

    def page(self) -> str:
        """A page of Markdown."""
        parts = [INTRODUCTION]
        for section, table in self._sections():
            head, *rows = _grid("", table)
            lines = [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
            parts.append(f"## {section}\n\n" + "\n".join(lines) + "\n")
            reasons: dict[str, list[str]] = {}
            for column in in_order(table.columns):
                for row in in_order(table.rows):
                    if reason := table.notes.get((row, column)):
                        reasons.setdefault(f"{column}: {reason}", []).append(row)
            if reasons:
                parts.append("\n".join(f"- {reason} ({', '.join(named)})" for reason, named in reasons.items()) + "\n")
        return "\n".join(parts)

    def _sections(self) -> list[tuple[str, Table]]:
        return [(section, self._tables[section]) for section in in_order(self._tables)]


def in_order(names: Iterable[str]) -> list[str]:
    """What ORDER lists comes first and as it does, the rest by name."""
    return sorted(names, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))


def _grid(corner: str, table: Table) -> list[list[str]]:
    columns = in_order(table.columns)
    rows = [
        [row, *(WORDS.get(table.cells.get((row, column), ""), "") for column in columns)]
        for row in in_order(table.rows)
    ]
    return [[corner, *columns], *rows]
