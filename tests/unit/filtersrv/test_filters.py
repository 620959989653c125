"""The table of uploaded classes, with a fake clock and jails without processes."""

from collections.abc import Sequence

import pytest

from pyromq.filtersrv.errors import JailError, RequestRefused
from pyromq.filtersrv.filters import LONGEST_REST, FilterClasses
from pyromq.filtersrv.frames import FilterMessage, Load
from pyromq.filtersrv.worker import JailLimits, Worker
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.headers.filtersrv import RegisterMessageFilterClassHeader
from tests.unit.client.fakes import asyncio_test

LIMITS = JailLimits(memory=1, cpu=1.0, wall=1.0)
MESSAGES = [FilterMessage("t", b"1", {}), FilterMessage("t", b"2", {})]


class FakeWorker(Worker):
    """Lets everything pass; sources `bad` do not load, sources `poison` fail when asked."""

    def __init__(self) -> None:
        self.source = ""
        self.killed = False

    async def load(self, question: Load) -> None:
        self.source = question.source
        if question.source == "bad":
            raise JailError("does not compile")

    async def match(self, messages: list[FilterMessage]) -> Sequence[bool]:
        if self.source == "poison":
            raise JailError("it looped")
        return [True] * len(messages)

    async def kill(self) -> None:
        self.killed = True


class World:
    def __init__(self, capacity: int = 10) -> None:
        self.now = 100.0
        self.workers: list[FakeWorker] = []
        self.classes = FilterClasses(LIMITS, lambda: self.now, capacity=capacity, idle=120.0, start=self._start)

    async def _start(self, limits: JailLimits) -> Worker:
        assert limits is LIMITS
        self.workers.append(FakeWorker())
        return self.workers[-1]

    async def upload(self, source: str, crc: int, group: str = "g", name: str = "F") -> None:
        header = RegisterMessageFilterClassHeader(consumer_group=group, topic="t", class_name=name, class_crc=crc)
        await self.classes.upload(header, source)


@asyncio_test
async def test_a_class_is_compiled_when_new_and_when_its_crc_differs() -> None:
    # F-04
    world = World()
    await world.upload("one", 1)
    await world.upload("one", 1)
    await world.upload("ignored", 0)
    assert [worker.source for worker in world.workers] == ["one"]
    await world.upload("two", 2)
    await world.upload("two", 2, name="Other")
    await world.upload("two", 2, group="another")
    assert [worker.source for worker in world.workers] == ["one", "two", "two", "two"]
    assert [worker.killed for worker in world.workers] == [True, True, False, False]
    assert await world.classes.get("t", "g").match(MESSAGES) == [True, True]
    await world.classes.close()
    assert all(worker.killed for worker in world.workers)


@asyncio_test
async def test_an_unknown_class_is_an_error() -> None:
    # F-05
    with pytest.raises(RequestRefused, match="no filter class of group g"):
        World().classes.get("t", "g")


@asyncio_test
async def test_a_class_that_failed_rests_longer_each_time_and_says_why() -> None:
    # F-05, F-06
    world = World()
    await world.upload("poison", 1)
    uploaded = world.classes.get("t", "g")
    for failures, rest in ((1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0)):
        with pytest.raises(JailError, match="it looped"):
            await uploaded.match(MESSAGES)
        assert len(world.workers) == failures
        world.now += rest - 0.01
        with pytest.raises(JailError, match="it looped"):
            await uploaded.match(MESSAGES)
        with pytest.raises(RequestRefused, match="filter class F failed: it looped"):
            await world.upload("poison", 1)
        assert len(world.workers) == failures, "it was not started again"
        world.now += 0.02
    for _ in range(20):
        world.now += LONGEST_REST
        with pytest.raises(JailError):
            await uploaded.match(MESSAGES)
    assert len(world.workers) == 24, "it rests a minute at most"
    await world.upload("fine", 2)
    assert await world.classes.get("t", "g").match(MESSAGES) == [True, True]


@asyncio_test
async def test_a_class_that_does_not_compile_is_not_compiled_again_and_again() -> None:
    # F-04
    world = World()
    for _ in range(3):
        with pytest.raises(RequestRefused, match="does not compile") as caught:
            await world.upload("bad", 1)
        assert caught.value.code == ResponseCode.SYSTEM_ERROR
    assert len(world.workers) == 1


@asyncio_test
async def test_classes_are_bounded_and_idle_ones_are_forgotten() -> None:
    world = World(capacity=2)
    await world.upload("a", 1, group="a")
    await world.upload("b", 1, group="b")
    with pytest.raises(RequestRefused, match="maxFilterClasses") as caught:
        await world.upload("c", 1, group="c")
    assert caught.value.code == ResponseCode.SYSTEM_BUSY
    world.now += 119
    await world.classes.get("t", "a").match(MESSAGES)
    world.now += 2
    await world.classes.forget_idle()
    assert len(world.classes) == 1
    assert [worker.killed for worker in world.workers] == [False, True]
    await world.upload("c", 1, group="c")


@asyncio_test
async def test_a_class_that_was_replaced_does_not_come_back() -> None:
    world = World()
    await world.upload("old", 1)
    old = world.classes.get("t", "g")
    await world.upload("new", 2)
    with pytest.raises(JailError, match="replaced"):
        await old.match(MESSAGES)
