"""The client instance: sharing, schedule, routes, heartbeats, broker requests, stop."""

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from typing import Any, cast

import pytest

from pyromq.client.config import ClientConfig
from pyromq.client.errors import ClientError, ForkedError, NoRouteError, ServiceStateError
from pyromq.client.instance import registry
from pyromq.client.instance.inbound import Inbound
from pyromq.client.instance.instance import ClientInstance
from pyromq.client.instance.route_updates import NameServerError
from pyromq.client.instance.routes import PublishInfo
from pyromq.client.state import ServiceState
from pyromq.protocol.bodies.clients import (
    ConsumeDirectlyResult,
    ConsumerData,
    ConsumerList,
    ConsumerRunningInfo,
    HeartbeatData,
    SubscriptionData,
)
from pyromq.protocol.bodies.offsets import ConsumerStatusBody, ResetOffsetBody
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.admin import ConsumeMessageDirectlyHeader, GetConsumerRunningInfoHeader
from pyromq.protocol.headers.base import Header
from pyromq.protocol.headers.callbacks import (
    CheckTransactionStateHeader,
    GetConsumerStatusFromClientHeader,
    NotifyConsumerIdsChangedHeader,
    ResetConsumerClientOffsetHeader,
)
from pyromq.protocol.headers.consume import UnregisterClientHeader
from pyromq.protocol.message import MessageQueue, ReceivedMessage
from pyromq.protocol.records.record import encode_record
from pyromq.remoting.address import Address
from pyromq.remoting.connection import Connection
from tests.unit.client.fakes import FakeCluster, asyncio_test, route_of, settle


class Member:
    """Stands for a producer or a consumer and notes what it is told."""

    def __init__(self, *topics: str) -> None:
        self.topics = list(topics)
        self.events: list[Any] = []
        self.wants: set[str] = set()
        self.version = 1

    def published_topics(self) -> list[str]:
        return self.topics

    def subscribed_topics(self) -> list[str]:
        return self.topics

    def needs_route(self, topic: str) -> bool:
        return topic in self.wants

    def route_changed(self, topic: str, info: PublishInfo | list[MessageQueue]) -> None:
        self.events.append((topic, len(info.queues if isinstance(info, PublishInfo) else info)))

    def check_transaction(self, address: str, message: ReceivedMessage, header: CheckTransactionStateHeader) -> None:
        self.events.append((address, message, header))

    def heartbeat_data(self) -> ConsumerData:
        subscription = SubscriptionData(topic="T", sub_string="*", sub_version=self.version)
        return ConsumerData(group_name="CG", subscription_data_set=[subscription])

    def wake_rebalance(self) -> None:
        self.events.append("rebalance")

    async def persist_offsets(self) -> None:
        self.events.append("persist")

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        self.events.append((topic, dict(offsets)))

    def consumer_status(self, topic: str) -> Mapping[MessageQueue, int]:
        return {MessageQueue(topic, "a", 0): 7}

    async def running_info(self, *, jstack: bool) -> ConsumerRunningInfo:
        return ConsumerRunningInfo(properties={"jstack": str(jstack)})

    async def consume_directly(self, message: ReceivedMessage, broker_name: str | None) -> ConsumeDirectlyResult:
        self.events.append((message.topic, broker_name))
        return ConsumeDirectlyResult(remark="done")


def make(cluster: FakeCluster, **options: Any) -> ClientInstance:
    config = ClientConfig(namesrv=";".join(cluster.name_servers), **options)
    return ClientInstance("10.1.1.1@test", config, clock=cluster.clock, transport=cluster.transport)


@asyncio_test
async def test_one_instance_per_client_id() -> None:
    # P-26, P-27, P-35
    first = registry.obtain(ClientConfig(instance_name="shared", client_ip="10.1.1.1", api_timeout=1), "A")
    second = registry.obtain(ClientConfig(instance_name="shared", client_ip="10.1.1.1", api_timeout=9), "B")
    assert first is second
    assert first.config.api_timeout == 1
    assert first.client_id == "10.1.1.1@shared"
    other = registry.obtain(ClientConfig(instance_name="shared", client_ip="10.1.1.1", unit_name="u"), "A")
    assert other is not first
    own = registry.obtain(ClientConfig(client_ip="10.1.1.1"), "A")
    twin = registry.obtain(ClientConfig(client_ip="10.1.1.1"), "A")
    assert own is not twin
    for instance in (first, other, own, twin):
        await instance.stop()
    again = registry.obtain(ClientConfig(instance_name="shared", client_ip="10.1.1.1"), "A")
    assert again is not first
    await again.stop()


