"""What can be said about a pipeline from its files, whether it runs or not."""

import time

import msgspec

from pyromq.spark.pipeline.definition.definition import Definition
from pyromq.spark.pipeline.run.progress import Progress
from pyromq.spark.pipeline.state.checkpoint import SparkCheckpoint
from pyromq.spark.pipeline.state.folder import STATUS, State, read_json
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
    state = State(definition.checkpoint, definition.storage)
    checkpoint = SparkCheckpoint(state.checkpoint)
    done = checkpoint.last_committed()
    committed = checkpoint.committed_at(done)
    losses = read_losses(state)
    return Status(
        pipeline=definition.name,
        running=state.is_locked(),
        batch=done,
        unfinished=checkpoint.last_planned() > done,
        last_commit_seconds=None if committed is None else time.time() - committed,
        progress=read_json(state.store, STATUS, Progress),
        tables=read_tables(definition),
        lost=sum(loss.messages for loss in losses),
        loss_table=loss_table(state).url if losses else None,
        losses=losses[-SHOWN_LOSSES:],
    )
