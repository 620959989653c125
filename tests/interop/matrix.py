"""The matrix: which scenario works between which client and which server, as tables for people."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tests.interop.access_commands import ACCESS_COMMANDS
from tests.interop.admin_commands import COMMANDS, LEFT_OUT

SCENARIOS = {
    "sync": "send and wait for the answer",
    "async": "send with a callback",
    "oneway": "send without an answer",
    "batch": "send a list of messages as one",
    "selector": "send to the queue that a function chooses",
    "queue": "send to a given queue",
    "compression": "send compressed bodies, of each type that the client has",
    "properties": "keep properties, flag and keys, beyond ASCII too",
    "large": "send a body of megabytes",
    "namespace": "send within a namespace",
    "tags": "consume by tags",
    "sql92": "consume by an expression over properties",
    "concurrent": "push consumer with threads",
    "orderly": "push consumer that keeps the order of each queue, also when a message fails",
    "broadcast": "push consumers that get everything each",
    "litePull": "pull consumer that shares the queues of a group",
    "litePullAssign": "pull from a given queue and position",
    "sharing": "two members of a group, one of which leaves",
    "pop": "push consumers to whom the broker hands out messages",
    "delayLevel": "delay by level",
    "timed": "deliver at a time",
    "transaction": "transactions: commit, rollback and check-back",
    "retry": "a message that fails comes again",
    "deadLetter": "a message that fails too often becomes a dead letter",
    "requestReply": "request and reply",
    "query": "find messages by id, unique id and key",
    "offsets": "ask for offsets by time and for statistics",
    "offsetReset": "reset the offsets of a running group",
    "trace": "send traces",
    "aclOff": "signed requests where nobody checks them",
    "restartNamesrv": "the name server restarts in between",
    "restartBroker": "the broker restarts in between",
    "killBroker": "the broker is killed and started again in between",
}
"""What every client is tried with, as far as it can do it; drivers know them by these names."""

GRPC_ROWS = {
    "normal": "send and receive keys, a tag, properties and a body of a megabyte",
    "push": "push consumer",
    "simple": "simple consumer: receive, acknowledge, hide for a while",
    "pushRetry": "a message that fails comes again",
    "pushDeadLetter": "a message that fails too often becomes a dead letter",
    "leaving": "a push consumer that leaves its group to another",
    "tagFilter": "consume by tags",
    "sqlFilter": "consume by an expression over properties",
    "fifo": "keep the order of each message group, also when a message fails",
    "fifoDeadLetter": "a message group goes on after a dead letter",
    "delay": "deliver at a time",
    "recall": "recall a message before its time",
    "transactionEnd": "transactions: commit and rollback",
    "checkBack": "transactions: check-back",
    "typeConflict": "a message of the wrong type is refused",
    "unknownTopic": "so is a topic that nobody created",
    "encrypted": "send and consume with TLS",
    "plainText": "send and consume without TLS",
    "restartBroker": "the broker restarts in between",
    "restartProxy": "the proxy restarts in between",
    "rightCredentials": "send and consume, signed",
    "wrongCredentials": "a wrong secret is refused",
    "unknownUser": "so is a user that nobody knows",
    "disabledUser": "and one whose time is over",
    "missingCredentials": "and nobody in particular",
}
"""What every gRPC client is tried with, as far as it can do it."""

SECURITY_ROWS = {
    "rightCredentials": "send and consume, signed",
    "wrongCredentials": "a wrong secret is refused",
    "unknownUser": "so is a user that nobody knows",
    "disabledUser": "and one whose time is over",
    "missingCredentials": "and nobody in particular",
    "tls": "send and consume with TLS, checking the server",
    "plainTextRefused": "no plain text where TLS is required",
    "unknownAuthorityRefused": "no server whose authority the client does not trust",
    "mutualTls": "TLS with a certificate of the client's own",
    "noCertificateRefused": "no client without one where it is required",
}

SECTIONS = CLIENTS, GRPC, SECURITY, MIXED, MQADMIN, FILES, REPLICATION = (
    "Clients",
    "gRPC clients",
    "Security",
    "Mixed cluster",
    "mqadmin, the same output as of Apache's servers",
    "Files",
    "Replication",
)

MEANINGS = SCENARIOS | GRPC_ROWS | SECURITY_ROWS
ORDER = (*SECTIONS, *MEANINGS, *(command.split()[0] for command in (*COMMANDS, *ACCESS_COMMANDS, *LEFT_OUT)))

WORDS = {"passed": "yes", "failed": "NO", "skipped": "-"}

INTRODUCTION = """\
# Compatibility

Written by `make interop`, which fetches published clients and servers of Apache RocketMQ, runs them as processes of
their own and puts PyroMQ on the other side. `yes` passed, `NO` failed, `-` does not apply, for the reasons below each
table. Of the 4.9 line the newest client is 4.9.8; as servers, 4.9.7 is the last that was published.
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
            for cells in rows:
                cells[0] = f"**{cells[0]}** {MEANINGS[cells[0]]}" if cells[0] in MEANINGS else cells[0]
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