@asyncio_test
async def test_one_producer_per_group() -> None:
    # P-28
    instance = make(FakeCluster())
    instance.register_producer("PG", Member())
    with pytest.raises(ClientError, match="one per group"):
        instance.register_producer("PG", Member())
    instance.register_producer("OTHER", Member())


@asyncio_test
async def test_scheduled_work_keeps_its_intervals() -> None:
    # P-38: 10 ms, then every 30 s; P-31 and section 3.2 for the rest
    cluster = FakeCluster("a")
    cluster.add_topic("T")
    instance = make(cluster)
    consumer = Member("T")
    instance.register_consumer("CG", consumer)
    await instance.start()
    await instance.start()  # P-30: again is no error
    clock = cluster.clock
    await clock.advance(0.009)
    assert cluster.lookups == []
    await clock.advance(0.001)
    assert cluster.lookups == ["T"]
    await clock.advance(0.98)
    assert len(cluster.brokers["a"].heartbeats) == 0
    await clock.advance(0.02)
    assert len(cluster.brokers["a"].heartbeats) == 1
    assert consumer.events.count("persist") == 0
    await clock.advance(9.0)
    assert consumer.events.count("persist") == 1
    await clock.advance(5.0)
    assert consumer.events.count("persist") == 2
    await clock.advance(14.9)
    assert cluster.lookups == ["T"]
    await clock.advance(0.2)
    assert cluster.lookups == ["T", "T"]
    await clock.advance(1.0)
    assert len(cluster.brokers["a"].heartbeats) == 2
    # P-39: a change is seen one period later at the latest
    cluster.add_topic("T", 6)
    await clock.advance(30.0)
    assert consumer.events[-1] == "persist" or ("T", 6) in consumer.events
    assert ("T", 6) in consumer.events
    await instance.stop()
    assert clock.pending == 0


@asyncio_test
async def test_routes_of_all_members_are_refreshed() -> None:
    # P-38
    cluster = FakeCluster("a")
    instance = make(cluster)
    instance.register_producer("PG", Member("P", "B"))
    instance.register_consumer("CG", Member("B", "C"))
    await instance.routes.refresh_all()
    assert cluster.lookups == ["B", "C", "P"]


@asyncio_test
async def test_update_tells_everybody_in_order() -> None:
    # P-47
    cluster = FakeCluster("a")
    cluster.add_topic("T", 3)
    instance = make(cluster)
    order: list[str] = []

    class Watching(Member):
        def route_changed(self, topic: str, info: PublishInfo | list[MessageQueue]) -> None:
            assert instance.topology.publish_address("a") == cluster.brokers["a"].address
            assert topic not in instance.topology.routes
            if isinstance(info, PublishInfo):
                assert info.has_route
            order.append("producer" if isinstance(info, PublishInfo) else "consumer")

    instance.register_producer("PG", Watching())
    instance.register_consumer("CG", Watching("T"))
    instance.register_consumer("CG2", Watching("other"))
    assert (await instance.routes.refresh("T")).changed
    assert order == ["producer", "consumer"]
    assert "T" in instance.topology.routes


@asyncio_test
async def test_unchanged_route_is_applied_when_somebody_lacks_it() -> None:
    # P-46
    cluster = FakeCluster("a")
    cluster.add_topic("T")
    instance = make(cluster)
    member = Member()
    instance.register_producer("PG", member)
    assert (await instance.routes.refresh("T")).changed
    assert not (await instance.routes.refresh("T")).changed
    member.wants.add("T")
    assert (await instance.routes.refresh("T")).changed
    assert member.events == [("T", 4), ("T", 4)]


@asyncio_test
async def test_missing_topic_is_no_change(caplog: pytest.LogCaptureFixture) -> None:
    # P-52
    caplog.set_level("INFO")
    cluster = FakeCluster("a")
    instance = make(cluster)
    refresh = await instance.routes.refresh("T")
    assert not refresh.changed
    assert refresh.answers[0].address == "ns1:9876"
    assert "TOPIC_NOT_EXIST" in refresh.answers[0].answer
    assert "no route for topic T" in caplog.text
    caplog.clear()
    await instance.routes.refresh("%RETRY%CG")
    await instance.routes.refresh("T", default_topic="TBW102")
    assert "no route" not in caplog.text


