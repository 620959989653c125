"""What all bodies have in common: decoding, encoding, and the numbers of Java.

A body is a struct with Python names whose wire names are the camelCase ones. Every member has a default, since
releases differ in what they send. Strict JSON is decoded straight into the struct; anything else (bare keys, object
keys, references, null members, names of older releases) goes through the tolerant reader first; bare integer keys alone
are only quoted, since tables that have them may be large.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self, TypeVar, dataclass_transform

import msgspec

from pyromq.protocol.bodies.enums import choice_at
from pyromq.protocol.bounds import BODY, Bound, check_size, check_value
from pyromq.protocol.errors import BodyError
from pyromq.protocol.lenient import MAX_DEPTH, MAX_INPUT, ObjectKey, dumps, loads
from pyromq.protocol.lenient.barekeys import quote_bare_keys
from pyromq.protocol.lenient.limits import max_values
from pyromq.protocol.lenient.reader import as_bytes
from pyromq.protocol.message import MessageQueue

Int = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

Data = bytes | bytearray | memoryview | str

T = TypeVar("T")

_UNFIT = (msgspec.MsgspecError, ValueError, RecursionError)


@dataclass_transform(kw_only_default=True, field_specifiers=(msgspec.field,))
class Body(msgspec.Struct, rename="camel"):
    """Base of all JSON bodies, of the objects inside of them and of the broker's config files."""

    renamed: ClassVar[Mapping[str, str]] = {}
    """Member names of other releases, and what they are called here."""
    size: ClassVar[Bound] = BODY
    """How long it may be in a request."""

    def encode(self) -> bytes:
        """The compact form that goes over the wire."""
        return dumps(self)

    def pretty(self) -> bytes:
        """The indented form of the config files that a broker or client keeps."""
        return dumps(self, pretty=True)

    @classmethod
    def decode(cls, data: Data, *, limit: int = MAX_INPUT) -> Self:
        """Read a body or file of at most `limit` bytes. Raises `BodyError`."""
        return decode_as(cls, data, limit=limit)

    @classmethod
    def of_request(cls, data: Data) -> Self:
        """What a server reads: `decode`, within the bounds of `protocol.bounds`. Raises ValidationError beyond one."""
        check_size(cls.__name__, data, cls.size)
        body = decode_as(cls, data, limit=cls.size.most)
        check_value(body, cls)
        return body


def decode_as(shape: type[T], data: Data, *, limit: int = MAX_INPUT) -> T:
    """Decode `data` as `shape`: a `Body`, or for the few bodies that are arrays `list[SomeBody]` or `list[str]`.

    Raises `BodyError` that names the member which does not fit.
    """
    raw = as_bytes(data, limit)
    renamed: Mapping[str, str] = getattr(shape, "renamed", {})
    if not (b"$ref" in raw or any(f'"{name}"'.encode() in raw for name in renamed)):
        decoder = _decoder(shape)
        try:
            return decoder.decode(raw)
        except _UNFIT:
            quoted = quote_bare_keys(raw)
        if quoted is not None:
            try:
                return decoder.decode(quoted)
            except _UNFIT:
                pass  # more than bare keys: the tolerant way decides, and words the error
    tidy = _Tidy(renamed, budget=min(max_values(limit), 1000 + 4 * len(raw))).value(loads(raw, limit=limit), 0)
    try:
        return msgspec.convert(tidy, shape, strict=False, str_keys=True)
    except _UNFIT as error:
        name = getattr(shape, "__name__", str(shape))
        raise BodyError(f"{name}: {error}") from None


_decoders: dict[object, msgspec.json.Decoder[Any]] = {}  # one for each shape in this package


def _decoder(shape: type[T]) -> msgspec.json.Decoder[T]:
    decoder = _decoders.get(shape)
    if decoder is None:
        decoder = _decoders[shape] = msgspec.json.Decoder(shape, strict=False)
    return decoder


class _Tidy:
    """Rebuilds what the tolerant reader returned as a plain tree that fits the structs.

    Null members go (the default stands for them), old names become today's, numbered choices get their names, and keys
    that are queues, as objects or as text holding one, become `MessageQueue`. The number of nodes is bounded, since
    references may share parts many times over or go round in circles.
    """

    def __init__(self, renamed: Mapping[str, str], budget: int) -> None:
        self.renamed = renamed
        self.budget = budget

    def value(self, value: object, depth: int) -> object:
        self.budget -= 1
        if self.budget < 0 or depth > MAX_DEPTH:
            raise BodyError("the body holds too many values, or references make it endless")
        if isinstance(value, dict):
            return {
                self._key(key): self._member(key, member, depth) for key, member in value.items() if member is not None
            }
        if isinstance(value, list | tuple):
            return [self.value(item, depth + 1) for item in value]
        return value

    def _member(self, key: object, member: object, depth: int) -> object:
        if isinstance(member, int) and isinstance(key, str) and (name := choice_at(key, member)) is not None:
            return name
        return self.value(member, depth + 1)

    def _key(self, key: object) -> object:
        if isinstance(key, str):
            return _queue_in(key) if key.startswith("{") else self.renamed.get(key, key)
        if isinstance(key, ObjectKey):
            try:
                return msgspec.convert(key.members(), MessageQueue, strict=False)
            except msgspec.ValidationError as error:
                raise BodyError(f"an object in key position is not a message queue: {error}") from None
        return key


def _queue_in(text: str) -> object:
    """The queue whose JSON a key holds as text, or the key itself."""
    try:
        return _decoder(MessageQueue).decode(text.encode("utf-8", "replace"))
    except _UNFIT:
        return text
