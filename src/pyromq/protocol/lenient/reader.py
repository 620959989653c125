"""The tolerant reader.

Strict JSON takes the C decoder. What that refuses goes through a small recursive-descent parser that also knows bare
numbers, literals and whole objects in key position (`{0:1}`, `{null:1}`, `{{"queueId":0}:5}`) and control characters
inside strings. `{"$ref":"$.a"}` is resolved in both cases.

Invariant: whatever arrives, `loads` returns a value nested at most `MAX_DEPTH` levels, or raises `BodyError`.
"""

import json
import math
import re

import msgspec

from pyromq.protocol.errors import BodyError
from pyromq.protocol.lenient.limits import MAX_DEPTH, MAX_INPUT, max_values
from pyromq.protocol.lenient.objectkey import ObjectKey
from pyromq.protocol.lenient.references import resolve

_MAX_NUMBER = 400  # characters; a double needs at most 325 digits before its exponent
_SPACE = re.compile(r"[ \t\r\n]*")
_SCALAR = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?|true|false|null")
_LITERALS = {"true": True, "false": False, "null": None}
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_STRINGS = json.JSONDecoder(strict=False)


def loads(data: bytes | bytearray | memoryview | str, *, limit: int = MAX_INPUT) -> object:
    """Read one JSON value from `data`.

    Bare numeric keys become numbers, bare literals `True`/`False`/`None`, object keys `ObjectKey`; of repeated keys the
    last one wins. References become the object they point to, so that the value may share parts, and contain itself
    when the text says so (`$`, `..`, `@`); one that points nowhere raises.

    >>> loads(b'{0:"a",{"queueId":1}:{"$ref":"$.x"},"x":[]}')
    {0: 'a', (('queueId', 1),): [], 'x': []}

    Raises `BodyError` with the position of what is wrong, or when `data` is longer than `limit` bytes, nested too deep
    or, if it is not strict JSON, holds more than one value for each 64 bytes of `limit`.
    """
    raw = as_bytes(data, limit)
    try:
        value: object = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        value = _Reader(raw, max_values(limit)).document()
    else:
        if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH:
            _check_depth(value)
    return resolve(value) if b"$ref" in raw else value


def as_bytes(data: bytes | bytearray | memoryview | str, limit: int) -> bytes:
    """`data` as bytes, if it is not longer than `limit`."""
    size = data.nbytes if isinstance(data, memoryview) else len(data)
    if size > limit:
        raise BodyError(f"JSON text of {size} bytes is longer than the limit of {limit}")
    if isinstance(data, str):
        return data.encode("utf-8", "replace")
    return bytes(data)


class _Reader:
    """A cursor over the text. Methods leave `at` behind what they read."""

    __slots__ = ("at", "left", "text")

    def __init__(self, raw: bytes, max_values: int) -> None:
        try:
            self.text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise BodyError(f"JSON text is not UTF-8: byte {raw[error.start]:#04x} at position {error.start}") from None
        self.at = 0
        self.left = max_values

    def document(self) -> object:
        value = self._value(0)
        if self._peek():
            raise self._unexpected("the end of the text")
        return value

    def _value(self, depth: int) -> object:
        self.left -= 1
        if self.left < 0:
            raise BodyError(f"too many values in a text that is not strict JSON, at position {self.at}")
        char = self._peek()
        if char == '"':
            return self._string()
        if char == "{":
            return self._object(depth + 1)
        if char == "[":
            return self._array(depth + 1)
        return self._scalar("a value")

    def _object(self, depth: int) -> dict[object, object]:
        self._enter(depth)
        members: dict[object, object] = {}
        if self._take("}"):
            return members
        while True:
            key = self._key(depth)
            if not self._take(":"):
                raise self._unexpected("':' after a key")
            members[key] = self._value(depth)
            if self._take("}"):
                return members
            if not self._take(","):
                raise self._unexpected("',' or '}' after a member")

    def _key(self, depth: int) -> object:
        char = self._peek()
        if char == '"':
            return self._string()
        if char == "{":
            return ObjectKey.of(self._object(depth + 1))
        return self._scalar("a key")

    def _array(self, depth: int) -> list[object]:
        self._enter(depth)
        items: list[object] = []
        if self._take("]"):
            return items
        while True:
            items.append(self._value(depth))
            if self._take("]"):
                return items
            if not self._take(","):
                raise self._unexpected("',' or ']' after an element")

    def _string(self) -> str:
        try:
            value, self.at = _STRINGS.raw_decode(self.text, self.at)
        except json.JSONDecodeError as error:
            raise BodyError(f"bad JSON string at position {error.pos}: {error.msg}") from None
        text = str(value)
        # A lone surrogate cannot be written as UTF-8 again; Java would turn it into a question mark as well.
        return text if text.isascii() else _LONE_SURROGATE.sub("\ufffd", text)

    def _scalar(self, expected: str) -> object:
        match = _SCALAR.match(self.text, self.at)
        if match is None:
            raise self._unexpected(expected)
        text = match.group()
        if text in _LITERALS:
            self.at = match.end()
            return _LITERALS[text]
        if len(text) > _MAX_NUMBER:
            raise BodyError(f"number of {len(text)} characters at position {self.at} is too long")
        if match.group(1) is None and match.group(2) is None:
            self.at = match.end()
            return int(text)
        number = float(text)
        if math.isinf(number):
            raise BodyError(f"number {text} at position {self.at} is out of range")
        self.at = match.end()
        return number

    def _enter(self, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise BodyError(f"JSON nested deeper than {MAX_DEPTH} levels at position {self.at}")
        self.at += 1

    def _peek(self) -> str:
        """The next character that is not blank, or nothing at the end."""
        match = _SPACE.match(self.text, self.at)
        if match is not None:
            self.at = match.end()
        return self.text[self.at : self.at + 1]

    def _take(self, char: str) -> bool:
        if self._peek() != char:
            return False
        self.at += 1
        return True

    def _unexpected(self, expected: str) -> BodyError:
        found = repr(self.text[self.at]) if self.at < len(self.text) else "the end of the text"
        return BodyError(f"expected {expected} but found {found} at position {self.at}")


def _check_depth(value: object) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        inner: list[object] = []
        for item in level:
            children = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
            inner.extend(child for child in children if isinstance(child, dict | list))
        if not inner:
            return
        level = inner
    raise BodyError(f"JSON nested deeper than {MAX_DEPTH} levels")
