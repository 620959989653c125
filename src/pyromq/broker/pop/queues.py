"""Taking messages out of queues for one pop: where a group stands, what it may have, and the note that it has it.

Everything here happens in one call of one thread, so two pops never see the same position.
"""

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from pyromq.broker.config import BrokerConfig
from pyromq.broker.core import Core
from pyromq.broker.delay.detour import record_for
from pyromq.broker.filter.filters import Filter
from pyromq.broker.pop.buffer import PopBuffer
from pyromq.broker.pop.records import PopCheckpoint
from pyromq.broker.tables.topics import Topics
from pyromq.protocol import names
from pyromq.protocol.errors import MessageError
from pyromq.protocol.handles.pop import PopHandle, QueueKey, encode_order_counts, retry_flag
from pyromq.protocol.properties import Property, append_properties, find_property
from pyromq.protocol.records.record import peek_record
from pyromq.store.queue.read import GetResult, GetStatus

FROM_OLDEST = 0

_MISPLACED = frozenset({GetStatus.OFFSET_TOO_SMALL, GetStatus.OFFSET_FOUND_NULL})
_PASSED = frozenset({GetStatus.NO_MATCHED_MESSAGE, GetStatus.OFFSET_FOUND_NULL, GetStatus.MESSAGE_WAS_REMOVING})


@dataclass(frozen=True, slots=True)
class Wish:
    """What a pop asks for, whichever queue it is served from."""

    topic: str
    group: str
    invisible_time: int
    init_mode: int
    filter: Filter
    ordered: bool = False
    attempt_id: str | None = None


@dataclass(slots=True)
class Grant:
    """What a pop has got so far. `left` is how many messages it may still have."""

    pop_time: int
    revive_queue: int
    left: int
    count: int = 0
    size: int = 0
    rest: int = 0
    """Messages behind those given out, wanted or not."""
    more: bool = False
    """Some of the rest was not looked at and may be wanted."""
    blocked_until: int | None = None
    """When the first queue that an earlier ordered pop blocks may be free again."""
    chunks: list[bytes | memoryview] = field(default_factory=list)
    starts: dict[QueueKey, int] = field(default_factory=dict)
    offsets: dict[QueueKey, list[int]] = field(default_factory=dict)
    order_counts: list[str] = field(default_factory=list)


class QueueTurns:
    """In which order topics and queues are read: a little different each time, so that none is left behind."""

    def __init__(self, config: BrokerConfig, topics: Topics, rng: random.Random) -> None:
        self._config = config
        self._topics = topics
        self._rng = rng
        # Whether a form of retry topics joins group and topic with a plus sign.
        self._forms = [False]
        if config.enable_retry_topic_v2:
            self._forms = [False, True] if config.retrieve_message_from_pop_retry_topic_v1 else [True]

    def __call__(
        self, topic: str, group: str, queue_id: int, *, retries: bool = True, every_retry: bool = False
    ) -> Iterator[tuple[str, int]]:
        """Topics and queue ids; retry topics come first now and then, else last.

        Where retry topics of both forms are in use, a turn has one of them, unless `every_retry`.
        """
        turn = self._rng.randrange(100)
        own = self._queues(topic, turn) if queue_id < 0 else iter([(topic, queue_id)])
        if not retries:
            return own
        forms = self._forms if every_retry else self._forms[turn % len(self._forms) :][:1]
        again = itertools.chain.from_iterable(
            self._queues(names.pop_retry_topic(group, topic, plus=plus), turn) for plus in forms
        )
        if turn < self._config.pop_from_retry_probability:
            return itertools.chain(again, own)
        return itertools.chain(own, again)

    def _queues(self, topic: str, turn: int) -> Iterator[tuple[str, int]]:
        known = self._topics.get(topic)
        count = known.read_queue_nums if known is not None else 0
        return ((topic, (turn + number) % count) for number in range(count))


