"""Parked pulls: requests that found nothing and wait for an arrival or for their time to run out.

A parked pull costs one entry in a dictionary and one in a heap; nothing runs while nothing arrives. Waking never
answers by itself: it hands the pull back to whoever parked it, which runs it again with parking off. One party (an
address) has at most three quarters of the places.
"""

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from pyromq.broker.tables.shares import left
from pyromq.store.arrival import Arrival, Arrived

QueueKey = tuple[str, int]

SWEEP_INTERVAL_MS = 5_000


class ParkedPull:
    """One waiting request: from which offset it waits, until when, what matches (None: everything does), and how to run
    it again."""

    __slots__ = ("deadline", "key", "matches", "offset", "owner", "party", "resume")

    def __init__(
        self,
        key: QueueKey,
        offset: int,
        deadline: int,
        matches: Callable[[int, Mapping[str, str]], bool] | None,
        resume: Callable[[], None],
        owner: object = None,
        party: str = "",
    ) -> None:
        self.key = key
        self.offset = offset
        self.deadline = deadline
        self.matches = matches
        self.resume = resume
        self.owner = owner
        self.party = party


class PullPark:
    """All parked pulls of a broker, by queue and by deadline."""

    def __init__(self, clock: Callable[[], int], max_offset: Callable[[str, int], int], *, capacity: int) -> None:
        self._clock = clock
        self._max_offset = max_offset
        self._capacity = capacity
        self._share = capacity - capacity // 4
        self._parties: Counter[str] = Counter()
        self._by_queue: dict[QueueKey, dict[int, ParkedPull]] = {}
        self.topics: dict[str, int] = {}
        """Topics that pulls wait for, with how many of their queues."""
        self._by_owner: dict[object, dict[int, ParkedPull]] = {}
        self._by_deadline: list[tuple[int, int, ParkedPull]] = []
        self._tickets = itertools.count()
        self._count = 0
        self._next_sweep = 0
        self.refused = 0
        """How often a pull found no place here."""

    def __len__(self) -> int:
        return self._count

    def park(self, pull: ParkedPull) -> bool:
        """Keep the pull; False, and counted, when there is no place for one more."""
        if self._count >= self._capacity or self._parties[pull.party] >= self._share:
            self.refused += 1
            return False
        if len(self._by_deadline) > 2 * self._count + 1024:
            self._compact()
        ticket = next(self._tickets)
        waiting = self._by_queue.get(pull.key)
        if waiting is None:
            waiting = self._by_queue[pull.key] = {}
            self.topics[pull.key[0]] = self.topics.get(pull.key[0], 0) + 1
        waiting[ticket] = pull
        self._by_owner.setdefault(pull.owner, {})[ticket] = pull
        heapq.heappush(self._by_deadline, (pull.deadline, ticket, pull))
        self._count += 1
        self._parties[pull.party] += 1
        return True

    def forget(self, owner: object) -> None:
        """Drop the pulls of a connection that is gone."""
        for ticket, pull in list(self._by_owner.get(owner, {}).items()):
            self._take(pull.key, [ticket])

    def heard(self, arrived: Arrived) -> None:
        """The store has new messages: resume the pulls of their queues that wait below one whose filter it matches."""
        arrivals: Sequence[Arrival] = ()
        for key, end in arrived.ends():
            waiting = self._by_queue.get(key)
            if waiting is None:
                continue
            woken: list[int] = []
            for ticket, pull in waiting.items():
                if end <= pull.offset:
                    continue
                if pull.matches is not None:
                    arrivals = arrivals or arrived.arrivals()
                    if not _wants(pull, pull.matches, arrivals):
                        continue
                woken.append(ticket)
            self._resume(key, woken)

    def tick(self) -> None:
        """Resume what has expired, and every five seconds whatever has anything new at all.

        The second rule moves the offsets of selective filters forward even when nothing they want arrives.
        """
        now = self._clock()
        while self._by_deadline and self._by_deadline[0][0] <= now:
            _, ticket, pull = heapq.heappop(self._by_deadline)
            self._resume(pull.key, [ticket])
        if now >= self._next_sweep:
            self._next_sweep = now + SWEEP_INTERVAL_MS
            for key, waiting in list(self._by_queue.items()):
                newest = self._max_offset(*key)
                self._resume(key, [ticket for ticket, pull in waiting.items() if newest > pull.offset])

    def resume_all(self) -> None:
        """Run every parked pull again, for a stop or a change of role."""
        for key, waiting in list(self._by_queue.items()):
            self._resume(key, list(waiting))

    def _resume(self, key: QueueKey, tickets: list[int]) -> None:
        for pull in self._take(key, tickets):
            pull.resume()

    def _take(self, key: QueueKey, tickets: list[int]) -> list[ParkedPull]:
        """Remove pulls of one queue; tickets that were taken already are ignored."""
        waiting = self._by_queue.get(key)
        if waiting is None:
            return []
        pulls = []
        for ticket in tickets:
            pull = waiting.pop(ticket, None)
            if pull is None:
                continue
            pulls.append(pull)
            left(self._parties, pull.party)
            owned = self._by_owner[pull.owner]
            del owned[ticket]
            if not owned:
                del self._by_owner[pull.owner]
        self._count -= len(pulls)
        if not waiting:
            del self._by_queue[key]
            self.topics[key[0]] -= 1
            if not self.topics[key[0]]:
                del self.topics[key[0]]
        return pulls

    def _compact(self) -> None:
        """Drop the heap entries of pulls that were resumed before their deadline."""
        self._by_deadline = [item for item in self._by_deadline if item[1] in self._by_queue.get(item[2].key, ())]
        heapq.heapify(self._by_deadline)


def _wants(pull: ParkedPull, matches: Callable[[int, Mapping[str, str]], bool], arrivals: Iterable[Arrival]) -> bool:
    """Whether a pull with a filter waits for one of the messages."""
    return any(
        (each.topic, each.queue_id) == pull.key
        and each.queue_offset >= pull.offset
        and matches(each.tags_code, each.properties)
        for each in arrivals
    )
