"""One option: its type, limits, meaning, and its way to and from text. `declaration` puts options together.

Invariant: a type that is a path, an address, an address list or a secret makes the option sensitive; nobody can forget.
"""

import dataclasses
import enum
import re
import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pyromq.settings.errors import ConfigError

T = TypeVar("T")

MASK = "******"
_OPTION = "pyromq.option"
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_LISTS = re.compile(r"[;,]")


class _Sensitive(enum.Enum):
    ADDRESS = enum.auto()
    SECRET = enum.auto()


Address = Annotated[str, _Sensitive.ADDRESS]
"""A host or `host:port`: a string that must never be changed or read remotely."""
Addresses = Annotated[tuple[str, ...], _Sensitive.ADDRESS]
"""Several addresses; in text separated by `;` or `,`."""
Secret = Annotated[str, _Sensitive.SECRET]
"""A string that is never printed, logged or returned, and has no command-line flag."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One setting, everything known about it."""

    name: str
    key: str
    section: str
    type: type
    many: bool
    optional: bool
    sensitive: bool
    secret: bool
    default: str
    doc: str
    unit: str
    minimum: float | None
    maximum: float | None
    choices: tuple[object, ...]
    reloadable: bool
    environment: tuple[str, ...]
    short: str

    @property
    def flag(self) -> str:
        """Long form of the command-line flag."""
        return "--" + self.name.replace("_", "-")

    @property
    def allowed(self) -> str:
        """What a value may be, in words."""
        if self.choices:
            return "one of " + ", ".join(self.render(choice) for choice in self.choices)
        kind = {bool: "true or false", int: "a whole number", float: "a number", Path: "a path"}.get(self.type, "text")
        if self.sensitive and self.type is str and not self.secret:
            kind = "addresses separated by ;" if self.many else "an address"
        elif self.many:
            kind = "values separated by ;"
        if self.minimum is not None and self.maximum is not None:
            kind += f" from {self.minimum} to {self.maximum}"
        elif self.minimum is not None:
            kind += f", {self.minimum} or more"
        elif self.maximum is not None:
            kind += f", {self.maximum} or less"
        return f"{kind} ({self.unit})" if self.unit else kind

    def parse(self, text: str) -> object:
        """The value that a text stands for. Raises ConfigError."""
        text = text.strip()
        try:
            value = self._convert(text)
        except ValueError:
            raise self._refused(text) from None
        self.check(value)
        return value

    def check(self, value: object) -> None:
        """Raise ConfigError unless `value` has the right type and lies within the limits."""
        if value is None and self.optional:
            return
        items = value if self.many and isinstance(value, tuple) else (value,)
        for item in items:
            right = isinstance(item, self.type) and (self.type is bool or not isinstance(item, bool))
            if not right and not (self.type is float and type(item) is int):
                raise self._refused(value)
            if isinstance(item, int | float) and not (
                (self.minimum is None or item >= self.minimum) and (self.maximum is None or item <= self.maximum)
            ):
                raise self._refused(value)
            if self.choices and item not in self.choices:
                raise self._refused(value)

    def render(self, value: object) -> str:
        """The text form of a value, as property files have it; `parse` reads it back."""
        if value is None:
            return ""
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ";".join(map(self.render, value))
        return str(value.value if isinstance(value, enum.Enum) else value)

    def _convert(self, text: str) -> object:
        if self.optional and not text:
            return None
        if self.many:
            return tuple(self._convert_one(item.strip()) for item in _LISTS.split(text) if item.strip())
        return self._convert_one(text)

    def _convert_one(self, text: str) -> object:
        if self.type is bool:
            if text.lower() not in ("true", "false"):
                raise ValueError
            return text.lower() == "true"
        if self.type is int and not _INTEGER.fullmatch(text):
            raise ValueError
        if self.type is Path and not text:
            raise ValueError
        return self.type(text)

    def _refused(self, value: object) -> ConfigError:
        shown = MASK if self.secret else self.render(value)
        return ConfigError(f"{self.key} = {shown!r} is not allowed; it must be {self.allowed}")


class _Computed:
    def __init__(self, factory: Callable[[], object], shown: str) -> None:
        self.factory = factory
        self.shown = shown


def computed(factory: Callable[[], T], shown: str) -> T:
    """A default that depends on the machine, made when needed; `shown` stands for it in the documentation."""
    return typing.cast("T", _Computed(factory, shown))


def option(
    default: T,
    doc: str,
    *,
    key: str = "",
    unit: str = "",
    minimum: float | None = None,
    maximum: float | None = None,
    choices: Iterable[object] = (),
    reloadable: bool = False,
    env: str = "",
    short: str = "",
) -> T:
    """Declare one option of a `Settings` class.

    `key` is the Java property name where it is not the Python name in camel case, `env` a further environment
    variable, `short` the letter of a short flag.
    """
    facts = {
        "key": key,
        "doc": doc,
        "unit": unit,
        "minimum": minimum,
        "maximum": maximum,
        "choices": tuple(choices),
        "reloadable": reloadable,
        "environment": env,
        "short": short,
        "default": default.shown if isinstance(default, _Computed) else default,
    }
    metadata = {_OPTION: facts}
    # repr=False: a settings object that gets logged must not show a secret.
    if isinstance(default, _Computed):
        made: Any = dataclasses.field(default_factory=default.factory, repr=False, metadata=metadata)
    else:
        made = dataclasses.field(default=default, repr=False, metadata=metadata)
    return typing.cast("T", made)


def describe(cls: type, field: "dataclasses.Field[Any]", section: str) -> Option:
    """All facts about one field that was declared with `option` in `cls`. Raises TypeError for a wrong declaration."""
    hint: Any = field.type
    facts: dict[str, Any] = field.metadata[_OPTION]
    optional = typing.get_origin(hint) in (types.UnionType, typing.Union)
    if optional:
        (hint,) = (each for each in typing.get_args(hint) if each is not types.NoneType)
    marks: list[object] = []
    if typing.get_origin(hint) is Annotated:
        hint, *marks = typing.get_args(hint)
    many = typing.get_origin(hint) is tuple
    kind = typing.get_args(hint)[0] if many else hint
    if not isinstance(kind, type):
        raise TypeError(f"{cls.__name__}.{field.name}: options cannot have the type {hint}")
    choices = facts["choices"] or (tuple(kind) if issubclass(kind, enum.Enum) else ())
    sensitive = bool(marks) or issubclass(kind, Path)
    if sensitive and facts["reloadable"]:
        raise TypeError(f"{cls.__name__}.{field.name}: a path, address or secret cannot be reloadable")
    head, *tail = field.name.split("_")
    camel = head + "".join(word.capitalize() for word in tail)
    environment = tuple(filter(None, (facts["environment"], "PYROMQ_" + field.name.upper())))
    described = Option(
        **facts
        | {
            "name": field.name,
            "key": facts["key"] or camel,
            "section": section,
            "type": kind,
            "many": many,
            "optional": optional,
            "sensitive": sensitive,
            "secret": _Sensitive.SECRET in marks,
            "choices": choices,
            "environment": environment,
        }
    )
    return dataclasses.replace(described, default=described.render(facts["default"]))