@asyncio_test
async def test_refused_and_unreadable_routes_are_no_change() -> None:
    # P-52
    cluster = FakeCluster("a")
    instance = make(cluster)
    cluster.transport.peers["ns1:9876"] = lambda command: command.reply(1, remark="name server not ready")
    assert not (await instance.routes.refresh("T")).changed
    cluster.transport.peers["ns1:9876"] = lambda command: command.reply(body=b"[not json")
    assert not (await instance.routes.refresh("T")).changed


@asyncio_test
async def test_unreachable_name_servers_are_an_error_that_names_them() -> None:
    # P-52, P-53
    cluster = FakeCluster("a", name_servers=("ns1:9876", "ns2:9876"))
    cluster.transport.peers.clear()
    instance = make(cluster)
    with pytest.raises(NameServerError) as caught:
        await instance.routes.refresh("T")
    assert {answer.address for answer in caught.value.answers} == {"ns1:9876", "ns2:9876"}
    assert "refused" in str(caught.value)
    assert caught.value.code == 10005


@asyncio_test
async def test_failover_to_another_name_server() -> None:
    cluster = FakeCluster("a", name_servers=("ns1:9876", "ns2:9876"))
    cluster.add_topic("T")
    instance = make(cluster)
    first = instance.name_servers.addresses[0]
    del cluster.transport.peers[first]
    assert (await instance.routes.refresh("T")).changed
    asked = [address for address, _ in cluster.transport.sent(RequestCode.GET_ROUTEINFO_BY_TOPIC)]
    assert asked == list(instance.name_servers.addresses)
    await instance.routes.refresh("T")
    assert cluster.transport.calls[-1][0] == asked[1]


@asyncio_test
async def test_no_name_server_at_all() -> None:
    # P-53
    cluster = FakeCluster("a", name_servers=())
    instance = make(cluster)
    with pytest.raises(NoRouteError) as caught:
        await instance.routes.refresh("T")
    assert caught.value.code == 10004
    assert "NAMESRV_ADDR" in str(caught.value)


@asyncio_test
async def test_update_lock_is_given_up_after_three_seconds() -> None:
    # P-52
    cluster = FakeCluster("a")
    cluster.add_topic("T")
    stuck: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
    answer = cluster.transport.peers["ns1:9876"]
    cluster.transport.peers["ns1:9876"] = lambda _: stuck
    instance = make(cluster)
    holding = asyncio.ensure_future(instance.routes.refresh("slow"))
    await settle()
    cluster.transport.peers["ns1:9876"] = answer
    waiting = asyncio.ensure_future(instance.routes.refresh("T"))
    await cluster.clock.advance(2.9)
    assert not waiting.done()
    await cluster.clock.advance(0.1)
    assert not (await waiting).changed
    await instance.routes.stop()
    with pytest.raises(ServiceStateError):
        await holding


@asyncio_test
async def test_callers_for_one_topic_share_one_question() -> None:
    cluster = FakeCluster("a")
    cluster.add_topic("T")
    instance = make(cluster)
    await asyncio.gather(*(instance.routes.refresh("T") for _ in range(5)))
    assert cluster.lookups == ["T"]


@asyncio_test
async def test_heartbeat_targets_and_contents() -> None:
    # P-31 and section 3.4
    cluster = FakeCluster("a")
    route = route_of({"a": cluster.brokers["a"].address})
    route.broker_datas[0].broker_addrs[1] = "10.0.0.9:10911"
    cluster.routes["T"] = route
    slave_beats: list[Command] = []

    def slave(command: Command) -> Command:
        slave_beats.append(command)
        return command.reply()

    cluster.transport.peers["10.0.0.9:10911"] = slave
    instance = make(cluster)
    assert not await instance.heart.beat_all()
    instance.register_producer("PG", Member())
    assert not await instance.heart.beat_all()  # no broker known
    await instance.routes.refresh("T")
    assert await instance.heart.beat_all()
    assert len(slave_beats) == 0  # masters only
    data = HeartbeatData.decode(cluster.brokers["a"].heartbeats[0].body)
    assert data.client_id == "10.1.1.1@test"
    assert [producer.group_name for producer in data.producer_data_set] == ["PG"]
    instance.register_consumer("CG", Member())
    await instance.heart.beat_all()
    assert len(slave_beats) == 1
    assert instance.topology.versions[cluster.brokers["a"].address] == 479
    # a failure is logged, never raised
    cluster.transport.peers.clear()
    assert await instance.heart.beat_all()


