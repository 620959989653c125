"""Settings of a process: each option is declared once, typed, with its default, its meaning and its limits.

From that one declaration come Java property files, environment variables, command-line flags, `--help`, remote changes
and the reference page. Only the machinery lives here; the options of a process live in its own `config.py`:

    @dataclass(kw_only=True)
    class PingConfig(Settings):
        "Ping"
        interval: int = option(5000, "Time between two pings.", key="pingInterval", minimum=10, unit="ms")

Invariant: what is a path, an address, an address list or a secret can neither be changed nor read remotely.
"""

import dataclasses
import difflib
import enum
import inspect
import logging
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pyromq.errors import PyroMQError
from pyromq.protocol import javaproperties
from pyromq.protocol.errors import ProtocolError

log = logging.getLogger(__name__)

T = TypeVar("T")

MAX_FILE = 1024 * 1024
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


class ConfigError(PyroMQError):
    """A setting is unknown or has a value that is not allowed. The text names key, value and what is allowed."""


class UnknownKeyError(ConfigError):
    """No option has this name."""


class NotReloadableError(ConfigError):
    """The option exists, but may not be changed from outside while the process runs."""


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


def option(
    default: T | Callable[[], T],
    doc: str,
    *,
    key: str = "",
    shown: str = "",
    unit: str = "",
    minimum: float | None = None,
    maximum: float | None = None,
    choices: Iterable[object] = (),
    reloadable: bool = False,
    env: str = "",
    short: str = "",
) -> T:
    """Declare one option of a `Settings` class.

    `key` is the Java property name where it is not the Python name in camel case; a `default` that depends on the
    machine is a callable, with `shown` as its text in the documentation; `env` names a further environment variable.
    """
    if callable(default) and not shown:
        raise TypeError(f"an option with a computed default needs `shown`: {doc}")
    facts = {
        "key": key,
        "shown": shown,
        "doc": doc,
        "unit": unit,
        "minimum": minimum,
        "maximum": maximum,
        "choices": tuple(choices),
        "reloadable": reloadable,
        "env": env,
        "short": short,
    }
    metadata = {_OPTION: facts}  # repr=False below: a settings object that gets logged must not show a secret
    if callable(default):
        return dataclasses.field(default_factory=default, repr=False, metadata=metadata)
    return dataclasses.field(default=default, repr=False, metadata=metadata)


@dataclass(kw_only=True)
class Settings:
    """Base of a process' configuration. The first line of each subclass' docstring is the title of its options."""

    ignored: ClassVar[frozenset[str]] = frozenset()
    """Keys of Apache's files that mean nothing here (thread pools, Netty buffers): accepted, without effect."""

    def __post_init__(self) -> None:
        for each in options(type(self)).values():
            each.check(getattr(self, each.name))

    @classmethod
    def load(
        cls,
        *,
        file: Path | None = None,
        environ: Mapping[str, str] | None = None,
        flags: Mapping[str, str] | None = None,
    ) -> Self:
        """Defaults, then the property file, then the environment, then flags by Python name. Raises ConfigError."""
        known = options(cls)
        values: dict[str, Any] = {}
        if file is not None:
            values.update(cls._from_properties(file))
        for each in known.values():
            for variable in each.environment:
                if environ is not None and variable in environ:
                    values[each.name] = each.parse(environ[variable])
        for name, text in (flags or {}).items():
            values[name] = known[name].parse(text)
        return cls(**values)

    @classmethod
    def _from_properties(cls, file: Path) -> dict[str, object]:
        try:
            with file.open("rb") as stream:
                data = stream.read(MAX_FILE + 1)
        except OSError as error:
            raise ConfigError(f"cannot read the configuration file {file}: {error.strerror or error}") from error
        if len(data) > MAX_FILE:
            raise ConfigError(f"the configuration file {file} is longer than {MAX_FILE} bytes")
        values: dict[str, object] = {}
        try:
            for key, text in javaproperties.loads(data.decode()).items():
                if key in cls.ignored:
                    log.info("%s: %s has no effect in this server", file, key)
                    continue
                each = find(cls, key)
                values[each.name] = each.parse(text)
        except (ConfigError, ProtocolError, UnicodeDecodeError) as error:
            raise ConfigError(f"{file}: {error}") from error
        return values

    def change(self, texts: Mapping[str, str]) -> dict[str, object]:
        """Apply a remote change of reloadable options by Java name, all or none; returns what is new, by Python name.

        Raises UnknownKeyError, NotReloadableError or ConfigError.
        """
        values: dict[str, object] = {}
        for key, text in texts.items():
            if key in self.ignored:
                raise NotReloadableError(f"{key} has no effect in this server")
            each = find(type(self), key)
            if not each.reloadable:
                raise NotReloadableError(
                    f"{key} cannot be changed while the server runs; set it in its file and restart"
                )
            values[each.name] = each.parse(text)
        for name, value in values.items():
            setattr(self, name, value)
        return values

    def public(self) -> dict[str, str]:
        """Java name to text of what anybody may read: no path, address or secret."""
        return {
            each.key: each.render(getattr(self, each.name))
            for each in options(type(self)).values()
            if not each.sensitive
        }

    def printable(self) -> dict[str, str]:
        """Java name to text of everything, for the operator's own terminal; secrets are masked."""
        return {
            each.key: MASK if each.secret else each.render(getattr(self, each.name))
            for each in options(type(self)).values()
        }


