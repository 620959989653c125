"""A sample as a screen: three tables that fit the height of the terminal. Pure."""

from collections.abc import Sequence
from datetime import datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pyromq.cli.output import UNKNOWN
from pyromq.cli.plaintext import one_line, printable
from pyromq.cli.top.sample import BrokerLine, GroupLine, Sample, TopicLine

FRAME = 10
"""Lines that are no rows: the title, the heads of the tables and the space between them."""
FULL = 0.85
LATE = 10_000


def screen(sample: Sample, source: str, height: int | None = None, problem: str | None = None) -> RenderableType:
    """The picture; with a height, the least interesting rows are left out until it fits."""
    when = datetime.fromtimestamp(sample.at).astimezone().strftime("%H:%M:%S")
    rate = sum(line.in_rate for line in sample.topics)
    title = Text.assemble(
        ("pyromq top", "bold"),
        f"  {source}  {when}  {_count(sample.brokers, 'broker')}, {_count(sample.topics, 'topic')}, ",
        f"{_count(sample.groups, 'group')}, ",
        (f"{rate:,.0f} messages/s in", "bold"),
    )
    notes = [*([problem] if problem else []), *sample.problems]
    room = None if height is None else max(2, height - FRAME - len(sample.brokers) - len(notes))
    topics, groups = _shares(room, len(sample.topics), len(sample.groups))
    parts: list[RenderableType] = [title, Text(), _brokers(sample.brokers), Text()]
    parts += [_topics(sample.topics, topics), Text(), _groups(sample.groups, groups)]
    parts += [Text(one_line(note), style="red", overflow="ellipsis", no_wrap=True) for note in notes]
    return Group(*parts)


def _shares(room: int | None, topics: int, groups: int) -> tuple[int, int]:
    """How many rows of each fit: half of the room for either, more when the other does not need its half."""
    if room is None:
        return topics, groups
    half = room // 2
    first = min(topics, max(half, room - groups))
    return first, min(groups, room - first)


def _brokers(lines: Sequence[BrokerLine]) -> Table:
    table = _table("Broker", "Id", "Address", "Version", "In/s", "Out/s", "Put p99", "Disk")
    for line in lines:
        table.add_row(
            Text(printable(f"{line.cluster}/{line.name}"), style="" if line.version else "red"),
            str(line.number),
            printable(line.address),
            printable(line.version or "does not answer"),
            _number(line.in_rate),
            _number(line.out_rate),
            Text(UNKNOWN if line.put_p99_ms is None else f"{line.put_p99_ms:g} ms"),
            Text(
                UNKNOWN if line.disk is None else f"{line.disk:.0%}",
                style="red" if line.disk is not None and line.disk > FULL else "",
            ),
        )
    return table


def _topics(lines: Sequence[TopicLine], shown: int) -> Table:
    table = _table("Topic", "Queues", "Messages", "In/s")
    for line in lines[:shown]:
        table.add_row(Text(printable(line.name)), str(line.queues), f"{line.messages:,}", _number(line.in_rate))
    return _with_rest(table, len(lines) - shown)


def _groups(lines: Sequence[GroupLine], shown: int) -> Table:
    table = _table("Group", "Members", "Lag", "Out/s")
    for line in lines[:shown]:
        lag = f"{line.lag:,}" if line.lag is not None else _at_least(line.known_lag)
        table.add_row(
            Text(printable(line.name)),
            Text(str(line.members), style="" if line.members else "dim"),
            Text(lag, style="red" if line.known_lag > LATE else ""),
            _number(line.out_rate),
        )
    return _with_rest(table, len(lines) - shown)


def _at_least(known: int) -> str:
    return f"{UNKNOWN}, at least {known:,}" if known else UNKNOWN


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold reverse", expand=True)
    table.add_column(first, ratio=1, no_wrap=True, overflow="ellipsis")
    for name in others:
        text = name in ("Address", "Version")
        table.add_column(name, justify="left" if text else "right", no_wrap=True, overflow="ellipsis")
    return table


def _with_rest(table: Table, left_out: int) -> Table:
    if left_out > 0:
        table.add_row(Text(f"… and {left_out} more", style="dim"))
    return table


def _count(lines: Sequence[object], what: str) -> str:
    return f"{len(lines)} {what}" if len(lines) == 1 else f"{len(lines)} {what}s"


def _number(value: float | None) -> Text:
    return Text(UNKNOWN if value is None else f"{value:,.1f}")
