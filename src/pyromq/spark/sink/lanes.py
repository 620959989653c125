"""A sink as a writer of PyroMQ's brokers: a number for each run, a lane for each partition, a number for each message.

The driver begins a run, a task opens its lane before it looks at what is stored; from then on nothing that began before
can be stored any more, whatever happens to broker or sender. Brokers of Apache do not know the request: they are left
out here, and what is sent to them is found again only by looking.
"""

from collections.abc import Iterable

import msgspec

from pyromq.protocol.bodies.offsets import WriterQueues
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.send import CloseWriterHeader, OpenWriterHeader, OpenWriterResponseHeader
from pyromq.protocol.message import MessageQueue
from pyromq.spark.errors import SinkError
from pyromq.spark.net.wire import Wire, succeeded
from pyromq.spark.sink.sink import Attempt
from pyromq.spark.sink.writabletopic import TIMEOUT, WritableTopic

SAFE = frozenset({ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE})
"""Answers besides success: on this broker's disk, and not on as many others as it was told to wait for."""


class NoWritersError(SinkError):
    """A broker cannot promise what was asked for."""


class Run(msgspec.Struct, frozen=True):
    """A run of a writer, at each broker that knows writers."""

    numbers: dict[str, int] = {}
    """By broker."""
    origins: dict[str, dict[int, int]] = {}
    """By broker and queue: an offset before everything that the writer has ever sent there."""

    def origin(self, queue: MessageQueue) -> int | None:
        return self.origins.get(queue.broker_name, {}).get(queue.queue_id)


def begin_run(wire: Wire, target: WritableTopic, writer: str, brokers: Iterable[str] | None = None) -> Run:
    """Whatever earlier runs still send is refused from now on, by brokers that know writers. Raises PyroMQError."""
    numbers: dict[str, int] = {}
    origins: dict[str, dict[int, int]] = {}
    for broker in target.addresses if brokers is None else brokers:
        answer = _ask(wire, target, broker, OpenWriterHeader(topic=target.topic, writer=writer))
        if answer is not None:
            numbers[broker] = answer.header(OpenWriterResponseHeader).run
            origins[broker] = WriterQueues.decode(answer.body).origins
    return Run(numbers, origins)


def continued(wire: Wire, target: WritableTopic, writer: str, run: Run) -> Run:
    """The same run, begun at brokers that came since. Raises PyroMQError."""
    missing = [broker for broker in target.addresses if broker not in run.numbers]
    more = begin_run(wire, target, writer, missing)
    return Run({**run.numbers, **more.numbers}, {**run.origins, **more.origins})


def check_all_know(target: WritableTopic, run: Run) -> None:
    """Raises NoWritersError when a broker of the topic does not know writers."""
    missing = sorted({queue.broker_name for queue in target.queues} - set(run.numbers))
    if missing:
        raise NoWritersError(
            f"delivery=exactly-once needs brokers of PyroMQ for all queues of {target.topic}, and {', '.join(missing)} "
            f"cannot refuse what comes late; delivery=effectively-once does what can be done there"
        )


def end_run(wire: Wire, target: WritableTopic, writer: str, run: Run) -> None:
    """The writer is done for good: nothing of it is taken any more. Raises PyroMQError."""
    for broker, number in run.numbers.items():
        if broker in target.addresses:
            header = CloseWriterHeader(topic=target.topic, writer=writer, run=number)
            answer = wire.call(target.addresses[broker], Command.request(RequestCode.CLOSE_WRITER, header), TIMEOUT)
            succeeded(answer, "closing the writer", broker=broker, also=SAFE)


class Lanes:
    """One attempt's lane, at each broker that it sends to."""

    def __init__(self, wire: Wire, target: WritableTopic, writer: str, run: Run, attempt: Attempt) -> None:
        self.writer = writer
        self._wire = wire
        self._target = target
        self._run = run
        self._attempt = attempt
        self._ends: dict[str, dict[int, int]] = {}
        self._prefixes: dict[str, str] = {}

    def end(self, queue: MessageQueue) -> int | None:
        """Behind everything that attempts before this one can have stored in a queue; None where nobody can say.

        Opens the lane, unless it is open. Raises PyroMQError, also when a later attempt or run took over.
        """
        broker = queue.broker_name
        number = self._run.numbers.get(broker)
        if number is None:
            return None
        if broker not in self._ends:
            attempt = self._attempt
            header = OpenWriterHeader(
                topic=queue.topic, writer=self.writer, run=number, lane=attempt.partition, attempt=attempt.task
            )
            answer = _ask(self._wire, self._target, broker, header)
            if answer is None:
                raise NoWritersError(f"{broker} began run {number} and does not know writers any more")
            self._ends[broker] = WriterQueues.decode(answer.body).ends
            self._prefixes[broker] = f"{number}.{attempt.partition}.{attempt.task}."
        return self._ends[broker].get(queue.queue_id)

    def place(self, queue: MessageQueue, sequence: int) -> str | None:
        """What a message says about where it belongs; None when its broker does not care. The lane must be open."""
        prefix = self._prefixes.get(queue.broker_name)
        return None if prefix is None else f"{prefix}{queue.queue_id}.{sequence}"


def _ask(wire: Wire, target: WritableTopic, broker: str, header: OpenWriterHeader) -> Command | None:
    """None when the broker does not know the request."""
    answer = wire.call(target.addresses[broker], Command.request(RequestCode.OPEN_WRITER, header), TIMEOUT)
    if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        return None
    return succeeded(answer, "opening a writer", broker=broker, also=SAFE)
