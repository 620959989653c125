"""Send messages as frames, many under way at a time, and wait for every acknowledgement.

A frame whose fate is unknown (the connection broke, no answer came) is sent again. Where messages have places, the
broker stores each once and in order, so frames keep their order and go out as they are. Elsewhere `recheck` says which
messages are stored, so that a sink that must not repeat does not; one that may simply has neither.
"""

import time
from collections import Counter, deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pyromq.clock import pause_after
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.errors import ProtocolError
from pyromq.protocol.handles.writer import PLACE, PLACE_FIELD, WRITER_FIELD
from pyromq.protocol.headers.send import STORED, SendMessageV2Header
from pyromq.protocol.message import MessageQueue
from pyromq.protocol.names import DEFAULT_TOPIC
from pyromq.protocol.properties import encode_properties
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.batch import batch_item
from pyromq.protocol.records.compression import compress
from pyromq.remoting.errors import RemotingError
from pyromq.spark.errors import SinkError
from pyromq.spark.net.wire import Wire
from pyromq.spark.sink.lanes import Lanes
from pyromq.spark.sink.messages import Outgoing
from pyromq.spark.sink.options import TopicSinkOptions
from pyromq.spark.sink.plainrows import EncodedRows

DEFAULT_QUEUES = 4


BUSY = frozenset(
    {
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
    }
)
"""Answers to a message that is not stored and may be later."""

Recheck = Callable[[MessageQueue], set[str]]
"""The sequences that are stored in a queue."""


class SendFailedError(SinkError):
    """A broker refused messages, or could not be reached often enough."""

    retryable = True


class RefusedError(SinkError):
    """A broker refused messages in a way that another try does not change."""


class _Item(NamedTuple):
    sequence: str
    data: bytes | memoryview


class _Frame:
    """Messages for one queue that travel together."""

    def __init__(self, address: str, queue: MessageQueue) -> None:
        self.address = address
        self.queue = queue
        self.items: list[_Item] = []
        self.count = 0
        """Messages, of which an item may have several."""
        self.size = 0
        self.single: Outgoing | None = None
        self.place: str | None = None
        """Of the first message, where messages have places."""
        self.number = 0
        """In the order in which frames were first sent."""
        self.tries = 0

    def add(self, item: _Item, count: int = 1) -> None:
        self.items.append(item)
        self.count += count
        self.size += len(item.data)


