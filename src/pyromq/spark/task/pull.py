"""Reading ranges of queues from brokers: the loop of a task.

A range is cut into slices of `pullBatchSize` offsets. Several slices are under way at a time, and they are handed out
in order: so even one queue keeps the broker busy, whatever it returns at a time, and the rows of a queue stay in order.
Gaps in offsets are normal (filters, compaction); what a broker no longer has is a loss, and the policy decides.
"""

import itertools
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations

from pyromq.arrow.errors import ReadError
from pyromq.arrow.policy import CorruptRecords
from pyromq.arrow.pulled import Pulled
from pyromq.arrow.rowshape import RowShape
from pyromq.client.errors import BrokerError
from pyromq.clock import pause_after
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.errors import ProtocolError
from pyromq.protocol.headers.consume import PullMessageResponseHeader
from pyromq.protocol.message import MessageQueue
from pyromq.protocol.requests import NOTHING_PULLED, PASSING
from pyromq.remoting.errors import RemotingError
from pyromq.spark.errors import DataLossError, LostRange, RouteError
from pyromq.spark.net.patience import FAULTS
from pyromq.spark.source.brokers.cluster import Cluster
from pyromq.spark.source.offsets import Range
from pyromq.spark.source.options import DataLoss, SourceOptions
from pyromq.spark.task.quota import Quota

log = logging.getLogger(__name__)

MAX_RESPONSE = 4 << 20
"""Bytes asked for at a time."""
DOUBTS = 5
"""Times that nobody serves a queue before it may count as deleted."""

MAX_CACHED = 16
"""Sets of connections kept in one process."""

Body = bytes | memoryview

_GONE = frozenset({ResponseCode.TOPIC_NOT_EXIST, ResponseCode.INVALID_PARAMETER})


@dataclass
class _Slice:
    """Part of a range that one request after another is made for."""

    wanted: Range
    offset: int
    found: deque[tuple[Body, int]] = field(default_factory=deque)
    """Bodies, and what is to be added to the offsets in them."""
    address: str = ""
    opaque: int = 0
    """Number of the request that is under way, 0 without one."""
    faults: int = 0
    not_before: float = 0.0
    is_done: bool = False

    @property
    def queue(self) -> MessageQueue:
        return MessageQueue(self.wanted.topic, self.wanted.broker, self.wanted.queue)


