"""What a pipeline keeps beside Spark's checkpoint, in its folder `pyromq`: who it is, its lock, its last batches.

Everything is written whole or not at all. The identity is made once for a checkpoint and is what sinks know it by. The
plan and the wish to stop are for the driver's processes and stay on its machine, wherever the checkpoint is.
"""

import fcntl
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import msgspec

from pyromq.durable import make_folder
from pyromq.spark.errors import LostRange, SparkError
from pyromq.spark.pipeline.state.lease import Lease, LeaseHeldError, held
from pyromq.spark.storage.folder import FolderStore
from pyromq.spark.storage.place import Options, open_store
from pyromq.spark.storage.store import Store

FOLDER = "pyromq"
STATUS = "status.json"
KEPT_BATCHES = 1000

T = TypeVar("T")


class StateError(SparkError):
    """The state of a pipeline cannot be used."""


def read_json(store: Store, name: str, kind: type[T], *, hint: str = "") -> T | None:
    """What a file of the state holds; None when it does not exist. Raises StateError when it is damaged."""
    try:
        return msgspec.json.decode(store.read(name), type=kind)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise StateError(f"{store.url}/{name} is damaged: {error}{hint}") from None


class Identity(msgspec.Struct, kw_only=True):
    """Fixed with the first start: changing a number of partitions would change which row is which after a crash."""

    query: str
    pipeline: str
    max_partitions: int
    shuffle_partitions: int
    created: float


class BatchReport(msgspec.Struct, kw_only=True):
    """What the sinks said about a batch."""

    batch: int
    rows: dict[str, int]
    time: float
    lost: int = 0
    """Messages that were gone before it read them."""


class State:
    """The folder of one pipeline, on a disk or in an object store.

    `driver` is a folder of the driver's machine; by default the state's own, or a new one where that is elsewhere.
    """

    def __init__(self, checkpoint: str, storage: Options | None = None, *, driver: Path | None = None) -> None:
        self.place = checkpoint
        self._storage = storage
        self._driver = driver

    @cached_property
    def checkpoint(self) -> Store:
        """Spark's own folder."""
        return open_store(self.place, self._storage)

    @cached_property
    def store(self) -> Store:
        """Ours in it."""
        return self.checkpoint.within(FOLDER)

    @cached_property
    def driver(self) -> Path:
        """Where the driver's processes find each other."""
        if self._driver is not None:
            return self._driver
        if isinstance(self.store, FolderStore):
            return self.store.path
        return Path(tempfile.mkdtemp(prefix="pyromq-"))

    @property
    def plan(self) -> Path:
        return self.driver / "plan.json"

    def close(self) -> None:
        """Take away what was only for this driver."""
        if "driver" in self.__dict__ and self._driver is None and not isinstance(self.store, FolderStore):
            shutil.rmtree(self.driver, ignore_errors=True)
            del self.__dict__["driver"]

    @contextmanager
    def locked(self, on_loss: Callable[[str], None] = lambda _: None) -> Iterator[None]:
        """Keep everybody else out. Raises StateError when somebody is in.

        In an object store that is a lease, which can be lost: `on_loss` is told why.
        """
        if isinstance(self.store, FolderStore):
            with self._flocked(self.store.path):
                yield
            return
        try:
            with held(Lease(self.store), on_loss):
                yield
        except LeaseHeldError as error:
            raise StateError(f"{self.place} is in use by another process ({error})") from None

    @contextmanager
    def _flocked(self, folder: Path) -> Iterator[None]:
        make_folder(folder)
        with (folder / "lock").open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                holder = file.read(64).strip()
                raise StateError(f"{self.place} is in use by another process ({holder})") from None
            file.truncate(0)
            file.write(f"pid {os.getpid()}")
            file.flush()
            yield

    def is_locked(self) -> bool:
        """Whether somebody is in."""
        if not isinstance(self.store, FolderStore):
            return Lease(self.store).is_held()
        if not self.store.path.is_dir():
            return False
        try:
            with self.locked():
                return False
        except StateError:
            return True

    def identity(self, pipeline: str, *, max_partitions: int, shuffle_partitions: int) -> Identity:
        """The one this checkpoint has, made now if it is new. Raises StateError for another pipeline's checkpoint."""
        found = self.known_identity()
        if found is None:
            found = Identity(
                query=str(uuid.uuid4()),
                pipeline=pipeline,
                max_partitions=max_partitions,
                shuffle_partitions=shuffle_partitions,
                created=time.time(),
            )
            self.store.write("identity.json", msgspec.json.encode(found))
        if found.pipeline != pipeline:
            raise StateError(f"{self.place} belongs to pipeline {found.pipeline!r}, not to {pipeline!r}")
        return found

    def known_identity(self) -> Identity | None:
        """None before the first start. Raises StateError when the file is damaged."""
        return read_json(self.store, "identity.json", Identity)

    def found_lost(self, batch: int, partition: int, lost: list[LostRange]) -> None:
        """Keep what a task found gone; the same task of a repeated batch says it again. Raises OSError."""
        self.store.write(f"lost/{batch:012d}-{partition:05d}.json", msgspec.json.encode(lost))

    def lost_in(self, batch: int) -> list[LostRange]:
        """What the tasks of a batch found gone. Raises StateError when a file is damaged."""
        found: list[LostRange] = []
        for name in self._lost(batch):
            found += read_json(self.store, name, list[LostRange]) or []
        return found

    def forget_lost(self, batch: int) -> None:
        """Once it is noted for good."""
        self.store.delete(self._lost(batch))

    def _lost(self, batch: int) -> list[str]:
        return [entry.name for entry in self.store.list("lost") if entry.name.startswith(f"lost/{batch:012d}-")]

    def report(self, batch: int, rows: dict[str, int], *, lost: int = 0) -> None:
        """Note a batch that all sinks have committed; old notes go."""
        made = BatchReport(batch=batch, rows=rows, time=time.time(), lost=lost)
        self.store.write(_report(batch), msgspec.json.encode(made))
        self.store.delete([_report(batch - KEPT_BATCHES)])

    def reported(self, batch: int) -> BatchReport | None:
        try:
            return msgspec.json.decode(self.store.read(_report(batch)), type=BatchReport)
        except (OSError, SparkError, msgspec.MsgspecError):
            return None

    def ask_to_stop(self) -> None:
        """No batch begins from now on; the one under way is finished."""
        make_folder(self.driver)
        self._stop.touch()

    def forget_stop(self) -> None:
        self._stop.unlink(missing_ok=True)

    @property
    def is_stopping(self) -> bool:
        return self._stop.exists()

    @property
    def _stop(self) -> Path:
        return self.driver / "stop"


def _report(batch: int) -> str:
    return f"batches/{batch:012d}.json"
