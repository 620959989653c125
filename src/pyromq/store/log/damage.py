"""Known damage in the commit log: stretches that are no sound records although they were on disk once.

They stay as they are, readers and recovery step over them, and the operator is told where they are.
"""

import logging
from bisect import bisect_right
from collections.abc import Iterable
from pathlib import Path

import msgspec

log = logging.getLogger(__name__)

MAX_KEPT = 1000
"""Stretches that are remembered one by one; beyond them they are only counted."""
_NAMED = 20  # stretches that get a line of their own in the log


class Stretch(msgspec.Struct, frozen=True, array_like=True):
    """The bytes [begin, end) of the log; what they were, as far as that can still be read, and what is wrong."""

    begin: int
    end: int
    reason: str = ""
    topic: str = ""
    queue_id: int = -1
    queue_offset: int = -1

    @property
    def place(self) -> str:
        """The message that is damaged, in words."""
        return f"message {self.queue_offset} of queue {self.queue_id} of {self.topic}" if self.topic else "unknown"


class Damage:
    """The damaged stretches of one log, in its order; `tell` says whether new ones are logged."""

    def __init__(self, directory: Path, *, tell: bool = True) -> None:
        self._directory = directory
        self._tell = tell
        self._stretches: dict[int, Stretch] = {}
        self._beyond: set[int] = set()
        self._begins: list[int] | None = None

    def __len__(self) -> int:
        return len(self._stretches) + len(self._beyond)

    def __contains__(self, offset: int) -> bool:
        """Whether a byte lies in a stretch that is remembered."""
        if self._begins is None:
            self._begins = sorted(self._stretches)
        at = bisect_right(self._begins, offset) - 1
        return at >= 0 and offset < self._stretches[self._begins[at]].end

    @property
    def stretches(self) -> list[Stretch]:
        """Those that are remembered, oldest first."""
        return sorted(self._stretches.values(), key=lambda each: each.begin)

    @property
    def bytes(self) -> int:
        return sum(each.end - each.begin for each in self._stretches.values())

    def restore(self, stretches: Iterable[Stretch]) -> None:
        """Take over what was known at the last save."""
        self._begins = None
        self._stretches.update((each.begin, each) for each in stretches)

    def add(self, stretch: Stretch) -> None:
        """Note a stretch and tell the operator, unless it is known."""
        if stretch.begin in self._stretches or stretch.begin in self._beyond:
            return
        if len(self._stretches) >= MAX_KEPT:
            self._beyond.add(stretch.begin)
            return
        self._begins = None
        self._stretches[stretch.begin] = stretch
        if not self._tell:
            return
        if len(self._stretches) <= _NAMED:
            log.error(
                "the commit log in %s is damaged from %d to %d (%s; %s): kept as it is and skipped; the command "
                "`pyromq store check` looks at the whole store",
                self._directory,
                stretch.begin,
                stretch.end,
                stretch.place,
                stretch.reason,
            )
        elif len(self._stretches) == _NAMED + 1:
            log.error("more damage in %s is counted and not named here", self._directory)

    def forget(self, below: int, above: int) -> None:
        """The log is now [below, above): what lay outside is gone."""
        self._begins = None
        self._stretches = {at: each for at, each in self._stretches.items() if below <= at < above}
        self._beyond = {at for at in self._beyond if below <= at < above}