class Puller:
    """Reads ranges for one task."""

    def __init__(
        self,
        options: SourceOptions,
        cluster: Cluster,
        *,
        on_loss: Callable[[LostRange], None] | None = None,
        quota: Quota | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._options = options
        self._on_loss = on_loss
        self._quota = quota or Quota(clock)
        self._cluster = cluster
        self._wire = cluster.wire
        self._clock = clock
        self._sleep = sleep
        self._timeout = options.pull_timeout_ms / 1000

    def batches(self, ranges: Sequence[Range], shape: RowShape) -> Iterator[pa.RecordBatch]:
        """The rows of the ranges. Raises ReadError, DataLossError or BadRecordError."""
        pulled = Pulled()
        for wanted, body, delta in self.responses(ranges):
            pulled.add(body, wanted.topic, wanted.broker, wanted.start, wanted.end, delta)
            if pulled.is_full:
                yield from pulled.batches(shape)
                pulled = Pulled()
        if not pulled.is_empty:
            yield from pulled.batches(shape)

    def responses(self, ranges: Sequence[Range]) -> Iterator[tuple[Range, Body, int]]:
        """Records as brokers send them, slice after slice, each with the slice it belongs to."""
        waiting = self._slices(ranges)
        window = deque(itertools.islice(waiting, self._options.pull_in_flight))
        try:
            while window:
                head = window[0]
                while head.found:
                    yield head.wanted, *head.found.popleft()
                if head.is_done:
                    window.popleft()
                    window.extend(itertools.islice(waiting, 1))
                    continue
                for each in window:
                    if each is head or not each.found:  # or large messages would pile up behind the first slice
                        self._ask(each)
                self._hear(window)
        finally:
            # Answers that nobody waits for any more must not be taken for others.
            for address in {each.address for each in window if each.opaque}:
                self._wire.disconnect(address)

    def _slices(self, ranges: Sequence[Range]) -> Iterator[_Slice]:
        """In order for each queue, those of several brokers in turn: so all of them are at work."""
        by_broker: dict[str, list[Range]] = {}
        for each in ranges:
            by_broker.setdefault(each.broker, []).append(each)
        rounds = itertools.zip_longest(*(self._slices_of(each) for each in by_broker.values()))
        return (each for turn in rounds for each in turn if each is not None)

    def _slices_of(self, ranges: Sequence[Range]) -> Iterator[_Slice]:
        step = self._options.pull_batch_size
        for each in ranges:
            for start in range(each.start, each.end, step):
                yield _Slice(each._replace(start=start, end=min(start + step, each.end)), start)

    def _ask(self, each: _Slice) -> None:
        if each.is_done or each.opaque or each.not_before > self._clock():
            return
        broker = each.wanted.broker
        if pause := self._quota.pause(broker):
            each.not_before = self._clock() + pause
            return
        queue = each.queue
        count = min(each.wanted.end - each.offset, self._options.pull_batch_size)
        try:
            each.address = self._cluster.address(queue, or_slave=True)
            command = self._cluster.filtered_pull(queue, each.offset, count, self._quota.portion(broker, MAX_RESPONSE))
            each.opaque = self._wire.send(each.address, command, self._timeout)
        except (RemotingError, RouteError) as error:
            self._failed(each, error)

    def _hear(self, window: Sequence[_Slice]) -> None:
        """Wait for one answer; when nothing is under way, until the first slice may be tried again."""
        asked = [each for each in window if each.opaque]
        if not asked:
            self._sleep(max(window[0].not_before - self._clock(), 0.0))
            return
        address = asked[0].address
        try:
            answer = self._wire.receive(address, self._timeout)
        except (RemotingError, ProtocolError) as error:
            self._wire.disconnect(address)
            for each in asked:
                if each.address == address:
                    self._failed(each, error)
            return
        for each in asked:
            if each.opaque == answer.opaque:
                each.opaque = 0
                self._quota.spent(each.wanted.broker, len(answer.body))
                self._take(each, answer)

    def _take(self, each: _Slice, answer: Command) -> None:
        if answer.code in _GONE:
            self._lost(each, each.wanted.end, "deleted")
            return
        if answer.code != ResponseCode.SUCCESS and answer.code not in NOTHING_PULLED:
            error = BrokerError(answer.code, answer.remark, broker=each.wanted.broker, request="PULL_MESSAGE")
            if answer.code not in PASSING:
                raise ReadError(f"{each.wanted} cannot be read: {error}") from error
            self._failed(each, error)
            return
        try:
            header = answer.header(PullMessageResponseHeader)
        except ProtocolError as error:
            raise ReadError(f"answer about {each.wanted} cannot be read: {error}") from error
        delta = header.offset_delta or 0
        if answer.code == ResponseCode.SUCCESS:
            each.found.append((memoryview(answer.body), delta))
        elif answer.code == ResponseCode.PULL_OFFSET_MOVED:
            moved_on = header.next_begin_offset > each.offset
            upto, reason = (header.next_begin_offset, "expired") if moved_on else (each.wanted.end, "truncated")
            self._lost(each, upto, reason)
            return
        if header.next_begin_offset <= each.offset:
            # A slave that is behind, or records on their way out of the store: soon there is an answer.
            self._failed(each, ReadError(f"{each.wanted.broker} has nothing at {each.offset}: {answer.remark}"))
            return
        if lost := header.left_out():
            self._left_out(each, lost)
        each.faults = 0
        each.offset = header.next_begin_offset
        each.is_done = each.offset >= each.wanted.end

    def _left_out(self, each: _Slice, offsets: Sequence[int]) -> None:
        """The broker has no readable record there: nothing of them can be a row."""
        places = ", ".join(map(str, offsets))
        text = f"{each.wanted.broker} left out messages {places} of {each.wanted}: their records are damaged"
        if self._options.corrupt_records is CorruptRecords.FAIL:
            raise ReadError(f"{text}; corruptRecords=keep or skip go on")
        log.warning("%s", text)

    def _lost(self, each: _Slice, upto: int, reason: str) -> None:
        upto = min(upto, each.wanted.end)
        lost = LostRange(*each.wanted[:3], each.offset, upto, reason)
        if self._options.fail_on_data_loss is DataLoss.FAIL:
            raise DataLossError([lost])
        log.warning("passing over messages that are gone: %s", lost)
        if self._on_loss is not None:
            self._on_loss(lost)
        each.offset = upto
        each.is_done = upto >= each.wanted.end

    def _failed(self, each: _Slice, error: Exception) -> None:
        each.opaque = 0
        each.faults += 1
        is_late = each.faults > min(DOUBTS, self._options.pull_retries)
        if is_late and isinstance(error, RouteError) and self._is_deleted(each.queue):
            self._lost(each, each.wanted.end, "deleted")
            return
        if each.faults > self._options.pull_retries:
            raise ReadError(f"{each.wanted} cannot be read after {each.faults} attempts: {error}") from error
        each.not_before = self._clock() + pause_after(each.faults)
        self._cluster.refresh(each.wanted.topic)

    def _is_deleted(self, queue: MessageQueue) -> bool:
        """Whether its broker lives and does not have it: without this a batch that was planned could never end."""
        try:
            route = self._wire.route(self._options.wire_name(queue.topic), self._timeout)
            living = self._cluster.living_brokers()
        except FAULTS:
            return False
        serving = set() if route is None else {broker.broker_name for broker in route.broker_datas}
        return queue.broker_name in living - serving


_cached: dict[tuple[object, ...], Cluster] = {}


def cached_cluster(options: SourceOptions) -> Cluster:
    """The connections of this process for these options: tasks of one worker share them, one after another."""
    key = (os.getpid(), *options.identity)
    cluster = _cached.get(key)
    if cluster is None:
        for stale in [each for each in _cached if each[0] != key[0]]:
            del _cached[stale]  # a fork's copies of its parent's sockets
        if len(_cached) >= MAX_CACHED:
            _cached.pop(next(iter(_cached))).wire.close()
        cluster = _cached[key] = Cluster(options)
    cluster.options = options
    return cluster


def close_cached() -> None:
    """Close the connections that this process keeps for its tasks."""
    while _cached:
        _cached.popitem()[1].wire.close()
