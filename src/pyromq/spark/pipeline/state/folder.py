"""What a pipeline keeps beside Spark's checkpoint, in its folder `pyromq`: who it is, its lock, its last batches.

Everything is written whole or not at all. The identity is made once for a checkpoint and is what sinks know it by.
"""

import fcntl
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from pyromq.durable import make_folder, write_file
from pyromq.spark.errors import LostRange, SparkError

FOLDER = "pyromq"
KEPT_BATCHES = 1000

T = TypeVar("T")


class StateError(SparkError):
    """The state of a pipeline cannot be used."""


def read_json(path: Path, kind: type[T], *, hint: str = "") -> T | None:
    """What a file of the state holds; None when it does not exist. Raises StateError when it is damaged."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise StateError(f"{path} is damaged: {error}{hint}") from None


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
    """The folder of one pipeline."""

    def __init__(self, checkpoint: str) -> None:
        self.checkpoint = Path(checkpoint.removeprefix("file://"))
        self.folder = self.checkpoint / FOLDER
        self.plan = self.folder / "plan.json"
        self.status = self.folder / "status.json"
        self._batches = self.folder / "batches"
        self._lost = self.folder / "lost"
        self._stop = self.folder / "stop"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep everybody else out. Raises StateError when somebody is in."""
        make_folder(self.folder)
        with (self.folder / "lock").open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                holder = file.read(64).strip()
                raise StateError(f"{self.checkpoint} is in use by another process ({holder})") from None
            file.truncate(0)
            file.write(f"pid {os.getpid()}")
            file.flush()
            yield

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
            write_file(self.folder / "identity.json", msgspec.json.encode(found))
        if found.pipeline != pipeline:
            raise StateError(f"{self.checkpoint} belongs to pipeline {found.pipeline!r}, not to {pipeline!r}")
        return found

    def known_identity(self) -> Identity | None:
        """None before the first start. Raises StateError when the file is damaged."""
        return read_json(self.folder / "identity.json", Identity)

    def found_lost(self, batch: int, partition: int, lost: list[LostRange]) -> None:
        """Keep what a task found gone; the same task of a repeated batch says it again. Raises OSError."""
        write_file(self._lost / f"{batch:012d}-{partition:05d}.json", msgspec.json.encode(lost))

    def lost_in(self, batch: int) -> list[LostRange]:
        """What the tasks of a batch found gone. Raises StateError when a file is damaged."""
        found: list[LostRange] = []
        for path in sorted(self._lost.glob(f"{batch:012d}-*.json")):
            found += read_json(path, list[LostRange]) or []
        return found

    def forget_lost(self, batch: int) -> None:
        """Once it is noted for good."""
        for path in self._lost.glob(f"{batch:012d}-*.json"):
            path.unlink(missing_ok=True)

    def report(self, batch: int, rows: dict[str, int], *, lost: int = 0) -> None:
        """Note a batch that all sinks have committed; old notes go."""
        made = BatchReport(batch=batch, rows=rows, time=time.time(), lost=lost)
        write_file(self._batches / f"{batch:012d}.json", msgspec.json.encode(made))
        (self._batches / f"{batch - KEPT_BATCHES:012d}.json").unlink(missing_ok=True)

    def reported(self, batch: int) -> BatchReport | None:
        path = self._batches / f"{batch:012d}.json"
        try:
            return msgspec.json.decode(path.read_bytes(), type=BatchReport)
        except (OSError, msgspec.MsgspecError):
            return None

    def ask_to_stop(self) -> None:
        """No batch begins from now on; the one under way is finished."""
        make_folder(self.folder)
        self._stop.touch()

    def forget_stop(self) -> None:
        self._stop.unlink(missing_ok=True)

    @property
    def is_stopping(self) -> bool:
        return self._stop.exists()
