"""Dead letters: bodies that cannot be parsed, sent to a topic with where they came from and what is wrong with them.

The task that reads a bad body sends it, before the batch ends. Its place in the source is its identity, which stays the
same however often the batch runs, so each reaches the topic once. The driver keeps the marks and begins the runs, as
for a topic sink.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
import pyarrow.compute as pc  # type: ignore[import-untyped]

from pyromq.arrow.body import BODY, ERROR
from pyromq.protocol.message import MessageQueue
from pyromq.protocol.properties import Property
from pyromq.spark.errors import SparkError
from pyromq.spark.net.patience import patiently
from pyromq.spark.net.wire import Wire
from pyromq.spark.options import read_options
from pyromq.spark.pipeline.definition.plan import Plan, connection
from pyromq.spark.sink.lanes import Lanes, Run
from pyromq.spark.sink.marks import Marks, groups, move_marks, peek_marks, read_marks, sequences_between, stamp
from pyromq.spark.sink.messages import Outgoing
from pyromq.spark.sink.options import TopicSinkOptions
from pyromq.spark.sink.sender import FrameSender
from pyromq.spark.sink.sink import Attempt, SinkTask, Written
from pyromq.spark.sink.topic import TopicSink, writer_name
from pyromq.spark.sink.writabletopic import WritableTopic, find_topic, max_offsets

NAME = "dlq"
ENOUGH = 100
"""Rows of a task before their share of bad ones means something."""
MAX_ERROR = 500
_NAMES = {
    "topic": "DLQ_TOPIC",
    "brokerName": "DLQ_BROKER",
    "queueId": "DLQ_QUEUE",
    "queueOffset": "DLQ_OFFSET",
    "msgId": "DLQ_MSG_ID",
}
PREFIX = "DLQ_"


class TooManyBadError(SparkError):
    """More bodies are bad than `max_bad_ratio` allows."""


def letters_options(plan: Plan) -> TopicSinkOptions:
    """How the dead letters are sent."""
    assert plan.definition.dlq is not None  # noqa: S101 - checked with the definition
    return read_options(
        TopicSinkOptions,
        {**connection(plan.definition), "topic": plan.definition.dlq.topic, "delivery": "effectively-once"},
    )


class DeadLetterSink(TopicSink):
    """The driver's side: marks. What it is told about batches is only that they are finished."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(letters_options(plan), name=NAME, run=plan.runs.get(NAME, Run()))

    def prepare(self, query: str) -> None:
        self.ask(lambda wire, target: self._marks(wire, target, query))

    def open(self, attempt: Attempt, schema: pa.Schema) -> SinkTask:
        del attempt, schema
        return _Silent()

    def commit(self, query: str, batch: int, messages: Sequence[bytes]) -> int:
        """Everything that is in the topic now belongs to finished batches; returns how much came since the last."""
        del messages

        def finish(wire: Wire, target: WritableTopic) -> int:
            marks = self._marks(wire, target, query)
            ends = max_offsets(wire, target)
            move_marks(wire, target, groups(wire, query, NAME), marks, batch, ends)
            before = marks.before(batch)
            return sum(end - before.get(queue, end) for queue, end in ends.items())

        return self.ask(finish)

    def _marks(self, wire: Wire, target: WritableTopic, query: str) -> Marks:
        return read_marks(wire, target, groups(wire, query, NAME), self.run or Run())


class _Silent:
    """Good rows are no business of the dead letters."""

    def write(self, batch: pa.RecordBatch) -> None:
        del batch

    def close(self) -> bytes:
        return Written(rows=0).encode()

    def abort(self) -> None:
        """Nothing was begun."""