@asyncio_test
async def test_heartbeat_skips_when_one_is_under_way(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "pyromq.client.instance.heartbeat")
    cluster = FakeCluster("a")
    cluster.add_topic("T")
    instance = make(cluster)
    instance.register_producer("PG", Member())
    await instance.routes.refresh("T")
    stuck: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
    cluster.transport.peers[cluster.brokers["a"].address] = lambda _: stuck
    first = asyncio.ensure_future(instance.heart.beat_all())
    await settle()
    assert not await instance.heart.beat_all()
    assert "skipped" in caplog.text
    first.cancel()


def beat_answer(changed: bool, *, supported: bool = True) -> Any:
    fields = {"IS_SUPPORT_HEART_BEAT_V2": str(supported).lower(), "IS_SUB_CHANGE": str(changed).lower()}
    return lambda command: command.reply(ext=fields)


@asyncio_test
async def test_heartbeat_v2_drops_subscriptions_that_the_broker_has() -> None:
    cluster = FakeCluster("a")
    cluster.add_topic("T")
    broker = cluster.brokers["a"]
    bodies: list[HeartbeatData] = []
    changed = False

    def answer(command: Command) -> Command:
        bodies.append(HeartbeatData.decode(command.body))
        reply: Command = beat_answer(changed)(command)
        return reply

    broker.answers[RequestCode.HEART_BEAT] = answer
    instance = make(cluster, heartbeat_v2=True)
    member = Member("T")
    instance.register_consumer("CG", member)
    await instance.routes.refresh("T")
    await instance.heart.beat_all()
    member.version = 2  # the version does not count
    await instance.heart.beat_all()
    assert [body.without_sub for body in bodies] == [False, True]
    assert bodies[0].heartbeat_fingerprint == bodies[1].heartbeat_fingerprint != 0
    assert bodies[1].consumer_data_set[0].subscription_data_set == []
    assert bodies[0].consumer_data_set[0].subscription_data_set != []
    changed = True
    await instance.heart.beat_all()  # the broker forgot
    await instance.heart.beat_all()
    assert [body.without_sub for body in bodies] == [False, True, True, False]
    changed = False
    await instance.heart.beat_all()
    instance.heart.subscriptions_changed()
    await instance.heart.beat_all()
    assert not bodies[-1].without_sub


@asyncio_test
async def test_new_connection_to_a_broker_gets_a_heartbeat() -> None:
    cluster = FakeCluster("a")
    cluster.add_topic("T")
    instance = make(cluster)
    member = Member("T")
    instance.register_consumer("CG", member)
    await instance.start()
    await instance.routes.refresh("T")
    instance._connected(cluster.brokers["a"].address)
    instance._connected("10.9.9.9:1")
    await settle()
    assert len(cluster.brokers["a"].heartbeats) == 1
    assert "rebalance" in member.events
    await instance.stop()


@asyncio_test
async def test_offline_brokers_leave_with_the_next_beat() -> None:
    cluster = FakeCluster("a", "b")
    cluster.add_topic("T")
    instance = make(cluster)
    instance.register_producer("PG", Member("T"))
    await instance.start()
    await cluster.clock.advance(0.1)
    assert set(instance.topology.brokers) == {"a", "b"}
    cluster.add_topic("T", brokers=("a",))
    await cluster.clock.advance(31.0)
    assert set(instance.topology.brokers) == {"a"}
    await instance.stop()


