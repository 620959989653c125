"""What can be said about a pipeline from its files, whether it runs or not."""

import time

import msgspec

from pyromq.spark.pipeline.definition.definition import Definition
from pyromq.spark.pipeline.run.progress import Progress
from pyromq.spark.pipeline.state.checkpoint import SparkCheckpoint
from pyromq.spark.pipeline.state.folder import State, StateError, read_json
from pyromq.spark.pipeline.state.losses import Loss, loss_table, read_losses
from pyromq.spark.pipeline.state.tables import TableSize, read_tables

SHOWN_LOSSES = 10


class Status(msgspec.Struct, kw_only=True):
    """All of it."""

    pipeline: str
    running: bool
    batch: int
    unfinished: bool
    """Whether a batch was begun that is not done: it will run again."""
    last_commit_seconds: float | None
    progress: Progress | None
    tables: dict[str, TableSize]
    lost: int
    """Messages that the table of losses names."""
    loss_table: str | None
    losses: list[Loss] = []
    """The last rows of it."""


def read_status(definition: Definition) -> Status:
    """Raises StateError or SinkError when files are damaged."""
    state = State(definition.checkpoint)
    checkpoint = SparkCheckpoint(state.checkpoint)
    done = checkpoint.last_committed()
    commit = state.checkpoint / "commits" / str(done)
    losses = read_losses(state)
    return Status(
        pipeline=definition.name,
        running=_runs(state),
        batch=done,
        unfinished=checkpoint.last_planned() > done,
        last_commit_seconds=time.time() - commit.stat().st_mtime if commit.exists() else None,
        progress=read_json(state.status, Progress),
        tables=read_tables(definition),
        lost=sum(loss.messages for loss in losses),
        loss_table=str(loss_table(state)) if losses else None,
        losses=losses[-SHOWN_LOSSES:],
    )


def _runs(state: State) -> bool:
    if not state.folder.is_dir():
        return False
    try:
        with state.locked():
            return False
    except StateError:
        return True