class Diverter:
    """A reading task's side: sends what is bad. Connects only when something is."""

    def __init__(self, plan: Plan, attempt: Attempt) -> None:
        self._plan = plan
        self._attempt = attempt
        self._wire: Wire | None = None
        self._target: WritableTopic | None = None
        self._sender: FrameSender | None = None
        self._stored: set[str] = set()
        self._starts: dict[MessageQueue, int] = {}
        self._source = writer_name(attempt.query, NAME)
        self._rows = 0
        self._bad = 0

    def take(self, batch: pa.RecordBatch) -> None:
        """Look through rows with `_error` and `_body`. Raises SendFailedError and what connections raise."""
        self._rows += batch.num_rows
        errors = batch.column(ERROR)
        if errors.null_count == batch.num_rows:
            return
        bad = batch.filter(pc.is_valid(errors))
        self._bad += bad.num_rows
        self._check_ratio(at_end=False)
        for row in bad.to_pylist():
            self._send(row)

    def close(self) -> None:
        """Wait for all acknowledgements. Raises as `take`, and TooManyBadError."""
        if self._sender is not None:
            self._sender.finish()
        self.abort()
        self._check_ratio(at_end=True)

    def abort(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    def _check_ratio(self, *, at_end: bool) -> None:
        dlq = self._plan.definition.dlq
        if dlq is None or dlq.max_bad_ratio is None or (self._rows < ENOUGH and not at_end):
            return
        if self._bad > dlq.max_bad_ratio * self._rows:
            raise TooManyBadError(
                f"{self._bad} of {self._rows} bodies are bad, more than dlq.max_bad_ratio {dlq.max_bad_ratio} allows"
            )

    def _send(self, row: dict[str, Any]) -> None:
        sender, target = self._connected()
        sequence = f"{row['topic']}/{row['brokerName']}/{row['queueId']}/{row['queueOffset']}"
        if sequence in self._stored:
            return
        properties = {name: str(row[column]) for column, name in _NAMES.items() if row[column] is not None}
        if row["storeTimestamp"] is not None:
            properties["DLQ_STORE_TIME"] = str(int(row["storeTimestamp"].timestamp() * 1000))
        properties["DLQ_ERROR"] = " ".join(
            str(row[ERROR])[:MAX_ERROR].replace("\x01", " ").replace("\x02", " ").split()
        )
        properties["DLQ_STAGE"] = "parse"
        properties["DLQ_PIPELINE"] = self._plan.definition.name
        for column, name in (("tags", Property.TAGS), ("keys", Property.KEYS)):
            if row[column]:
                properties[name] = row[column]
        stamp(properties, self._source, sequence)
        queue = target.queues[self._attempt.partition % len(target.queues)]
        sender.send(target.address(queue), queue, Outgoing(None, row[BODY] or b"", properties), sequence)

    def _connected(self) -> tuple[FrameSender, WritableTopic]:
        if self._sender is None or self._target is None:
            options = letters_options(self._plan)
            return patiently(lambda: self._connect(options), retries=options.send_retries)
        return self._sender, self._target

    def _connect(self, options: TopicSinkOptions) -> tuple[FrameSender, WritableTopic]:
        if self._wire is not None:
            self._wire.close()
        wire = self._wire = Wire(options)
        run = self._plan.runs.get(NAME, Run())
        target = self._target = _known_to(run, find_topic(wire, options.topic or ""))
        lanes = Lanes(wire, target, self._source, run, self._attempt)
        for queue in target.queues:
            lanes.end(queue)  # before the look: from here on nobody else sends what this task may
        marks: Marks = peek_marks(wire, target, groups(wire, self._attempt.query, NAME))
        self._starts = marks.before(self._attempt.batch)
        self._stored = self._sequences(max_offsets(wire, target))
        self._sender = FrameSender(
            wire, options, recheck=lambda queue: self._sequences(max_offsets(wire, target, [queue])), lanes=lanes
        )
        return self._sender, target

    def _sequences(self, ends: dict[MessageQueue, int]) -> set[str]:
        assert self._wire is not None  # noqa: S101 - connected before
        assert self._target is not None  # noqa: S101
        group = groups(self._wire, self._attempt.query, NAME)[0]
        return sequences_between(self._wire, self._target, self._starts, ends, source=self._source, group=group)


def _known_to(run: Run, target: WritableTopic) -> WritableTopic:
    """Without queues of brokers that came since the run began: they would take what an earlier run still sends."""
    known = [queue for queue in target.queues if queue.broker_name in run.numbers]
    return msgspec.structs.replace(target, queues=known) if known else target