class PopQueues:
    """Pops single queues."""

    def __init__(self, core: Core, buffer: PopBuffer) -> None:
        self._config = core.config
        self._store = core.store
        self._offsets = core.offsets
        self._batches = core.tables.batches
        self._buffer = buffer

    def position(self, topic: str, group: str, queue_id: int) -> int | None:
        """From where the group would pop a queue now; None when it never did. Changes nothing."""
        stored = self._offsets.get(group, topic, queue_id)
        pending = self._buffer.next_offset((topic, group, queue_id))
        return pending if stored is None or (pending is not None and pending > stored) else stored

    def backlog(self, topic: str, group: str, queue_id: int) -> int:
        """Messages of a queue that the group has not popped."""
        begin = self.position(topic, group, queue_id)
        if begin is None:
            begin = self._store.min_offset(topic, queue_id)
        return max(0, self._store.max_offset(topic, queue_id) - begin)

    def blocked_until(self, wish: Wish, topic: str, queue_id: int) -> int | None:
        """When an ordered wish can be served from a queue; None for now."""
        if not wish.ordered:
            return None
        return self._batches.blocked_until(topic, wish.group, queue_id, wish.attempt_id, wish.invisible_time)

    def take(self, wish: Wish, topic: str, queue_id: int, grant: Grant) -> None:
        """Add what a queue of the topic, or of a retry topic of it, has for the group. Raises Refused at a bound."""
        key = topic, wish.group, queue_id
        if self._offsets.take_reset(wish.group, topic, queue_id) is not None:
            self._buffer.forget(key)
            self._batches.forget(*key)
        until = self.blocked_until(wish, topic, queue_id)
        if until is not None:
            grant.blocked_until = min(until, grant.blocked_until or until)
        if until is not None or grant.left <= 0 or self._buffer.full(key):
            grant.rest += self.backlog(*key)
            return
        offset = self._begin(wish, topic, queue_id)
        result = self._read(wish, topic, queue_id, offset, grant.left)
        if result.status is GetStatus.OFFSET_OVERFLOW_BADLY:
            self._buffer.forget(key)
            self._offsets.commit(wish.group, topic, queue_id, result.next_offset)
        elif result.status in _MISPLACED:
            self._pass(wish, topic, queue_id, result.next_offset)
        if result.status in _MISPLACED or result.status is GetStatus.OFFSET_OVERFLOW_BADLY:
            offset = result.next_offset
            result = self._read(wish, topic, queue_id, offset, grant.left)
        if result.status is GetStatus.FOUND:
            self._give(wish, topic, queue_id, offset, result, grant)
        elif result.status in _PASSED and result.next_offset > offset:
            self._pass(wish, topic, queue_id, result.next_offset)
            grant.more |= result.max_offset > result.next_offset
        grant.rest += max(0, result.max_offset - result.next_offset)

    def _begin(self, wish: Wish, topic: str, queue_id: int) -> int:
        offset = self.position(topic, wish.group, queue_id)
        if offset is None:
            offset = self._first(wish, topic, queue_id)
            self._offsets.commit(wish.group, topic, queue_id, offset)
        return offset

    def _first(self, wish: Wish, topic: str, queue_id: int) -> int:
        """Where a group begins that has no position."""
        store = self._store
        oldest = store.min_offset(topic, queue_id)
        if wish.init_mode == FROM_OLDEST or names.is_retry_topic(topic):
            return oldest
        whole = self._config.init_pop_offset_by_check_msg_in_mem and oldest <= 0
        if whole and store.in_memory(topic, queue_id, 0):
            return 0
        return max(store.max_offset(topic, queue_id) - 1, 0)

    def _read(self, wish: Wish, topic: str, queue_id: int, offset: int, count: int) -> GetResult:
        if names.is_retry_topic(topic):
            # Everything there was given to the group before.
            return self._store.get(topic, queue_id, offset, count)
        return self._store.get(
            topic, queue_id, offset, count, tag_filter=wish.filter.entry, record_filter=wish.filter.record
        )

    def _pass(self, wish: Wish, topic: str, queue_id: int, next_offset: int) -> None:
        if wish.ordered:
            self._offsets.commit(wish.group, topic, queue_id, next_offset)
        else:
            self._buffer.skip((topic, wish.group, queue_id), next_offset)

    def _give(self, wish: Wish, topic: str, queue_id: int, start: int, result: GetResult, grant: Grant) -> None:
        flag, given = retry_flag(topic), result.queue_offsets
        if wish.ordered:
            counts = self._batches.popped(
                topic, wish.group, queue_id, given, grant.pop_time, wish.invisible_time, wish.attempt_id
            )
            grant.order_counts.append(encode_order_counts(flag, queue_id, counts, result.count))
            self._offsets.commit(wish.group, topic, queue_id, start)
        else:
            checkpoint = PopCheckpoint(
                broker_name=self._config.broker_name,
                group=wish.group,
                distances=[offset - start for offset in given],
                invisible_time=wish.invisible_time,
                count=result.count,
                pop_time=grant.pop_time,
                queue_id=queue_id,
                start_offset=start,
                topic=topic,
            )
            if not self._buffer.add(checkpoint, result.next_offset, grant.revive_queue):
                return
        grant.starts[flag, queue_id] = start
        grant.offsets[flag, queue_id] = given
        grant.count += result.count
        grant.left -= result.count
        if topic == wish.topic or self._config.pop_response_return_actual_retry_topic:
            grant.chunks += result.chunks
            grant.size += result.size
            return
        for record, offset in zip(result.records(), given, strict=True):
            handle = PopHandle(
                start,
                grant.pop_time,
                wish.invisible_time,
                grant.revive_queue,
                flag,
                self._config.broker_name,
                queue_id,
                offset,
            )
            again = as_first_popped(record, wish.topic, handle)
            grant.chunks.append(again)
            grant.size += len(again)


def as_first_popped(record: memoryview, topic: str, handle: PopHandle) -> bytes | memoryview:
    """A record of a retry topic as consumers are to see it: under its original topic, with its handle."""
    try:
        summary = peek_record(record, 0)
    except MessageError:  # of no use to anybody, but those beside it are
        return record
    properties = summary.properties
    if find_property(properties, Property.POP_CK) is None:
        try:
            properties = append_properties(properties, {Property.POP_CK: handle.encode()})
        except MessageError:
            return record  # no room: under the name of the retry topic, clients find the handle themselves
    return record_for(summary, record, topic, summary.queue_id, properties)
