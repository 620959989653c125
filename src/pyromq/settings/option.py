"""One option: its type, limits, meaning, and its way to and from text. `declaration` puts options together.

Invariant: a type that is a path, an address, an address list or a secret makes the option sensitive; nobody can forget.
"""

import dataclasses
import enum
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping
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

Reader = Callable[[str], object]
"""Makes a value of the text of an environment variable, or raises ValueError."""


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
    above: float | None
    besides: float | None
    value: str
    choices: tuple[object, ...]
    reloadable: bool
    environment: Mapping[str, Reader | None]
    short: str

    @property
    def flag(self) -> str:
        """Long form of the command-line flag."""
        return "--" + self.name.replace("_", "-")

    @property
    def allowed(self) -> str:
        """What a value may be, in words."""
        if self.value:
            return self.value
        if self.choices:
            return "one of " + ", ".join(map(_choice, self.choices))
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
        elif self.above is not None:
            kind += f" above {self.above}"
        if self.besides is not None:
            kind += f", or {self.besides}"
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
            if isinstance(item, int | float) and not self.allows(item):
                raise self._refused(value)
            if self.choices and item not in self.choices:
                raise self._refused(value)

    def allows(self, number: float) -> bool:
        """Whether a number lies within the limits."""
        return number == self.besides or (
            (self.minimum is None or number >= self.minimum)
            and (self.maximum is None or number <= self.maximum)
            and (self.above is None or number > self.above)
        )

    def render(self, value: object) -> str:
        """The text form of a value, as property files have it; `parse` reads it back."""
        if value is None:
            return ""
        if isinstance(value, _Computed):
            return value.shown
        if isinstance(value, tuple):
            return ";".join(map(self.render, value))
        return text_of(value)

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
    above: float | None = None,
    besides: float | None = None,
    value: str = "",
    choices: Iterable[object] = (),
    reloadable: bool = False,
    env: str | Mapping[str, Reader] = "",
    short: str = "",
) -> T:
    """Declare one option of a `Settings` class.

    `key` is the Java property name where it is not the Python name in camel case, `env` a further environment
    variable, or several with what reads them, later ones beating earlier ones, `short` the letter of a short flag.
    `above` is a limit that is not allowed itself, `besides` a number that is, outside of the limits. `value` says in
    words what is allowed where no text can stand for it.
    """
    facts = {
        "key": key,
        "doc": doc,
        "unit": unit,
        "minimum": minimum,
        "maximum": maximum,
        "above": above,
        "besides": besides,
        "value": value,
        "choices": tuple(choices),
        "reloadable": reloadable,
        "environment": {env: None} if isinstance(env, str) else env,
        "short": short,
        "default": default,
    }
    metadata = {_OPTION: facts}
    # repr=False: a settings object that gets logged must not show a secret.
    if isinstance(default, _Computed):
        made: Any = dataclasses.field(default_factory=default.factory, repr=False, metadata=metadata)
    else:
        made = dataclasses.field(default=default, repr=False, metadata=metadata)
    return typing.cast("T", made)


def describe(cls: type, field: "dataclasses.Field[Any]", section: str, *, keyword: bool) -> Option:
    """All facts about one field that was declared with `option` in `cls`. Raises TypeError for a wrong declaration.

    A `keyword` of Python is called what it is called, and neither a flag nor a variable is made up for it.
    """
    facts: dict[str, Any] = field.metadata[_OPTION]
    hints, marks, optional = _parts(field.type)
    many = typing.get_origin(hints[0]) is tuple
    kind: Any = typing.get_args(hints[0])[0] if many else hints[0]
    if facts["value"]:
        kind, many = object, False
    elif (len(hints) > 1 and not facts["choices"]) or not isinstance(kind, type):
        raise TypeError(f"{cls.__name__}.{field.name}: options cannot have the type {field.type}")
    choices = facts["choices"] or (tuple(kind) if issubclass(kind, enum.Enum) else ())
    sensitive = bool(marks) or issubclass(kind, Path)
    if sensitive and facts["reloadable"]:
        raise TypeError(f"{cls.__name__}.{field.name}: a path, address or secret cannot be reloadable")
    head, *tail = field.name.split("_")
    camel = head + "".join(word.capitalize() for word in tail)
    own = {} if keyword else {"PYROMQ_" + field.name.upper(): None}
    environment = {name: reader for name, reader in {**facts["environment"], **own}.items() if name}
    described = Option(
        **facts
        | {
            "name": field.name,
            "key": field.name if keyword else facts["key"] or camel,
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
    default = facts["default"]
    return dataclasses.replace(described, default=_constant(default) if keyword else described.render(default))


def is_secret(hint: Any) -> bool:
    """Whether a field of this type must never be shown."""
    return _Sensitive.SECRET in _parts(hint)[1]


def _parts(hint: Any) -> tuple[list[Any], list[object], bool]:
    """The types of a hint, what they are marked with, and whether None is allowed."""
    is_union = typing.get_origin(hint) in (types.UnionType, typing.Union)
    hints = list(typing.get_args(hint)) if is_union else [hint]
    optional = types.NoneType in hints
    if optional:
        hints.remove(types.NoneType)
    marks: list[object] = []
    if typing.get_origin(hints[0]) is Annotated:
        hints[0], *marks = typing.get_args(hints[0])
    return hints, marks, optional


def text_of(value: object) -> str:
    """A single value, as property files and Java have it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value.value if isinstance(value, enum.Enum) else value)


def _choice(value: object) -> str:
    return value.name if isinstance(value, enum.IntEnum) else text_of(value)


def _constant(value: object) -> str:
    """A default as one writes it in Python; one that is computed says itself what stands for it."""
    if isinstance(value, _Computed):
        return value.shown
    return f"{type(value).__name__}.{value.name}" if isinstance(value, enum.Enum) else repr(value)
