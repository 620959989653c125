"""A topic as a sink: at least once, or once by marks, a look at the end of the topic, and brokers that refuse the late.

Once: every message carries who sent it and a sequence that a repeated batch gives to the same row again. Before the
tasks of a batch start the driver reads the marks and the ends of the queues. Where they differ, tasks look for their
messages in between and leave them out; a task also looks at what came since, which is how a second attempt finds the
sends of the first. On a topic of its own, without a crash, there is nothing to look at. Brokers of PyroMQ see to it
that nothing comes after the look (see `lanes`), so that each row is there exactly once; Apache's cannot.
"""

import os
import secrets
from collections.abc import Callable, Sequence
from datetime import UTC
from typing import TypeVar
from zlib import crc32

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations

from pyromq.clock import wall_clock
from pyromq.protocol.handles.ids import UniqueIdGenerator
from pyromq.protocol.message import MessageQueue
from pyromq.protocol.names import MAX_BODY
from pyromq.protocol.properties import Property
from pyromq.spark.errors import RowError, SinkError
from pyromq.spark.net.patience import patiently
from pyromq.spark.net.wire import Wire
from pyromq.spark.sink.lanes import Lanes, Run, begin_run, check_all_know, continued, end_run
from pyromq.spark.sink.marks import Marks, groups, move_marks, peek_marks, read_marks, sequences_between, stamp, stamps
from pyromq.spark.sink.messages import (
    MessageShape,
    Outgoing,
    RowMessages,
    check_message_columns,
    message_rows,
    shaped_rows,
)
from pyromq.spark.sink.options import Delivery, TopicSinkOptions
from pyromq.spark.sink.plainrows import MAX_ROWS, EncodedRows, are_plain, encoded_rows, placed_rows
from pyromq.spark.sink.sender import FrameSender
from pyromq.spark.sink.sink import Attempt, SinkTask, Written
from pyromq.spark.sink.writabletopic import WritableTopic, find_topic, max_offsets

T = TypeVar("T")


class Sent(Written, kw_only=True):
    """What a task sent; `repeated` of its rows were in the topic already."""

    repeated: int


class Prepared(msgspec.Struct, frozen=True):
    """What the driver tells the tasks of one batch."""

    target: WritableTopic
    marks: Marks | None = None
    looked: dict[MessageQueue, int] = {}
    """Where the queues ended before the first task started."""
    run: Run = Run()


def writer_name(query: str, sink: str) -> str:
    """Who sends, as messages say it."""
    return f"{query}/{sink}"