@asyncio_test
async def test_unregister_tells_every_broker() -> None:
    cluster = FakeCluster("a", "b")
    cluster.add_topic("T")
    instance = make(cluster)
    instance.register_producer("PG", Member())
    instance.register_consumer("CG", Member())
    await instance.routes.refresh("T")
    del cluster.transport.peers[cluster.brokers["b"].address]  # errors are only logged
    await instance.unregister_producer("PG")
    await instance.unregister_consumer("CG")
    headers = [command.header(UnregisterClientHeader) for command in cluster.brokers["a"].unregistered]
    assert [(header.producer_group, header.consumer_group) for header in headers] == [("PG", None), (None, "CG")]
    assert len(cluster.transport.sent(RequestCode.UNREGISTER_CLIENT)) == 4
    await instance.unregister_producer("PG")
    assert len(cluster.transport.sent(RequestCode.UNREGISTER_CLIENT)) == 4


@asyncio_test
async def test_instance_stops_with_its_last_user() -> None:
    # P-34
    cluster = FakeCluster("a")
    instance = make(cluster)
    await instance.start()
    instance.register_producer("CLIENT_INNER_PRODUCER", Member())
    instance.register_consumer("CG", Member())
    instance.register_admin("admin", object())
    await instance.release()
    assert not cluster.transport.closed
    await instance.unregister_consumer("CG")
    instance.unregister_admin("admin")
    await instance.release()
    assert instance.state is ServiceState.SHUTDOWN_ALREADY
    assert cluster.transport.closed
    await instance.stop()
    with pytest.raises(ServiceStateError, match="closed"):
        await instance.start()
    with pytest.raises(ServiceStateError):
        await instance.call("a:1", Command.request(1), 1)


@asyncio_test
async def test_failed_start_stays_failed() -> None:
    cluster = FakeCluster(name_servers=())

    def lookup(host: str, path: str, seconds: float) -> list[str]:
        raise RuntimeError("boom")

    instance = ClientInstance("id", ClientConfig(), clock=cluster.clock, transport=cluster.transport, lookup=lookup)
    with pytest.raises(RuntimeError):
        await instance.start()
    with pytest.raises(ServiceStateError, match="START_FAILED"):
        await instance.start()
    await instance.stop()


@asyncio_test
async def test_name_servers_from_the_http_lookup() -> None:
    cluster = FakeCluster("a", name_servers=())
    answers: list[list[str] | OSError] = [["ns1:9876"], OSError("down"), ["ns1:9876", "ns2:9876"]]
    asked: list[tuple[str, str, float]] = []

    def lookup(host: str, path: str, seconds: float) -> list[str]:
        asked.append((host, path, seconds))
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    instance = ClientInstance("id", ClientConfig(), clock=cluster.clock, transport=cluster.transport, lookup=lookup)
    await instance.start()
    assert asked == [("jmenv.tbsite.net:8080", "/rocketmq/nsaddr", 3.0)]
    assert instance.name_servers.addresses == ("ns1:9876",)
    await instance.fetch_name_servers()
    assert instance.name_servers.addresses == ("ns1:9876",)
    await instance.fetch_name_servers()
    assert set(instance.name_servers.addresses) == {"ns1:9876", "ns2:9876"}
    assert "name servers" in instance.schedule.jobs
    await instance.stop()


@asyncio_test
async def test_a_fork_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = make(FakeCluster("a"))
    monkeypatch.setattr("os.getpid", lambda: 4711)
    with pytest.raises(ForkedError, match="4711"):
        await instance.start()
    with pytest.raises(ForkedError, match="after the fork"):
        await instance.call("a:1", Command.request(1), 1)


@asyncio_test
async def test_consumer_ids() -> None:
    cluster = FakeCluster("a")
    cluster.add_topic("T")
    broker = cluster.brokers["a"]
    broker.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = lambda command: command.reply(
        body=ConsumerList(consumer_id_list=["one", "two"]).encode()
    )
    instance = make(cluster)
    assert await instance.consumer_ids("T", "CG") == ["one", "two"]
    broker.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = lambda command: command.reply(1, remark="none")
    assert await instance.consumer_ids("T", "CG") is None
    assert await instance.consumer_ids("missing", "CG") is None


@asyncio_test
async def test_a_broker_that_has_not_heard_of_a_new_group_is_nothing_to_warn_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = FakeCluster("a")
    cluster.add_topic("T")
    answers = cluster.brokers["a"].answers
    instance = make(cluster)
    answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = lambda command: command.reply(
        ResponseCode.SYSTEM_ERROR, remark="no consumer for this group, CG"
    )
    assert await instance.consumer_ids("T", "CG") is None
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = lambda command: command.reply(ResponseCode.NO_PERMISSION)
    assert await instance.consumer_ids("T", "CG") is None
    assert "NO_PERMISSION" in caplog.text