_described: dict[type[Settings], Mapping[str, Option]] = {}


def options(settings: type[Settings]) -> Mapping[str, Option]:
    """The options of a settings class by Python name, in the order of declaration."""
    if settings not in _described:
        _described[settings] = _describe_all(settings)
    return _described[settings]


def _describe_all(settings: type[Settings]) -> Mapping[str, Option]:
    hints = typing.get_type_hints(settings, include_extras=True)
    found = {
        each.name: _describe(settings, each, hints[each.name], each.metadata[_OPTION])
        for each in dataclasses.fields(settings)
    }
    keys = [each.key for each in found.values()]
    repeated = {key for key in keys if keys.count(key) > 1} | (settings.ignored & set(keys))
    if repeated:
        raise TypeError(f"{settings.__name__} declares {sorted(repeated)} more than once")
    return types.MappingProxyType(found)


def find(settings: type[Settings], key: str) -> Option:
    """The option with this Java property name. Raises UnknownKeyError, which names the nearest one."""
    by_key = {each.key: each for each in options(settings).values()}
    if key in by_key:
        return by_key[key]
    lower = {known.lower(): known for known in by_key}
    near = difflib.get_close_matches(key.lower(), lower, n=1, cutoff=0.5)
    hint = f"; did you mean {lower[near[0]]}?" if near else ""
    raise UnknownKeyError(f"unknown key {key[:100]!r}{hint}")


def reference(settings: type[Settings], title: str, intro: str) -> str:
    """The Markdown reference page of a settings class."""
    sections: dict[str, list[Option]] = {}
    for each in options(settings).values():
        sections.setdefault(each.section, []).append(each)
    lines = [f"# {title}", "", intro]
    for section, members in sections.items():
        lines += ["", f"## {section}", "", "| key | default | value | meaning |", "|---|---|---|---|"]
        lines += map(_row, members)
    if settings.ignored:
        keys = ", ".join(f"`{key}`" for key in sorted(settings.ignored))
        lines += ["", "## Accepted without effect", "", "Keys of Apache's files that mean nothing here:", keys]
    return "\n".join(lines) + "\n"


def _row(each: Option) -> str:
    names = [f"`{each.key}`"] if each.secret else [f"`{each.key}`", f"`{each.flag}`"]
    names += [f"`{variable}`" for variable in each.environment]
    marks = [mark for mark, is_set in (("reloadable", each.reloadable), ("secret", each.secret)) if is_set]
    meaning = f"{each.doc} *{', '.join(marks)}*" if marks else each.doc
    default = f"`{each.default}`" if each.default else "none"
    cells = ("<br>".join(names), default, each.allowed, meaning)
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def _describe(settings: type[Settings], field: "dataclasses.Field[Any]", hint: Any, facts: dict[str, Any]) -> Option:
    optional = typing.get_origin(hint) in (types.UnionType, typing.Union)
    if optional:
        (hint,) = (each for each in typing.get_args(hint) if each is not types.NoneType)
    marks: list[object] = []
    if typing.get_origin(hint) is Annotated:
        hint, *marks = typing.get_args(hint)
    many = typing.get_origin(hint) is tuple
    kind = typing.get_args(hint)[0] if many else hint
    if not isinstance(kind, type):
        raise TypeError(f"{settings.__name__}.{field.name}: options cannot have the type {hint}")
    choices = facts["choices"] or (tuple(kind) if issubclass(kind, enum.Enum) else ())
    sensitive = bool(marks) or issubclass(kind, Path)
    if sensitive and facts["reloadable"]:
        raise TypeError(f"{settings.__name__}.{field.name}: a path, address or secret cannot be reloadable")
    head, *tail = field.name.split("_")
    described = Option(
        name=field.name,
        key=facts["key"] or head + "".join(word.capitalize() for word in tail),
        section=_section(settings, field.name),
        type=kind,
        many=many,
        optional=optional,
        sensitive=sensitive,
        secret=_Sensitive.SECRET in marks,
        default=facts["shown"],
        doc=facts["doc"],
        unit=facts["unit"],
        minimum=facts["minimum"],
        maximum=facts["maximum"],
        choices=choices,
        reloadable=facts["reloadable"],
        environment=tuple(filter(None, (facts["env"], "PYROMQ_" + field.name.upper()))),
        short=facts["short"],
    )
    if described.default or field.default is dataclasses.MISSING:
        return described
    return dataclasses.replace(described, default=described.render(field.default))


def _section(settings: type[Settings], name: str) -> str:
    owner = next(each for each in settings.__mro__ if name in inspect.get_annotations(each))
    return (owner.__doc__ or owner.__name__).strip().partition("\n")[0].rstrip(".")