class TopicSink:
    """Rows become messages; `shape` says how for a pipeline, without it the columns have the names of the options.

    `run` is the run of the query, where somebody begins one when the query starts; otherwise every batch is a run.
    `bounded`: there is one batch, and nobody will repeat it but Spark's own tasks.
    """

    def __init__(
        self,
        options: TopicSinkOptions,
        *,
        name: str = "topic",
        shape: MessageShape | None = None,
        run: Run | None = None,
        bounded: bool = False,
    ) -> None:
        self.name = name
        self.run = run
        self.bounded = bounded
        self.options = options
        self.shape = shape
        self.prepared: Prepared | None = None

    @property
    def once(self) -> bool:
        return self.options.once

    def ask(self, question: Callable[[Wire, WritableTopic], T]) -> T:
        """Ask the brokers of the topic, over connections that last no longer. Raises PyroMQError."""

        def asked() -> T:
            with Wire(self.options) as wire:
                return question(wire, find_topic(wire, self.options.topic or ""))

        return patiently(asked, retries=self.options.send_retries)

    def begin(self, query: str) -> Run | None:
        """Begin a run: whatever an earlier one still sends is refused from now on. Raises PyroMQError."""
        if not self.once:
            return None
        return self.ask(lambda wire, target: begin_run(wire, target, writer_name(query, self.name)))

    def prepare(self, query: str) -> None:
        """Fetch the queues, their marks and their ends. Raises PyroMQError."""
        if self.options.topic is not None:
            self.prepared = self.ask(lambda wire, target: self._prepared(wire, target, query))

    def _prepared(self, wire: Wire, target: WritableTopic, query: str) -> Prepared:
        if not self.once:
            return Prepared(target)
        # Spark may ask more than once before it takes the sink to its tasks: a second run would shut out the first.
        known = self.run or (self.prepared.run if self.prepared is not None else Run())
        run = continued(wire, target, writer_name(query, self.name), known)
        if self.options.delivery is Delivery.EXACTLY_ONCE:
            check_all_know(target, run)
        marks = None if self.bounded else read_marks(wire, target, groups(wire, query, self.name), run)
        return Prepared(target, marks, max_offsets(wire, target), run)

    def open(self, attempt: Attempt, schema: pa.Schema) -> SinkTask:
        if self.shape is None:
            check_message_columns(schema)
        rows = message_rows if self.shape is None else shaped_rows(self.shape, schema)
        return TopicTask(self, attempt, rows, self.prepared)

    def commit(self, query: str, batch: int, messages: Sequence[bytes]) -> int:
        if self.once:
            self.ask(lambda wire, target: self._finish(wire, target, query, batch))
        return sum(Sent.decode(message).rows for message in messages)

    def _finish(self, wire: Wire, target: WritableTopic, query: str, batch: int) -> None:
        """No task of this query sends now: all that is there belongs to finished batches, this one included."""
        if self.bounded:
            if self.prepared is not None:
                end_run(wire, target, writer_name(query, self.name), self.prepared.run)
            return
        names = groups(wire, query, self.name)
        move_marks(wire, target, names, peek_marks(wire, target, names), batch, max_offsets(wire, target))


