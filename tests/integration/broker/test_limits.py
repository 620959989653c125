"""Every bound of a broker, reached: the answer names it and says what to do, the metrics count it, the rest goes on."""

import asyncio
import contextlib
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pyromq.broker.broker import Broker
from pyromq.broker.config import BrokerConfig
from pyromq.broker.consume.locks import QueueLocks
from pyromq.broker.consume.pull import Puller
from pyromq.broker.httpserver import MAX_CONNECTIONS
from pyromq.protocol import bounds
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.bodies.queues import LockBatchRequest, LockBatchResponse
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command, encode
from pyromq.protocol.headers.admin import UpdateAndCreateTopicHeader
from pyromq.protocol.message import MessageQueue
from pyromq.remoting.errors import RemotingError
from pyromq.store.flags import Flag
from tests.integration.broker.servers import Peer, consumer_of, standalone, until

FOREVER = 60_000


async def page(broker: Broker, path: str = "/metrics", method: str = "GET") -> str:
    """A page of the broker's HTTP server, with its head."""
    assert broker.http_address is not None
    host, _, port = broker.http_address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"{method} {path} HTTP/1.1\r\nHost: broker\r\n\r\n".encode())
    text = (await reader.read()).decode()
    writer.close()
    return text


async def met(broker: Broker, limit: str) -> int:
    """How often the metrics say that a limit was met."""
    found = re.search(
        rf'^pyromq_limits_total{{[^}}]*limit="{limit}"[^}}]*}} ([0-9.]+)$', await page(broker), re.MULTILINE
    )
    assert found is not None, limit
    return int(float(found[1]))


async def refused(address: str) -> bool:
    """Whether a new connection is closed before it is answered."""
    async with Peer(address) as peer:
        try:
            await peer.call(RequestCode.GET_BROKER_RUNTIME_INFO)
        except RemotingError:
            return True
    return False


@pytest.mark.parametrize("limit", ["connections", "connections_per_peer"])
async def test_connections(tmp_path: Path, limit: str) -> None:
    async with standalone(tmp_path, http_port="0", **{f"max_{limit}": "2"}) as (broker, _):
        async with Peer(broker.address) as first, Peer(broker.address) as second:
            for peer in (first, second):
                # The broker's own look at its address may still hold a place.
                while not peer.is_connected:
                    with contextlib.suppress(RemotingError):
                        await peer.call(RequestCode.GET_BROKER_RUNTIME_INFO)
            before = await met(broker, limit)
            assert await refused(broker.address)
            assert await met(broker, limit) > before
            for peer in (first, second):
                await peer.stored("orders")
        await until(lambda: not broker.core.ports.server.connections)
        assert not await refused(broker.address)


async def test_frame_size_and_malformed_frames(tmp_path: Path) -> None:
    # P-61
    async with standalone(tmp_path, http_port="0") as (broker, peer):
        host, _, port = broker.address.rpartition(":")
        good = encode(Command.request(RequestCode.GET_BROKER_RUNTIME_INFO, opaque=7))
        for bad in (
            (17 * 1024 * 1024).to_bytes(4, "big"),
            b"\xff\xff\xff\xff",
            b"\x00\x00\x00\x00",
            b"\x00\x00\x00\x08\x00\xff\xff\xff" + b"x" * 4,
            b"GET / HTTP/1.1\r\n\r\n",
        ):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(good + bad)
            answered = await reader.read()
            assert answered.count(b"brokerVersionDesc") == 1, "what came before the bad frame is answered"
            writer.close()
        assert await met(broker, "malformed") == 5
        await peer.stored("orders")


async def test_parked_pulls(tmp_path: Path) -> None:
    async with standalone(tmp_path, http_port="0", max_parked_pulls="2") as (broker, peer):
        await peer.stored("orders")
        async with Peer(broker.address) as other:
            waiting = [asyncio.create_task(other.pull("orders", 1, hold=FOREVER)) for _ in range(2)]
            await until(lambda: len(broker.part(Puller).park) == 2)
            answer = await peer.pull("orders", 1, hold=FOREVER)
            assert answer.code == ResponseCode.SYSTEM_BUSY
            assert "maxParkedPulls" in str(answer.remark)
            assert "try again" in str(answer.remark)
            assert (await peer.pull("orders", 0, hold=FOREVER)).code == ResponseCode.SUCCESS
            assert await met(broker, "parked_pulls") == 1
            assert "pyromq_parked_pulls{" in await page(broker)
        await until(lambda: len(broker.part(Puller).park) == 0)
        assert [type(each) for each in await asyncio.gather(*waiting, return_exceptions=True)] != [Command] * 2
        mine = asyncio.create_task(peer.pull("orders", 1, hold=FOREVER))
        await until(lambda: len(broker.part(Puller).park) == 1)
        async with Peer(broker.address) as other:
            await other.stored("orders")
        assert (await mine).code == ResponseCode.SUCCESS


