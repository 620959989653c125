"""Settings of a process: loaded from its file, the environment and flags, shown, and changed while it runs.

Invariant: what is a path, an address, an address list or a secret can neither be changed nor read remotely.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from pyromq.settings.declaration import Settings, find, options
from pyromq.settings.errors import ConfigError, NotReloadableError
from pyromq.settings.option import MASK
from pyromq.settings.propertyfile import read_properties
from pyromq.settings.reload import Reread


class ProcessSettings(Settings):
    """Everything that one process can be told."""

    origin: ClassVar["_Origin | None"] = None
    """Where the values came from; set for each object that was loaded."""

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
            values.update(read_properties(cls, file))
        for each in known.values():
            for variable in each.environment:
                if environ is not None and variable in environ:
                    values[each.name] = each.parse(environ[variable])
        for name, text in (flags or {}).items():
            values[name] = known[name].parse(text)
        made = cls(**values)
        object.__setattr__(made, "origin", _Origin(file, environ, flags))
        return made

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

    def reread(self) -> Reread:
        """Load again from where this came from and tell what is different; changes nothing. Raises ConfigError."""
        origin = self.origin
        if origin is None or origin.file is None:
            raise ConfigError("there is no configuration file to read again")
        fresh = type(self).load(file=origin.file, environ=origin.environ, flags=origin.flags)
        return Reread.compare(origin.file, self, fresh)

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