class TopicTask:
    """One attempt's messages."""

    def __init__(self, sink: TopicSink, attempt: Attempt, rows: RowMessages, prepared: Prepared | None) -> None:
        if sink.once and prepared is None:
            raise SinkError(f"delivery={sink.options.delivery} needs a sink that was prepared on the driver")
        self._sink = sink
        self._attempt = attempt
        self._rows = rows
        self._wire = Wire(sink.options)
        self._source = writer_name(attempt.query, sink.name)
        self._prepared = prepared
        self._targets: dict[str, WritableTopic] = {}
        self._lanes = (
            Lanes(self._wire, prepared.target, self._source, prepared.run, attempt)
            if sink.once and prepared is not None
            else None
        )
        self._stored = patiently(self._stored_before, retries=sink.options.send_retries) if sink.once else set()
        self._known: dict[MessageQueue, set[str]] = {}
        self._sender = FrameSender(
            self._wire,
            sink.options,
            recheck=self._stored_since if sink.once else None,
            lanes=self._lanes,
        )
        self._ids = UniqueIdGenerator("127.0.0.1", os.getpid(), secrets.randbits(32), wall_clock, zone=UTC)
        self._row = 0
        self._repeated = 0

    def write(self, batch: pa.RecordBatch) -> None:
        try:
            if not self._send_plain(batch):
                for message in self._rows(batch):
                    self._send(message)
        except RowError as error:
            raise RowError(f"batch {self._attempt.batch}, partition {self._attempt.partition}: {error}") from None

    def _send_plain(self, batch: pa.RecordBatch) -> bool:
        """Send the rows together, if they are plain and nothing has to be decided for each."""
        sink, options = self._sink, self._sink.options
        if sink.shape is not None or options.topic is None or options.compress.kind is not None:
            return False
        if not 0 < batch.num_rows <= MAX_ROWS or not are_plain(batch.schema):
            return False
        target = self._target(options.topic)
        queue = self._own_queue(target)
        rows = self._placed(batch, queue) if sink.once else encoded_rows(batch, self._ids.run(batch.num_rows))
        if rows is None:
            return False
        self._row += batch.num_rows
        self._sender.send_encoded(target.address(queue), queue, rows)
        return True

    def _placed(self, batch: pa.RecordBatch, queue: MessageQueue) -> EncodedRows | None:
        """The rows with their identities, where the broker stores each once and none can be there already."""
        if self._stored or self._stored_since_look(queue):
            return None
        places = self._sender.places(queue, batch.num_rows)
        if places is None:
            return None
        sequences = [self._sequence(row) for row in range(self._row, self._row + batch.num_rows)]
        return placed_rows(batch, stamps(self._source, sequences), places)

    def _send(self, message: Outgoing) -> None:
        if len(message.body) > MAX_BODY:
            raise RowError(f"row {self._row} has a body of {len(message.body)} bytes, more than {MAX_BODY}")
        target = self._target(message.topic)
        queue = self._queue(target, message)
        sequence = ""
        if self._sink.once:
            if message.alone:
                raise RowError(f"row {self._row} is delayed, and delayed messages cannot be sent effectively once")
            sequence = self._sequence(self._row, message.key)
            stamp(message.properties, self._source, sequence)
            if sequence in self._stored or sequence in self._stored_since_look(queue):
                self._repeated += 1
                self._row += 1
                return
        else:
            message.properties[Property.UNIQ_KEY] = self._ids()
        self._row += 1
        self._sender.send(target.address(queue), queue, message, sequence)

    def _sequence(self, row: int, key: str | None = None) -> str:
        attempt = self._attempt
        return f"{attempt.batch}.{f'{attempt.partition}.{row}' if key is None else key}"

    def close(self) -> bytes:
        self._sender.finish()
        self._wire.close()
        return Sent(rows=self._row, repeated=self._repeated).encode()

    def abort(self) -> None:
        self._wire.close()

    def _target(self, named: str | None) -> WritableTopic:
        if self._prepared is not None:
            return self._prepared.target
        topic = self._sink.options.topic or named
        if not topic:
            raise RowError(f"row {self._row} has no topic, and the option topic is not set")
        found = self._targets.get(topic)
        if found is None:
            found = self._targets[topic] = find_topic(self._wire, topic)
        return found

    def _queue(self, target: WritableTopic, message: Outgoing) -> MessageQueue:
        """A pure function of the row, or else of the partition: a repetition goes to the same queue."""
        if message.queue is not None:
            if not 0 <= message.queue < len(target.queues):
                raise RowError(
                    f"row {self._row}: topic {target.topic} has {len(target.queues)} queues, no {message.queue}"
                )
            return target.queues[message.queue]
        if message.shard is not None:
            return target.queues[crc32(message.shard.encode()) % len(target.queues)]
        return self._own_queue(target)

    def _own_queue(self, target: WritableTopic) -> MessageQueue:
        return target.queues[self._attempt.partition % len(target.queues)]

    def _stored_before(self) -> set[str]:
        """What an earlier run of this batch sent."""
        prepared = self._prepared
        if prepared is None or prepared.marks is None:
            return set()
        return self._sequences(prepared.target, prepared.marks.before(self._attempt.batch), prepared.looked)

    def _stored_since_look(self, queue: MessageQueue) -> set[str]:
        """What came into a queue between the driver's look and this task's first message for it."""
        known = self._known.get(queue)
        if known is None:
            known = self._known[queue] = patiently(lambda: self._look(queue), retries=self._sink.options.send_retries)
        return known

    def _look(self, queue: MessageQueue) -> set[str]:
        return self._stored_since(queue, self._lanes.end(queue) if self._lanes is not None else None)

    def _stored_since(self, queue: MessageQueue, end: int | None = None) -> set[str]:
        prepared = self._prepared
        if prepared is None:
            return set()
        ends = max_offsets(self._wire, prepared.target, [queue]) if end is None else {queue: end}
        return self._sequences(prepared.target, {queue: prepared.looked.get(queue, 0)}, ends)

    def _sequences(
        self, target: WritableTopic, starts: dict[MessageQueue, int], ends: dict[MessageQueue, int]
    ) -> set[str]:
        group = groups(self._wire, self._attempt.query, self._sink.name)[0]
        return sequences_between(self._wire, target, starts, ends, source=self._source, group=group)