@asyncio_test
async def test_vip_channel() -> None:
    # P-87
    assert make(FakeCluster()).vip("10.0.0.1:10911") == "10.0.0.1:10911"
    assert make(FakeCluster(), vip_channel=True).vip("10.0.0.1:10911") == "10.0.0.1:10909"


class Peer:
    peer = Address("10.0.0.1", 10911)


async def ask(instance: ClientInstance, code: int, header: Header, body: bytes = b"") -> Command | None:
    handler = Inbound(instance).handlers()[code]
    answer = handler(Command.request(code, header, body=body), cast("Connection", Peer()))
    if isinstance(answer, Awaitable):
        answer = await answer
    assert answer is None or isinstance(answer, Command)
    return answer


def stored(topic: str = "T", **properties: str) -> ReceivedMessage:
    return ReceivedMessage(topic, b"body", {"UNIQ_KEY": "U1", **properties})


@asyncio_test
async def test_all_broker_requests_are_served() -> None:
    handlers = Inbound(make(FakeCluster())).handlers()
    assert set(handlers) == {39, 40, 220, 221, 307, 309, 326}


@asyncio_test
async def test_transaction_check_finds_its_producer() -> None:
    # P-117
    instance = make(FakeCluster(), namespace="N")
    member = Member()
    instance.register_producer("N%PG", member)
    header = CheckTransactionStateHeader(tran_state_table_offset=1, commit_log_offset=2, bname="a")
    message = stored("N%T", PGROUP="N%PG", TRAN_MSG="true")
    assert await ask(instance, 39, header, encode_record(message)) is None
    address, seen, _ = member.events[0]
    assert address == "10.0.0.1:10911"
    assert seen.topic == "T"
    assert seen.transaction_id == "U1"
    unknown = stored("T", PGROUP="other")
    assert await ask(instance, 39, header, encode_record(unknown)) is None
    assert len(member.events) == 1


@asyncio_test
async def test_consumer_requests() -> None:
    instance = make(FakeCluster())
    member = Member("T")
    instance.register_consumer("CG", member)
    assert await ask(instance, 40, NotifyConsumerIdsChangedHeader(consumer_group="CG")) is None
    assert member.events == ["rebalance"]
    queue = MessageQueue("T", "a", 0)
    reset = ResetOffsetBody(offset_table={queue: 5}).encode()
    header = ResetConsumerClientOffsetHeader(topic="T", group="CG", timestamp=1, is_force=True)
    assert await ask(instance, 220, header, reset) is None
    await settle()
    assert member.events[-1] == ("T", {queue: 5})
    status = await ask(instance, 221, GetConsumerStatusFromClientHeader(topic="T", group="CG"))
    assert status is not None
    assert ConsumerStatusBody.decode(status.body).message_queue_table == {queue: 7}
    info = await ask(
        instance, 307, GetConsumerRunningInfoHeader(consumer_group="CG", client_id="x", jstack_enable=True)
    )
    assert info is not None
    assert ConsumerRunningInfo.decode(info.body).properties == {"jstack": "True"}
    direct = await ask(
        instance,
        309,
        ConsumeMessageDirectlyHeader(consumer_group="CG", broker_name="a"),
        encode_record(stored()),
    )
    assert direct is not None
    assert ConsumeDirectlyResult.decode(direct.body).remark == "done"
    assert member.events[-1] == ("T", "a")


@asyncio_test
async def test_unknown_groups_are_answered() -> None:
    instance = make(FakeCluster())
    questions: tuple[tuple[int, Header], ...] = (
        (221, GetConsumerStatusFromClientHeader(topic="T", group="CG")),
        (307, GetConsumerRunningInfoHeader(consumer_group="CG", client_id="x")),
        (309, ConsumeMessageDirectlyHeader(consumer_group="CG")),
    )
    for code, header in questions:
        answer = await ask(instance, code, header, encode_record(stored()))
        assert answer is not None
        assert answer.code == ResponseCode.SYSTEM_ERROR
    reset = ResetConsumerClientOffsetHeader(topic="T", group="CG", timestamp=1, is_force=True)
    assert await ask(instance, 220, reset, ResetOffsetBody().encode()) is None
