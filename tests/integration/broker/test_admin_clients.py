"""Clients of a real broker: their coming and going, and questions that the broker passes on to them."""

import asyncio
from pathlib import Path

import pytest

from pyromq.broker.broker import Broker
from pyromq.broker.cluster.heartbeats import Heartbeats
from pyromq.broker.config import BrokerConfig
from pyromq.protocol.bodies.clients import (
    ConsumeDirectlyResult,
    ConsumerConnection,
    ConsumerData,
    ConsumerList,
    ConsumerRunningInfo,
    ProducerConnection,
    ProducerTable,
)
from pyromq.protocol.bodies.enums import ConsumeResult, MessageModel
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.bodies.offsets import ConsumerStatusBody
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.admin import (
    ConsumeMessageDirectlyHeader,
    GetConsumerConnectionListHeader,
    GetConsumerRunningInfoHeader,
    GetProducerConnectionListHeader,
    InvokeBrokerToGetConsumerStatusHeader,
)
from pyromq.protocol.headers.callbacks import NotifyConsumerIdsChangedHeader
from pyromq.protocol.headers.consume import (
    GetConsumerListByGroupHeader,
    HeartBeatResponseHeader,
    UnregisterClientHeader,
)
from pyromq.protocol.message import MessageQueue
from pyromq.protocol.records.record import decode_records
from pyromq.protocol.release import Language
from tests.integration.broker.servers import Peer, consumer_of, standalone, until
from tests.unit.broker.clock import FakeClock


async def members(peer: Peer, group: str = "g") -> list[str]:
    header = GetConsumerListByGroupHeader(consumer_group=group)
    answer = await peer.call(RequestCode.GET_CONSUMER_LIST_BY_GROUP, header)
    return ConsumerList.decode(answer.body).consumer_id_list if answer.code == ResponseCode.SUCCESS else []


async def subscription_changed(peer: Peer, *, fingerprint: int = 0, without_sub: bool = False) -> bool:
    consumer = consumer_of("g") if without_sub else consumer_of("g", "orders")
    answer = await peer.heartbeat("c1", consumer=consumer, fingerprint=fingerprint, without_sub=without_sub)
    header = answer.header(HeartBeatResponseHeader)
    assert header.supports_heart_beat_v2
    return bool(header.subscription_changed)


