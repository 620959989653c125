"""OPEN_WRITER, CLOSE_WRITER, and the look at batches that say whose they are: late ones are refused, repeated ones are
answered and not stored again. Sends and batches without a writer pass untouched.
"""

import contextlib
from collections.abc import Iterable, Mapping
from itertools import islice

from pyromq.broker.core import Core
from pyromq.broker.errors import Refused, topic_not_exist
from pyromq.broker.part import Every, Figure, Part, counter, gauge, limit
from pyromq.broker.send.answers import CODE_OF_STATUS
from pyromq.broker.send.sender import Sender
from pyromq.broker.writers.journal import Journal
from pyromq.broker.writers.records import Began, Closed, Opened
from pyromq.broker.writers.table import WriterTable
from pyromq.protocol.bodies.offsets import WriterQueues
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command, encode
from pyromq.protocol.errors import MessageError
from pyromq.protocol.handles.writer import MAX_NUMBER, PLACE, PLACE_FIELD, WRITER, WRITER_FIELD, Place
from pyromq.protocol.handles.writer import check_writer as check_name
from pyromq.protocol.headers.base import Header
from pyromq.protocol.headers.send import (
    CloseWriterHeader,
    OpenWriterHeader,
    OpenWriterResponseHeader,
    SendMessageResponseHeader,
    SendMessageV2Header,
)
from pyromq.protocol.properties import decode_properties
from pyromq.protocol.records.batch import FIXED_SIZE, iter_batch
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Handler, Outcome
from pyromq.remoting.handler import Deferred, Grouped
from pyromq.store.log.put import PutResult, PutStatus

TICK = 1.0
EXPIRY = 60.0
HOUR = 3_600_000


