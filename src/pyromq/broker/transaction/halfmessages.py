"""The half messages whose outcome is not known yet, and how far their two queues have been dealt with.

Each half message lies in the half queue; its end is a record in the op queue that names its queue offset. What is
open is therefore known from the log alone: every half message that no op names. It is kept in memory here, so that a
transaction ends once, and rebuilt at the start from where the stored offsets of CID_RMQ_SYS_TRANS point.

A half message is known by the offset it was first stored at, its origin. One that stays open for very long is copied to
the end of its queue, so that a restart need not read far; the copy names its origin in TRAN_PREPARED_QUEUE_OFFSET.

An op is a record of its own with one decimal number in its body, the form that every release of Apache's broker reads;
its 5.x writes several numbers with commas into one, which 4.x does not understand. Both forms are read here.
"""

import heapq
import logging
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from pyromq.broker.core import Core
from pyromq.broker.delay.detour import copy_of, number, read_record, real_place
from pyromq.broker.tables.shares import Shares
from pyromq.protocol import names
from pyromq.protocol.properties import Property, decode_properties, encode_properties
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.record import RecordSummary, peek_record
from pyromq.store.arrival import Arrival
from pyromq.store.config import BrokerRole
from pyromq.store.log.put import PutMessage

log = logging.getLogger(__name__)

HALF = names.TRANS_HALF_TOPIC
OP = names.TRANS_OP_HALF_TOPIC
DISCARDED = names.TRANS_CHECK_MAX_TIME_TOPIC
GROUP = names.TRANSACTION_GROUP

OP_TAG = "d"
PAGE = 32
MAX_DIGITS = 19
MAX_EXPECTED = 65_536


@dataclass(slots=True)
class Half:
    """One open transaction."""

    origin: int
    offset: int
    """Where in the half queue it lies now."""
    physical: int
    topic: str
    due: int
    """When to ask its producers next."""
    checks: int = 0
    party: str = ""
    """Whose share it counts in."""
    copy: int | None = None
    """Offset of a copy that is stored but not visible yet."""


def origin_of(queue_offset: int, properties: Mapping[str, str]) -> int:
    """The identity of a half message: its own offset, unless it is a copy."""
    origin = number(properties.get(Property.TRANSACTION_PREPARED_QUEUE_OFFSET), MAX_DIGITS)
    return queue_offset if origin is None else origin


