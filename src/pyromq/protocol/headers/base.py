"""What all typed headers share: the base struct, its field types, and the way to and from ext fields.

On the wire a header is flattened into the `extFields` of a command, every value as text. Clients disagree about the
details (raw numbers, nulls, `TRUE`), so decoding has two roads that end in the same value: `json_reader` puts JSON text
straight into the struct, and whatever that refuses goes through `decode_header`, which reads field by field and knows
how to say what is wrong.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from operator import attrgetter
from typing import Annotated, TypeVar

import msgspec
from msgspec import inspect

from pyromq.protocol.bounds import Bound, Name
from pyromq.protocol.errors import HeaderError

_to_json = msgspec.json.Encoder().encode

Int = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
"""A Java int."""
Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""A Java long."""


class Header(msgspec.Struct, kw_only=True, rename="camel", gc=False):
    """Base of all typed headers. Optional fields are None when the peer did not send them."""

    def to_json(self) -> str:
        """The ext fields as JSON text. The headers of the busiest responses override it with something quicker."""
        return _to_json(encode_header(self)).decode()


class RpcHeader(Header, kw_only=True):
    """The fields any request of the newer kind may carry besides its own."""

    ns: Name | None = None
    nsd: bool | None = None
    bname: Name | None = None
    oway: bool | None = None


class TopicHeader(RpcHeader, kw_only=True):
    """`RpcHeader` for requests about one topic."""

    lo: bool | None = None


H = TypeVar("H", bound=Header)


class _Field(msgspec.Struct, frozen=True):
    name: str
    wire_name: str
    required: bool
    kind: type
    low: int = 0
    high: int = 0
    bound: Bound | None = None


class _Layout(msgspec.Struct, frozen=True):
    fields: tuple[_Field, ...]
    wire_names: tuple[str, ...]


_KINDS: dict[type[inspect.Type], type] = {
    inspect.StrType: str,
    inspect.IntType: int,
    inspect.BoolType: bool,
    inspect.FloatType: float,
}


def _describe(field: inspect.Field) -> _Field:
    kind = field.type
    if isinstance(kind, inspect.UnionType):
        (kind,) = (member for member in kind.types if not isinstance(member, inspect.NoneType))
    bound: Bound | None = None
    if isinstance(kind, inspect.Metadata):
        bound = (kind.extra or {}).get("bound")
        kind = kind.type
    low, high = (kind.ge or 0, kind.le or 0) if isinstance(kind, inspect.IntType) else (0, 0)
    return _Field(field.name, field.encode_name, field.required, _KINDS[type(kind)], low, high, bound)


@cache
def _layout(cls: type[Header]) -> _Layout:
    info = inspect.type_info(cls)
    assert isinstance(info, inspect.StructType)  # noqa: S101 - tells the type checker what every Header is
    fields = tuple(_describe(field) for field in info.fields)
    return _Layout(fields, tuple(field.wire_name for field in fields))


def header_text(value: str | float) -> str:
    """A field value as the wire spells it."""
    if value is True:
        return "true"
    if value is False:
        return "false"
    return value if type(value) is str else str(value)


def encode_header(header: Header) -> dict[str, str]:
    """The ext fields of a header, without those that are None."""
    ext = {}
    for name, value in zip(_layout(type(header)).wire_names, msgspec.structs.astuple(header), strict=True):
        if value is not None:
            ext[name] = value if type(value) is str else header_text(value)
    return ext


_INTEGER = re.compile(r"[+-]?[0-9]{1,20}(?=(?:\.0+)?\Z)", re.ASCII)


def _parse(cls: type[Header], field: _Field, text: str) -> str | float:
    if field.kind is str:
        if field.bound is not None and len(text) > field.bound.most:
            raise field.bound.breach(f"{cls.__name__}: field {field.wire_name!r}", text)
        return text
    if field.kind is bool:
        return text.lower() == "true"
    if field.kind is float:
        try:
            return float(text)
        except ValueError:
            raise HeaderError(f"{cls.__name__}: field {field.wire_name!r} is {text[:40]!r}, not a number") from None
    match = _INTEGER.match(text)
    number = int(match[0]) if match else None
    if number is None or not field.low <= number <= field.high:
        bits = field.high.bit_length() + 1
        raise HeaderError(f"{cls.__name__}: field {field.wire_name!r} is {text[:40]!r}, not a {bits}-bit integer")
    return number


def _values(cls: type[Header], ext: Mapping[str, str]) -> Iterator[tuple[str, str | float]]:
    for field in _layout(cls).fields:
        text = ext.get(field.wire_name)
        if text is not None and (text or field.kind is str):
            yield field.name, _parse(cls, field, text)
        elif field.required:
            raise HeaderError(f"{cls.__name__}: required field {field.wire_name!r} is missing")


def decode_header(cls: type[H], ext: Mapping[str, str]) -> H:
    """Read a header out of ext fields; fields it does not know are left alone, empty numbers count as absent.

    Raises HeaderError for a missing required field or a value that is not of the field's type, ValidationError for a
    text beyond its bound.
    """
    header: H | None = _ext_reader(cls)(ext)
    return cls(**dict(_values(cls, ext))) if header is None else header


@cache
def _ext_reader(cls: type[H]) -> Callable[[Mapping[str, str]], H | None]:
    """The quick way; None when a field needs a closer look."""
    booleans = [field.name for field in _layout(cls).fields if field.kind is bool]
    said = attrgetter(booleans[0], *booleans) if booleans else None

    def read(ext: Mapping[str, str]) -> H | None:
        try:
            header = msgspec.convert(ext, cls, strict=False)
        except ValueError:
            return None
        return header if said is None or not any(said(header)) else None

    return read


@cache
def json_reader(cls: type[H]) -> Callable[[msgspec.Raw], H | None]:
    """Reads a header straight out of the JSON text of its ext fields; None when only `decode_header` can tell."""
    decode = msgspec.json.Decoder(cls, strict=False).decode
    words = {field.name: f'"{field.wire_name}":"true"'.encode() for field in _layout(cls).fields if field.kind is bool}
    # Naming the first one twice makes the getter return a tuple even when there is only one.
    said = attrgetter(next(iter(words)), *words) if words else None

    def read(ext: msgspec.Raw) -> H | None:
        try:
            header = decode(ext)
        except (ValueError, RecursionError):
            return None
        if said is None or not any(said(header)):
            return header
        # msgspec also takes 1 for true, Java only the word. No value looks like it: quotes are escaped there.
        text = bytes(ext)
        return header if all(word in text for name, word in words.items() if getattr(header, name)) else None

    return read
