"""What commands print: tables, records and lines for people, JSON for machines.

A command returns values; how they look is decided here. Text that comes from a network never reaches the terminal with
its control characters, and never as markup.
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pyromq.cli.plaintext import printable

UNKNOWN = "unknown"
WIDE = 1_000_000
"""Columns of an output that is not a terminal: nothing is wrapped there."""


class Moment(int):
    """Unix milliseconds; people see local time, machines the number. 0 and below is no time at all."""

    def __str__(self) -> str:
        if self <= 0:
            return "never"
        try:
            return datetime.fromtimestamp(self / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")
        except (OverflowError, ValueError, OSError):
            return repr(int(self))


@dataclass(frozen=True, slots=True)
class Rows:
    """A table, with single figures below it. As JSON a list of objects, inside an object when there are figures.

    `note` is a sentence for people, who do not know what they asked for as well as programs do.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    facts: Mapping[str, object] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """Names and values, one a line. As JSON an object."""

    fields: Mapping[str, object]
    title: str | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """JSON for people too."""

    value: object


@dataclass(frozen=True, slots=True)
class Lines:
    """Sentences; `data` is what they say, for machines."""

    lines: Sequence[str]
    data: object = None


@dataclass(frozen=True, slots=True)
class Parts:
    """Several outputs, by the names that they have in JSON."""

    parts: Mapping[str, "Output"]


Output = Rows | Record | Document | Lines | Parts


def console() -> Console:
    """Standard output; as wide as it must be when nobody looks at it."""
    screen = Console(highlight=False, soft_wrap=False)
    return screen if screen.is_terminal else Console(highlight=False, width=WIDE, no_color=True)


def show(output: Output, *, json: bool = False, screen: Console | None = None) -> None:
    """Print an output."""
    screen = screen or console()
    if json:
        _plain(screen, json_text(as_data(output)))
        return
    match output:
        case Rows():
            _show_rows(output, screen)
        case Record():
            if output.title is not None:
                screen.print(Text(printable(output.title), style="bold"))
            _show_facts(output.fields, screen)
        case Document():
            _plain(screen, json_text(output.value))
        case Lines():
            for line in output.lines:
                _plain(screen, printable(line))
        case Parts():
            for number, part in enumerate(output.parts.values()):
                if number:
                    screen.print()
                show(part, screen=screen)


def as_data(output: Output) -> object:
    """The JSON value of an output."""
    match output:
        case Rows():
            names = [_key(column) for column in output.columns]
            rows = [dict(zip(names, row, strict=True)) for row in output.rows]
            return {"rows": rows, **output.facts} if output.facts else rows
        case Record():
            return dict(output.fields)
        case Document():
            return output.value
        case Lines():
            return output.data if output.data is not None else {"lines": list(output.lines)}
        case Parts():
            return {name: as_data(part) for name, part in output.parts.items()}


def json_text(value: object) -> str:
    """Indented JSON of whatever commands return; bytes that are not text become base64."""
    return msgspec.json.format(msgspec.json.encode(_builtin(value)), indent=2).decode()


def json_line(value: object) -> bytes:
    """The same in one line, without its end."""
    return msgspec.json.encode(_builtin(value))


def body_text(body: bytes, charset: str = "utf-8") -> str | None:
    """A message body as text, or None when it is not."""
    try:
        return body.decode(charset)
    except (UnicodeDecodeError, LookupError):
        return None


def _show_rows(output: Rows, screen: Console) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_edge=False)
    for index, column in enumerate(output.columns):
        numbers = any(isinstance(row[index], int | float) and not isinstance(row[index], bool) for row in output.rows)
        moments = any(isinstance(row[index], Moment) for row in output.rows)
        table.add_column(column, justify="right" if numbers and not moments else "left", overflow="fold")
    for row in output.rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    screen.print(table)
    if output.facts:
        screen.print()
        _show_facts(output.facts, screen)
    if output.note:
        screen.print()
        _plain(screen, printable(output.note))


def _show_facts(fields: Mapping[str, object], screen: Console) -> None:
    width = max((len(name) for name in fields), default=0)
    for name, value in fields.items():
        _plain(screen, f"{printable(name):<{width}} : {_cell(value)}")


def _plain(screen: Console, text: str) -> None:
    screen.print(text, markup=False, highlight=False, soft_wrap=True)


def _cell(value: object) -> str:
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Enum):
        return printable(str(value.value))
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(_cell(item) for item in value)
    if isinstance(value, dict):
        return printable(json_line(value).decode())
    return printable(str(value))


def _key(column: str) -> str:
    """The JSON name of a column.

    >>> _key("Broker Name"), _key("QID"), _key("InTPS")
    ('brokerName', 'qid', 'inTps')
    """
    words = "".join(char if char.isalnum() else " " for char in column.replace("TPS", "Tps")).split()
    first, *rest = words
    first = first.lower() if first.isupper() else first[0].lower() + first[1:]
    return first + "".join(word[0].upper() + (word[1:].lower() if word.isupper() else word[1:]) for word in rest)


def _builtin(value: Any) -> Any:
    match value:
        case Enum():
            return value.value
        case bool() | None | str() | float():
            return value
        case int():
            return int(value)
        case bytes() | bytearray() | memoryview():
            raw = bytes(value)
            text = body_text(raw)
            return text if text is not None else {"base64": base64.b64encode(raw).decode()}
        case msgspec.Struct():
            return _builtin(msgspec.to_builtins(value, str_keys=False, builtin_types=(bytes,), enc_hook=str))
        case Mapping():
            return {_text_key(key): _builtin(item) for key, item in value.items()}
        case Iterable():
            return [_builtin(item) for item in value]
        case _:
            return str(value)


def _text_key(key: object) -> str:
    if isinstance(key, Enum):
        return str(key.value)
    return key if isinstance(key, str) else str(key)
