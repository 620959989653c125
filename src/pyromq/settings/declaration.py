"""Settings of a process: each option is declared once, typed, with its default, its meaning and its limits.

From that one declaration come Java property files, environment variables, command-line flags, `--help`, remote changes
and the reference page. Only the machinery lives here; the options of a process live in its own `config.py`:

    @settings
    class PingConfig(Settings):
        "Ping"
        interval: int = option(5000, "Time between two pings.", key="pingInterval", minimum=10, unit="ms")

Invariant: what is a path, an address, an address list or a secret can neither be changed nor read remotely.
"""

import copy
import dataclasses
import difflib
import logging
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from pyromq.protocol import javaproperties
from pyromq.protocol.errors import ProtocolError
from pyromq.settings.option import (
    MASK,
    Address,
    Addresses,
    ConfigError,
    NotReloadableError,
    Option,
    Secret,
    UnknownKeyError,
    computed,
    describe,
    option,
)

__all__ = [
    "Address",
    "Addresses",
    "ConfigError",
    "NotReloadableError",
    "Option",
    "Secret",
    "Settings",
    "UnknownKeyError",
    "computed",
    "find",
    "option",
    "options",
    "reference",
    "settings",
]

log = logging.getLogger(__name__)

MAX_FILE = 1024 * 1024


@dataclass(kw_only=True)
class Settings:
    """Base of a process' configuration. The first line of each subclass' docstring is the title of its options."""

    ignored: ClassVar[frozenset[str]] = frozenset()
    """Keys of Apache's files that mean nothing here (thread pools, Netty buffers): accepted, without effect."""
    old_names: ClassVar[Mapping[str, str]] = types.MappingProxyType({})
    """Keys that were called otherwise once, and their names now."""

    origin: ClassVar["_Origin | None"] = None
    """Where the values came from; set for each object that was loaded."""

    def __post_init__(self) -> None:
        for each in options(type(self)).values():
            each.check(getattr(self, each.name))
        self.check_together()

    def check_together(self) -> None:
        """Raise ConfigError for values that do not go together."""

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
        made = cls(**values)
        object.__setattr__(made, "origin", _Origin(file, environ, flags))
        return made

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
            texts = javaproperties.loads(data.decode())
            for key, text in texts.items():
                if key in cls.ignored:
                    log.info("%s: %s has no effect in this server", file, key)
                    continue
                cls._check_names(key, texts)
                each = find(cls, key)
                values[each.name] = each.parse(text)
        except (ConfigError, ProtocolError, UnicodeDecodeError) as error:
            raise ConfigError(f"{file}: {error}") from error
        return values

    @classmethod
    def _check_names(cls, key: str, texts: Mapping[str, str]) -> None:
        now = cls.old_names.get(key, key)
        if texts.get(now, texts[key]) != texts[key]:
            raise ConfigError(f"{key} is an old name of {now}, and both are there with different values")

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
        changed = copy.copy(self)
        for name, value in values.items():
            setattr(changed, name, value)
        changed.check_together()
        for name, value in values.items():
            setattr(self, name, value)
        return values

    @property
    def has_file(self) -> bool:
        """Whether there is a file that could be read again."""
        return self.origin is not None and self.origin.file is not None

    def reread(self) -> "Reread":
        """Load again from where this came from and tell what is different; changes nothing. Raises ConfigError."""
        origin = self.origin
        if origin is None or origin.file is None:
            raise ConfigError("there is no configuration file to read again")
        fresh = type(self).load(file=origin.file, environ=origin.environ, flags=origin.flags)
        found = Reread(origin.file, {}, [])
        for each in options(type(self)).values():
            value = getattr(fresh, each.name)
            if value != getattr(self, each.name):
                if each.reloadable:
                    found.texts[each.key] = each.render(value)
                else:
                    found.later.append(each.key)
        return found

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


@dataclass(frozen=True, slots=True)
class _Origin:
    file: Path | None
    environ: Mapping[str, str] | None
    flags: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class Reread:
    """What a configuration file says now that is not so: what can be changed at once, and what needs a restart."""

    file: Path
    texts: dict[str, str]
    later: list[str]

    def log(self) -> None:
        """For the operator, once it has been applied."""
        log.info("%s was read again: %s", self.file, ", ".join(sorted(self.texts)) or "nothing changed")
        if self.later:
            log.warning("%s: %s changed, which counts from the next start on", self.file, ", ".join(sorted(self.later)))


S = TypeVar("S", bound=Settings)


@typing.dataclass_transform(kw_only_default=True, eq_default=False)
def settings(cls: type[S]) -> type[S]:
    """Decorator of every `Settings` class: checks its declarations and gives it a constructor with keywords."""
    made = dataclass(kw_only=True, eq=False)(cls)
    options(made)
    return made


_described: dict[type[Settings], Mapping[str, Option]] = {}


def options(cls: type[Settings]) -> Mapping[str, Option]:
    """The options of a settings class by Python name, in the order of declaration."""
    if cls not in _described:
        _described[cls] = _describe_all(cls)
    return _described[cls]


def _describe_all(cls: type[Settings]) -> Mapping[str, Option]:
    hints = typing.get_type_hints(cls, include_extras=True)
    found = {each.name: describe(cls, each, hints[each.name]) for each in dataclasses.fields(cls)}
    keys = [each.key for each in found.values()]
    repeated = {key for key in keys if keys.count(key) > 1} | (cls.ignored & set(keys))
    if repeated:
        raise TypeError(f"{cls.__name__} declares {sorted(repeated)} more than once")
    return types.MappingProxyType(found)


def find(cls: type[Settings], key: str) -> Option:
    """The option with this Java property name. Raises UnknownKeyError, which names the nearest one."""
    by_key = {each.key: each for each in options(cls).values()}
    key = cls.old_names.get(key, key)
    if key in by_key:
        return by_key[key]
    lower = {known.lower(): known for known in by_key}
    near = difflib.get_close_matches(key[:100].lower(), lower, n=1, cutoff=0.5)
    hint = f"; did you mean {lower[near[0]]}?" if near else ""
    raise UnknownKeyError(f"unknown key {key[:100]!r}{hint}")


def reference(cls: type[Settings], title: str, intro: str) -> str:
    """The Markdown reference page of a settings class."""
    sections: dict[str, list[Option]] = {}
    for each in options(cls).values():
        sections.setdefault(each.section, []).append(each)
    lines = [f"# {title}", "", intro]
    for section, members in sections.items():
        lines += ["", f"## {section}", "", "| key | default | value | meaning |", "|---|---|---|---|"]
        lines += map(_row, members)
    if cls.old_names:
        pairs = ", ".join(f"`{old}` (`{new}`)" for old, new in sorted(cls.old_names.items()))
        lines += ["", "## Old names", "", "Keys of older files that mean the same as the one in brackets:", pairs]
    if cls.ignored:
        keys = ", ".join(f"`{key}`" for key in sorted(cls.ignored))
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