class Writers(Part):
    """Stands before the sender for batches."""

    def __init__(self, core: Core, sender: Sender) -> None:
        self._core = core
        self._store = core.store
        self._clock = core.clock
        self._send_batch = sender.send_batch
        self._send_run = sender.send_run
        self.table = WriterTable(core.config.max_writers, core.config.max_writer_lanes)
        self._journal = Journal(self.table, core.store, core.clock)
        self.repeated = 0
        """Messages that were stored already."""
        self.fenced = 0
        """Requests refused because somebody took over."""

    def handlers(self) -> Mapping[int, Handler]:
        """Batches, whoever sends them, and two more."""
        return {
            RequestCode.SEND_BATCH_MESSAGE: Grouped(self._batch, run=self._send_run),
            RequestCode.OPEN_WRITER: self._open,
            RequestCode.CLOSE_WRITER: self._close,
        }

    def every(self) -> Iterable[Every]:
        """Save what is known, and forget who is gone. A slave's log is read once it is a master."""
        if not self._core.is_slave:
            yield Every(TICK, self._journal.tick)
        yield Every(EXPIRY, self.expire)

    async def start(self) -> None:
        """Read in the log which writers there are, before anything new is stored."""
        if not self._core.is_slave:
            self._journal.load()

    async def stop(self) -> None:
        """Before the store is closed."""
        if not self._core.is_slave:
            self._journal.save()

    def expire(self) -> None:
        """Forget who has not been heard of for long."""
        if self.table.expire(self._clock() - self._core.config.writer_reserved_time * HOUR):
            self._journal.touch()

    def forget_topic(self, topic: str) -> None:
        """The topic is deleted; one of that name later is another."""
        for name in [writer.name for writer in self.table if writer.topic == topic]:
            with contextlib.suppress(Refused):  # a full disk must not keep a topic from being deleted
                self._journal.decide(Closed(topic, name))
            self.table.close(topic, name)

    def metrics(self) -> Iterable[Figure]:
        """How many there are, and what they did twice."""
        yield gauge("pyromq_writers", "Writers whose messages are stored once.", len(self.table))
        yield gauge("pyromq_writer_lanes", "Tasks that they work with.", self.table.lanes)
        yield gauge("pyromq_writer_queues", "Queues that each task writes to.", self.table.tails)
        doc = "Messages of writers that were stored already."
        yield counter("pyromq_writer_repeated_messages", doc, self.repeated)
        yield counter("pyromq_writer_fenced_requests", "Requests of runs or attempts that were given up.", self.fenced)
        yield limit("writers", self.table.evicted)

    def _batch(self, request: Command, connection: Connection) -> Outcome:
        name = request.field(WRITER_FIELD)
        return self._send_batch(request, connection) if name is None else self._put(name, request, connection)

    def _open(self, request: Command, _connection: Connection) -> Outcome:
        header, now = request.header(OpenWriterHeader), self._clock()
        topic, name = header.topic, header.writer
        self._check(topic, name)
        ends = self._ends(topic)
        numbers = (header.run, header.lane, header.attempt)
        if header.run is None or header.lane is None or header.attempt is None:
            if numbers != (None, None, None):
                raise Refused(ResponseCode.INVALID_PARAMETER, "run, lane and attempt must be given together or not")
            run, origins = self.table.next_run(now), self.table.origins(topic, name, ends)
            result = self._journal.decide(Began(topic, name, run, now, origins))
        else:
            place = _checked(Place(header.run, header.lane, header.attempt))
            try:
                writer = self.table.check_open(topic, name, place)
                result = self._journal.decide(Opened(topic, name, place.run, place.lane, place.attempt, now))
            except Refused as refused:
                self.fenced += refused.code is ResponseCode.NO_PERMISSION
                raise
            run, origins = place.run, writer.origins
        body = WriterQueues(ends=ends, origins=origins).encode()
        return self._when_safe(request, result, OpenWriterResponseHeader(run=run), body)

    def _close(self, request: Command, _connection: Connection) -> Outcome:
        header = request.header(CloseWriterHeader)
        self._check(header.topic, header.writer)
        if header.run is not None:
            self.table.check_close(header.topic, header.writer, header.run)
        return self._when_safe(request, self._journal.decide(Closed(header.topic, header.writer)))

    def _put(self, name: str, request: Command, connection: Connection) -> Outcome:
        header = request.header(SendMessageV2Header)
        topic, queue_id = header.topic, header.queue_id
        if self._core.is_slave:
            return self._send_batch(request, connection)  # which says to whom to send
        place = _checked(Place.parse(request.field(PLACE_FIELD) or ""))
        if queue_id != place.queue:
            raise Refused(ResponseCode.INVALID_PARAMETER, f"{place} is not a place in queue {queue_id}")
        try:
            known = self.table.stored(topic, name, place)
        except Refused as refused:
            self.fenced += refused.code is ResponseCode.NO_PERMISSION
            raise
        try:
            _check_first(name, place, request.body)
            left = _without(request.body, known)
        except MessageError as error:
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, str(error)) from None
        if not left:
            return self._repeat(name, place, request, topic)
        request.body = left
        place = place._replace(sequence=place.sequence + known)
        before = self._store.max_offset(topic, queue_id, committed=False)
        answer = self._send_batch(request, connection)
        # The store numbers at once and nobody comes between: what the queue has grown by is this batch.
        count = self._store.max_offset(topic, queue_id, committed=False) - before
        end = self._store.max_physical_offset
        self.table.note(topic, name, place, count=count, offset=before, end=end, now=self._clock())
        self._journal.touch()
        self.repeated += known
        return answer

    def _repeat(self, name: str, place: Place, request: Command, topic: str) -> Outcome:
        """Answer as the first time, which means when the messages are safe."""
        self.repeated += sum(1 for _ in iter_batch(request.body))
        tail = self.table.tail(topic, name, place)
        header = SendMessageResponseHeader(msg_id="", queue_id=place.queue, queue_offset=tail.offset_of(place.sequence))
        return self._when_safe(request, PutResult(PutStatus.PUT_OK, tail.end), header)

    def _when_safe(
        self, request: Command, result: PutResult, header: Header | None = None, body: bytes = b""
    ) -> Deferred:
        later = Deferred()

        def safe(status: PutStatus) -> None:
            remark = None if status is PutStatus.PUT_OK else status.name
            later.answer(encode(request.reply(CODE_OF_STATUS[status], header, remark=remark, body=body)))

        self._core.durability.wait(result, safe)
        return later

    def _ends(self, topic: str) -> dict[int, int]:
        config = self._core.topics.get(topic)
        if config is None:
            raise topic_not_exist(topic)
        # A topic that is made smaller keeps taking messages for the queues that are still read.
        numbers = range(max(config.read_queue_nums, config.write_queue_nums))
        return {number: self._store.max_offset(topic, number, committed=False) for number in numbers}

    def _check(self, topic: str, name: str) -> None:
        if self._core.is_slave:
            raise Refused(ResponseCode.SERVICE_NOT_AVAILABLE, "this is a slave: ask its master")
        if topic not in self._core.topics:
            raise topic_not_exist(topic)
        check_name(name)


def _checked(place: Place) -> Place:
    if min(place) < 0 or max(place) > MAX_NUMBER:
        raise Refused(ResponseCode.INVALID_PARAMETER, f"{place} has a number below 0 or too large")
    return place


def _check_first(name: str, place: Place, body: bytes | bytearray | memoryview) -> None:
    """What a batch says about itself must be what its messages say: after a crash only they can.

    The others are taken at their word. Whoever may write to the topic could deceive its writers anyway.
    """
    first = next(iter_batch(body), None)
    properties = decode_properties(bytes(first.properties)) if first is not None else {}
    if (properties.get(WRITER), properties.get(PLACE)) != (name, str(place)):
        raise Refused(ResponseCode.MESSAGE_ILLEGAL, f"the first message of the batch is not {place} of {name}")


def _without(body: bytes | bytearray | memoryview, count: int) -> bytes:
    """A batch without its first messages. Raises MessageError."""
    if not count:
        return bytes(body)
    sizes = (FIXED_SIZE + len(item.body) + len(item.properties) for item in iter_batch(body))
    return bytes(memoryview(body)[sum(islice(sizes, count)) :])
