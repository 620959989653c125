"""Spark's checkpoint, read and, for a rewind, written: `offsets/<n>` is what batch n reads, `commits/<n>` that it did.

An offset log entry is a line with its version, one of metadata, then one for each source; ours have one source.
"""

import json
from pathlib import Path

import msgspec

from pyromq.spark.errors import OptionError
from pyromq.spark.pipeline.state.folder import StateError
from pyromq.spark.source.offsets import Offset
from pyromq.spark.storage.place import open_store
from pyromq.spark.storage.store import StorageError, Store

MAX_ENTRY = 64 << 20


class BatchEntry(msgspec.Struct, kw_only=True):
    """One batch as the checkpoint knows it."""

    batch: int
    time: float
    """When it began, Unix seconds."""
    seconds: float | None
    """How long it took, None while it is not done."""
    start: Offset | None
    end: Offset


class SparkCheckpoint:
    """The logs in a folder or object store."""

    def __init__(self, folder: Path | Store) -> None:
        self._store = open_store(folder)

    def last_planned(self) -> int:
        """The last batch that was begun, -1 without one."""
        return max(self._times("offsets"), default=-1)

    def last_committed(self) -> int:
        """The last batch that is done, -1 without one."""
        return max(self._times("commits"), default=-1)

    def committed_at(self, batch: int) -> float | None:
        """When a batch was done, Unix seconds; None if it is not."""
        return self._times("commits").get(batch)

    def position(self) -> Offset | None:
        """Up to where everything is done."""
        done = self.last_committed()
        return None if done < 0 else self.end(done)

    def end(self, batch: int) -> Offset:
        """Where a batch ends. Raises StateError."""
        return self._parse(batch)[1]

    def bounds(self, batch: int) -> tuple[Offset | None, Offset]:
        """Where a batch begins, unless it is the first that is known, and where it ends. Raises StateError."""
        known = self._store.exists(f"offsets/{batch - 1}")
        return (self.end(batch - 1) if known else None), self.end(batch)

    def history(self, limit: int) -> list[BatchEntry]:
        """The last batches, newest last."""
        found = []
        done = self._times("commits")
        for batch in sorted(self._times("offsets"))[-limit:]:
            began, end = self._parse(batch)
            seconds = done[batch] - began if batch in done else None
            found.append(BatchEntry(batch=batch, time=began, seconds=seconds, start=self.bounds(batch)[0], end=end))
        return found

    def rewind(self, position: Offset) -> int:
        """Let the next run begin there; returns the number of the batch that stands for the jump.

        Nothing may run meanwhile. Raises StateError for a checkpoint with state, which would not fit the new place, and
        for one with a batch under way, whose sinks may be half done: run it once more first.
        """
        done = self.last_committed()
        if done < 0:
            raise StateError("there is nothing to rewind: no batch was finished yet; set `start` in the definition")
        if self.last_planned() != done:
            raise StateError(
                f"batch {self.last_planned()} was begun and is not done; run the pipeline once, then rewind"
            )
        if self._store.list("state"):
            raise StateError(
                "this pipeline keeps state (dedup, windows), which fits the old place only; start with a new checkpoint"
            )
        entry = self._store.read(f"offsets/{done}").decode().rstrip("\n").split("\n")
        # Its own beginning, so that nobody takes the jump for messages that were read or lost.
        jump = Offset(position.positions, init=position.positions)
        entry[-1] = json.dumps(jump.render(), separators=(",", ":"))
        commit = self._store.read(f"commits/{done}")
        self._store.write(f"offsets/{done + 1}", "\n".join(entry).encode())
        self._store.write(f"commits/{done + 1}", commit)
        return done + 1

    def _times(self, log: str) -> dict[int, float]:
        """When each entry of a log was written, by its number."""
        found = {}
        for entry in self._store.list(log):
            name = entry.name.removeprefix(f"{log}/")
            if name.isdigit():
                found[int(name)] = entry.modified
        return found

    def _parse(self, batch: int) -> tuple[float, Offset]:
        """When the batch began, and its end."""
        place = f"{self._store.url}/offsets/{batch}"
        try:
            data = self._store.read(f"offsets/{batch}")
            if len(data) > MAX_ENTRY:
                raise StateError(f"{place} is too long for an offset log entry")
            version, metadata, *sources = data.decode().rstrip("\n").split("\n")
            if version != "v1" or len(sources) != 1:
                raise StateError(f"{place} has the form {version} with {len(sources)} sources, which is not known here")
            began = float(json.loads(metadata).get("batchTimestampMs", 0)) / 1000
            return began or self._times("offsets")[batch], Offset.parse(json.loads(sources[0]))
        except StorageError:
            raise
        except (OSError, ValueError, OptionError) as error:
            raise StateError(f"{place} cannot be read: {error}") from None
