"""A supervisor with processes that do as the test says."""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from pyromq.broker.config import BrokerConfig
from pyromq.broker.fleet.errors import FleetError
from pyromq.broker.fleet.facts import Facts
from pyromq.broker.fleet.plan import Member, members
from pyromq.broker.fleet.restarts import MANY, Restarts
from pyromq.broker.fleet.supervisor import Fleet
from pyromq.broker.httpserver import Page

UP = Facts("127.0.0.1:1", "127.0.0.1:1")


class FakeRun:
    """A process that is up and ends when told so, or when it is asked to stop, unless it is `deaf`."""

    def __init__(self, member: Member, pid: int, *, deaf: bool = False) -> None:
        self.member = member
        self.pid = pid
        self.deaf = deaf
        self.last_words = ""
        self.stops = 0
        self.signals: list[signal.Signals] = []
        self.pages = {"/health": Page(b"ok\n"), "/metrics": Page(b"")}
        self.answers = True
        self.announced: asyncio.Future[Facts | None] = asyncio.get_running_loop().create_future()
        self.code: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def up(self) -> Facts | None:
        return await self.announced

    async def ask(self, path: str) -> Page:
        if not self.answers:
            raise TimeoutError
        return self.pages[path]

    def signal(self, number: signal.Signals) -> None:
        self.signals.append(number)
        if number is signal.SIGKILL:
            self.end(-number)

    def stop(self) -> None:
        self.stops += 1
        if not self.deaf:
            self.end(0)

    async def ended(self) -> int:
        code = await self.code
        if not self.announced.done():
            self.announced.set_result(None)
        return code

    def end(self, code: int) -> None:
        if not self.code.done():
            self.code.set_result(code)


