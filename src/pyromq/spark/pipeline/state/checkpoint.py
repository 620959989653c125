"""Spark's checkpoint, read and, for a rewind, written: `offsets/<n>` is what batch n reads, `commits/<n>` that it did.

An offset log entry is a line with its version, one of metadata, then one for each source; ours have one source.
"""

import json
from pathlib import Path

import msgspec

from pyromq.durable import write_file
from pyromq.spark.errors import OptionError
from pyromq.spark.pipeline.state.folder import StateError
from pyromq.spark.source.offsets import Offset

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
    """The logs in a folder."""

    def __init__(self, folder: Path) -> None:
        self._offsets = folder / "offsets"
        self._commits = folder / "commits"
        self._state = folder / "state"

    def last_planned(self) -> int:
        """The last batch that was begun, -1 without one."""
        return max(_numbers(self._offsets), default=-1)

    def last_committed(self) -> int:
        """The last batch that is done, -1 without one."""
        return max(_numbers(self._commits), default=-1)

    def position(self) -> Offset | None:
        """Up to where everything is done."""
        done = self.last_committed()
        return None if done < 0 else self.end(done)

    def end(self, batch: int) -> Offset:
        """Where a batch ends. Raises StateError."""
        return _parse(self._offsets / str(batch))[1]

    def bounds(self, batch: int) -> tuple[Offset | None, Offset]:
        """Where a batch begins, unless it is the first that is known, and where it ends. Raises StateError."""
        return (self.end(batch - 1) if (self._offsets / str(batch - 1)).exists() else None), self.end(batch)

    def history(self, limit: int) -> list[BatchEntry]:
        """The last batches, newest last."""
        found = []
        planned = sorted(_numbers(self._offsets))
        for batch in planned[-limit:]:
            began, end = _parse(self._offsets / str(batch))
            commit = self._commits / str(batch)
            seconds = commit.stat().st_mtime - began if commit.exists() else None
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
        if self._state.is_dir() and any(self._state.iterdir()):
            raise StateError(
                "this pipeline keeps state (dedup, windows), which fits the old place only; start with a new checkpoint"
            )
        entry = (self._offsets / str(done)).read_text().rstrip("\n").split("\n")
        # Its own beginning, so that nobody takes the jump for messages that were read or lost.
        jump = Offset(position.positions, init=position.positions)
        entry[-1] = json.dumps(jump.render(), separators=(",", ":"))
        commit = (self._commits / str(done)).read_bytes()
        write_file(self._offsets / str(done + 1), "\n".join(entry).encode())
        write_file(self._commits / str(done + 1), commit)
        return done + 1


def _numbers(folder: Path) -> list[int]:
    return [int(path.name) for path in folder.iterdir() if path.name.isdigit()] if folder.is_dir() else []


def _parse(path: Path) -> tuple[float, Offset]:
    """When the batch began, and its end."""
    try:
        if path.stat().st_size > MAX_ENTRY:
            raise StateError(f"{path} is too long for an offset log entry")
        version, metadata, *sources = path.read_text().rstrip("\n").split("\n")
        if version != "v1" or len(sources) != 1:
            raise StateError(f"{path} has the form {version} with {len(sources)} sources, which is not known here")
        began = float(json.loads(metadata).get("batchTimestampMs", 0)) / 1000
        return began or path.stat().st_mtime, Offset.parse(json.loads(sources[0]))
    except (OSError, ValueError, OptionError) as error:
        raise StateError(f"{path} cannot be read: {error}") from None
