"""Settings: each option is declared once, typed, with its default, its meaning and its limits.

From that one declaration come Java property files, environment variables, command-line flags, `--help`, remote changes
and the reference page. Only the machinery lives here; the options of a capability live beside it:

    @settings
    class PingConfig(Settings):
        "Ping"
        interval: int = option(5000, "Time between two pings.", key="pingInterval", minimum=10, unit="ms")

Invariant: a class and all that inherit it share one description of each option.
"""

import dataclasses
import difflib
import inspect
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from pyromq.settings.errors import UnknownKeyError
from pyromq.settings.option import Option, describe, is_secret


class Settings:
    """Base of everything declared with `option`. The first line of a class' docstring is the title of its options."""

    ignored: ClassVar[frozenset[str]] = frozenset()
    """Keys of Apache's files that mean nothing here (thread pools, Netty buffers): accepted, without effect."""
    old_names: ClassVar[Mapping[str, str]] = types.MappingProxyType({})
    """Keys that were called otherwise once, and their names now."""
    are_keywords: ClassVar[bool] = False
    """Whether options are keyword arguments of Python only, not keys of property files and flags."""

    def __post_init__(self) -> None:
        for each in options(type(self)).values():
            each.check(getattr(self, each.name))
        self.check_together()

    def check_together(self) -> None:
        """Raise ConfigError for values that do not go together."""


S = TypeVar("S", bound=Settings)


@typing.dataclass_transform(kw_only_default=True, eq_default=False)
def settings(cls: type[S]) -> type[S]:
    """Decorator of every `Settings` class: checks its declarations and gives it a constructor with keywords."""
    made = dataclass(kw_only=True, eq=False)(cls)
    options(made)
    return made


@typing.dataclass_transform(kw_only_default=True, frozen_default=True)
def frozen_settings(cls: type[S]) -> type[S]:
    """Like `settings`, for values that never change, are equal when all options are, and show all but secrets."""
    for name, hint in inspect.get_annotations(cls).items():
        if isinstance(field := cls.__dict__.get(name), dataclasses.Field):
            field.repr = not is_secret(hint)
    made = dataclass(kw_only=True, frozen=True)(cls)
    options(made)
    return made


_described: dict[type[Settings], Mapping[str, Option]] = {}


def options(cls: type[Settings]) -> Mapping[str, Option]:
    """The options of a settings class by Python name, in the order of declaration."""
    if cls not in _described:
        _described[cls] = _describe_all(cls)
    return _described[cls]


def _describe_all(cls: type[Settings]) -> Mapping[str, Option]:
    declared: dict[str, type] = {}
    introduced: dict[str, type] = {}
    for each in reversed(cls.__mro__):
        for name in inspect.get_annotations(each):
            declared[name] = each
            introduced.setdefault(name, each)  # a subclass that only changes the default does not move the option
    found = {
        field.name: describe(cls, field, _title(introduced[field.name]), keyword=cls.are_keywords)
        if declared[field.name] is cls
        else options(declared[field.name])[field.name]
        for field in dataclasses.fields(cls)  # type: ignore[arg-type]  # made by the decorator
    }
    keys = [each.key for each in found.values()]
    repeated = {key for key in keys if keys.count(key) > 1} | (cls.ignored & set(keys))
    if repeated:
        raise TypeError(f"{cls.__name__} declares {sorted(repeated)} more than once")
    return types.MappingProxyType(found)


def _title(cls: type) -> str:
    return (cls.__doc__ or cls.__name__).strip().partition("\n")[0].rstrip(".")


def find(cls: type[Settings], key: str) -> Option:
    """The option with this Java property name. Raises UnknownKeyError, which names the nearest one."""
    by_key = {each.key: each for each in options(cls).values()}
    key = cls.old_names.get(key, key)
    if key in by_key:
        return by_key[key]
    near = nearest(key, by_key)
    raise UnknownKeyError(f"unknown key {key[:100]!r}" + (f"; did you mean {near}?" if near else ""))


def nearest(word: str, names: Iterable[str]) -> str | None:
    """The name that somebody who wrote `word` may have meant."""
    lower = {name.lower(): name for name in names}
    near = difflib.get_close_matches(word[:100].lower(), lower, n=1, cutoff=0.5)
    return lower[near[0]] if near else None
