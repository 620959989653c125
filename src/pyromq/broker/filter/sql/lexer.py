"""Tokens of an expression, made one at a time: text after a complete expression is never looked at.

That is RocketMQ's rule, so `a = 1 whatever #` is a legal way to write `a = 1`.
"""

import re
from enum import Enum
from typing import NamedTuple

from pyromq.broker.filter.sql.errors import SqlSyntaxError

MAX_LENGTH = 16_384


class Kind(Enum):
    KEYWORD = "keyword"
    NAME = "name"
    INTEGER = "integer"
    FLOAT = "float"
    STRING = "string"
    OPERATOR = "operator"
    END = "end"


class Token(NamedTuple):
    """`text` is a keyword in capitals, the contents of a string, anything else as written."""

    kind: Kind
    text: str
    position: int


KEYWORDS = frozenset(
    ("NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS", "CONTAINS", "STARTSWITH", "ENDSWITH")
)

# A comment to the end of the line needs that end; without it, `--` is two minus signs.
_SKIPPED = re.compile(r"(?:[ \t\n\r\f]|--[^\n\r]*[\n\r]|/\*[^*]*\*(?:\*|[^*/][^*]*\*)*/)*")
_TOKEN = re.compile(
    r"""
      (?P<name>[A-Za-z_$][A-Za-z0-9_$]*)
    | (?P<float>[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)? | \.[0-9]+(?:[eE][+-]?[0-9]+)? | [0-9]+[eE][+-]?[0-9]+)
    | (?P<integer>0 | [1-9][0-9]*[lL]?)
    | '(?P<string>[^']*(?:''[^']*)*)'
    | (?P<operator><> | >= | <= | [=<>(),+-])
    """,
    re.VERBOSE,
)


class Lexer:
    """Reads an expression from left to right, with one token of foresight, two where the grammar asks for it."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise SqlSyntaxError(f"the expression has {len(text)} characters, more than {MAX_LENGTH}")
        self._text = text
        self._position = 0
        self._ahead: list[Token] = []

    def peek(self, distance: int = 0) -> Token:
        """The token `distance` after the next one, which is not consumed. Raises SqlSyntaxError."""
        while len(self._ahead) <= distance:
            self._ahead.append(self._read())
        return self._ahead[distance]

    def take(self) -> Token:
        """The next token."""
        token = self.peek()
        del self._ahead[0]
        return token

    def _read(self) -> Token:
        text = self._text
        skipped = _SKIPPED.match(text, self._position)
        start = skipped.end() if skipped is not None else self._position
        if start >= len(text):
            return Token(Kind.END, "", start)
        found = _TOKEN.match(text, start)
        if found is None:
            raise SqlSyntaxError(f"character {start + 1}: {text[start]!r} begins nothing that is known here")
        self._position = found.end()
        kind, value = Kind(found.lastgroup), found[found.lastgroup or 0]
        if kind is Kind.STRING:
            value = value.replace("''", "'")
        elif kind is Kind.NAME and value.upper() in KEYWORDS:
            kind, value = Kind.KEYWORD, value.upper()
        return Token(kind, value, start)
