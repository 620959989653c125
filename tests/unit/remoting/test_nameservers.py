"""The choice of a name server, with a client that answers from a table."""

import asyncio
from typing import cast

import pytest

from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.command import Command
from pyromq.remoting.client import Client
from pyromq.remoting.connect.nameservers import NameServers
from pyromq.remoting.errors import AddressError, CallTimeout, ConnectError, RemotingError
from tests.unit.remoting.fakes import Clock


class FakeClient:
    """Answers from `replies`; a missing address does not connect."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.replies: dict[str, Command] = {}
        self.asked: list[tuple[str, float]] = []
        self.disconnected: list[str] = []
        self.cost = 0.0
        self.failure: RemotingError | None = None

    async def call(self, address: str, _: Command, timeout: float) -> Command:  # noqa: ASYNC109 - as the real one
        self.asked.append((address, timeout))
        self.clock.now += self.cost
        if address not in self.replies:
            raise self.failure or ConnectError(f"cannot connect to {address}: refused")
        return self.replies[address]

    def disconnect(self, address: str, _: str) -> None:
        self.disconnected.append(address)


def name_servers(client: FakeClient, *addresses: str) -> NameServers:
    return NameServers(cast("Client", client), addresses, shuffle=lambda _: None, clock=client.clock)


def ask(servers: NameServers) -> Command:
    return asyncio.run(servers.call(Command.request(105), 3.0))


def test_sticks_to_a_healthy_one_and_moves_on_when_it_fails() -> None:
    client = FakeClient()
    servers = name_servers(client, "a:1", "b:1", "c:1")
    client.replies = {"b:1": Command(0), "c:1": Command(0)}
    ask(servers)
    assert [address for address, _ in client.asked] == ["a:1", "b:1"]
    ask(servers)
    ask(servers)
    assert [address for address, _ in client.asked[2:]] == ["b:1", "b:1"]
    del client.replies["b:1"]
    ask(servers)
    ask(servers)
    assert [address for address, _ in client.asked[4:]] == ["b:1", "c:1", "c:1"]


def test_answers_tell_what_each_said() -> None:
    client = FakeClient()
    servers = name_servers(client, "a:1", "b:1", "c:1")
    client.replies = {"b:1": Command(ResponseCode.TOPIC_NOT_EXIST, remark="No topic route info")}
    assert ask(servers).code == ResponseCode.TOPIC_NOT_EXIST
    assert servers.answers == {
        "a:1": "cannot connect to a:1: refused",
        "b:1": "TOPIC_NOT_EXIST No topic route info",
        "c:1": "not asked yet",
    }


def test_an_answer_is_not_called_by_the_name_of_a_code_that_means_success() -> None:
    client = FakeClient()
    client.replies = {"a:1": Command(ResponseCode.SUCCESS)}
    servers = name_servers(client, "a:1")
    ask(servers)
    assert servers.answers == {"a:1": "answered"}


def test_nobody_answers() -> None:
    client = FakeClient()
    servers = name_servers(client, "a:1", "b:1")
    with pytest.raises(ConnectError, match=r"no name server answered: a:1: .*refused; b:1: .*refused"):
        ask(servers)
    with pytest.raises(ConnectError, match="NAMESRV_ADDR"):
        ask(name_servers(client))


def test_a_silent_one_leaves_time_for_the_others() -> None:
    client = FakeClient()
    servers = name_servers(client, "a:1", "b:1", "c:1")
    client.cost = 1.0
    with pytest.raises(ConnectError):
        ask(servers)
    assert [timeout for _, timeout in client.asked] == [1.0, 1.0, 1.0]


def test_the_kind_of_the_last_failure_is_kept() -> None:
    client = FakeClient()
    client.failure = CallTimeout("late")
    with pytest.raises(CallTimeout, match="a:1: late"):
        ask(name_servers(client, "a:1"))


def test_update() -> None:
    client = FakeClient()
    servers = name_servers(client, "a:1", "b:1")
    assert not servers.update(["b:1", "a:1", "a:1"])
    client.replies = {"b:1": Command(0)}
    ask(servers)
    assert servers.current == "b:1"
    assert servers.update(["c:1", "b:1"])
    assert client.disconnected == ["a:1"]
    assert (servers.current, servers.addresses) == ("b:1", ("c:1", "b:1"))
    assert servers.update(["c:1"])
    assert servers.current == "c:1"
    assert servers.update([])
    assert servers.current is None
    with pytest.raises(AddressError):
        servers.update(["nonsense"])
