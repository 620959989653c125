"""The producer against real brokers."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from pyromq.aio import Message, MessageQueue, NoRouteError, Producer, SendResult, SendStatus
from pyromq.client.errors import BrokerError, ClientError
from pyromq.protocol.records.compression import CompressionType
from pyromq.selectors import by_hash
from tests.integration.client.clusters import LIMIT, asyncio_test, cluster, standalone


async def stored(producer: Producer, results: Sequence[SendResult]) -> list[bytes]:
    """The bodies behind receipts."""
    return [(await producer.view_message(result.queue.topic, result.offset_message_id)).body for result in results]


@asyncio_test
async def test_every_way_to_send(tmp_path: Path) -> None:
    # P-01 .. P-06, P-16, P-118 .. P-120
    async with standalone(tmp_path) as server, Producer("PG", namesrv=server.namesrv_address) as producer:
        first = await producer.send(Message("orders", b"1", tags="A", keys=["k-1"]), timeout=LIMIT)
        queue = first.queue
        results = [
            first,
            await producer.send(Message("orders", b"2"), queue=queue, timeout=LIMIT),
            await producer.send(Message("orders", b"3"), selector=by_hash, arg="o-1", timeout=LIMIT),
            await producer.send_async(Message("orders", b"4"), timeout=LIMIT),
            await producer.send_async(Message("orders", b"5"), queue=queue, timeout=LIMIT),
            await producer.send_async(Message("orders", b"6"), selector=by_hash, arg="o-1", timeout=LIMIT),
        ]
        assert await stored(producer, results) == [b"1", b"2", b"3", b"4", b"5", b"6"]
        assert all(result.status is SendStatus.SEND_OK for result in results)
        assert results[1].queue == results[4].queue == queue
        assert results[2].queue == results[5].queue
        batch = await producer.send([Message("orders", b"7"), Message("orders", b"8")], queue=queue, timeout=LIMIT)
        for body, place in zip((b"7", b"8"), batch.offset_message_id.split(","), strict=True):
            assert (await producer.view_message("orders", place)).body == body
        before = await producer.max_offset(queue)
        await producer.send_oneway(Message("orders", b"9"), queue=queue)
        while await producer.max_offset(queue) == before:  # noqa: ASYNC110 - only the broker knows
            await asyncio.sleep(0.005)
        (found,) = await producer.query_message("orders", "k-1")
        assert found.message_id == first.message_id
        assert (await producer.view_message("orders", first.message_id)).body == b"1"
        assert await producer.min_offset(queue) == 0
        assert await producer.search_offset(queue, 0) == 0
        assert await producer.earliest_store_time(queue) > 0


@pytest.mark.parametrize("kind", list(CompressionType))
@asyncio_test
async def test_compressed_bodies_come_back(tmp_path: Path, kind: CompressionType) -> None:
    # P-90
    async with (
        standalone(tmp_path) as server,
        Producer("PG", namesrv=server.namesrv_address, compress_type=kind) as producer,
    ):
        body = b"spam and eggs " * 1000
        result = await producer.send(Message("orders", body), timeout=LIMIT)
        found = await producer.view_message("orders", result.offset_message_id)
        assert found.body == body
        assert found.store_size < len(body)


@asyncio_test
async def test_automatic_topic_creation(tmp_path: Path) -> None:
    # P-40 .. P-42, P-55: four queues out of the template's eight, registered by the broker
    async with standalone(tmp_path) as server, Producer("PG", namesrv=server.namesrv_address) as producer:
        await producer.send(Message("fresh", b"x"), timeout=LIMIT)
        assert len(await producer.publish_queues("fresh")) == 4
        async with Producer("PG2", namesrv=server.namesrv_address, create_topic_key="NOT-THERE") as second:
            while True:
                try:
                    queues = await second.publish_queues("fresh")
                    break
                except NoRouteError:
                    await asyncio.sleep(0.005)
        assert len(queues) == 4


@asyncio_test
async def test_automatic_creation_reaches_only_brokers_that_got_a_message(tmp_path: Path) -> None:
    # P-56
    async with cluster(tmp_path) as servers, Producer("PG", namesrv=servers.namesrv) as producer:
        result = await producer.send(Message("fresh", b"x"), timeout=LIMIT)
        await servers.routed("fresh", 1)
        async with Producer("PG2", namesrv=servers.namesrv) as second:
            owners = {queue.broker_name for queue in await second.publish_queues("fresh")}
        assert owners == {result.queue.broker_name}


@asyncio_test
async def test_no_automatic_creation(tmp_path: Path) -> None:
    # P-53
    async with (
        standalone(tmp_path, auto_create_topic_enable="false") as server,
        Producer("PG", namesrv=server.namesrv_address) as producer,
    ):
        with pytest.raises(ClientError) as caught:
            await producer.send(Message("fresh", b"x"), timeout=LIMIT)
        assert server.namesrv_address in str(caught.value) or isinstance(caught.value.__cause__, BrokerError)


@asyncio_test
async def test_manual_creation(tmp_path: Path) -> None:
    # P-10, P-54
    async with cluster(tmp_path) as servers, Producer("PG", namesrv=servers.namesrv) as producer:
        await producer.create_topic("TBW102", "made", 3)
        await servers.routed("made", 2)
        queues = await producer.publish_queues("made")
        assert sorted(queues) == [
            MessageQueue("made", broker, number) for broker in ("broker-a", "broker-b") for number in range(3)
        ]
        results = [await producer.send(Message("made", b"x"), timeout=LIMIT) for _ in range(6)]
        assert {result.queue for result in results} == set(queues)


@asyncio_test
async def test_automatic_batching(tmp_path: Path) -> None:
    # section 4.8
    async with (
        standalone(tmp_path) as server,
        Producer("PG", namesrv=server.namesrv_address, auto_batch=True, send_timeout=LIMIT) as producer,
    ):
        await producer.send(Message("orders", b"warm up"))
        messages = [Message("orders", f"{number}".encode()) for number in range(50)]
        results = await asyncio.gather(*(producer.send(message) for message in messages))
        assert [result.message_id for result in results] == [message.unique_id for message in messages]
        assert await stored(producer, results) == [message.body for message in messages]


@asyncio_test
async def test_signed_requests_and_binary_headers_are_understood(tmp_path: Path) -> None:
    async with (
        standalone(tmp_path) as server,
        Producer(
            "PG",
            namesrv=server.namesrv_address,
            binary_headers=True,
            access_key="a",
            secret_key="s",  # noqa: S106 - nobody's
            namespace_v2="N",
            stream_requests=True,
        ) as producer,
    ):
        assert (await producer.send(Message("orders", b"x"), timeout=LIMIT)).status is SendStatus.SEND_OK


@asyncio_test
async def test_broker_lost_under_load(tmp_path: Path) -> None:
    # P-61, P-71, P-84, P-101, P-105, P-115, C-14: everything acknowledged is stored, retries go elsewhere
    async with (
        cluster(tmp_path) as servers,
        Producer("PG", namesrv=servers.namesrv, latency_faults=True, api_timeout=30.0) as producer,
    ):
        await producer.create_topic("TBW102", "load", 4)
        await servers.routed("load", 2)
        acknowledged: list[tuple[SendResult, bytes]] = []
        stopped = asyncio.Event()

        async def send_many(worker: int) -> None:
            for number in range(60):
                body = f"{worker}-{number}".encode()
                message = Message("load", body)
                send = producer.send if worker % 2 else producer.send_async
                acknowledged.append((await send(message, timeout=LIMIT), body))
                if len(acknowledged) == 100:
                    stopped.set()

        async def lose_a_broker() -> None:
            await stopped.wait()
            await servers.stop_broker("broker-a")

        await asyncio.gather(lose_a_broker(), *(send_many(worker) for worker in range(8)))
        assert len(acknowledged) == 480
        survived = [(result, body) for result, body in acknowledged if result.queue.broker_name == "broker-b"]
        assert len(survived) > 240
        assert await stored(producer, [result for result, _ in survived]) == [body for _, body in survived]
        lost = [(result, body) for result, body in acknowledged if result.queue.broker_name == "broker-a"]
        assert lost
        await servers.start_broker("broker-a")
        await servers.routed("load", 2)
        async with Producer("PG2", namesrv=servers.namesrv) as second:
            for result, body in lost:
                assert (await second.view_message("load", result.message_id)).body == body


@asyncio_test
async def test_lost_name_server(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers, Producer("PG", namesrv=servers.namesrv) as producer:
        await servers.name_servers[0].stop()
        assert (await producer.send(Message("orders", b"x"), timeout=LIMIT)).status is SendStatus.SEND_OK
        assert (await producer.send(Message("others", b"x"), timeout=LIMIT)).status is SendStatus.SEND_OK


@asyncio_test
async def test_nobody_there() -> None:
    # P-53: who was asked, and what happened
    async with Producer("PG", namesrv="127.0.0.1:1") as producer:
        with pytest.raises(NoRouteError, match=r"127\.0\.0\.1:1: cannot connect"):
            await producer.send(Message("orders", b"x"), timeout=LIMIT)


@asyncio_test
async def test_shared_instance(tmp_path: Path) -> None:
    # P-27: one connection per broker for all producers of an instance
    async with (
        standalone(tmp_path) as server,
        Producer("A", namesrv=server.namesrv_address, instance_name="shared") as first,
        Producer("B", namesrv=server.namesrv_address, instance_name="shared") as second,
    ):
        assert first._instance is second._instance
        await first.send(Message("orders", b"x"), timeout=LIMIT)
        await second.send(Message("orders", b"x"), timeout=LIMIT)
        transport = first._instance.transport
        connections = getattr(transport, "connections")  # noqa: B009 - only the real transport has it
        assert sorted(connections) == sorted([server.namesrv_address, server.broker_address])
