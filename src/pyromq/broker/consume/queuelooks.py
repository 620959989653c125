"""LOOK_AT_QUEUES: the bounds of many queues in one answer, or one wait until any of them has more.

Whoever reads thousands of queues would otherwise ask for each of them, twice, and park a pull at each. A look that
waits costs eight bytes a queue; the queues that all of them wait for have a bound.
"""

import itertools
from array import array
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from pyromq.broker.core import Core
from pyromq.broker.errors import Refused
from pyromq.broker.part import Every, Figure, Park, Part, gauge, limit
from pyromq.protocol.bodies.offsets import QueueBounds, QueueLook, QueueRun, RunBounds
from pyromq.protocol.bounds import LOOKED_AT
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.consume import LookAtQueuesHeader
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Handler
from pyromq.store.arrival import Arrived
from pyromq.store.messagestore import MessageStore

MAX_HELD_QUEUES = 2_000_000
MAX_HOLD_MS = 120_000
TICK = 0.1


@dataclass(frozen=True, slots=True)
class HeldRun:
    """Queues of a topic that a look waits for."""

    first: int
    ends: "array[int]"


@dataclass(frozen=True, slots=True)
class HeldLook:
    """A look that waits."""

    request: Command
    connection: Connection
    deadline: int
    runs: dict[str, list[HeldRun]]

    @property
    def size(self) -> int:
        return sum(len(run.ends) for runs in self.runs.values() for run in runs)

    def wants(self, topic: str, queue: int, end: int) -> bool:
        """Whether a queue that reaches to `end` has more than it knows of."""
        for run in self.runs.get(topic, ()):
            place = queue - run.first
            if 0 <= place < len(run.ends):
                return end > run.ends[place]
        return False


class LookPark:
    """All looks that wait, by topic."""

    def __init__(self, clock: Callable[[], int], *, capacity: int = MAX_HELD_QUEUES) -> None:
        self._clock = clock
        self._capacity = capacity
        self._tickets = itertools.count()
        self._held: dict[int, HeldLook] = {}
        self._by_topic: dict[str, dict[int, HeldLook]] = {}
        self._queues = 0
        self.refused = 0
        """How often a look found no place here."""

    def __len__(self) -> int:
        return len(self._held)

    @property
    def topics(self) -> Collection[str]:
        return self._by_topic

    def hold(self, look: HeldLook) -> bool:
        """Keep a look; False, and counted, when there is no place for its queues."""
        if self._queues + look.size > self._capacity:
            self.refused += 1
            return False
        ticket = next(self._tickets)
        self._held[ticket] = look
        self._queues += look.size
        for topic in look.runs:
            self._by_topic.setdefault(topic, {})[ticket] = look
        return True

    def heard(self, arrived: Arrived) -> None:
        """Answer those who wait for what has come."""
        for (topic, queue), end in arrived.ends():
            waiting = self._by_topic.get(topic)
            if waiting is not None:
                self._answer([t for t, look in waiting.items() if look.wants(topic, queue, end)], ResponseCode.SUCCESS)

    def tick(self) -> None:
        """Answer those whose time is over."""
        now = self._clock()
        self._answer([t for t, look in self._held.items() if look.deadline <= now], ResponseCode.PULL_NOT_FOUND)

    def answer_all(self) -> None:
        """They may look again, here or elsewhere."""
        self._answer(list(self._held), ResponseCode.SUCCESS)

    def forget(self, connection: Connection) -> None:
        """Nobody waits there any more."""
        for ticket in [t for t, look in self._held.items() if look.connection is connection]:
            self._take(ticket)

    def _answer(self, tickets: Iterable[int], code: ResponseCode) -> None:
        for ticket in tickets:
            look = self._take(ticket)
            if look.connection.is_open:
                look.connection.send(look.request.reply(code))

    def _take(self, ticket: int) -> HeldLook:
        look = self._held.pop(ticket)
        self._queues -= look.size
        for topic in look.runs:
            waiting = self._by_topic[topic]
            del waiting[ticket]
            if not waiting:
                del self._by_topic[topic]
        return look


class QueueLooks(Part):
    """Serves looks."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.park = LookPark(core.steady)

    def handlers(self) -> dict[int, Handler]:
        return {RequestCode.LOOK_AT_QUEUES: self._look}

    def parks(self) -> Iterable[Park]:
        """Looks that wait for more."""
        return [self.park]

    def every(self) -> Iterable[Every]:
        """Answer those that waited long enough."""
        return [Every(TICK, self.park.tick)]

    def metrics(self) -> Iterable[Figure]:
        """How many wait."""
        yield gauge("pyromq_held_looks", "Looks at queues that wait for an arrival.", len(self.park))
        yield limit("held_looks", self.park.refused)

    def connection_closed(self, connection: Connection) -> None:
        self.park.forget(connection)

    def role_changed(self) -> None:
        """Somebody else may know more from now on."""
        self.park.answer_all()

    async def stop(self) -> None:
        self.park.answer_all()

    def _look(self, request: Command, connection: Connection) -> Command | None:
        hold = request.header(LookAtQueuesHeader).hold_millis
        look = QueueLook.of_request(request.body) if request.body else QueueLook()
        if sum(max(run.count, 0) for run in look.runs) > LOOKED_AT.most:
            raise Refused(ResponseCode.INVALID_PARAMETER, f"a look is at {LOOKED_AT.most} queues at most")
        if hold is None:
            answer = QueueBounds(runs=[bounds(self._core.store, run) for run in look.runs])
            return request.reply(body=answer.encode())
        return self._wait(request, connection, look, hold)

    def _wait(self, request: Command, connection: Connection, look: QueueLook, hold: int) -> Command | None:
        store = self._core.store
        runs: dict[str, list[HeldRun]] = {}
        for run in look.runs:
            if any(store.max_offset(run.topic, queue) > end for queue, end in enumerate(run.ends, run.first)):
                return request.reply()
            runs.setdefault(run.topic, []).append(HeldRun(run.first, array("q", run.ends)))
        config = self._core.config
        hold = hold if config.long_polling_enable else config.short_polling_time_mills
        deadline = self._core.steady() + min(max(hold, 0), MAX_HOLD_MS)
        if not self.park.hold(HeldLook(request, connection, deadline, runs)):
            raise Refused(
                ResponseCode.SYSTEM_BUSY,
                f"[TOO_MANY_WAITING]system busy: looks wait for {MAX_HELD_QUEUES} queues; try again in a second",
            )
        return None


def bounds(store: MessageStore, run: QueueRun) -> RunBounds:
    """What the store has of the queues of a run."""
    find = store.queues.get
    found = [find(run.topic, number) for number in range(run.first, run.first + max(run.count, 0))]
    places = zip(run.queues, run.offsets, strict=False)  # one without the other is no place
    return RunBounds(
        lows=[0 if queue is None else queue.min_offset for queue in found],
        highs=[0 if queue is None else queue.max_offset for queue in found],
        times=[store.lookup.store_time(run.topic, queue, offset) for queue, offset in places],
    )