class World:
    """A fleet of two, and all runs that were started; each is up at once unless `slow` says otherwise."""

    def __init__(self, folder: Path, *, file: str | None = None, stop_bound: float = 60.0) -> None:
        path = None
        if file is not None:
            path = folder / "broker.conf"
            path.write_text(file)
        flags = {"broker_name": "shop", "store_path_root_dir": str(folder), "http_port": "-1"}
        config = BrokerConfig.load(file=path, flags=flags)
        self.runs: list[FakeRun] = []
        self.slow: Callable[[Member], bool] = lambda _member: False
        self.broken: Callable[[Member], bool] = lambda _member: False
        self.deaf = False
        self.now = 0
        self.fleet = Fleet(
            config,
            members(config, 2),
            self.launch,
            restarts=lambda: Restarts(first=0.0, longest=0.0),
            clock=lambda: self.now,
            stop_bound=stop_bound,
        )

    async def launch(self, member: Member) -> FakeRun:
        await asyncio.sleep(0)
        run = FakeRun(member, 100 + len(self.runs), deaf=self.deaf)
        self.runs.append(run)
        if self.broken(member):
            run.last_words = "pyromq: the port is taken"
            run.end(1)
        elif not self.slow(member):
            run.announced.set_result(UP)
        return run

    async def settled(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    async def health(self) -> tuple[int, list[str]]:
        page = await self.fleet._health()
        return int(page.status[:3]), page.body.decode().splitlines()


async def test_it_is_up_when_all_are(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.slow = lambda member: member.number == 1
    start = asyncio.ensure_future(world.fleet.start())
    await world.settled()
    assert not start.done()
    assert await world.health() == (
        503,
        ["1 of 2 brokers are not well", "shop: ok (process 100)", "shop-1: starting (process 101)"],
    )
    world.runs[1].announced.set_result(UP)
    await start
    assert list(world.fleet.facts) == ["shop", "shop-1"]
    assert (await world.health())[0] == 200
    await world.fleet.stop()
    assert [(run.stops, run.signals) for run in world.runs] == [(1, []), (1, [])]


async def test_a_start_that_fails_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.broken = lambda member: member.number == 1
    with pytest.raises(FleetError) as caught:
        await world.fleet.start()
    text = str(caught.value)
    assert "the broker shop-1 could not be started" in text
    assert "(the port is taken)" in text
    assert "ports 10919, 10921, 10922" in text
    assert str(tmp_path / "processes" / "1") in text
    assert all(run.code.done() for run in world.runs)
    assert len(world.runs) == 2


async def test_a_broker_that_falls_is_started_again(tmp_path: Path) -> None:
    world = World(tmp_path)
    await world.fleet.start()
    world.slow = lambda _member: True
    world.runs[0].end(-9)
    await world.settled()
    assert [run.member.name for run in world.runs] == ["shop", "shop-1", "shop"]
    status, lines = await world.health()
    assert status == 503
    assert lines[1] == "shop: starting, ended by SIGKILL (process 102, restarts: 1)"
    world.runs[2].announced.set_result(UP)
    await world.settled()
    assert (await world.health())[0] == 200
    await world.fleet.stop()
    assert (world.runs[1].stops, world.runs[1].signals) == (1, [])


async def test_one_that_keeps_falling_is_told_of_and_never_given_up(tmp_path: Path) -> None:
    world = World(tmp_path)
    await world.fleet.start()
    world.broken = lambda member: member.number == 1 and len(world.runs) < 2 + MANY
    world.slow = lambda _member: True
    world.runs[1].end(1)
    for _ in range(MANY):
        await world.settled()
    assert len(world.runs) == 2 + MANY
    _, lines = await world.health()
    assert f"it fell {MANY} times in a row" in lines[2]
    assert "the port is taken" in lines[2]
    world.runs[-1].announced.set_result(UP)
    await world.settled()
    assert (await world.health())[0] == 200
    await world.fleet.stop()


async def test_health_is_what_brokers_say(tmp_path: Path) -> None:
    world = World(tmp_path)
    await world.fleet.start()
    world.runs[1].pages["/health"] = Page(b"the disk\nis full\n", status="503 Service Unavailable")
    world.runs[0].answers = False
    status, lines = await world.health()
    assert status == 503
    assert lines[1:] == ["shop: does not answer (process 100)", "shop-1: the disk is full (process 101)"]
    page = await world.fleet._metrics()
    assert page.body.count(b"pyromq_process_up{") == 2
    await world.fleet.stop()


async def test_who_does_not_stop_in_time_is_killed(tmp_path: Path) -> None:
    world = World(tmp_path, stop_bound=0.01)
    world.deaf = True
    await world.fleet.start()
    world.runs[1].end(0)
    world.deaf = False
    await world.fleet.stop()
    assert (world.runs[0].stops, world.runs[0].signals) == (1, [signal.SIGKILL])


async def test_a_stop_while_one_is_being_started_stops_it_too(tmp_path: Path) -> None:
    world = World(tmp_path)
    await world.fleet.start()
    world.runs[0].end(1)
    await asyncio.sleep(0)
    await world.fleet.stop()
    assert all(run.code.done() for run in world.runs)
    count = len(world.runs)
    await world.settled()
    assert len(world.runs) == count


async def test_a_reload_reaches_those_that_start_later(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    world = World(tmp_path, file="maxTopics=700\n")
    await world.fleet.start()
    world.slow = lambda _member: True
    world.runs[1].end(1)
    await world.settled()
    (tmp_path / "broker.conf").write_text("maxTopics=800\nhaListenPort=12000\nfileReservedTime=5\n")
    await world.fleet.reload()
    assert world.runs[0].signals == [signal.SIGHUP]
    assert world.runs[2].signals == []
    world.runs[2].announced.set_result(UP)
    await world.settled()
    assert world.runs[2].signals == [signal.SIGHUP]
    assert "haListenPort changed, which counts from the next start of all on" in caplog.text
    (tmp_path / "broker.conf").write_text("maxTopics=many\n")
    await world.fleet.reload()
    assert "the settings stay as they are" in caplog.text
    assert world.runs[0].signals == [signal.SIGHUP]
    await world.fleet.stop()