async def test_topics_and_groups(tmp_path: Path) -> None:
    async with standalone(tmp_path, http_port="0", max_topics="16", max_groups="16") as (broker, peer):
        room = 16 - len(broker.core.topics)
        for number in range(room):
            await peer.stored(f"t{number}")
        header = UpdateAndCreateTopicHeader(
            topic="more",
            default_topic="TBW102",
            read_queue_nums=1,
            write_queue_nums=1,
            perm=6,
            topic_filter_type="SINGLE_TAG",
            order=False,
        )
        for answer in (await peer.send("more"), await peer.call(RequestCode.UPDATE_AND_CREATE_TOPIC, header)):
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert "maxTopics is 16" in str(answer.remark)
        await peer.stored("t0")
        for number in range(16 - len(broker.core.groups)):
            assert (await peer.pull("t0", group=f"g{number}")).code == ResponseCode.SUCCESS
        config = SubscriptionGroupConfig(group_name="more").encode()
        for answer in (
            await peer.pull("t0", group="more"),
            await peer.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=config),
            await peer.heartbeat("c1", consumer=consumer_of("more", "t0"), producer="p"),
        ):
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert "maxGroups is 16" in str(answer.remark)
        assert broker.core.producers.get("p"), "one group that is refused does not cost the client the others"
        for number in range(15):
            assert (await peer.heartbeat("c1", producer=f"p{number}")).code == ResponseCode.SUCCESS
        answer = await peer.heartbeat("c1", producer="more")
        assert (answer.code, "maxGroups" in str(answer.remark)) == (ResponseCode.SYSTEM_BUSY, True)
        assert (await met(broker, "topics"), await met(broker, "groups")) == (2, 3)
        assert await met(broker, "producer_groups") == 1


async def test_messages_that_wait_for_the_disk(tmp_path: Path) -> None:
    async with standalone(tmp_path, http_port="0", max_flush_waiters="3") as (broker, peer):
        await peer.stored("orders")
        with broker.store._flusher.hold:
            waiting = [asyncio.create_task(peer.send("orders")) for _ in range(3)]
            await until(lambda: broker.store.progress.waiting == 3)
            answer = await peer.send("orders")
            assert answer.code == ResponseCode.SYSTEM_BUSY, answer.remark
            assert "maxFlushWaiters" in str(answer.remark)
            assert "try again" in str(answer.remark)
            assert not any(each.done() for each in waiting)
            assert re.search(r"^pyromq_waiting_messages{.*} 3.0$", await page(broker), re.MULTILINE)
        assert {(await each).code for each in waiting} == {ResponseCode.SUCCESS}
        assert await met(broker, "waiting_messages") == 1
        await peer.stored("orders")
        assert len(await peer.messages("orders")) == 5


async def test_queue_locks(tmp_path: Path) -> None:
    async with standalone(tmp_path, http_port="0", broker_name="broker-a") as (broker, peer):
        broker.part(QueueLocks)._capacity = 2
        await peer.stored("orders")
        await peer.heartbeat("c1", consumer=consumer_of("g", "orders"))

        async def lock(*queues: int) -> Command:
            wanted = [MessageQueue("orders", "broker-a", number) for number in queues]
            body = LockBatchRequest(client_id="c1", consumer_group="g", mq_set=wanted)
            return await peer.call(RequestCode.LOCK_BATCH_MQ, body=body.encode())

        assert (await lock(0, 1)).code == ResponseCode.SUCCESS
        answer = await lock(0, 1, 2)
        assert (answer.code, "try again" in str(answer.remark)) == (ResponseCode.SYSTEM_BUSY, True)
        assert (await lock(0, 1)).code == ResponseCode.SUCCESS, "renewals need no room"
        assert await met(broker, "queue_locks") == 1


