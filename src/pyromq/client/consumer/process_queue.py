"""What a consumer holds of one queue: pulled, not yet consumed messages, how far it got, and when it is too much.

Invariant: the offset to commit is the smallest one not consumed yet, so a crash repeats messages but never skips one.
Only the event loop touches it; listeners on threads get lists of messages, not this.
"""

import asyncio
import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from pyromq.client.clock import Clock, sleep
from pyromq.protocol.message import ReceivedMessage
from pyromq.protocol.properties import Property

MIB = 1024 * 1024
LOCK_LIFE = 30.0
PULL_MAX_IDLE = 120.0


class ProcessQueue:
    """Messages by offset.

    `leaving` means that nothing more is begun and what runs still counts, `dropped` that it counts for nothing.
    """

    def __init__(self, clock: Clock, *, lock_life: float = LOCK_LIFE, pull_max_idle: float = PULL_MAX_IDLE) -> None:
        self._clock = clock
        self._lock_life = lock_life
        self._pull_max_idle = pull_max_idle
        self._waiting: dict[int, ReceivedMessage] = {}
        self._in_flight: dict[int, ReceivedMessage] = {}
        # Offsets as a heap; those that were removed from the middle are skipped when they come up.
        self._order: list[int] = []
        self._highest = -1
        """The largest offset that ever waited."""
        self._freed: asyncio.Future[None] | None = None
        self._is_full: Callable[[], bool] = bool
        """What the loop that pulls waits for, and whether it still has to."""
        self.size = 0
        self.backlog = 0
        """Messages behind the last pulled one, as the broker reported them."""
        self.max_offset = -1
        self.dropped = False
        self.leave_by: float | None = None
        """When what runs stops to count, of a queue that is being left."""
        self.begun = self.over = 0
        """Calls of a concurrent listener, and of them those that were dealt with: each counted in one place."""
        self._quiet: asyncio.Event | None = None
        self.locked = False
        self.last_lock = clock.monotonic()
        self.last_pull = clock.monotonic()
        self.last_lock_ms = self.last_pull_ms = self.last_consume_ms = 0
        self.unlock_attempts = 0

    def __len__(self) -> int:
        return len(self._waiting) + len(self._in_flight)

    @property
    def running(self) -> int:
        """Calls of a concurrent listener whose results were not dealt with yet."""
        return self.begun - self.over

    def __contains__(self, offset: int) -> bool:
        return offset in self._waiting

    @property
    def first(self) -> ReceivedMessage | None:
        """The oldest waiting message."""
        return self._waiting[self._order[0]] if self._trim() else None

    @property
    def bounds(self) -> tuple[int, int]:
        """Smallest and largest waiting offset, zeros when there is none."""
        if not self._trim():
            return 0, 0
        return self._order[0], self._highest if self._highest in self._waiting else max(self._waiting)

    @property
    def in_flight_bounds(self) -> tuple[int, int]:
        """Smallest and largest offset taken for ordered consumption, zeros when there is none."""
        return (min(self._in_flight), max(self._in_flight)) if self._in_flight else (0, 0)

    @property
    def in_flight_count(self) -> int:
        return len(self._in_flight)

    @property
    def span(self) -> int:
        """Distance between the oldest and the newest waiting message."""
        low, high = self.bounds
        return high - low

    def put(self, messages: Iterable[ReceivedMessage]) -> int:
        """Take pulled messages in; returns how many were not there yet."""
        added = size = 0
        last: ReceivedMessage | None = None
        waiting, order, newest = self._waiting, self._order, self.max_offset
        for last in messages:
            offset = last.queue_offset
            if offset not in waiting:
                added += 1
                size += len(last.body)
                newest = offset
                if offset > self._highest:
                    self._highest = offset
                heapq.heappush(order, offset)
            waiting[offset] = last
        self.max_offset = newest
        self.size += size
        if last is not None:
            self._note_backlog(last)
        return added

    def remove(self, messages: Iterable[ReceivedMessage]) -> int:
        """Consumed: forget them. Returns the offset to commit, -1 when nothing was held."""
        self.last_consume_ms = self._clock.millis()
        if not self._waiting:
            return -1
        waiting, size = self._waiting, 0
        for message in messages:
            if (known := waiting.pop(message.queue_offset, None)) is not None:
                size += len(known.body)
        self.size -= size
        self._tell_room()
        return self._order[0] if self._trim() else self.max_offset + 1

    def take(self, count: int) -> list[ReceivedMessage]:
        """For ordered consumption: the oldest messages, which stay in flight until `commit` or one of its brothers."""
        taken: list[ReceivedMessage] = []
        while len(taken) < count and self._trim():
            offset = heapq.heappop(self._order)
            message = self._in_flight[offset] = self._waiting.pop(offset)
            taken.append(message)
        if taken:
            self.last_consume_ms = self._clock.millis()
        return taken

    def commit(self) -> int:
        """All in flight are consumed. Returns the offset to commit, -1 when none was in flight."""
        if not self._in_flight:
            return -1
        last = max(self._in_flight)
        self.size -= sum(len(message.body) for message in self._in_flight.values())
        self._in_flight.clear()
        self._tell_room()
        return last + 1

    def rollback(self) -> None:
        """All in flight wait again."""
        self.again(list(self._in_flight.values()))

    def again(self, messages: Iterable[ReceivedMessage]) -> None:
        """These wait again."""
        for message in messages:
            offset = message.queue_offset
            if self._in_flight.pop(offset, None) is not None:
                self._waiting[offset] = message
                heapq.heappush(self._order, offset)

    def clear(self) -> None:
        """Forget everything."""
        self._waiting.clear()
        self._in_flight.clear()
        self._order.clear()
        self.size = self.backlog = 0
        self.max_offset = self._highest = -1
        self._tell_room()

    async def room(self, seconds: float, is_full: Callable[[], bool]) -> None:
        """Wait so long, or until messages were taken out and it is full no more."""
        self._freed, self._is_full = asyncio.get_running_loop().create_future(), is_full
        try:
            await sleep(self._clock, seconds, self._freed)
        finally:
            self._freed = None

    def _tell_room(self) -> None:
        if self._freed is not None and not self._freed.done() and not self._is_full():
            self._freed.set_result(None)

    @property
    def leaving(self) -> bool:
        return self.leave_by is not None

    def leave(self, patience: float) -> None:
        """Begin nothing more; what runs has so many seconds from the first time this is said."""
        if self.leave_by is None:
            self.leave_by = self._clock.monotonic() + patience

    @property
    def overdue(self) -> bool:
        """Whether a queue that is being left had all of its time."""
        return self.leave_by is not None and self._clock.monotonic() >= self.leave_by

    def ended(self, calls: int = 1) -> None:
        """The results of calls were dealt with."""
        self.over += calls
        if not self.running and self._quiet is not None:
            self._quiet.set()

    async def quiet(self) -> None:
        """Wait until no call runs."""
        while self.running:
            self._quiet = asyncio.Event()
            await self._quiet.wait()

    def pulled(self) -> None:
        self.last_pull = self._clock.monotonic()
        self.last_pull_ms = self._clock.millis()

    def lock(self) -> None:
        """The broker granted or renewed the lock."""
        self.locked = True
        self.last_lock = self._clock.monotonic()
        self.last_lock_ms = self._clock.millis()

    @property
    def holds_lock(self) -> bool:
        return self.locked and self._clock.monotonic() - self.last_lock <= self._lock_life

    @property
    def lock_age(self) -> float:
        return self._clock.monotonic() - self.last_lock

    @property
    def pull_expired(self) -> bool:
        """Nothing was pulled for so long that whoever pulls must have died."""
        return self._clock.monotonic() - self.last_pull > self._pull_max_idle

    def _trim(self) -> bool:
        order = self._order
        while order and order[0] not in self._waiting:
            heapq.heappop(order)
        return bool(order)

    def _note_backlog(self, last: ReceivedMessage) -> None:
        try:
            behind = int(last.properties.get(Property.MAX_OFFSET, 0)) - last.queue_offset
        except ValueError:
            return
        if behind > 0:
            self.backlog = behind


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """Bounds of one queue. Passing them counts, reaching them does not; a batch on its way may overshoot."""

    count: int = 1000
    size: int = 100 * MIB
    span: int = 2000

    def exceeded(self, held: ProcessQueue, *, ordered: bool = False) -> str | None:
        """What is over its bound, or None. Ordered consumption has no bound on the span: it has no gaps."""
        if len(held) > self.count:
            return f"{len(held)} messages held, more than {self.count}"
        if held.size // MIB > self.size // MIB:
            return f"{held.size // MIB} MiB held, more than {self.size // MIB}"
        if not ordered and held.span > self.span:
            return f"offsets held span {held.span}, more than {self.span}"
        return None


@dataclass(frozen=True, slots=True)
class TopicLimits:
    """Bounds of a whole topic, shared out over the queues of it that a member owns; -1 means none."""

    count: int = -1
    size: int = -1

    def per_queue(self, base: QueueLimits, owned: int) -> QueueLimits:
        """The bounds of each of `owned` queues."""
        if owned == 0:
            return base
        if self.count != -1:
            base = replace(base, count=max(1, self.count // owned))
        if self.size != -1:
            base = replace(base, size=max(MIB, self.size // owned))
        return base
