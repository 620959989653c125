"""How much one request may hold: a bound for each text and each collection in headers and bodies, in one table.

A request header carries its bounds in its field types (`Name`, `ClientId`, …), which the decoder checks in C. Bodies
are also what clients read in answers, with any number of topics, so there the bounds are only declared (`Meta.extra`),
and `Body.of_request` holds a server's reading to them. A field that declares none has that of `TEXT`, `ENTRIES` or
`BODY`. A request beyond a bound gets an answer; its connection stays open.
"""

from collections.abc import Callable, Collection, Mapping, Sized
from functools import cache
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

from msgspec import Meta, inspect

from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.errors import ValidationError

CHARACTERS, ENTRIES_OF, BYTES = "characters", "entries", "bytes"
SHOWN: Final = 40
"""Characters of a refused text that the error repeats."""


class Bound(NamedTuple):
    """At most `most` of `unit`."""

    name: str
    most: int
    unit: str
    what: str
    code: ResponseCode = ResponseCode.INVALID_PARAMETER

    def breach(self, where: str, given: object) -> ValidationError:
        """The error for a value beyond the bound: a text, a collection, or its size."""
        size = given if isinstance(given, int) else len(given) if isinstance(given, Sized) else 0
        shown = f" ({given[:SHOWN]!r}…)" if isinstance(given, str) else ""
        advice = "shorten it" if self.unit == CHARACTERS else "send it in several requests"
        return ValidationError(
            f"{where} has {size} {self.unit}{shown}, more than {self.most}, the bound on {self.name}: {advice}",
            self.code,
        )


NAME: Final = Bound("names", 255, CHARACTERS, "the name of a topic, group, broker, cluster, user or namespace")
CLIENT_ID: Final = Bound("client ids", 1_024, CHARACTERS, "the id under which a client is known to brokers")
TEXT: Final = Bound("texts", 4_096, CHARACTERS, "any other text in a header or body")
EXPRESSION: Final = Bound(
    "expressions", 32_768, CHARACTERS, "the tags or the SQL of one subscription",
    ResponseCode.SUBSCRIPTION_PARSE_FAILED,
)  # fmt: skip
PROPERTIES: Final = Bound(
    "message properties", 32_767, CHARACTERS, "the properties of one message, and a key to look one up by",
    ResponseCode.MESSAGE_ILLEGAL,
)  # fmt: skip
NAMES: Final = Bound("lists of names", 65_536, CHARACTERS, "several names, rules or addresses in one text")
VALUE: Final = Bound("values", 65_536, CHARACTERS, "one value of the key-value configuration")

ENTRIES: Final = Bound("entries", 10_000, ENTRIES_OF, "any other list or table in a body")
GROUPS: Final = Bound(
    "groups of a client", 4_096, ENTRIES_OF, "consumer groups, and as many producer groups, of one client"
)
SUBSCRIPTIONS: Final = Bound("subscriptions", 1_024, ENTRIES_OF, "topics that one group subscribes to")
TAGS: Final = Bound("tags", 1_024, ENTRIES_OF, "tags, and their codes, of one subscription")
LOCKED_QUEUES: Final = Bound("queues of a lock request", 16_384, ENTRIES_OF, "queues locked or unlocked at a time")
ACKS: Final = Bound("acknowledgements", 4_096, ENTRIES_OF, "acknowledged pops in one request")
ACK_BITS: Final = Bound("acknowledged bits", 1_024, BYTES, "the bit set of the messages of one pop, eight to a byte")
RULES: Final = Bound("rules", 1_024, ENTRIES_OF, "rules, actions and addresses that one request gives a user")
LOOKED_AT: Final = Bound("queues of a look", 100_000, ENTRIES_OF, "queues whose bounds are asked for at a time")
REGISTERED: Final = Bound("registered topics", 200_000, ENTRIES_OF, "topics that one broker registers")

BODY: Final = Bound("bodies", 1 << 20, BYTES, "the body of any request that is neither a message nor listed here")
HEARTBEAT: Final = Bound("heartbeats", 2 << 20, BYTES, "a heartbeat, and a request for locks")
TABLE: Final = Bound("tables", 4 << 20, BYTES, "topics or groups that an administrator sends, queues to look at")
SETTINGS: Final = Bound("settings", 65_536, BYTES, "settings that are changed remotely at a time")

BOUNDS: Final[tuple[Bound, ...]] = (
    NAME, CLIENT_ID, TEXT, EXPRESSION, PROPERTIES, NAMES, VALUE,
    ENTRIES, GROUPS, SUBSCRIPTIONS, TAGS, LOCKED_QUEUES, ACKS, ACK_BITS, RULES, LOOKED_AT, REGISTERED,
    BODY, HEARTBEAT, TABLE, SETTINGS,
)  # fmt: skip
"""The table of the reference page."""


