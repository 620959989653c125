"""Rules and how they are judged: RocketMQ 5's access control, as pure functions.

Invariant: what no rule allows is denied. Custom rules come before default ones; among those that match, the most
specific resource decides (a name, a longer prefix, a shorter one, all of a kind, everything); at a tie, deny wins.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum, IntFlag, StrEnum, auto
from typing import Self, TypeVar

from pyromq.auth.addresses import AddressRange, is_from
from pyromq.auth.errors import AuthError

E = TypeVar("E", bound=StrEnum)

MAX_NAME = 512
MAX_ENTRIES = 1_000
MAX_SOURCES = 100


class Action(IntFlag):
    """What is done to a resource. A request names those that would do, a rule those that it is about."""

    PUB = auto()
    SUB = auto()
    CREATE = auto()
    UPDATE = auto()
    DELETE = auto()
    GET = auto()
    LIST = auto()


ALL = Action.PUB | Action.SUB | Action.CREATE | Action.UPDATE | Action.DELETE | Action.GET | Action.LIST
READ_ONLY = Action.GET | Action.LIST


class Kind(StrEnum):
    """What rules are about. `Filter:<topic>` is PyroMQ's own: Create there allows to upload filter classes."""

    ANY = "Any"
    CLUSTER = "Cluster"
    NAMESPACE = "Namespace"
    TOPIC = "Topic"
    GROUP = "Group"
    FILTER = "Filter"


class Pattern(IntEnum):
    """How a rule names its resource, the most specific first."""

    LITERAL = 0
    PREFIX = 1
    ANY = 2


class Decision(StrEnum):
    """What a rule says."""

    ALLOW = "Allow"
    DENY = "Deny"


class PolicyType(StrEnum):
    """Custom rules are asked first, default ones only when none of them matches."""

    CUSTOM = "Custom"
    DEFAULT = "Default"


@dataclass(frozen=True, slots=True)
class Resource:
    """What a rule is about: `Topic:orders`, `Topic:orders-*`, `Topic:*`, or `*` for everything."""

    kind: Kind
    pattern: Pattern = Pattern.ANY
    name: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises AuthError."""
        if text == "*":
            return cls(Kind.ANY)
        kind, colon, name = text.partition(":")
        if not colon or not name or len(name) > MAX_NAME or "*" in name[:-1]:
            raise AuthError(
                f"{text[:MAX_NAME]!r} is no resource: write Topic:name, Topic:prefix*, Group:…, Cluster:… or *"
            )
        named = parse_choice(Kind, kind, "resource kind")
        if named is Kind.ANY:
            raise AuthError("write * for every resource")
        if name == "*":
            return cls(named)
        if name.endswith("*"):
            return cls(named, Pattern.PREFIX, name[:-1])
        return cls(named, Pattern.LITERAL, name)

    def __str__(self) -> str:
        if self.kind is Kind.ANY:
            return "*"
        return f"{self.kind}:{self.name}{'' if self.pattern is Pattern.LITERAL else '*'}"

    def covers(self, kind: Kind, name: str) -> bool:
        """Whether a rule about this one speaks of that resource."""
        if self.kind is Kind.ANY:
            return True
        if self.kind is not kind:
            return False
        if self.pattern is Pattern.LITERAL:
            return name == self.name
        return name.startswith(self.name)  # which is empty for all of a kind

    @property
    def vagueness(self) -> tuple[int, int, int]:
        """Smaller is more specific."""
        return self.kind is Kind.ANY, self.pattern, -len(self.name)


@dataclass(frozen=True, slots=True)
class Entry:
    """One rule."""

    resource: Resource
    actions: Action
    decision: Decision
    sources: tuple[AddressRange, ...] = ()

    def matches(self, kind: Kind, name: str, actions: Action, host: str) -> bool:
        """Whether this rule speaks of the request."""
        return bool(self.actions & actions) and self.resource.covers(kind, name) and is_from(host, self.sources)


@dataclass(frozen=True, slots=True)
class Rules:
    """All rules about one user. There is at most one for each resource and policy type."""

    custom: tuple[Entry, ...] = ()
    default: tuple[Entry, ...] = ()

    def of(self, policy: PolicyType) -> tuple[Entry, ...]:
        return self.custom if policy is PolicyType.CUSTOM else self.default

    def with_entries(self, policy: PolicyType, entries: Iterable[Entry]) -> "Rules":
        """These rules with some added; a new rule takes the place of the old one about the same resource."""
        merged = {entry.resource: entry for entry in self.of(policy)}
        merged |= {entry.resource: entry for entry in entries}
        if len(merged) > MAX_ENTRIES:
            raise AuthError(f"{len(merged)} rules for one user, at most {MAX_ENTRIES} are kept")
        return self._replaced(policy, tuple(merged.values()))

    def without(self, policy: PolicyType, resource: Resource | None) -> "Rules":
        """These rules without the one about a resource, or without any of that type."""
        kept = tuple(entry for entry in self.of(policy) if resource is not None and entry.resource != resource)
        return self._replaced(policy, kept)

    def _replaced(self, policy: PolicyType, entries: tuple[Entry, ...]) -> "Rules":
        return Rules(entries, self.default) if policy is PolicyType.CUSTOM else Rules(self.custom, entries)


def judge(rules: Rules, kind: Kind, name: str, actions: Action, host: str) -> Entry | None:
    """The rule that decides about a request, None when there is none, which means no."""
    for entries in (rules.custom, rules.default):
        matching = [entry for entry in entries if entry.matches(kind, name, actions, host)]
        if matching:
            return min(matching, key=lambda entry: (*entry.resource.vagueness, entry.decision is Decision.ALLOW))
    return None


_ACTIONS = {action.name.capitalize(): action for action in Action if action.name}


def parse_actions(names: Iterable[str]) -> Action:
    """Raises AuthError for an unknown name and for none at all."""
    found = Action(0)
    by_name = {name.lower(): action for name, action in _ACTIONS.items()} | {"all": ALL, "any": ALL}
    for name in names:
        if name.strip().lower() not in by_name:
            raise AuthError(f"{name[:40]!r} is no action; there are {', '.join(_ACTIONS)} and All")
        found |= by_name[name.strip().lower()]
    if not found:
        raise AuthError("a rule needs at least one action")
    return found


def action_names(actions: Action) -> list[str]:
    """As the wire spells them."""
    return ["All"] if actions == ALL else [name for name, action in _ACTIONS.items() if action & actions]


def parse_decision(text: str | None) -> Decision:
    """Raises AuthError."""
    return parse_choice(Decision, text or "", "decision")


def parse_policy_type(text: str | None) -> PolicyType:
    """Custom unless said otherwise. Raises AuthError."""
    return parse_choice(PolicyType, text, "policy type") if text else PolicyType.CUSTOM


def parse_sources(texts: Iterable[str]) -> tuple[AddressRange, ...]:
    """Raises AuthError."""
    ranges = tuple(AddressRange(text.strip()) for text in texts if text.strip())
    if len(ranges) > MAX_SOURCES:
        raise AuthError(f"{len(ranges)} source addresses in one rule, at most {MAX_SOURCES} are kept")
    return ranges


def parse_choice(cls: type[E], text: str, what: str) -> E:
    """A member by its name in any case. Raises AuthError."""
    for member in cls:
        if member.lower() == text.lower():
            return member
    raise AuthError(f"{text[:40]!r} is no {what}; there are {', '.join(cls)}")
