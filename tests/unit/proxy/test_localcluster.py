"""A broker asked without sockets: one connection for each client, with its address and its user."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.signature import ACCESS_KEY
from pyromq.proxy.caller import Caller
from pyromq.proxy.cluster.local import Host, LocalCluster
from pyromq.proxy.schema.enums import Code
from pyromq.proxy.status import Refusal
from pyromq.remoting.address import Address
from pyromq.remoting.connection import Connection
from pyromq.remoting.errors import ConnectionLost
from pyromq.remoting.handler import Grouped
from pyromq.remoting.server import Server

BROKER = Address("127.0.0.1", 10911)
ASK = RequestCode.GET_BROKER_CONFIG


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, 10))


def caller(client_id: str = "c", user: str = "", port: int = 5000) -> Caller:
    return Caller(client_id, Address("10.1.2.3", port), user)


class Broker:
    """Answers with who asked; holds what it is told to hold."""

    def __init__(self, most: int = 10) -> None:
        self.groups: list[int] = []
        self.closed: list[Address] = []
        self.connections: list[Connection] = []
        handler = Grouped(self.answer, self.answer_many)
        self.server = Server({}, on_close=lambda connection: self.closed.append(connection.peer))
        host = Host(
            "b",
            "c",
            BROKER,
            self.server,
            {ASK: handler, RequestCode.HEART_BEAT: lambda _request, _connection: asyncio.Future()},
            {"t": TopicConfig(topic_name="t", perm=6, read_queue_nums=2, write_queue_nums=3)}.get,
            lambda: 4,
            self.create,
        )
        self.asked: list[str] = []
        self.cluster = LocalCluster(host, {RequestCode.GET_CONSUMER_RUNNING_INFO: self.asked_back}, most)

    def answer(self, request: Command, connection: Connection) -> Command:
        self.connections.append(connection)
        return request.reply(remark=f"{connection.peer} {request.ext.get(ACCESS_KEY, '-')}")

    def answer_many(self, requests: Any, _connection: Connection) -> None:
        self.groups.append(len(requests))

    def asked_back(self, request: Command, connection: Connection) -> Command:
        self.asked.append(str(connection.context))
        return request.reply(remark="me")

    async def create(self, topic: str, party: str) -> bool:
        return (topic, party) == ("new", "10.1.2.3")


def test_the_broker_sees_the_address_and_the_user_of_the_client() -> None:
    async def story() -> None:
        broker = Broker()
        answer = await broker.cluster.ask(caller(user="alice"), "b", Command.request(ASK), 3)
        assert answer.remark == "10.1.2.3:5000 alice"
        answer = await broker.cluster.ask(None, "b", Command.request(ASK), 3)
        assert answer.remark == "127.0.0.1:10911 -"
        assert broker.cluster.links == 2

    run(story())


def test_a_client_that_connects_anew_is_seen_at_its_new_address() -> None:
    async def story() -> None:
        broker = Broker()
        await broker.cluster.ask(caller(), "b", Command.request(ASK), 3)
        answer = await broker.cluster.ask(caller(port=6000), "b", Command.request(ASK), 3)
        assert answer.remark == "10.1.2.3:6000 -"
        assert broker.cluster.links == 1

    run(story())


def test_requests_of_one_turn_leave_in_one_write() -> None:
    async def story() -> None:
        broker = Broker()
        asked = [broker.cluster.ask(caller(), "b", Command.request(ASK), 3) for _ in range(20)]
        answers = await asyncio.gather(*asked)
        assert len(answers) == 20
        assert broker.groups == [20]

    run(story())


def test_the_id_of_a_client_is_not_for_another_user() -> None:
    async def story() -> None:
        broker = Broker()
        await broker.cluster.ask(caller(user="alice"), "b", Command.request(ASK), 3)
        with pytest.raises(Refusal) as refused:
            await broker.cluster.ask(caller(user="bob"), "b", Command.request(ASK), 3)
        assert refused.value.code is Code.UNAUTHORIZED

    run(story())


def test_the_broker_can_ask_back() -> None:
    async def story() -> None:
        broker = Broker()
        await broker.cluster.ask(caller("me"), "b", Command.request(ASK), 3)
        question = Command.request(RequestCode.GET_CONSUMER_RUNNING_INFO)
        assert (await broker.connections[0].request(question, 3)).remark == "me"
        assert broker.asked == ["me"]
        unknown = await broker.connections[0].request(Command.request(RequestCode.SUSPEND_CONSUMER), 3)
        assert unknown.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED

    run(story())


def test_a_client_that_left_is_gone_for_the_broker_too() -> None:
    async def story() -> None:
        broker = Broker()
        waiting = broker.cluster.ask(caller(), "b", Command.request(RequestCode.HEART_BEAT), 3)
        await asyncio.sleep(0)
        broker.cluster.forget("c")
        with pytest.raises(ConnectionLost):
            await waiting
        await asyncio.sleep(0)
        assert broker.closed == [Address("10.1.2.3", 5000)]
        assert broker.cluster.links == 0
        answer = await broker.cluster.ask(caller(), "b", Command.request(ASK), 3)
        assert answer.code == ResponseCode.SUCCESS

    run(story())


def test_a_connection_that_the_broker_closes_is_replaced() -> None:
    async def story() -> None:
        broker = Broker()
        await broker.cluster.ask(caller(), "b", Command.request(ASK), 3)
        broker.connections[0].close("no heartbeat")
        for _ in range(5):
            await asyncio.sleep(0)
        assert broker.cluster.links == 0
        assert (await broker.cluster.ask(caller(), "b", Command.request(ASK), 3)).code == ResponseCode.SUCCESS

    run(story())


def test_clients_are_bounded() -> None:
    async def story() -> None:
        broker = Broker(most=2)
        for name in "ab":
            await broker.cluster.ask(caller(name), "b", Command.request(ASK), 3)
        with pytest.raises(Refusal, match="grpcMaxClients") as refused:
            await broker.cluster.ask(caller("c"), "b", Command.request(ASK), 3)
        assert refused.value.code is Code.TOO_MANY_REQUESTS
        await broker.cluster.ask(None, "b", Command.request(ASK), 3)
        broker.cluster.forget("a")
        broker.cluster.forget("b")
        await broker.cluster.ask(caller("c"), "b", Command.request(ASK), 3)

    run(story())


def test_the_route_is_the_own_topic_with_what_the_broker_permits() -> None:
    async def story() -> None:
        broker = Broker()
        route = await broker.cluster.route("t")
        assert route is not None
        (queues,) = route.queue_datas
        assert (queues.broker_name, queues.perm, queues.read_queue_nums, queues.write_queue_nums) == ("b", 4, 2, 3)
        assert route.broker_datas[0].broker_addrs == {0: "127.0.0.1:10911"}
        assert await broker.cluster.route("none") is None
        assert await broker.cluster.create(caller(), "new")

    run(story())


def test_another_broker_is_refused() -> None:
    async def story() -> None:
        with pytest.raises(Refusal) as refused:
            await Broker().cluster.ask(caller(), "x", Command.request(ASK), 3)
        assert refused.value.code is Code.BAD_REQUEST

    run(story())


def test_the_end_of_the_proxy_ends_all_connections() -> None:
    async def story() -> None:
        broker = Broker()
        waiting = broker.cluster.ask(caller(), "b", Command.request(RequestCode.HEART_BEAT), 3)
        await asyncio.sleep(0)
        await broker.cluster.stop()
        with pytest.raises(ConnectionLost):
            await waiting
        assert not broker.server.connections

    run(story())