class HalfMessages:
    """Open transactions by origin. Tell `arrived` about the half queue, call `tick` several times a second."""

    def __init__(self, core: Core) -> None:
        config = self._config = core.config
        self._store = core.store
        self._offsets = core.offsets
        self._clock = core.clock
        self._open: OrderedDict[int, Half] = OrderedDict()  # in the order of the half queue
        self._agenda: list[tuple[int, int]] = []  # (due, origin), with entries that are out of date
        self._ended_early: set[int] = set()  # half queue offsets, ended before they were visible
        self._ops: deque[tuple[int, int]] = deque()  # (op queue offset, half queue offset) not below the cursors
        self._unwritten: deque[int] = deque()  # ends whose op the store refused
        self._seen = 0
        self._looked = 0
        self._cursors: tuple[int, int, int] | None = None
        self._expected: OrderedDict[str, str] = OrderedDict()  # unique id to party, of what is about to be stored
        most = config.max_pending_transactions
        self.shares = Shares("the transactions without an outcome (maxPendingTransactions)", most, most - most // 4)

    def __len__(self) -> int:
        return len(self._open)

    def expect(self, unique: str, topic: str, party: str) -> None:
        """A party is about to store a half message. Raises Refused when its share, or the room for all, is used up.

        The log does not tell the party, so after a restart, and for messages without an id of their own, the topic is
        what has the share.
        """
        party = party if unique and unique not in self._expected else topic
        self.shares.check(party)
        self._expected[unique] = party
        if len(self._expected) > MAX_EXPECTED:
            self._expected.popitem(last=False)

    def counts(self) -> Counter[str]:
        """Open transactions by topic."""
        return Counter(half.topic for half in self._open.values())

    def immunity(self, properties: Mapping[str, str]) -> int:
        """How many ms a half message has before the first check; its own wish counts if it is longer."""
        seconds = number(properties.get(Property.CHECK_IMMUNITY_TIME), MAX_DIGITS)
        return max(self._config.transaction_time_out, (seconds or 0) * 1000)

    def load(self, *, acting: bool = False) -> None:
        """Find out what is open, before anything is put; on a slave only when it is `acting` for its master."""
        self._open.clear()
        self._expected.clear()
        self.shares.clear()
        self._agenda.clear()
        self._ended_early.clear()
        self._unwritten.clear()
        self._ops.clear()
        self._cursors = None
        if self._store.role is BrokerRole.SLAVE and not acting:
            return
        self._ops.extend(self._read_ops())
        ended = {half_offset for _, half_offset in self._ops}
        self._seen = self._first(HALF)
        for record in self._records(HALF, self._seen):
            summary = peek_record(record, 0)
            self._seen = summary.queue_offset + 1
            properties = _properties(summary)
            if not {summary.queue_offset, origin_of(summary.queue_offset, properties)} & ended:
                self._enter(summary.queue_offset, summary.physical_offset, summary.store_timestamp, properties)
        for origin in self._carried_out():
            if acting:
                self.forget(origin)
                continue
            log.info("the end of transaction %d was not noted before the broker stopped, doing so now", origin)
            self.end(origin)
        if self._open:
            log.info("%d transactions are open", len(self._open))

    def arrived(self, record: Arrival) -> None:
        """A record of the half queue became visible: it is open from now on. A slave keeps no track."""
        if self._store.role is BrokerRole.SLAVE:
            return
        self._seen = record.queue_offset + 1
        if record.queue_offset in self._ended_early:
            self._ended_early.discard(record.queue_offset)
        else:
            self._enter(record.queue_offset, record.physical_offset, record.store_timestamp, record.properties)

    def is_open(self, queue_offset: int, properties: Mapping[str, str]) -> bool:
        """Whether the transaction of a half record has no outcome yet."""
        if queue_offset >= self._seen and queue_offset not in self._ended_early:
            return True
        return origin_of(queue_offset, properties) in self._open

    def get(self, queue_offset: int, properties: Mapping[str, str]) -> Half | None:
        """The open transaction that a visible half record belongs to."""
        return self._open.get(origin_of(queue_offset, properties))

    def end(self, origin: int) -> None:
        """The transaction is over: forget it and note that in the op queue."""
        half = self.forget(origin)
        if half is None:
            self._ended_early.add(origin)
            offsets = {origin}
        else:
            offsets = {origin, half.offset}
            if half.copy is not None:
                self._ended_early.add(half.copy)
                offsets.add(half.copy)
        self._unwritten.extend(sorted(offsets))
        self.write_ops()

    @property
    def oldest(self) -> Half | None:
        """The first one of the half queue that is open."""
        return next(iter(self._open.values()), None)

    def forget(self, origin: int) -> Half | None:
        """The transaction is open no more, and only the stored offsets tell so: right for the oldest one."""
        half = self._open.pop(origin, None)
        if half is not None:
            self.shares.give_back(half.party)
        return half

    def write_ops(self) -> bool:
        """Note all ends in the op queue; False when the store takes nothing now."""
        while self._unwritten:
            half_offset = self._unwritten[0]
            properties = {Property.TAGS: OP_TAG}
            result = self._store.put(
                PutMessage(
                    OP,
                    0,
                    str(half_offset).encode(),
                    encode_properties(properties),
                    properties,
                    born_timestamp=self._clock(),
                )
            )
            if not result.stored:
                return False
            self._unwritten.popleft()
            self._ops.append((result.queue_offset, half_offset))
        return True

    def take_due(self, limit: int) -> list[Half]:
        """Transactions whose producers are to be asked now. Give each a new date with `schedule`, or end it."""
        now, before = self._clock(), self._looked
        self._looked = now
        if now < before:
            self._set_back(now, before - now)
        due: list[Half] = []
        while self._agenda and self._agenda[0][0] <= now and len(due) < limit:
            when, origin = heapq.heappop(self._agenda)
            half = self._open.get(origin)
            if half is not None and half.due == when:
                due.append(half)
        return due

    def schedule(self, half: Half, due: int) -> None:
        """Ask for this one at another time."""
        half.due = due
        if len(self._agenda) > 2 * len(self._open) + 1024:
            self._renew_agenda()
        heapq.heappush(self._agenda, (due, half.origin))

    def _set_back(self, now: int, step: int) -> None:
        """The clock went back: what is further away than one wait keeps its distance, instead of waiting for it too."""
        wait = max(self._config.transaction_time_out, self._config.transaction_check_interval)
        for half in self._open.values():
            if half.due > now + wait:
                half.due = max(half.due - step, now)
        self._renew_agenda()

    def _renew_agenda(self) -> None:
        self._agenda = [(half.due, origin) for origin, half in self._open.items()]
        heapq.heapify(self._agenda)

    def tick(self, limit: int) -> None:
        """Write what could not be written, keep the queues short, move the stored offsets."""
        self.write_ops()
        self._shorten(limit)
        self.move_cursors()

    def _enter(self, offset: int, physical: int, stored: int, properties: Mapping[str, str]) -> None:
        origin = origin_of(offset, properties)
        known = self._open.get(origin)
        if known is not None:
            known.offset, known.physical, known.copy = offset, physical, None
            self._open.move_to_end(origin)
            return
        topic = properties.get(Property.REAL_TOPIC, "")
        checks = number(properties.get(Property.TRANSACTION_CHECK_TIMES), MAX_DIGITS) or 0
        party = self._expected.pop(properties.get(Property.UNIQ_KEY, ""), topic)
        self.shares.take(party)
        half = self._open[origin] = Half(origin, offset, physical, topic, 0, checks, party)
        self.schedule(half, min(stored, self._clock()) + self.immunity(properties))

    def _shorten(self, limit: int) -> None:
        """Copy what has been open for so long that a restart would have to read much more than what is open."""
        window = 2 * self._config.max_pending_transactions
        if not self._open or self._seen - self._first_open() <= window:
            return
        for half in list(islice(self._open.values(), limit)):
            if self._seen - half.offset <= window or half.copy is not None:
                break
            found = read_record(self._store, half.physical, None)
            if found is None:
                self.end(half.origin)
                continue
            summary, record = found
            properties = _properties(summary) | {
                Property.TRANSACTION_PREPARED_QUEUE_OFFSET: str(half.origin),
                Property.TRANSACTION_CHECK_TIMES: str(half.checks),
            }
            copy = self._store.put(copy_of(summary, record, (HALF, 0), encode_properties(properties), properties))
            if not copy.stored:
                break
            half.copy = copy.queue_offset

    def _first_open(self) -> int:
        return next(iter(self._open.values())).offset

    def move_cursors(self) -> None:
        """Store how far the queues are dealt with, once all that this rests on is on disk."""
        if self._cursors is not None and self._store.progress.flushed >= self._cursors[2]:
            self._offsets.commit(GROUP, HALF, 0, self._cursors[0])
            self._offsets.commit(GROUP, OP, 0, self._cursors[1])
            self._cursors = None
        if self._cursors is None and not self._unwritten:
            half_cursor = self._first_open() if self._open else self._seen
            while self._ops and self._ops[0][1] < half_cursor:
                self._ops.popleft()
            op_cursor = self._ops[0][0] if self._ops else self._store.max_offset(OP, 0, committed=False)
            if half_cursor != self._offsets.get(GROUP, HALF, 0) or op_cursor != self._offsets.get(GROUP, OP, 0):
                self._cursors = half_cursor, op_cursor, self._store.max_physical_offset

    def _first(self, topic: str) -> int:
        """Where to begin reading a queue: at the stored offset, as far as the queue still has it."""
        stored = self._offsets.get(GROUP, topic, 0) or 0
        return max(min(stored, self._store.max_offset(topic, 0)), self._store.min_offset(topic, 0))

    def _records(self, topic: str, offset: int) -> Iterator[memoryview]:
        while True:
            page = self._store.get(topic, 0, offset, PAGE)
            yield from page.records()
            if page.next_offset <= offset:
                return
            offset = page.next_offset

    def _read_ops(self) -> Iterator[tuple[int, int]]:
        for record in self._records(OP, self._first(OP)):
            summary = peek_record(record, 0)
            for text in str(record[summary.body_start : summary.body_end], "latin-1").split(","):
                half_offset = number(text.strip(), MAX_DIGITS)
                if half_offset is not None:
                    yield summary.queue_offset, half_offset

    def _carried_out(self) -> set[int]:
        """Open transactions that were carried out, but not noted, when the broker was stopped between the two.

        The two records follow each other in the log, so such a message is the very last of the queue it belongs to.
        """
        places = {(DISCARDED, 0)}
        for half in self._open.values():
            found = read_record(self._store, half.physical, None)
            if found is not None and (place := real_place(_properties(found[0]))) is not None:
                places.add(place)
        return {origin for place in places if (origin := self._origin_of_last(*place)) is not None}

    def _origin_of_last(self, topic: str, queue_id: int) -> int | None:
        last = self._store.max_offset(topic, queue_id) - 1
        for record in self._store.get(topic, queue_id, last, 1).records() if last >= 0 else ():
            summary = peek_record(record, 0)
            if topic != DISCARDED and sysflag.transaction_type(summary.sys_flag) != sysflag.COMMIT:
                return None
            found = read_record(self._store, summary.prepared_transaction_offset, None)
            if found is None or found[0].topic != HALF:
                return None
            properties = _properties(found[0])
            half = self.get(found[0].queue_offset, properties)
            if half is not None and properties.get(Property.UNIQ_KEY) == _properties(summary).get(Property.UNIQ_KEY):
                return half.origin
        return None


def _properties(summary: RecordSummary) -> dict[str, str]:
    return decode_properties(summary.properties)
