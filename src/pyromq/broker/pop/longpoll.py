"""Held pops: requests that found nothing and wait for an arrival, for a blocked queue, or for their time to run out.

An arrival wakes one pop that waits for all queues and one that waits for the very queue, of each group; if it leaves
something over, it wakes the next. Waking never answers by itself: in the next `step` the request runs again, and is
held again when it still finds nothing. Arrivals in a group's retry topics wake its pops too.
"""

import heapq
import itertools
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyromq.broker.pace import Paced
from pyromq.broker.tables.shares import left
from pyromq.protocol import names
from pyromq.store.arrival import Arrival, Arrived

ALL_QUEUES = -1
RESUMED_PER_STEP = 64
ASKED_PER_ARRIVAL = 4
"""Members of a group should subscribe alike, so that asking the first is enough; a few more do no harm."""

WaitKey = tuple[str, str, int]
"""Topic, group, queue asked for."""


@dataclass(slots=True, eq=False)
class HeldPop:
    """One waiting request.

    `due` is when it runs again in any case; `matches` decides on arrivals in the topic itself (None: all of them will
    do), all retries are welcome.
    """

    key: WaitKey
    due: int
    matches: Callable[[int, Mapping[str, str]], bool] | None
    resume: Callable[[], None]
    party: str = ""


class PopPark:
    """All held pops of a broker."""

    def __init__(self, clock: Callable[[], int], *, capacity: int, per_key: int, force_every: int) -> None:
        self._clock = clock
        self._capacity = capacity
        self._per_key = per_key
        self._share = capacity - capacity // 4
        self._parties: Counter[str] = Counter()
        self._force_every = force_every
        self._waiting: dict[WaitKey, OrderedDict[int, HeldPop]] = {}
        self.topics: dict[str, dict[WaitKey, bool]] = {}
        """Topic, or retry topic (True), to what waits for arrivals there."""
        self._by_due: list[tuple[int, int, HeldPop]] = []
        self._woken: OrderedDict[WaitKey, None] = OrderedDict()
        self._tickets = itertools.count()
        self._count = 0
        self._next_step: int | None = None
        self.refused = 0
        """How often a bound was met."""
        self.pace = Paced(self.step)
        self.stopped = False
        """Whether nothing is to be held any more."""

    def __len__(self) -> int:
        return self._count

    def stop(self) -> None:
        """Run every request again; nothing is held any more."""
        self.pace.stop()
        self.stopped = True
        for key, waiting in list(self._waiting.items()):
            for ticket in list(waiting):
                self._resume(key, ticket)

    def held(self, key: WaitKey) -> int:
        """How many requests wait for exactly this."""
        return len(self._waiting.get(key, ()))

    def full(self, key: WaitKey, party: str = "") -> bool:
        """Whether one more would pass a bound, which is then counted; it is answered at once instead.

        One party (an address) has at most three quarters of the places.
        """
        full = (
            self._count >= self._capacity
            or self.held(key) >= self._per_key
            or (party in self._parties and self._parties[party] >= self._share)
        )
        self.refused += full
        return full

    def hold(self, pop: HeldPop) -> None:
        """Keep the request. The caller has checked `full`."""
        if len(self._by_due) > 2 * self._count + 1024:
            self._compact()
        ticket = next(self._tickets)
        waiting = self._waiting.get(pop.key)
        if waiting is None:
            waiting = self._waiting[pop.key] = OrderedDict()
            for topic, retry in _sources(pop.key):
                self.topics.setdefault(topic, {})[pop.key] = retry
        waiting[ticket] = pop
        heapq.heappush(self._by_due, (pop.due, ticket, pop))
        self._count += 1
        self._parties[pop.party] += 1
        if self._next_step is None or pop.due < self._next_step:
            self.pace.wake()

    def heard(self, arrived: Arrived) -> None:
        """The store has new messages for its readers."""
        arrivals: Sequence[Arrival] = ()
        for (topic, queue_id), _ in arrived.ends():
            for key, retry in self.topics.get(topic, {}).items():
                if key in self._woken or (not retry and key[2] not in (ALL_QUEUES, queue_id)):
                    continue
                if not retry and self._are_choosy(key):
                    arrivals = arrivals or arrived.arrivals()
                    if not any(self._wanted(key, each) for each in arrivals if each.queue_id == queue_id):
                        continue
                self._woken[key] = None
        if self._woken:
            self.pace.wake()

    def notify(self, topic: str, group: str, queue_id: int) -> None:
        """There is something for a group in a queue, whatever it is."""
        for key in ((topic, group, ALL_QUEUES), (topic, group, queue_id)):
            if key in self._waiting:
                self._woken[key] = None
        if self._woken:
            self.pace.wake()

    def step(self) -> float | None:
        """Resume what was woken or is due; see `pace.Step`."""
        for _ in range(min(RESUMED_PER_STEP, len(self._woken))):
            key, _ = self._woken.popitem(last=False)
            waiting = self._waiting.get(key)
            if waiting:
                self._resume(key, next(iter(waiting)))
        now, self._next_step = self._clock(), None
        for _ in range(RESUMED_PER_STEP):
            if not self._by_due or self._by_due[0][0] > now:
                break
            _, ticket, pop = heapq.heappop(self._by_due)
            self._resume(pop.key, ticket)
        if self._woken:
            return 0.0
        if not self._by_due:
            return None
        self._next_step = self._by_due[0][0]
        return max(self._next_step - now, 0) / 1000

    def _are_choosy(self, key: WaitKey) -> bool:
        """Whether who waits longest has a filter; those behind it subscribe alike."""
        return next(iter(self._waiting[key].values())).matches is not None

    def _wanted(self, key: WaitKey, message: Arrival) -> bool:
        """Whether one of those waiting longest wants the message; that one is then the next to be resumed."""
        if message.topic != key[0]:
            return False
        if (message.queue_offset + 1) % self._force_every == 0:
            return True
        waiting = self._waiting[key]
        for ticket, pop in itertools.islice(waiting.items(), ASKED_PER_ARRIVAL):
            if pop.matches is None or pop.matches(message.tags_code, message.properties):
                waiting.move_to_end(ticket, last=False)
                return True
        return False

    def _resume(self, key: WaitKey, ticket: int) -> None:
        waiting = self._waiting.get(key)
        pop = waiting.pop(ticket, None) if waiting is not None else None
        if pop is None:
            return
        self._count -= 1
        left(self._parties, pop.party)
        if not waiting:
            self._forget(key)
        pop.resume()

    def _forget(self, key: WaitKey) -> None:
        del self._waiting[key]
        for topic, _ in _sources(key):
            keys = self.topics[topic]
            del keys[key]
            if not keys:
                del self.topics[topic]

    def _compact(self) -> None:
        """Drop the heap entries of requests that were resumed before they were due."""
        self._by_due = [item for item in self._by_due if item[1] in self._waiting.get(item[2].key, ())]
        heapq.heapify(self._by_due)


def _sources(key: WaitKey) -> tuple[tuple[str, bool], ...]:
    """Topics whose arrivals concern a request, and whether they are retries."""
    topic, group, _ = key
    return (
        (topic, False),
        (names.pop_retry_topic(group, topic), True),
        (names.pop_retry_topic(group, topic, plus=True), True),
    )
