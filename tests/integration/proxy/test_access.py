"""Who gets in by the port of gRPC clients: users and rules, certificates, bounds; and how servers stop."""

import asyncio
import json
import ssl
from pathlib import Path

import grpc  # type: ignore[import-untyped]
import pytest

from pyromq.auth.rules import Action
from pyromq.auth.users.access import Credentials
from pyromq.broker.standalone import Standalone
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.proxy.schema.enums import Code, MessageType
from pyromq.remoting.errors import ConnectError
from pyromq.settings.errors import ConfigError
from tests.integration.proxy.grpcclient import (
    MODES,
    GrpcClient,
    consumer_settings,
    gateway_of,
    ok,
    run,
    served,
    settings_of,
)
from tests.integration.security.secured import ALICE, AUTH, BOB, rule, users

PUB_SUB = Action.PUB | Action.SUB


def signed(address: str, who: Credentials, client_id: str) -> GrpcClient:
    return GrpcClient(address, client_id, user=who.access_key, secret=who.secret_key)


def known_users(path: Path) -> None:
    users(path, alice=[rule("Topic:orders", PUB_SUB), rule("Group:g", Action.SUB)], bob=[rule("Topic:other", PUB_SUB)])


@pytest.mark.parametrize("mode", MODES)
def test_users_and_rules_are_those_of_remoting(tmp_path: Path, mode: str) -> None:
    async def scenario() -> None:
        inner = {"inner_client_authentication_credentials": json.dumps({"accessKey": "proxy", "secretKey": "sesame"})}
        known_users(tmp_path / "data")
        if mode == "remote":
            known_users(tmp_path / "proxy")
        local = mode == "local"
        server = Standalone(
            tmp_path / "data", namesrv_port=0, broker_port=0, grpc_port=0 if local else -1, settings=AUTH | inner
        )
        await server.start()
        gateway = None if local else await gateway_of(server, tmp_path, **AUTH, **inner)
        address = str(server.grpc_address) if gateway is None else gateway.address
        try:
            async with signed(address, ALICE, "alice-1") as alice, signed(address, BOB, "bob-1") as bob:
                ok(await alice.route("orders"))
                ok((await alice.telemetry(settings_of("orders")))[1])
                ok(await alice.send("orders", b"mine"))
                ok((await alice.telemetry(consumer_settings("g", "orders")))[1])
                assert [message.body for message in await alice.receive("g", "orders")] == [b"mine"]
                for answer in (await bob.route("orders"), await bob.send("orders")):
                    assert answer.status.code == Code.UNAUTHORIZED
                stream, answer = await bob.telemetry(settings_of("orders"))
                assert answer.status.code == Code.UNAUTHORIZED
                assert await stream.read() is grpc.aio.EOF
            strangers = (GrpcClient(address), signed(address, Credentials(ALICE.access_key, "wrong"), "alice-2"))
            for stranger in strangers:
                async with stranger:
                    assert (await stranger.send("orders")).status.code == Code.UNAUTHORIZED
                    assert (await stranger.telemetry(settings_of("orders")))[1].status.code == Code.UNAUTHORIZED
            async with signed(address, BOB, "alice-1") as thief:
                assert (await thief.heartbeat()).status.code == Code.UNAUTHORIZED
        finally:
            if gateway is not None:
                await gateway.stop()
            await server.stop()
        audit = (tmp_path / ("data" if local else "proxy") / "auth" / "audit.log").read_text()
        assert "SEND_MESSAGE_V2" in audit
        assert '"user": "bob"' in audit

    run(scenario())


def test_who_insists_on_tls_gets_a_certificate_that_was_made_up(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with served(tmp_path) as (_, address):
            host, _, port = address.rpartition(":")
            pem = await asyncio.to_thread(ssl.get_server_certificate, (host, int(port)))
            async with GrpcClient(address, ca=pem.encode()) as client, GrpcClient(address, "client-2") as plain:
                ok(await client.route("first"))
                ok(await plain.route("first"))
        async with served(tmp_path) as (_, address):
            host, _, port = address.rpartition(":")
            assert await asyncio.to_thread(ssl.get_server_certificate, (host, int(port))) == pem

    run(scenario())


def test_clients_are_bounded(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with served(tmp_path, grpc_max_clients="3") as (_, address):
            clients = [GrpcClient(address, f"client-{number}") for number in range(4)]
            answers = [await client.heartbeat() for client in clients]
            assert [answer.status.code for answer in answers] == [Code.OK] * 3 + [Code.TOO_MANY_REQUESTS]
            assert "grpcMaxClients" in answers[-1].status.message
            ok(await clients[0].terminate())
            ok(await clients[3].heartbeat())
            for client in clients:
                await client.__aexit__()

    run(scenario())


def test_calls_under_way_are_answered_before_the_server_stops(tmp_path: Path) -> None:
    async def scenario() -> None:
        server = Standalone(tmp_path, namesrv_port=0, broker_port=0, grpc_port=0)
        await server.start()
        async with GrpcClient(str(server.grpc_address)) as client:
            ok(await client.route("first"))
            ok((await client.telemetry(consumer_settings("g", "first")))[1])
            polling = asyncio.ensure_future(client.receive("g", "first", 1.5))
            await asyncio.sleep(0.3)
            began = asyncio.get_running_loop().time()
            await server.stop()
            assert asyncio.get_running_loop().time() - began < 8
            assert await polling == []

    run(scenario())


def test_a_port_that_is_taken_is_said_so(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with served(tmp_path / "one") as (_, address):
            port = int(address.rpartition(":")[2])
            second = Standalone(tmp_path / "two", namesrv_port=0, broker_port=0, grpc_port=port)
            with pytest.raises(ConnectError, match="grpcServerPort"):
                await second.start()

    run(scenario())


def test_a_proxy_that_others_can_reach_asks_who_they_are(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with served(tmp_path) as (server, _):
            with pytest.raises(ConfigError, match="insecure"):
                await gateway_of(server, tmp_path, host="0.0.0.0")  # noqa: S104 - to be refused

    run(scenario())


def test_a_topic_is_not_made_where_clients_may_not(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with served(tmp_path, auto_create_topic_enable="false") as (_, address), GrpcClient(address) as client:
            assert (await client.route("first")).status.code == Code.TOPIC_NOT_FOUND

    run(scenario())


def test_types_of_messages_are_held_to(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with served(tmp_path) as (server, address), GrpcClient(address) as client:
            await server.running_broker.core.topics.put(TopicConfig(topic_name="plain", write_queue_nums=1))
            (queue, *_) = ok(await client.route("plain")).message_queues
            assert list(queue.accept_message_types) == [MessageType.NORMAL]
            answer = await client.send("plain", message_type=MessageType.FIFO, message_group="a")
            assert answer.status.code == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE

    run(scenario())


def test_tools_learn_what_there_is_to_call(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with served(tmp_path) as (_, address), GrpcClient(address) as client:
            check = client.channel.unary_unary("/grpc.health.v1.Health/Check")
            assert await check(b"", timeout=5) == b"\x08\x01"

    run(scenario())
