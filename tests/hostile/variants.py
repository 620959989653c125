"""From an example of a request to all that are at one of its bounds, and all that are one beyond."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from msgspec import inspect, structs

from pyromq.protocol.bodies.base import Body
from pyromq.protocol.bounds import ENTRIES, SETTINGS, TEXT, Bound
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command
from tests.hostile.rows import MESSAGE, Names, Row, fields
from tests.hostile.rows import SETTINGS as SETTINGS_BODY

LARGEST = 20_000
"""Entries of a list that a test makes; more do not fit a frame anyway."""
MAX_MESSAGE = 4 << 20

Maker = Callable[[int], Any]


@dataclass(frozen=True)
class Variant:
    """A request with one of its parts of a size: `where`, and whether that is beyond what is allowed."""

    code: RequestCode
    where: str
    beyond: bool
    ext: dict[str, str]
    body: bytes

    def command(self) -> Command:
        return Command.request(self.code, ext=dict(self.ext), body=self.body)

    def __str__(self) -> str:
        return f"{self.code.name} {self.where} {'beyond' if self.beyond else 'at'} its bound"


def variants(code: RequestCode, row: Row, names: Names) -> Iterator[Variant]:
    """The example itself, then each of its parts at its bound and one beyond."""
    ext, example = _ext(row, names), row.body if isinstance(row.body, bytes) else row.body(names)
    body = example if isinstance(example, bytes) else example.encode()
    yield Variant(code, "nothing", False, ext, body)
    for name, bound in _header_bounds(row):
        for size, beyond in ((bound.most, False), (bound.most + 1, True)):
            yield Variant(code, name, beyond, ext | {name: _padded(ext.get(name, ""), size)}, body)
    for where, most, make in _bodies(example):
        for size, beyond in ((most, False), (most + 1, True)):
            yield Variant(code, where, beyond, ext, make(size))


def _ext(row: Row, names: Names) -> dict[str, str]:
    values = fields(names)
    return {name: values[name] for name, _ in _fields(row) if name in values}


def _fields(row: Row) -> Iterator[tuple[str, Bound | None]]:
    if row.header is None:
        return
    info = inspect.type_info(row.header)
    assert isinstance(info, inspect.StructType)
    for field in info.fields:
        kind = field.type
        if isinstance(kind, inspect.UnionType):
            (kind,) = (each for each in kind.types if not isinstance(each, inspect.NoneType))
        bound = kind.extra["bound"] if isinstance(kind, inspect.Metadata) and kind.extra else None
        yield field.encode_name, bound


def _header_bounds(row: Row) -> Iterator[tuple[str, Bound]]:
    for name, bound in _fields(row):
        if bound is not None:
            yield name, bound


def _bodies(example: Body | bytes) -> Iterator[tuple[str, int, Callable[[int], bytes]]]:
    """Parts of a body with the largest size each, and how to make a body of which one has a size."""
    if isinstance(example, bytes):
        if example is MESSAGE:
            yield "the body", MAX_MESSAGE, lambda size: b"m" * size
        elif example is SETTINGS_BODY:
            yield "the body", SETTINGS.most, lambda size: example + b"#" * (size - len(example))
        return
    text = example.encode()
    yield "the body", type(example).size.most, lambda size: text[:-1] + b" " * (size - len(text)) + b"}"
    for where, bound, make in _parts(inspect.type_info(type(example)), example, None):
        if bound.most <= LARGEST:
            yield where, bound.most, lambda size, make=make: make(size).encode()  # type: ignore[misc]


def _parts(kind: inspect.Type, value: Any, bound: Bound | None) -> Iterator[tuple[str, Bound, Maker]]:
    if isinstance(kind, inspect.Metadata):
        yield from _parts(kind.type, value, (kind.extra or {}).get("bound", bound))
    elif isinstance(kind, inspect.UnionType):
        (kind,) = (each for each in kind.types if not isinstance(each, inspect.NoneType))
        yield from _parts(kind, value, bound)
    elif isinstance(kind, inspect.StrType):
        yield "", bound or TEXT, lambda size: _padded(value or "", size)
    elif isinstance(kind, inspect.BytesType):
        yield "", bound or TEXT, lambda size: (value or b"\x01") * size
    elif isinstance(kind, inspect.CollectionType) and value:
        yield "", bound or ENTRIES, lambda size: value[:1] * size
        for where, inner, make in _parts(kind.item_type, value[0], None):
            yield f"[]{where}", inner, lambda size, make=make: [make(size)]  # type: ignore[misc]
    elif isinstance(kind, inspect.DictType) and isinstance(_plain(kind.key_type), inspect.StrType):
        yield "", bound or ENTRIES, lambda size: {f"else-{number}": _sample(value) for number in range(size)}
    elif isinstance(kind, inspect.StructType) and value is not None:
        for field in kind.fields:
            for where, inner, make in _parts(field.type, getattr(value, field.name), None):

                def made(size: int, name: str = field.name, make: Maker = make) -> Any:
                    return structs.replace(value, **{name: make(size)})

                yield f".{field.encode_name}{where}", inner, made


def _plain(kind: inspect.Type) -> inspect.Type:
    return kind.type if isinstance(kind, inspect.Metadata) else kind


def _sample(table: dict[str, Any] | None) -> Any:
    return next(iter(table.values())) if table else ""


def _padded(text: str, size: int) -> str:
    return text[:size] + "x" * (size - len(text))
