"""A configuration file that was read again: what it says now that is not so yet."""

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from pyromq.settings.declaration import Settings, options

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reread:
    """What can be changed at once, and what needs a restart."""

    file: Path
    texts: dict[str, str] = field(default_factory=dict)
    """New values by Java name, for `ProcessSettings.change`."""
    later: list[str] = field(default_factory=list)
    """Java names of what counts from the next start on."""

    @classmethod
    def compare(cls, file: Path, now: Settings, fresh: Settings) -> Self:
        """What is different in `fresh`, loaded from `file`."""
        found = cls(file)
        for each in options(type(now)).values():
            value = getattr(fresh, each.name)
            if value != getattr(now, each.name):
                if each.reloadable:
                    found.texts[each.key] = each.render(value)
                else:
                    found.later.append(each.key)
        return found

    def log(self) -> None:
        """For the operator, once it has been applied."""
        log.info("%s was read again: %s", self.file, ", ".join(sorted(self.texts)) or "nothing changed")
        if self.later:
            log.warning("%s: %s changed, which counts from the next start on", self.file, ", ".join(sorted(self.later)))
