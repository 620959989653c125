"""What can be said about a pipeline from its files, whether it runs or not."""

import time
from pathlib import Path

import msgspec

from pyromq.spark.pipeline.checkpoint import Checkpoint
from pyromq.spark.pipeline.definition import Definition, ParquetTarget
from pyromq.spark.pipeline.progress import Progress
from pyromq.spark.pipeline.state import State, StateError
from pyromq.spark.sink.manifest import Manifests


class TableStatus(msgspec.Struct, kw_only=True):
    """A folder of Parquet files."""

    path: str
    files: int
    rows: int
    bytes: int

    @property
    def mean_bytes(self) -> int:
        return self.bytes // self.files if self.files else 0


class Status(msgspec.Struct, kw_only=True):
    """All of it."""

    pipeline: str
    running: bool
    batch: int
    unfinished: bool
    """Whether a batch was begun that is not done: it will run again."""
    last_commit_seconds: float | None
    progress: Progress | None
    tables: dict[str, TableStatus]


def read_status(definition: Definition) -> Status:
    """Raises StateError or SinkError when files are damaged."""
    state = State(definition.checkpoint)
    checkpoint = Checkpoint(state.checkpoint)
    done = checkpoint.last_committed()
    commit = state.checkpoint / "commits" / str(done)
    progress = None
    if state.status.exists():
        try:
            progress = msgspec.json.decode(state.status.read_bytes(), type=Progress)
        except msgspec.MsgspecError as error:
            raise StateError(f"{state.status} is damaged: {error}") from None
    return Status(
        pipeline=definition.name,
        running=_runs(state),
        batch=done,
        unfinished=checkpoint.last_planned() > done,
        last_commit_seconds=time.time() - commit.stat().st_mtime if commit.exists() else None,
        progress=progress,
        tables={name: _table(target) for name, _, target in definition.targets if isinstance(target, ParquetTarget)},
    )


def _table(target: ParquetTarget) -> TableStatus:
    files = Manifests(Path(target.path)).files()
    return TableStatus(
        path=target.path,
        files=len(files),
        rows=sum(file.rows for file in files),
        bytes=sum(file.size for file in files),
    )


def _runs(state: State) -> bool:
    if not state.folder.is_dir():
        return False
    try:
        with state.locked():
            return False
    except StateError:
        return True
