"""Tables whose changes are on disk before anybody sees them: group commit for topics, groups and request modes.

A change is staged. Everything staged while a save is under way becomes the next one: its entries are encoded and the
file is written in a thread, then the maps that everybody reads get them; or the disk refuses and who waits is told.
Invariant: what the maps show is on disk. Where no event loop runs (tools, tests), `stage` saves before it returns.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any

from pyromq.broker.errors import Refused
from pyromq.broker.tables.tablefile import Changes, TableFile
from pyromq.errors import PyroMQError
from pyromq.protocol.bodies.tables import DataVersion
from pyromq.protocol.codes import ResponseCode

log = logging.getLogger(__name__)

NAMED = 10
"""Entries of a save that the log names."""
PATIENCE = 3.0
"""Seconds in which others are told of a save, or it goes on without them."""


class Save:
    """Changes that are written together. `await` it: they are on disk then, or it raises Refused: nothing changed.

    `await told()` as well before answering who may ask others about the changes at once.
    """

    __slots__ = ("_failure", "_listeners", "_telling", "_waiters", "changes", "done", "version")

    def __init__(self) -> None:
        self.changes: dict[str, dict[str, Any]] = {}
        self.version: DataVersion | None = None
        self.done = False
        self._failure = ""
        self._waiters: list[asyncio.Future[None]] = []
        self._listeners: list[Callable[[], None]] = []
        self._telling: list[asyncio.Future[None]] = []

    def __await__(self) -> Generator[Any, None, None]:
        if not self.done:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            yield from waiter
        self.check()

    def check(self) -> None:
        """Raise Refused if it failed, Unsaved while it is under way."""
        if not self.done:
            raise Unsaved(self)
        if self._failure:
            raise Refused(ResponseCode.SYSTEM_ERROR, self._failure)

    def when_saved(self, listener: Callable[[], None]) -> None:
        """Call back once it is on disk; never if it fails."""
        if not self.done:
            self._listeners.append(listener)
        elif not self._failure:
            listener()

    def tell(self, telling: Iterable["asyncio.Future[None]"]) -> None:
        """Have `told` wait for these, however they end."""
        self._telling.extend(telling)

    async def told(self) -> None:
        """Return once others know of the changes, or take too long over it."""
        if self._telling:
            await asyncio.wait(self._telling, timeout=PATIENCE)

    def settle(self, failure: str = "") -> None:
        """It is over, one way or the other."""
        self.done, self._failure = True, failure
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        for listener in [] if failure else self._listeners:
            try:
                listener()
            except Exception:
                log.exception("what follows a save failed")


SAVED = Save()
"""Of a change that changes nothing."""
SAVED.settle()


class Unsaved(PyroMQError):  # noqa: N818 - the name says what happened
    """What a request needs is being saved: it is served again when `save` is done (see `serving`)."""

    def __init__(self, save: Save) -> None:
        super().__init__("it is being saved: try again in a moment")
        self.save = save


class SavedTable:
    """The maps of one file, by the names of its members."""

    def __init__(
        self,
        file: TableFile,
        maps: Mapping[str, dict[str, Any]],
        clock: Callable[[], int],
        *,
        version: DataVersion | None = None,
    ) -> None:
        self._file = file
        self._maps = maps
        self._clock = clock
        self.version = self._issued = version
        self._sizes = dict.fromkeys(maps, 0)
        self._next: Save | None = None
        self._running: Save | None = None
        self._scheduled = False
        self.saves = 0
        self.failures = 0
        """Saves that the disk refused."""

    def load(self, entries: Changes, version: DataVersion | None = None) -> None:
        """Begin with what the file holds."""
        for name, entry in self._maps.items():
            entry.clear()
            entry.update(entries.get(name, {}))
        self._file.start_with(self._maps)
        self._recount()
        self.version = self._issued = version or self.version

    def size(self, name: str) -> int:
        """Entries of a map, those included that are being saved."""
        return self._sizes[name]

    def pending(self, name: str, *keys: str) -> Save | None:
        """The last save that changes any of these entries and is not done."""
        for save in (self._next, self._running):
            changes = save.changes.get(name) if save is not None else None
            if changes and any(key in changes for key in keys):
                return save
        return None

    def planned(self, name: str, key: str) -> Any:
        """What an entry is once everything is saved; None for one that is not there."""
        save = self.pending(name, key)
        return self._maps[name].get(key) if save is None else save.changes[name][key]

    def stage(self, changes: Changes, *, version: DataVersion | None = None, same_version: bool = False) -> Save:
        """Have entries changed, as a new version of the table unless told otherwise; None takes one away.

        Values must not be changed afterwards. Without an event loop raises Refused when the disk refuses.
        """
        save = self._next = self._next or Save()
        for name, entries in changes.items():
            for key, value in entries.items():
                self._sizes[name] += (value is not None) - (self.planned(name, key) is not None)
                save.changes.setdefault(name, {})[key] = value
        if version is not None:
            self._issued = version
        elif not same_version and self._issued is not None:
            self._issued = self._issued.next(self._clock())
        save.version = self._issued
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._save_now()
            save.check()
            return save
        if self._running is None and not self._scheduled:
            # With the next turn of the loop, so that what arrived together is saved together.
            self._scheduled = True
            loop.call_soon(self._begin)
        return save

    def replace(self, entries: Changes, version: DataVersion | None = None) -> Save:
        """Have the table hold these entries and no others, as this version of it."""
        changes: dict[str, dict[str, Any]] = {}
        for name, known in self._maps.items():
            wanted = entries.get(name, {})
            pending = (key for save in (self._running, self._next) if save for key in save.changes.get(name, ()))
            gone = {*known, *pending} - wanted.keys()
            changes[name] = {key: value for key, value in wanted.items() if self.planned(name, key) != value}
            changes[name] |= dict.fromkeys(gone)
        return self.stage(changes, version=version)

    async def close(self) -> None:
        """Wait for what is being saved. A table that never changed gets its file now. Raises OSError."""
        while (save := self._next or self._running) is not None:
            with contextlib.suppress(Refused):
                await save
        if not self._file.path.exists():
            await asyncio.to_thread(self._file.write, {}, self.version)

    def _begin(self) -> None:
        self._scheduled = False
        if self._running is None and self._next is not None:
            save = self._running = self._next
            self._next = None
            loop = asyncio.get_running_loop()
            loop.run_in_executor(None, self._file.write, save.changes, save.version).add_done_callback(self._finish)

    def _finish(self, written: "asyncio.Future[None]") -> None:
        error = asyncio.CancelledError() if written.cancelled() else written.exception()
        save, self._running = self._running, None
        assert save is not None  # noqa: S101 - `_begin` put it there
        if error is None:
            self._publish(save)
        else:
            self._drop(save, error)
        self._begin()

    def _save_now(self) -> None:
        save, self._next = self._next, None
        assert save is not None  # noqa: S101 - `stage` put it there
        try:
            self._file.write(save.changes, save.version)
        except OSError as error:
            self._drop(save, error)
        else:
            self._publish(save)

    def _publish(self, save: Save) -> None:
        self.saves += 1
        for name, entries in save.changes.items():
            known = self._maps[name]
            log.info("%s: %s", self._file.path.name, _summary(known, entries))
            for key, value in entries.items():
                if value is None:
                    known.pop(key, None)
                else:
                    known[key] = value
        self.version = save.version
        save.settle()

    def _drop(self, save: Save, error: BaseException) -> None:
        """Nothing of it happened; nor of what was staged since, which may build on it."""
        self.failures += 1
        reason = error.strerror if isinstance(error, OSError) and error.strerror else repr(error)
        log.error("%s cannot be saved, the changes are dropped: %s", self._file.path, error)
        later, self._next = self._next, None
        self._issued = self.version
        self._recount()
        # The answer goes to a remote caller, whom paths do not concern; the log has it.
        failure = (
            f"{self._file.path.name} could not be saved ({reason}), so nothing changed: "
            "see to the broker's disk, then try again"
        )
        for each in filter(None, (save, later)):
            each.settle(failure)

    def _recount(self) -> None:
        self._sizes = {name: len(entries) for name, entries in self._maps.items()}


def _summary(known: Mapping[str, Any], changes: Mapping[str, Any]) -> str:
    """One line about a save, however many entries it changed."""
    kinds: dict[str, list[str]] = {}
    for key, value in changes.items():
        kinds.setdefault("deleted" if value is None else "changed" if key in known else "created", []).append(key)
    return "; ".join(f"{kind} {', '.join(keys[:NAMED])}{_more(keys)}" for kind, keys in kinds.items())


def _more(keys: list[str]) -> str:
    return f" and {len(keys) - NAMED} more" if len(keys) > NAMED else ""
