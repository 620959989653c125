"""Java `.properties` text: the bodies of configuration requests and RocketMQ's own configuration files.

Reads all of the format: comments, continued lines, `=`, `:` or a blank as separator, `\\` escapes. Writes one
`key=value` per line, escaped only where a reader needs it, and beyond ASCII always, since Java reads bytes as Latin-1.
"""

import re
from collections.abc import Iterator, Mapping

from pyromq.protocol.errors import BodyError

MAX_TEXT = 16 * 1024 * 1024

_LINE_END = re.compile(r"\r\n|\r|\n")
_KEY = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_NAMES = {char: f"\\{name}" for name, char in _CONTROLS.items()} | {"\\": "\\\\"}
_SPECIAL = re.compile(r"[\\\t\n\r\f]|[^ -~]")
_SPECIAL_IN_KEY = re.compile(r"[\\\t\n\r\f=: ]|^[#!]|[^ -~]")


def loads(text: str) -> dict[str, str]:
    r"""Read the text; of repeated keys the last one wins.

    >>> loads("# where\nnamesrvAddr = 127.0.0.1:9876\nlist=a,\\\n     b")
    {'namesrvAddr': '127.0.0.1:9876', 'list': 'a,b'}

    Raises `BodyError` for a broken `\u` escape or a text that is too long.
    """
    if len(text) > MAX_TEXT:
        raise BodyError(f"properties text of {len(text)} characters is longer than the limit of {MAX_TEXT}")
    table: dict[str, str] = {}
    for number, line in _logical_lines(text):
        match = _KEY.match(line)
        end = match.end() if match else 0
        separator = _SEPARATOR.match(line, end)
        start = separator.end() if separator else end
        try:
            table[_unescape(line[:end])] = _unescape(line[start:])
        except BodyError as error:
            raise BodyError(f"properties line {number}: {error}") from None
    return table


def dumps(table: Mapping[str, str]) -> str:
    r"""Write one line for each entry, in the order of the mapping.

    >>> dumps({"storePathRootDir": "/data/store", "a key": " x"})
    'storePathRootDir=/data/store\na\\ key=\\ x\n'
    """
    lines = []
    for key, value in table.items():
        text = _SPECIAL.sub(_escape, value)
        lead = "\\" if text.startswith(" ") else ""  # blanks before a value would be skipped
        lines.append(f"{_SPECIAL_IN_KEY.sub(_escape, key)}={lead}{text}\n")
    return "".join(lines)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their continuations joined, without comments and blank lines, and the number each starts at."""
    parts: list[str] = []
    first = 0
    for number, natural in enumerate(_LINE_END.split(text), start=1):
        line = natural.lstrip(" \t\f")
        if not parts:
            if not line or line[0] in "#!":
                continue
            first = number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            parts.append(line[:-1])
            continue
        parts.append(line)
        yield first, "".join(parts)
        parts = []
    if parts:
        yield first, "".join(parts)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(_unescaped, text)
    # Pairs of \u escapes make up one character beyond the basic plane; a half of one cannot be kept.
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescaped(match: re.Match[str]) -> str:
    code = match.group(1)
    if code[0] == "u":
        if len(code) == 1:
            raise BodyError(f"\\u needs four hexadecimal digits at character {match.start()}")
        return chr(int(code[1:], 16))
    return _CONTROLS.get(code, code)


def _escape(match: re.Match[str]) -> str:
    char = match.group()
    if char in _NAMES:
        return _NAMES[char]
    if " " <= char <= "~":
        return f"\\{char}"
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
