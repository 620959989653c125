"""One schedule from beginning to end: start a cluster, let it work and suffer, let it settle, look at everything."""

import asyncio
import contextlib
import signal
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

from pyromq.aio import PyroMQError
from tests.faults.harness import inflict
from tests.faults.harness.checker import History, Violation, check
from tests.faults.harness.cluster import BROKERS, CLIENTS, MASTERS, Cluster, running
from tests.faults.harness.history import AnyEvent, Audited, Began, Ended, Found, Recorder, Tail
from tests.faults.harness.observer import Observer
from tests.faults.harness.schedule import Act, Schedule
from tests.faults.harness.workload import subscriptions

SAMPLE = 0.5
PATIENCE = 60.0
"""What is owed and does not come for so long, while nothing else does, is lost."""
CATCH_UP_BOUND = 60.0
LOOK_AGAIN = 0.3

ANY_STATUS = ("SEND_OK", "FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE")
COPIED = ("SEND_OK",)
ALONE = " without its master"


class Outcome(NamedTuple):
    """What became of a schedule."""

    schedule: Schedule
    history: History
    violations: list[Violation]
    settled_in: float
    """Seconds from the end of the last fault until everything owed was delivered."""


async def conduct(schedule: Schedule, folder: Path) -> Outcome:
    """Run a schedule; its logs and its history stay in the folder."""
    start = running(folder, schedule.seed, schedule.role, acting=schedule.acting)
    async with start as cluster, Observer(cluster) as observer:
        with Recorder(cluster.history / "conductor.jsonl") as recorder:
            conductor = _Conductor(schedule, cluster, observer, recorder)
            return await conductor.run()


class _Conductor:
    def __init__(self, schedule: Schedule, cluster: Cluster, observer: Observer, recorder: Recorder) -> None:
        self._schedule = schedule
        self._cluster = cluster
        self._observer = observer
        self._recorder = recorder
        self._events: list[AnyEvent] = []
        self._tail = Tail(cluster.history)
        self._machines: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def run(self) -> Outcome:
        await self._observer.set_up()
        subscriptions(self._recorder)
        await self._cluster.start_clients()
        async with self._sampling():
            settled_in = await self._work()
        broken = []
        try:
            for position in await self._observer.positions():
                self._recorder.write(position)
            await self._audit_all()
        except PyroMQError as error:  # a server that ended by itself must not end the schedules that follow
            broken.append(f"a server does not answer when all faults are over: {error}")
        history = self._history()
        violations = check(history) + [Violation("broken", text) for text in broken + self._cluster.troubles()]
        return Outcome(self._schedule, history, violations, settled_in)

    async def _work(self) -> float:
        """From the first message to the last; returns how long it took to settle."""
        async with asyncio.TaskGroup() as acts:
            for number, act in enumerate(self._schedule.acts):
                acts.create_task(self._act(number, act))
            acts.create_task(asyncio.sleep(self._schedule.length))
        if self._schedule.masters_die:
            await self._lose_masters()
        self._cluster.processes["producers"].signal(signal.SIGUSR1)
        settled_in = await self._settle()
        for name in CLIENTS:
            await self._cluster.processes[name].stop()
        return settled_in

    async def _act(self, number: int, act: Act) -> None:
        """One fault; it waits for the one before of the same machine, which may take long to be made good."""
        await asyncio.sleep(act.at)
        async with self._machines[act.fault.machine]:
            await self._inflict(number, act)

    async def _inflict(self, number: int, act: Act) -> None:
        fault = act.fault
        event = Began(number=number, kind=fault.kind, text=fault.text, brokers=fault.brokers)
        if fault.kind == "clock":
            event.clock, event.step = fault.brokers[0], int(fault.value * 1e9)
        self._recorder.write(event)
        await inflict.begin(self._cluster, fault)
        await asyncio.sleep(act.lasts)
        self._recorder.write(Ended(number=number))
        await inflict.end(self._cluster, fault)

    async def _lose_masters(self) -> None:
        """While messages are sent: what was acknowledged as copied must be at the slaves."""
        number = len(self._schedule.acts)
        since = time.monotonic_ns()
        self._recorder.write(Began(number=number, kind="masters", text="kill both masters", brokers=tuple(BROKERS)))
        await asyncio.gather(*(self._cluster.processes[name].kill() for name in MASTERS))
        for broker, (_, slave) in BROKERS.items():
            await self._audit(slave, broker, since, COPIED, ALONE)
        self._recorder.write(Ended(number=number))
        await asyncio.gather(*(self._cluster.processes[name].start() for name in MASTERS))

    async def _settle(self) -> float:
        """Wait until everything owed is delivered, or nothing more comes; returns how long it took."""
        begun = since = time.monotonic()
        left: int | None = None
        while time.monotonic() - since < PATIENCE:
            history = self._history()
            owed = len(history.awaited())
            if history.rested and not owed:
                break
            if owed != left:
                since, left = time.monotonic(), owed
            await asyncio.sleep(LOOK_AGAIN)
        return time.monotonic() - begun

    async def _audit_all(self) -> None:
        """Masters have everything, and slaves come to have what their masters have."""
        for broker, (master, slave) in BROKERS.items():
            since = time.monotonic_ns()
            mine = await self._audit(master, broker, since, ANY_STATUS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CATCH_UP_BOUND):
                    while _names(await self._observer.contents(slave)) != mine:  # noqa: ASYNC110 - as above
                        await asyncio.sleep(LOOK_AGAIN)
            await self._audit(slave, broker, since, ANY_STATUS)

    async def _audit(self, node: str, broker: str, since: int, statuses: tuple[str, ...], when: str = "") -> list[str]:
        found = await self._observer.contents(node)
        for each in found:
            each.node += when
            self._recorder.write(each)
        self._recorder.write(Audited(node=node + when, broker=broker, since=since, statuses=statuses))
        return _names(found)

    @contextlib.asynccontextmanager
    async def _sampling(self) -> AsyncIterator[None]:
        """Note positions, again and again."""
        sampling = asyncio.create_task(self._sample())
        try:
            yield
        finally:
            sampling.cancel()
            await asyncio.gather(sampling, return_exceptions=True)

    async def _sample(self) -> None:
        while True:
            with contextlib.suppress(PyroMQError):
                for position in await self._observer.positions():
                    self._recorder.write(position)
            await asyncio.sleep(SAMPLE)

    def _history(self) -> History:
        self._events.extend(self._tail)
        return History(self._events)


def _names(found: list[Found]) -> list[str]:
    return [each.id for each in found]