async def test_only_queues_that_are_here_are_locked(tmp_path: Path) -> None:
    async with standalone(tmp_path, broker_name="broker-a") as (broker, peer):
        assert (await peer.send("orders", default_queues=2)).code == ResponseCode.SUCCESS

        async def lock(group: str, *queues: MessageQueue) -> list[MessageQueue]:
            body = LockBatchRequest(client_id="c1", consumer_group=group, mq_set=list(queues))
            answer = await peer.call(RequestCode.LOCK_BATCH_MQ, body=body.encode())
            assert answer.code == ResponseCode.SUCCESS, answer.remark
            return LockBatchResponse.decode(answer.body).lock_ok_mq_set

        here = [MessageQueue("orders", "broker-a", number) for number in range(2)]
        assert await lock("g", *here) == [], "a group that is not known"
        await peer.heartbeat("c1", consumer=consumer_of("g", "orders"))
        elsewhere = [MessageQueue("nothing", "broker-a", 0), MessageQueue("orders", "broker-b", 0)]
        outside = [MessageQueue("orders", "broker-a", number) for number in (-1, 2, 2**31 - 1)]
        assert await lock("g", *elsewhere, *outside) == []
        assert len(broker.part(QueueLocks)) == 0
        assert await lock("g", *elsewhere, *here, *outside) == here
        assert len(broker.part(QueueLocks)) == 2


async def test_a_lock_request_is_bounded(tmp_path: Path) -> None:
    async with standalone(tmp_path, broker_name="broker-a") as (broker, peer):
        await peer.heartbeat("c1", consumer=consumer_of("g", "orders"))
        for code in (RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ):
            queues = [MessageQueue("nothing", "broker-a", number) for number in range(bounds.LOCKED_QUEUES.most + 1)]
            body = LockBatchRequest(client_id="c1", consumer_group="g", mq_set=queues)
            answer = await peer.call(code, body=body.encode())
            assert answer.code == ResponseCode.INVALID_PARAMETER
            assert "16385 entries, more than 16384" in str(answer.remark)
        assert len(broker.part(QueueLocks)) == 0