async def test_connections_are_listed(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (_, peer), Peer(peer.address) as go:
        await peer.heartbeat("c1", consumer=consumer_of("g", "orders"), producer="p")
        await go.heartbeat("c2", consumer=consumer_of("g", "orders"), language=Language.GO, version=401)
        header = GetConsumerConnectionListHeader(consumer_group="g")
        answer = await peer.call(RequestCode.GET_CONSUMER_CONNECTION_LIST, header)
        consumers = ConsumerConnection.decode(answer.body)
        assert {(each.client_id, each.language) for each in consumers.connection_set} >= {("c2", "GO")}
        assert consumers.subscription_table["orders"].sub_string == "*"
        assert consumers.message_model is MessageModel.CLUSTERING
        assert sorted(await members(peer)) == ["c1", "c2"]
        header_p = GetProducerConnectionListHeader(producer_group="p")
        answer = await peer.call(RequestCode.GET_PRODUCER_CONNECTION_LIST, header_p)
        (producer,) = ProducerConnection.decode(answer.body).connection_set
        assert producer.client_id == "c1"
        assert producer.client_addr.startswith("127.0.0.1:")
        everybody = ProducerTable.decode((await peer.call(RequestCode.GET_ALL_PRODUCER_INFO)).body).data
        assert [each.client_id for each in everybody["p"]] == ["c1"]
        assert everybody["p"][0].remote_ip.startswith("/127.0.0.1:")
        nobody = await peer.call(
            RequestCode.GET_CONSUMER_CONNECTION_LIST, GetConsumerConnectionListHeader(consumer_group="no")
        )
        assert nobody.code == ResponseCode.CONSUMER_NOT_ONLINE
        nobody = await peer.call(
            RequestCode.GET_PRODUCER_CONNECTION_LIST, GetProducerConnectionListHeader(producer_group="no")
        )
        assert nobody.code == ResponseCode.SYSTEM_ERROR
        nobody = await peer.call(
            RequestCode.GET_CONSUMER_LIST_BY_GROUP, GetConsumerListByGroupHeader(consumer_group="no")
        )
        assert nobody.code == ResponseCode.SYSTEM_ERROR


async def test_every_member_hears_of_every_change(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer), Peer(peer.address) as second, Peer(peer.address) as third:

        async def hears(*listeners: Peer) -> None:
            for listener in listeners:
                notice = await listener.received.get()
                assert notice.is_oneway
                assert notice.header(NotifyConsumerIdsChangedHeader).consumer_group == "g"

        await peer.heartbeat("c1", consumer=consumer_of("g", "orders"))
        await hears(peer)
        await second.heartbeat("c2", consumer=consumer_of("g", "orders"))
        await hears(peer, second)
        await second.heartbeat("c2", consumer=consumer_of("g", "orders"))
        await third.heartbeat("c3", consumer=consumer_of("g", "orders"))
        await hears(peer, second, third)
        assert all(each.received.empty() for each in (peer, second, third)), "the same heartbeat again is no change"
        header = UnregisterClientHeader(client_id="c3", consumer_group="g", producer_group="nothing")
        await third.call(RequestCode.UNREGISTER_CLIENT, header)
        await hears(peer, second)
        await second.__aexit__(None, None, None)
        await hears(peer)
        assert await members(peer) == ["c1"]
        await broker.core.groups.put(SubscriptionGroupConfig(group_name="g", notify_consumer_ids_changed_enable=False))
        await third.heartbeat("c3", consumer=consumer_of("g", "orders"))
        broadcasting = ConsumerData(group_name="b", message_model=MessageModel.BROADCASTING)
        await peer.heartbeat("c1", consumer=broadcasting)
        assert await members(peer) == ["c1", "c3"]
        assert peer.received.empty()
        assert third.received.empty()


async def test_silent_clients_are_dropped(tmp_path: Path) -> None:
    # P-58
    clock = FakeClock()
    broker = Broker(BrokerConfig(listen_port=0, store_path_root_dir=tmp_path), clock)
    await broker.start()
    async with Peer(broker.address) as peer, Peer(broker.address) as silent:
        await silent.heartbeat("c2", consumer=consumer_of("g", "orders"), producer="p")
        clock.now += 60_000
        await peer.heartbeat("c1", consumer=consumer_of("g", "orders"))
        await peer.received.get()
        clock.now += 60_000
        broker.part(Heartbeats).drop_silent()
        assert len(await members(peer)) == 2, "not yet"
        clock.now += 1
        broker.part(Heartbeats).drop_silent()
        await peer.received.get()
        assert await members(peer) == ["c1"]
        assert broker.core.producers.get("p") is None
        await until(lambda: len(broker.core.ports.server.connections) == 1)
    await broker.stop()


async def test_heartbeats_of_the_second_kind(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        assert await subscription_changed(peer), "the first kind always says so"
        assert await subscription_changed(peer, fingerprint=7, without_sub=True), "an unknown fingerprint: send it all"
        assert not await subscription_changed(peer, fingerprint=7)
        assert not await subscription_changed(peer, fingerprint=7, without_sub=True)
        live = broker.core.consumers.get("g")
        assert live is not None
        assert set(live.subscriptions) == {"orders"}, "a heartbeat without subscriptions leaves them alone"
        assert await subscription_changed(peer, fingerprint=8)
        assert await subscription_changed(peer, fingerprint=7, without_sub=True)


async def test_hostile_heartbeats(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        for body in (b"", b"{", b"[]", b'{"clientID":[]}', b'{"consumerDataSet":{"a":1}}', b"\xff" * 10):
            answer = await peer.call(RequestCode.HEART_BEAT, body=body)
            assert answer.code != ResponseCode.SUCCESS, body
        for group in ("../x", "a/b", "", "x" * 300):
            await peer.heartbeat("c1", consumer=consumer_of(group, "orders"))
            assert await members(peer, group) == []
            answer = await peer.heartbeat("c1", producer=group)
            assert answer.code != ResponseCode.SUCCESS
        assert len(broker.core.consumers) == len(broker.core.producers) == 0


async def test_running_info_is_asked_of_the_client(tmp_path: Path) -> None:
    asked: list[GetConsumerRunningInfoHeader] = []

    def info(request: Command, _connection: object) -> Command:
        asked.append(request.header(GetConsumerRunningInfoHeader))
        return request.reply(body=ConsumerRunningInfo(properties={"PROP": "value"}).encode())

    async with (
        standalone(tmp_path) as (broker, peer),
        Peer(broker.address, {RequestCode.GET_CONSUMER_RUNNING_INFO: info}) as consumer,
    ):
        await consumer.heartbeat("c1", consumer=consumer_of("g", "orders"))
        header = GetConsumerRunningInfoHeader(consumer_group="g", client_id="c1", jstack_enable=True)
        answer = await peer.call(RequestCode.GET_CONSUMER_RUNNING_INFO, header)
        assert ConsumerRunningInfo.decode(answer.body).properties == {"PROP": "value"}
        assert (asked[0].client_id, asked[0].jstack_enable) == ("c1", True)
        for group, client in (("g", "c9"), ("no", "c1")):
            header = GetConsumerRunningInfoHeader(consumer_group=group, client_id=client)
            answer = await peer.call(RequestCode.GET_CONSUMER_RUNNING_INFO, header)
            assert (answer.code, f"<{group}> <{client}> not online" in str(answer.remark)) == (1, True)


async def test_a_client_that_is_too_old_or_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyromq.broker.admin.clients.RELAY_TIMEOUT", 0.05)

    async def never(_request: Command, _connection: object) -> None:
        await asyncio.sleep(3600)

    async with (
        standalone(tmp_path) as (broker, peer),
        Peer(broker.address, {RequestCode.GET_CONSUMER_RUNNING_INFO: never}) as consumer,
    ):
        await consumer.heartbeat("c1", consumer=consumer_of("g", "orders"))
        header = GetConsumerRunningInfoHeader(consumer_group="g", client_id="c1")
        answer = await peer.call(RequestCode.GET_CONSUMER_RUNNING_INFO, header)
        assert answer.code == ResponseCode.CONSUME_MSG_TIMEOUT
        await consumer.heartbeat("c1", consumer=consumer_of("g", "orders"), version=1)
        answer = await peer.call(RequestCode.GET_CONSUMER_RUNNING_INFO, header)
        assert (answer.code, "too old" in str(answer.remark)) == (ResponseCode.SYSTEM_ERROR, True)


async def test_a_message_is_consumed_directly(tmp_path: Path) -> None:
    bodies: list[bytes] = []

    def consume(request: Command, _connection: object) -> Command:
        header = request.header(ConsumeMessageDirectlyHeader)
        assert header.broker_name == "broker-a"
        bodies.extend(bytes(message.body) for message in decode_records(request.body))
        return request.reply(body=ConsumeDirectlyResult(consume_result=ConsumeResult.CR_SUCCESS).encode())

    async with (
        standalone(tmp_path) as (broker, peer),
        Peer(broker.address, {RequestCode.CONSUME_MESSAGE_DIRECTLY: consume}) as consumer,
    ):
        await consumer.heartbeat("c1", consumer=consumer_of("g", "orders"))
        stored = await peer.stored("orders", b"again, please")

        async def directly(message_id: str, client: str = "c1") -> Command:
            header = ConsumeMessageDirectlyHeader(
                consumer_group="g", client_id=client, msg_id=message_id, topic="orders"
            )
            return await peer.call(RequestCode.CONSUME_MESSAGE_DIRECTLY, header)

        answer = await directly(stored.msg_id)
        assert ConsumeDirectlyResult.decode(answer.body).consume_result is ConsumeResult.CR_SUCCESS
        assert bodies == [b"again, please"]
        for message_id, client in ((stored.msg_id, "c9"), ("not an id", "c1"), (f"{stored.msg_id[:-1]}1", "c1")):
            refused = await directly(message_id, client)
            assert (refused.code, bool(refused.remark)) == (ResponseCode.SYSTEM_ERROR, True), message_id


async def test_the_status_of_all_members_or_of_one(tmp_path: Path) -> None:
    def status(offset: int) -> dict[int, object]:
        def answer(request: Command, _connection: object) -> Command:
            table = {MessageQueue("orders", "broker-a", 0): offset}
            return request.reply(body=ConsumerStatusBody(message_queue_table=table).encode())

        return {RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: answer}

    def broken(request: Command, _connection: object) -> Command:
        return request.reply(body=b"{]")

    async with (
        standalone(tmp_path) as (broker, peer),
        Peer(broker.address, status(1)) as first,  # type: ignore[arg-type]  # a handler
        Peer(broker.address, status(2)) as second,  # type: ignore[arg-type]  # a handler
        Peer(broker.address, {RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: broken}) as third,
    ):
        for name, each in (("c1", first), ("c2", second), ("c3", third)):
            await each.heartbeat(name, consumer=consumer_of("g", "orders"))

        async def ask(group: str = "g", client: str | None = None) -> Command:
            header = InvokeBrokerToGetConsumerStatusHeader(topic="orders", group=group, client_addr=client)
            return await peer.call(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, header)

        table = ConsumerStatusBody.decode((await ask()).body).consumer_table
        queue = MessageQueue("orders", "broker-a", 0)
        assert table == {"c1": {queue: 1}, "c2": {queue: 2}}, "one that answers nonsense does not spoil the others"
        assert ConsumerStatusBody.decode((await ask(client="c2")).body).consumer_table.keys() == {"c2"}
        assert (await ask("nobody")).code == ResponseCode.SYSTEM_ERROR
