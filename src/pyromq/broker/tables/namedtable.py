"""`NamedTable`: configurations by name, such as topics and groups. Every change is on disk before anybody sees it
(`savedtable`) and bumps the data version; there are at most so many, and one party makes only so many of them.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar

from pyromq.broker.errors import Refused
from pyromq.broker.tables.newnames import NewNames
from pyromq.broker.tables.savedtable import SAVED, Save, SavedTable
from pyromq.broker.tables.tablefile import TableFile
from pyromq.protocol.bodies.tables import DataVersion
from pyromq.protocol.codes import ResponseCode

T = TypeVar("T")


class NamedTable(ABC, Generic[T]):
    """The first of the `members` of the file has the configurations; others have more about the same names."""

    def __init__(self, path: Path, clock: Callable[[], int], newcomers: NewNames, *members: str) -> None:
        self._path = path
        self._member = members[0]
        self._maps: dict[str, dict[str, Any]] = {name: {} for name in members}
        self._table: dict[str, T] = self._maps[self._member]
        self.saved = SavedTable(TableFile(path, *members), self._maps, clock, version=DataVersion(timestamp=clock()))
        self.newcomers = newcomers
        self.listeners: list[Callable[[list[T]], Iterable[asyncio.Future[None]] | None]] = []
        """Told about what came or changed; what they return, if anything, is done when they told others."""
        self.refused = 0
        """How often the bound was met."""

    @abstractmethod
    def _name(self, entry: T) -> str:
        """Of a configuration."""

    @abstractmethod
    def _bound(self) -> tuple[str, str, int]:
        """What there is only so much of, the setting that says how much, and how much that is."""

    @property
    def version(self) -> DataVersion:
        """Of what is in the table now."""
        return self.saved.version or DataVersion()

    def get(self, name: str) -> T | None:
        """The configuration, or None."""
        return self._table.get(name)

    def __iter__(self) -> Iterator[T]:
        return iter(self._table.values())

    def __contains__(self, name: str) -> bool:
        return name in self._table

    def __len__(self) -> int:
        return len(self._table)

    def put(self, entry: T) -> Save:
        """Add or replace one; the same configuration again changes nothing. Raises Refused at the bound."""
        return self.put_all([entry])

    def put_all(self, entries: Iterable[T]) -> Save:
        """Add or replace several with one save and one announcement. Raises Refused at the bound."""
        changes = {self._name(entry): entry for entry in entries}
        last = self.saved.pending(self._member, *changes) or SAVED
        changes = {name: entry for name, entry in changes.items() if self.saved.planned(self._member, name) != entry}
        if not changes:
            return last
        added = sum(self.saved.planned(self._member, name) is None for name in changes)
        size, (what, setting, most) = self.saved.size(self._member), self._bound()
        if added and size + added > most:
            self.refused += 1
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"the broker has {size} {what} and {setting} is {most}: "
                f"delete {what} that are not used or raise it, then try again",
            )
        save = self.saved.stage({self._member: changes})
        save.when_saved(lambda: save.tell(self.announce(list(changes.values()))))
        return save

    def announce(self, entries: list[T]) -> "list[asyncio.Future[None]]":
        """Tell those who have to know about configurations as they are now; what is done when they have told others."""
        return [telling for listener in self.listeners for telling in listener(entries) or ()]

    def delete(self, name: str) -> Save:
        """Forget one, if it is there."""
        if self.saved.planned(self._member, name) is None:
            return self.saved.pending(self._member, name) or SAVED
        return self.saved.stage({member: {name: None} for member in self._maps})

    def _make(self, entry: T, party: str) -> T:
        """Have a missing one saved for a party, unless it is on its way. Raises Unsaved until it is there."""
        name = self._name(entry)
        if self.saved.planned(self._member, name) is None:
            self.newcomers.take(party)
            self.put(entry).check()
        else:
            (self.saved.pending(self._member, name) or SAVED).check()
        return self._table[name]