async def test_a_heartbeat_with_a_client_id_beyond_its_bound_enters_nothing(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        answer = await peer.heartbeat("c" * (4 << 20), consumer=consumer_of("g"), producer="p")
        assert answer.code == ResponseCode.INVALID_PARAMETER, answer.remark
        answer = await peer.heartbeat("c" * 1_025, consumer=consumer_of("g"), producer="p")
        assert (answer.code, "bound on client ids" in str(answer.remark)) == (ResponseCode.INVALID_PARAMETER, True)
        assert (len(broker.core.producers), len(broker.core.consumers), "g" in broker.core.groups) == (0, 0, False)
        assert (await peer.heartbeat("c" * 1_024, producer="p")).code == ResponseCode.SUCCESS


async def test_silent_http_connections_do_not_keep_health_from_an_answer(tmp_path: Path) -> None:
    async with standalone(tmp_path, http_port="0") as (broker, _):
        assert broker.http_address is not None
        host, _, port = broker.http_address.rpartition(":")
        silent = [await asyncio.open_connection(host, int(port)) for _ in range(2 * MAX_CONNECTIONS)]
        for _ in range(3):
            assert "200 OK" in await page(broker, "/health")
        assert await met(broker, "http_connections") >= MAX_CONNECTIONS
        for reader, writer in silent[:8]:
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b"", "the oldest made room"
            writer.close()
        for _, writer in silent[8:]:
            writer.close()


async def test_what_messages_say_becomes_no_label(tmp_path: Path) -> None:
    async with standalone(tmp_path, http_port="0") as (broker, peer):
        await peer.stored("orders")
        await peer.heartbeat("c1", consumer=consumer_of("g", "orders"))
        for number in range(20):
            properties = {"RETRY_TOPIC": f"made-up-{number}"}
            answer = await peer.send("%RETRY%g", reconsume_times=99, **properties)  # type: ignore[arg-type]  # properties
            assert answer.code == ResponseCode.SUCCESS, answer.remark
        answer = await peer.send("%RETRY%g", reconsume_times=99, RETRY_TOPIC="orders")
        text = await page(broker)
        assert "made-up" not in text
        assert re.search(r'^rocketmq_send_to_dlq_messages_total{.*topic="\(other\)".*} 20.0$', text, re.MULTILINE)
        assert re.search(r'^rocketmq_send_to_dlq_messages_total{.*topic="orders".*} 1.0$', text, re.MULTILINE)


async def test_a_metric_has_so_many_label_sets_and_one_for_the_rest(tmp_path: Path) -> None:
    async with standalone(tmp_path, http_port="0", metrics_otel_cardinality_limit="10") as (broker, peer):
        for number in range(15):
            await peer.stored(f"topic{number}")
        sent = re.findall(
            r'^rocketmq_messages_in_total{.*,topic="(.*?)".*} ([0-9.]+)$', await page(broker), re.MULTILINE
        )
        assert len(sent) == 11
        assert sum(float(count) for _, count in sent) == 15
        assert dict(sent)["(other)"] == "5.0"


@pytest.mark.parametrize("version", [-1, -(2**31)])
async def test_the_version_of_a_client_is_a_label_only_if_there_is_such(tmp_path: Path, version: int) -> None:
    async with standalone(tmp_path, http_port="0") as (broker, peer):
        await peer.heartbeat("c1", producer="p", version=version)
        assert re.search(
            r'^rocketmq_producer_connections{.*version="unknown".*} 1.0$', await page(broker), re.MULTILINE
        )


async def test_message_size(tmp_path: Path) -> None:
    async with standalone(tmp_path, max_message_size="1000") as (_, peer):
        assert (await peer.send("orders", b"x" * 1000)).code == ResponseCode.SUCCESS
        answer = await peer.send("orders", b"x" * 1001)
        assert (answer.code, "maxMessageSize 1000" in str(answer.remark)) == (ResponseCode.MESSAGE_ILLEGAL, True)


async def test_the_metrics_have_the_names_and_labels_of_apache(tmp_path: Path) -> None:
    # N-16
    async with standalone(tmp_path, http_port="0") as (broker, peer):
        for _ in range(5):
            await peer.stored("orders")
        await peer.heartbeat("c1", consumer=consumer_of("g", "orders"), producer="p")
        await peer.pull("orders", group="g", count=3)
        broker.core.offsets.commit("g", "orders", 0, 1)
        text = await page(broker)
        assert "Content-Type: text/plain" in text
        samples = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text.partition("\r\n\r\n")[2])
            for sample in family.samples
        }
        node = {"cluster": "DefaultCluster", "node_type": "broker", "node_id": "broker-a"}
        topic = {"topic": "orders", "is_system": "false"}
        group = topic | {"consumer_group": "g"}
        client = {"language": "python", "version": "v5_3_3", "protocol_type": "remoting"}
        consumer = client | {"consumer_group": "g", "consume_mode": "push", "is_system": "false"}
        disk = {"storage_type": "local", "storage_medium": "disk"}
        expected: list[tuple[str, dict[str, str], float]] = [
            ("broker_permission", {}, 6),
            ("messages_in_total", topic | {"message_type": "normal"}, 5),
            ("messages_out_total", group, 3),
            ("consumer_lag_messages", group | {"is_retry": "false"}, 4),
            ("consumer_inflight_messages", group | {"is_retry": "false"}, 2),
            ("consumer_ready_messages", group | {"is_retry": "false"}, 2),
            ("producer_connections", client, 1),
            ("consumer_connections", consumer, 1),
            ("storage_flush_behind_bytes", disk, 0),
            ("storage_dispatch_behind_bytes", disk, 0),
        ]
        for name, labels, value in expected:
            assert samples.get((f"rocketmq_{name}", frozenset((node | labels).items()))) == value, name
        names = {name for name, _ in samples}
        assert names >= {
            "rocketmq_throughput_in_total",
            "rocketmq_throughput_out_total",
            "rocketmq_consumer_lag_latency_milliseconds",
            "rocketmq_consumer_queueing_latency_milliseconds",
            "rocketmq_storage_size_bytes",
            "rocketmq_storage_message_reserve_time_milliseconds",
            "rocketmq_topic_number",
            "rocketmq_consumer_group_number",
        }


async def test_health_follows_the_store(tmp_path: Path) -> None:
    async with standalone(tmp_path, http_port="0") as (broker, _):
        assert (await page(broker, "/health")).startswith("HTTP/1.1 200 OK")
        broker.store.flags.set(Flag.NO_SPACE)
        sick = await page(broker, "/health")
        assert sick.startswith("HTTP/1.1 503")
        assert "space" in sick
        assert (await page(broker, "/nothing")).startswith("HTTP/1.1 404")
        assert (await page(broker, "/metrics", "POST")).startswith("HTTP/1.1 405")
        head = await page(broker, "/metrics", "HEAD")
        assert head.startswith("HTTP/1.1 200")
        assert "rocketmq" not in head


async def test_an_idle_http_client_does_not_hold_up_the_stop(tmp_path: Path) -> None:
    broker = Broker(BrokerConfig(listen_port=0, http_port=0, store_path_root_dir=tmp_path))
    await broker.start()
    assert broker.http_address is not None
    host, _, port = broker.http_address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /metrics HTTP/1.1\r\n")
    await asyncio.wait_for(broker.stop(), 5)
    with contextlib.suppress(ConnectionResetError):
        assert not await reader.read()
    writer.close()