def _text(bound: Bound) -> Meta:
    return Meta(max_length=bound.most, extra={"bound": bound})


def declared(bound: Bound) -> Meta:
    """For a field of a body: the bound that it has in a request."""
    return Meta(extra={"bound": bound})


Name: TypeAlias = Annotated[str, _text(NAME)]
ClientId: TypeAlias = Annotated[str, _text(CLIENT_ID)]
Text: TypeAlias = Annotated[str, _text(TEXT)]
Expression: TypeAlias = Annotated[str, _text(EXPRESSION)]
PropertyText: TypeAlias = Annotated[str, _text(PROPERTIES)]
Names: TypeAlias = Annotated[str, _text(NAMES)]
Value: TypeAlias = Annotated[str, _text(VALUE)]

ResourceName: TypeAlias = Annotated[str, declared(NAME)]
"""A `Name` in a body."""
ClientName: TypeAlias = Annotated[str, declared(CLIENT_ID)]
"""A `ClientId` in a body."""


def check_size(where: str, data: Sized, bound: Bound) -> None:
    """Raise ValidationError for a body of more bytes than the bound."""
    size = data.nbytes if isinstance(data, memoryview) else len(data)
    if size > bound.most:
        raise bound.breach(where, size)


def check_value(value: object, kind: Any) -> None:
    """Raise ValidationError for whatever in a decoded body of type `kind` is beyond its bound."""
    checker = _checker_of(kind)
    if checker is not None:
        checker(value, getattr(kind, "__name__", "the body"))


Checker = Callable[[Any, str], None]


@cache
def _checker_of(kind: Any) -> Checker | None:
    return _checker(inspect.type_info(kind))


def _checker(kind: inspect.Type, bound: Bound | None = None) -> Checker | None:
    """What holds a value of this type to its bounds; None when there is nothing to hold."""
    if isinstance(kind, inspect.Metadata):
        return _checker(kind.type, (kind.extra or {}).get("bound", bound))
    if isinstance(kind, inspect.UnionType):
        (kind,) = (each for each in kind.types if not isinstance(each, inspect.NoneType))
        inner = _checker(kind, bound)
        return None if inner is None else _if_there(inner)
    if isinstance(kind, inspect.StrType | inspect.BytesType):
        return _sized(bound or TEXT)
    if isinstance(kind, inspect.CollectionType):
        return _many(bound or ENTRIES, _checker(kind.item_type))
    if isinstance(kind, inspect.DictType):
        return _table(bound or ENTRIES, _checker(kind.key_type), _checker(kind.value_type))
    return _struct(kind) if isinstance(kind, inspect.StructType) else None


def _struct(kind: inspect.StructType) -> Checker | None:
    found = ((field, _checker(field.type)) for field in kind.fields)
    held = [(field.name, f".{field.encode_name}", checker) for field, checker in found if checker is not None]

    def check(value: Any, where: str) -> None:
        for name, member, checker in held:
            checker(getattr(value, name), where + member)

    return check if held else None


def _if_there(inner: Checker) -> Checker:
    def check(value: Any, where: str) -> None:
        if value is not None:
            inner(value, where)

    return check


def _sized(bound: Bound) -> Checker:
    most = bound.most

    def check(value: Any, where: str) -> None:
        if len(value) > most:
            raise bound.breach(where, value)

    return check


def _many(bound: Bound, inner: Checker | None) -> Checker:
    most = bound.most

    def check(value: Collection[Any], where: str) -> None:
        if len(value) > most:
            raise bound.breach(where, len(value))
        if inner is not None:
            for each in value:
                inner(each, where)

    return check


def _table(bound: Bound, keys: Checker | None, values: Checker | None) -> Checker:
    most = bound.most

    def check(value: Mapping[Any, Any], where: str) -> None:
        if len(value) > most:
            raise bound.breach(where, len(value))
        for checker, parts in ((keys, value.keys()), (values, value.values())):
            if checker is not None:
                for each in parts:
                    checker(each, where)

    return check


def page() -> str:
    """The reference page."""
    lines = [
        "# Bounds of requests",
        "",
        "How much one request to a server may hold. A request beyond a bound is answered with an error that names the",
        "bound, its value and what was given; the connection stays open. What a server answers has no such bounds.",
        "Frames, connections and requests in flight have theirs in the [settings](broker-settings.md).",
        "",
        "| bound | at most | of what |",
        "|---|---|---|",
    ]
    lines += [f"| {bound.name} | {bound.most:,} {bound.unit} | {bound.what} |" for bound in BOUNDS]
    return "\n".join(lines) + "\n"