class FrameSender:
    """One task's messages."""

    def __init__(
        self,
        wire: Wire,
        options: TopicSinkOptions,
        *,
        recheck: Recheck | None = None,
        lanes: Lanes | None = None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._wire = wire
        self._options = options
        self._recheck = recheck
        self._lanes = lanes
        self._sequences: Counter[MessageQueue] = Counter()
        self._clock = clock
        self._sleep = sleep
        self._timeout = options.send_timeout_ms / 1000
        self._compression = options.compress.kind
        self._sys_flag = 0 if self._compression is None else sysflag.COMPRESSED | self._compression.flag
        self._filling: dict[MessageQueue, _Frame] = {}
        self._under_way: deque[tuple[int, _Frame]] = deque()
        self._answers: dict[int, Command] = {}
        self._frames = 0

    def send(self, address: str, queue: MessageQueue, message: Outgoing, sequence: str = "") -> None:
        """Take a message; it leaves with its frame. Raises SendFailedError or RefusedError for any before it."""
        if message.alone:
            frame = _Frame(address, queue)
            frame.single = message
            frame.add(_Item(sequence, b""))
            self._dispatch(frame)
            return
        place = self._place(queue, message)
        item = self._item(message, sequence)
        found = self._filling.get(queue)
        if found is not None and found.size + len(item.data) > self._options.send_batch_bytes:
            self._dispatch(self._filling.pop(queue))
            found = None
        if found is None:
            found = self._filling[queue] = _Frame(address, queue)
            found.place = place
        found.add(item)

    def send_encoded(self, address: str, queue: MessageQueue, rows: EncodedRows) -> None:
        """The same for messages that are encoded, without sequences, with or without `places`. Raises as `send`."""
        self._sequences[queue] += len(rows.places)
        view, ends = memoryview(rows.data), np.frombuffer(rows.ends, np.int64)
        start = row = 0
        while row < len(ends):
            frame = self._filling.get(queue)
            room = self._options.send_batch_bytes - (frame.size if frame is not None else 0)
            upto = int(np.searchsorted(ends, start + room, side="right"))
            if frame is None:
                frame = self._filling[queue] = _Frame(address, queue)
                frame.place = rows.places[row] if rows.places else None
                upto = max(upto, row + 1)
            if upto > row:
                end = int(ends[upto - 1])
                frame.add(_Item("", view[start:end]), upto - row)
                start, row = end, upto
            if row < len(ends):
                self._dispatch(self._filling.pop(queue))

    def places(self, queue: MessageQueue, count: int) -> list[str] | None:
        """Where the next messages for a queue belong; None where the broker does not care. The lane must be open."""
        first = self._sequences[queue]
        if self._lanes is None or (place := self._lanes.place(queue, first)) is None:
            return None
        prefix = place.removesuffix(str(first))
        return [f"{prefix}{number}" for number in range(first, first + count)]

    def finish(self) -> None:
        """Send what is left and wait for everything. Raises as `send`."""
        for queue in list(self._filling):
            self._dispatch(self._filling.pop(queue))
        while self._under_way:
            for frame in self._await_oldest():
                self._dispatch(frame)

    def _place(self, queue: MessageQueue, message: Outgoing) -> str | None:
        """Where the message belongs among those for its queue; it says so itself, too."""
        place = None if self._lanes is None else self._lanes.place(queue, self._sequences[queue])
        if place is not None:
            message.properties[PLACE] = place
            self._sequences[queue] += 1
        return place

    def _item(self, message: Outgoing, sequence: str) -> _Item:
        body = message.body if self._compression is None else compress(message.body, self._compression)
        properties = encode_properties(message.properties)
        return _Item(sequence, b"".join(batch_item(message.flag, body, properties)))

    def _dispatch(self, frame: _Frame) -> None:
        if not frame.number:
            frame.number = self._frames = self._frames + 1
        waiting = deque([frame])
        while waiting:
            while len(self._under_way) >= self._options.send_in_flight:
                waiting.extendleft(reversed(self._await_oldest()))
            each = waiting.popleft()
            each.tries += 1
            try:
                number = self._wire.send(each.address, self._command(each), self._timeout)
            except RemotingError as error:
                waiting.extendleft(reversed(self._lost(each, error)))
            else:
                self._under_way.append((number, each))

    def _command(self, frame: _Frame) -> Command:
        single = frame.single
        header = SendMessageV2Header(
            producer_group=self._options.producer_group,
            topic=frame.queue.topic,
            default_topic=DEFAULT_TOPIC,
            default_topic_queue_nums=DEFAULT_QUEUES,
            queue_id=frame.queue.queue_id,
            sys_flag=self._sys_flag,
            born_timestamp=int(self._clock() * 1000),
            flag=single.flag if single else 0,
            properties=encode_properties(single.properties).decode() if single else "",
            reconsume_times=0,
            unit_mode=False,
            batch=single is None,
            bname=frame.queue.broker_name,
        )
        if single is None:
            return Command.request(
                RequestCode.SEND_BATCH_MESSAGE,
                header,
                body=b"".join([item.data for item in frame.items]),
                ext=self._ext(frame),
            )
        body = single.body if self._compression is None else compress(single.body, self._compression)
        return Command.request(RequestCode.SEND_MESSAGE_V2, header, body=body)

    def _ext(self, frame: _Frame) -> dict[str, str] | None:
        if self._lanes is None or frame.place is None:
            return None
        return {WRITER_FIELD: self._lanes.writer, PLACE_FIELD: frame.place}

    def _await_oldest(self) -> list[_Frame]:
        """Wait for one acknowledgement; returns what must be sent again."""
        number, frame = self._under_way.popleft()
        try:
            answer = self._answers.pop(number, None)
            while answer is None:
                got = self._wire.receive(frame.address, self._timeout)
                if got.opaque == number:
                    answer = got
                else:
                    self._answers[got.opaque] = got
        except (RemotingError, ProtocolError) as error:
            return self._lost(frame, error)
        unsafe = answer.code == ResponseCode.FLUSH_DISK_TIMEOUT and frame.place is not None
        if answer.code in STORED and not unsafe:
            return []
        if answer.code == ResponseCode.OUT_OF_SEQUENCE and self._follows(frame):
            frame.tries -= 1
            return [frame]
        busy = answer.code in BUSY or unsafe
        if busy and frame.tries <= self._options.send_retries:
            self._sleep(pause_after(frame.tries))
            return [frame]
        kind = SendFailedError if busy else RefusedError
        raise kind(
            f"{frame.queue.broker_name} did not take {frame.count} messages for {frame.queue.topic} queue "
            f"{frame.queue.queue_id}: {answer.code} {answer.remark}"
        )

    def _follows(self, frame: _Frame) -> bool:
        """Whether one that must be stored before this frame is under way again."""
        return any(each.queue == frame.queue and each.number < frame.number for _, each in self._under_way)

    def _lost(self, frame: _Frame, error: Exception) -> list[_Frame]:
        """Nobody knows what became of this frame and all others to that broker: wait, look, keep what is not stored."""
        self._wire.disconnect(frame.address)
        lost = [frame]
        kept: deque[tuple[int, _Frame]] = deque()
        for number, each in self._under_way:
            if each.address == frame.address and number not in self._answers:
                lost.append(each)
            else:
                kept.append((number, each))
        self._under_way = kept
        lost.sort(key=lambda each: each.number)
        tries = max(each.tries for each in lost)
        while True:
            if tries > self._options.send_retries:
                raise SendFailedError(
                    f"{frame.address} could not be reached for {frame.queue.topic}, tried {tries} times: {error}"
                ) from error
            self._sleep(pause_after(tries))
            try:
                return [each for each in lost if self._unstored(each)]
            except RemotingError as again:
                tries += 1
                error = again

    def _unstored(self, frame: _Frame) -> bool:
        """Take out what is stored; returns whether something is left."""
        if self._recheck is not None and frame.place is None:
            stored = self._recheck(frame.queue)
            frame.items = [item for item in frame.items if item.sequence not in stored]
            frame.count = len(frame.items)
        return bool(frame.items)
