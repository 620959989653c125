"""A proxy in front of brokers that come and go."""

import asyncio
from pathlib import Path

import pytest

from pyromq.broker.broker import Broker
from pyromq.broker.config import BrokerConfig
from pyromq.broker.standalone import Standalone
from pyromq.proxy.gateway import Gateway
from pyromq.proxy.schema.enums import Code
from pyromq.proxy.settings import ProxyConfig
from tests.integration.proxy.grpcclient import GrpcClient, consumer_settings, gateway_of, ok, run, settings_of


async def _sent(client: GrpcClient, topic: str, body: bytes) -> None:
    while True:
        answer = await client.send(topic, body)
        if answer.status.code == Code.OK:
            return
        await asyncio.sleep(0.1)


def test_clients_go_on_when_brokers_and_name_servers_come_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        server = Standalone(tmp_path / "data", namesrv_port=0, broker_port=0)
        await server.start()
        ports = [int(address.rpartition(":")[2]) for address in (server.namesrv_address, server.broker_address)]
        gateway = await gateway_of(server, tmp_path)
        async with GrpcClient(gateway.address) as client:
            ok(await client.route("first"))
            ok((await client.telemetry(consumer_settings("g", "first")))[1])
            ok(await client.send("first", b"before"))
            await server.stop()
            answer = await client.send("first", b"meanwhile")
            assert answer.status.code in (Code.INTERNAL_SERVER_ERROR, Code.PROXY_TIMEOUT)
            server = Standalone(tmp_path / "data", namesrv_port=ports[0], broker_port=ports[1])
            await server.start()
            await _sent(client, "first", b"after")
            got: list[bytes] = []
            while len(got) < 2:
                got += [message.body for message in await client.receive("g", "first")]
            assert sorted(got) == [b"after", b"before"]
        await gateway.stop()
        await server.stop()

    run(scenario())


def test_a_broker_that_moved_is_found_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        server = Standalone(tmp_path / "data", namesrv_port=0, broker_port=0)
        await server.start()
        gateway = await gateway_of(server, tmp_path)
        async with GrpcClient(gateway.address) as client:
            ok(await client.route("first"))
            ok(await client.send("first", b"before"))
            await server.running_broker.stop()
            server.broker = Broker(server.running_broker.config)  # port 0: another one
            await server.broker.start()
            await _sent(client, "first", b"after")
        await gateway.stop()
        await server.stop()

    run(scenario())


def test_two_brokers_share_the_messages_of_a_topic(tmp_path: Path) -> None:
    async def scenario() -> None:
        server = Standalone(tmp_path / "data", namesrv_port=0, broker_port=0)
        await server.start()
        flags = {
            "listen_port": "0",
            "http_port": "-1",
            "broker_name": "broker-b",
            "namesrv_addr": server.namesrv_address,
            "store_path_root_dir": str(tmp_path / "b"),
        }
        second = Broker(BrokerConfig.load(flags=flags))
        await second.start()
        gateway = await gateway_of(server, tmp_path)
        async with GrpcClient(gateway.address) as client:
            queues = ok(await client.route("shared")).message_queues
            assert {queue.broker.name for queue in queues} == {"broker-a", "broker-b"}
            ok((await client.telemetry(settings_of("shared")))[1])
            for number in range(20):
                ok(await client.send("shared", b"x", f"id-{number}"))
            counts = [
                sum(broker.store.max_offset("shared", queue) for queue in range(8))
                for broker in (server.running_broker, second)
            ]
            assert sum(counts) == 20
            assert min(counts) > 0
        await gateway.stop()
        await second.stop()
        await server.stop()

    run(scenario())


def test_nobody_is_served_where_no_name_server_answers(tmp_path: Path) -> None:
    async def scenario() -> None:
        gateway = Gateway(ProxyConfig(namesrv=("127.0.0.1:1",), grpc_port=0, data_dir=tmp_path))
        with pytest.raises(RuntimeError):
            _ = gateway.address
        await gateway.start()
        async with GrpcClient(gateway.address) as client:
            answer = await client.route("first")
            assert answer.status.code == Code.INTERNAL_SERVER_ERROR
            assert "127.0.0.1:1" in answer.status.message
        await gateway.stop()

    run(scenario())
