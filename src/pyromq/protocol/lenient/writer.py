"""The writer: compact JSON in the forms that Java, Go and C++ peers read.

Members of structs go out sorted by wire name; members and map entries that are None are left out; doubles take Java's
text form. Maps keyed by ints have bare keys, maps keyed by a struct (a message queue) have the object itself as key:
neither is strict JSON, both are what the peers expect. The strict form quotes int keys, escapes what is not ASCII and
sorts maps. The pretty form is the one of the files a Java broker keeps: TAB indentation, `"key":value`, and, as there,
no line break before a key that is not a string.
"""

import base64
import enum
import functools
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from json.encoder import encode_basestring, encode_basestring_ascii

import msgspec

from pyromq.protocol.errors import BodyError
from pyromq.protocol.lenient.limits import MAX_DEPTH
from pyromq.protocol.lenient.objectkey import ObjectKey


def dumps(value: object, *, strict: bool = False, pretty: bool = False) -> bytes:
    """Write structs, mappings, sequences, sets, text, numbers, enums and bytes (as base64).

    >>> dumps({0: "a", "b": [1.0, None], "c": None})
    b'{0:"a","b":[1.0,null]}'
    >>> dumps({1: "é"}, strict=True)
    b'{"1":"\\\\u00e9"}'

    Raises `BodyError` for a value that has no JSON form or is nested too deep.
    """
    writer = _Writer(strict=strict, pretty=pretty)
    writer.value(value, 0)
    return "".join(writer.parts).encode("utf-8", "replace")


def java_double(number: float) -> str:
    """`number` as Java's Double.toString writes it: `0.0`, `123.5`, `1.0E10`, `1.5E-5`.

    >>> java_double(12345678.0), java_double(0.001), java_double(1e-4)
    ('1.2345678E7', '0.001', '1.0E-4')
    """
    if not math.isfinite(number):
        return "null"  # as fastjson does: JSON has no name for these
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return repr(number)  # Python's own switch to exponents lies outside of this range
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    text = "".join(map(str, digits))
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{int(exponent) + len(text) - 1}"


class _Writer:
    __slots__ = ("parts", "pretty", "quote", "strict")

    def __init__(self, *, strict: bool, pretty: bool) -> None:
        self.parts: list[str] = []
        self.strict = strict
        self.pretty = pretty
        self.quote: Callable[[str], str] = encode_basestring_ascii if strict else encode_basestring

    def value(self, value: object, depth: int) -> None:
        kind = type(value)
        if kind is str:
            self.parts.append(self.quote(value))  # type: ignore[arg-type]  # narrowed by its exact type
        elif kind is int:
            self.parts.append(str(value))
        elif kind is bool:
            self.parts.append("true" if value else "false")
        elif isinstance(value, msgspec.Struct):
            self._members(_struct_members(value), depth + 1)
        else:
            self._other(value, depth)

    def _other(self, value: object, depth: int) -> None:
        if value is None or isinstance(value, bool):
            self.parts.append(_LITERALS[value])
        elif isinstance(value, enum.Enum):
            self.value(value.value, depth)
        elif isinstance(value, str):
            self.parts.append(self.quote(value))
        elif isinstance(value, float):
            self.parts.append(java_double(value))
        elif isinstance(value, int):
            self.parts.append(str(int(value)))
        elif isinstance(value, bytes | bytearray | memoryview):
            self.parts.append(f'"{base64.b64encode(value).decode("ascii")}"')
        else:
            self._container(value, depth + 1)

    def _container(self, value: object, depth: int) -> None:
        if isinstance(value, ObjectKey):
            self._members(((f"{self.quote(name)}:", member) for name, member in value), depth)
        elif isinstance(value, Mapping):
            self._map(value, depth)
        elif isinstance(value, set | frozenset):
            self._array(sorted(value), depth)
        elif isinstance(value, Iterable):
            self._array(value, depth)
        else:
            raise BodyError(f"{type(value).__name__} has no JSON form")

    def _members(self, members: Iterable[tuple[str, object]], depth: int) -> None:
        line = self._line(depth)
        opening = "{"
        for label, value in members:
            self.parts.append(f"{opening}{line}{label}")
            self.value(value, depth)
            opening = ","
        self._close(opening, "{}", depth)

    def _map(self, mapping: Mapping[object, object], depth: int) -> None:
        items: Iterable[tuple[object, object]] = mapping.items()
        if self.strict:
            items = sorted(items, key=lambda item: (isinstance(item[0], str), item[0]))
        line = self._line(depth)
        opening = "{"
        for key, value in items:
            if value is None:
                continue
            if isinstance(key, str):
                self.parts.append(f"{opening}{line}{self.quote(str(key))}")
            else:
                self.parts.append(opening)
                self._key(key, depth)
            self.parts.append(":")
            self.value(value, depth)
            opening = ","
        self._close(opening, "{}", depth)

    def _key(self, key: object, depth: int) -> None:
        if self.strict:
            self.parts.append(self.quote(dumps(key).decode()))
        else:
            self.value(key, depth)

    def _array(self, values: Iterable[object], depth: int) -> None:
        line = self._line(depth)
        opening = "["
        for value in values:
            self.parts.append(f"{opening}{line}")
            self.value(value, depth)
            opening = ","
        self._close(opening, "[]", depth)

    def _close(self, opening: str, brackets: str, depth: int) -> None:
        self.parts.append(f"{self._line(depth - 1)}{brackets[1]}" if opening == "," else brackets)

    def _line(self, depth: int) -> str:
        """What goes before a member or element: a new line in the pretty form."""
        if depth > MAX_DEPTH:
            raise BodyError(f"value nested deeper than {MAX_DEPTH} levels cannot be written")
        return "\n" + "\t" * depth if self.pretty else ""


_LITERALS = {None: "null", True: "true", False: "false"}


def _struct_members(struct: msgspec.Struct) -> Iterator[tuple[str, object]]:
    for attribute, label in _plan(type(struct)):
        value = getattr(struct, attribute)
        if value is not None:
            yield label, value


@functools.cache
def _plan(struct: type[msgspec.Struct]) -> tuple[tuple[str, str], ...]:
    """Attribute and quoted wire name of each field, in the order of the wire names."""
    pairs = zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True)
    return tuple((attribute, f'"{name}":') for attribute, name in sorted(pairs, key=operator.itemgetter(1)))
