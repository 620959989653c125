"""The broker's list of filter servers and the processes it keeps, without sockets, processes and time."""

import importlib.util
from types import SimpleNamespace
from typing import cast

import pytest

from pyromq.broker.config import BrokerConfig
from pyromq.broker.errors import Refused
from pyromq.broker.filter.filterservers import FilterProcesses, FilterServers, Process
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.filtersrv import RegisterFilterServerHeader, RegisterFilterServerResponseHeader
from pyromq.protocol.records.host import Host
from pyromq.remoting.address import Address
from pyromq.remoting.connection import Connection
from pyromq.settings.errors import ConfigError
from tests.unit.broker.cores import make_core
from tests.unit.client.fakes import asyncio_test

CONFIG = BrokerConfig(filter_server_nums=2, broker_name="a")


def connection(host: str = "127.0.0.1") -> Connection:
    return cast("Connection", SimpleNamespace(peer=Address(host, 40000)))


class World:
    """A list with a clock that is set by hand, and what the name servers were told."""

    def __init__(self, config: BrokerConfig = CONFIG) -> None:
        self.now = 1_000_000
        self.told: list[list[str]] = []
        self.core = make_core(config, lambda: self.now)
        self.core.store.store_host = Host("10.0.0.5", 10911)
        self.servers = FilterServers(self.core, self.told.append)

    def register(self, address: str, over: Connection) -> Command:
        request = Command.request(
            RequestCode.REGISTER_FILTER_SERVER, RegisterFilterServerHeader(filter_server_addr=address)
        )
        answer = self.servers.handlers()[RequestCode.REGISTER_FILTER_SERVER](request, over)
        assert isinstance(answer, Command)
        return answer


def test_registration_is_answered_with_the_broker_and_spread_once() -> None:
    # F-02
    world, over = World(), connection()
    answer = world.register("127.0.0.1:5001", over).header(RegisterFilterServerResponseHeader)
    assert (answer.broker_name, answer.broker_id) == ("a", 0)
    world.register("127.0.0.1:5001", over)
    world.register("127.0.0.1:5000", connection("10.0.0.5"))
    assert world.told == [["127.0.0.1:5001"], ["127.0.0.1:5000", "127.0.0.1:5001"]]


def test_silence_and_the_end_of_the_connection_remove() -> None:
    # F-02
    world, first, second = World(), connection(), connection()
    world.register("127.0.0.1:1", first)
    world.register("127.0.0.1:2", second)
    world.now += 30_000
    world.register("127.0.0.1:2", second)
    world.servers.drop_silent()
    assert world.servers.addresses == ["127.0.0.1:1", "127.0.0.1:2"], "30 s are not yet too long"
    world.now += 1
    world.servers.drop_silent()
    assert world.servers.addresses == ["127.0.0.1:2"]
    world.servers.connection_closed(first)
    assert world.told[-1] == ["127.0.0.1:2"]
    world.servers.connection_closed(second)
    assert world.told[-1] == []


@pytest.mark.parametrize(
    ("nums", "address", "peer", "code"),
    [
        (0, "127.0.0.1:1", "127.0.0.1", ResponseCode.NO_PERMISSION),
        (1, "127.0.0.1:1", "192.0.2.7", ResponseCode.NO_PERMISSION),
        (1, "nonsense", "127.0.0.1", ResponseCode.INVALID_PARAMETER),
    ],
)
def test_who_may_not_register(nums: int, address: str, peer: str, code: ResponseCode) -> None:
    world = World(BrokerConfig(filter_server_nums=nums))
    with pytest.raises(Refused) as caught:
        world.register(address, connection(peer))
    assert caught.value.code == code
    assert world.told == []


def test_the_list_is_bounded() -> None:
    world, over = World(), connection()
    for port in range(1, 65):
        world.register(f"127.0.0.1:{port}", over)
    with pytest.raises(Refused, match="64 filter servers"):
        world.register("127.0.0.1:65", over)
    world.register("127.0.0.1:64", over)


class FakeProcess:
    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def terminate(self) -> None:
        self.returncode = -15

    def kill(self) -> None:
        self.returncode = -9

    async def wait(self) -> int:
        assert self.returncode is not None
        return self.returncode


class Processes:
    def __init__(self, world: World) -> None:
        self.commands: list[tuple[str, ...]] = []
        self.started: list[FakeProcess] = []
        self.kept = FilterProcesses(world.core, world.servers, start=self._start)

    async def _start(self, *command: str) -> Process:
        self.commands.append(command)
        self.started.append(FakeProcess(len(self.started)))
        return self.started[-1]


@asyncio_test
async def test_missing_processes_are_started_every_half_minute() -> None:
    # F-02
    world = World()
    processes = Processes(world)
    await processes.kept.tick()
    assert processes.kept.pids == [0, 1]
    processes.started[0].returncode = 1
    world.now += 29_999
    await processes.kept.tick()
    assert processes.kept.pids == [1]
    world.now += 1
    await processes.kept.tick()
    assert processes.kept.pids == [1, 2]
    await processes.kept.stop()
    assert [each.returncode for each in processes.started] == [1, -15, -15]


@asyncio_test
async def test_servers_that_registered_are_counted() -> None:
    world = World()
    world.register("127.0.0.1:1", connection())
    processes = Processes(world)
    await processes.kept.look()
    assert len(processes.started) == 1


@asyncio_test
async def test_the_command_names_a_module_and_every_limit() -> None:
    # F-06
    processes = Processes(World())
    await processes.kept.look()
    command = processes.commands[0]
    assert command[1:4] == ("-m", "pyromq", "filtersrv")
    assert "--no-client-upload-filter-class-enable" in command, "off unless it is switched on"
    assert {"--filter-class-memory", "--filter-class-cpu-time", "127.0.0.1:10911"} <= set(command)


def test_without_the_library_the_broker_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    FilterProcesses.check(BrokerConfig())
    with pytest.raises(ConfigError, match=r"pip install 'pyromq\[filters\]'"):
        FilterProcesses.check(CONFIG)
