"""gRPC clients on a real broker, inside it and through a proxy in front of it."""

import asyncio
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest

from pyromq import aio
from pyromq.errors import PyroMQError
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.proxy.schema import messages
from pyromq.proxy.schema.enums import ClientType, Code, FilterType, MessageType, Permission, TransactionResolution
from tests.integration.proxy.grpcclient import (
    MODES,
    GrpcClient,
    consumer_settings,
    gateway_of,
    ok,
    resource,
    run,
    served,
    settings_of,
)

pytestmark = pytest.mark.parametrize("mode", MODES)
HALF = {"message_type": MessageType.TRANSACTION}
QUICK = {"transaction_time_out": "100", "transaction_check_interval": "300"}


def test_a_newcomer_sends_and_receives_on_a_topic_that_was_not_there(tmp_path: Path, mode: str) -> None:
    async def scenario() -> None:
        async with served(tmp_path, mode) as (_, address), GrpcClient(address) as client:
            queues = ok(await client.route("first")).message_queues
            assert queues[0].permission == Permission.READ_WRITE
            assert MessageType.FIFO in queues[0].accept_message_types
            assert queues[0].broker.endpoints.addresses[0].port == int(address.rpartition(":")[2])
            _, answer = await client.telemetry(settings_of("first"))
            assert ok(answer).settings.publishing.max_body_size > 0
            ok(await client.send("first", b"hello"))
            ok(await client.heartbeat())
            _, answer = await client.telemetry(consumer_settings("g", "first"))
            assert ok(answer).settings.backoff_policy.max_attempts == 17
            (message,) = await client.receive("g", "first")
            assert message.body == b"hello"
            ok(await client.terminate())

    run(scenario())


def test_assignments_follow_the_group(tmp_path: Path, mode: str) -> None:
    async def scenario() -> None:
        async with served(tmp_path, mode) as (server, address), GrpcClient(address) as client:
            ok(await client.route("first"))
            request = messages.QueryAssignmentRequest(topic=resource("first"), group=resource("g"))
            assignments = ok(await client.call("QueryAssignment", request)).assignments
            assert [each.message_queue.id for each in assignments] == [-1]
            async with aio.Admin(namesrv=server.namesrv_address) as admin:
                ordered = SubscriptionGroupConfig(group_name="ordered", consume_message_orderly=True)
                await admin.create_group(ordered, cluster="DefaultCluster")
            request = messages.QueryAssignmentRequest(topic=resource("first"), group=resource("ordered"))
            assignments = ok(await client.call("QueryAssignment", request)).assignments
            assert [each.message_queue.id for each in assignments] == list(range(8))
            _, answer = await client.telemetry(consumer_settings("ordered", "first"))
            assert answer.settings.subscription.fifo

    run(scenario())


def test_admins_see_who_is_connected(tmp_path: Path, mode: str) -> None:
    async def scenario() -> None:
        async with served(tmp_path, mode) as (server, address), GrpcClient(address, "consumer-1") as client:
            ok(await client.route("first"))
            ok((await client.telemetry(consumer_settings("g", "first", "a || b")))[1])
            async with aio.Admin(namesrv=server.namesrv_address) as admin:
                info = await _appears(lambda: admin.consumer_connections("g"))
                (seen,) = info.connection_set
                if mode == "local":
                    assert (seen.client_id, seen.language, seen.client_addr.partition(":")[0]) == (
                        "consumer-1",
                        "GO",
                        "127.0.0.1",
                    )
                assert info.subscription_table["first"].sub_string == "a || b"
                ok(await client.terminate("g"))
                await _vanishes(lambda: admin.consumer_connections("g"))

    run(scenario())


def test_transactions_end_by_the_client_or_after_a_check(tmp_path: Path, mode: str) -> None:
    async def scenario() -> None:
        async with served(tmp_path, mode, **QUICK) as (_, address), GrpcClient(address) as client:
            ok(await client.route("paid"))
            stream, answer = await client.telemetry(settings_of("another"))
            ok(answer)
            for body, resolution in ((b"commit", 1), (b"rollback", 2)):
                (entry,) = ok(await client.send("paid", body, f"id-{resolution}", **HALF)).entries
                await _end(client, entry.transaction_id, f"id-{resolution}", resolution)
            ok(await client.send("paid", b"checked", "id-3", **HALF))
            command = await _check_of(stream, "id-3")
            assert command.message.body == b"checked"
            await _end(client, command.transaction_id, "id-3", TransactionResolution.COMMIT)
            got: list[bytes] = []
            while len(got) < 2:
                got += [message.body for message in await client.receive("g", "paid")]
            assert sorted(got) == [b"checked", b"commit"]

    run(scenario())


async def _check_of(stream: Any, message_id: str) -> Any:
    while True:
        command = (await stream.read()).recover_orphaned_transaction_command
        if command.message.system_properties.message_id == message_id:
            return command


async def _end(client: GrpcClient, transaction_id: str, message_id: str, resolution: int) -> None:
    request = messages.EndTransactionRequest(
        topic=resource("paid"), message_id=message_id, transaction_id=transaction_id, resolution=resolution
    )
    ok(await client.call("EndTransaction", request))


def test_a_broker_can_ask_a_consumer_for_its_threads(tmp_path: Path, mode: str) -> None:
    async def scenario() -> None:
        async with served(tmp_path, mode) as (server, address), GrpcClient(address, "consumer-1") as client:
            ok(await client.route("first"))
            stream, _ = await client.telemetry(consumer_settings("g", "first"))
            async with aio.Admin(namesrv=server.namesrv_address) as admin:
                info = await _appears(lambda: admin.consumer_connections("g"))
                asking = asyncio.ensure_future(admin.running_info("g", info.connection_set[0].client_id, jstack=True))
                command = await stream.read()
                trace = messages.ThreadStackTrace(
                    nonce=command.print_thread_stack_trace_command.nonce, thread_stack_trace="main: waits"
                )
                await stream.write(messages.TelemetryCommand(thread_stack_trace=trace))
                assert (await asking).jstack == "main: waits"

    run(scenario())


def test_a_client_goes_on_when_the_server_was_started_anew(tmp_path: Path, mode: str) -> None:
    """One official client sends its settings again only after minutes; it is served all the same."""

    async def scenario() -> None:
        async with served(tmp_path, mode) as (server, address), GrpcClient(address) as client:
            ok(await client.route("first"))
            ok(await client.send("first", b"before"))
            assert len(await client.receive("g", "first")) == 1
        async with served(tmp_path, mode) as (server, address), GrpcClient(address) as client:
            ok(await client.heartbeat(ClientType.PUSH_CONSUMER, "g"))
            ok(await client.send("first", b"after"))
            assert [message.body for message in await client.receive("g", "first")] == [b"after"]
            async with aio.Admin(namesrv=server.namesrv_address) as admin:
                assert (await _appears(lambda: admin.consumer_connections("g"))).connection_set

    run(scenario())


def test_settings_that_a_broker_cannot_serve_end_the_stream(tmp_path: Path, mode: str) -> None:
    async def scenario() -> None:
        async with served(tmp_path, mode) as (_, address), GrpcClient(address) as client:
            ok(await client.route("first"))
            answer = await client.call("QueryRoute", messages.QueryRouteRequest(topic=resource("bad topic")))
            assert answer.status.code == Code.ILLEGAL_TOPIC
            for expression in (" ", "a >"):
                with pytest.raises(grpc.RpcError, match="ILLEGAL_FILTER_EXPRESSION") as refused:
                    await client.telemetry(consumer_settings("g", "first", expression, FilterType.SQL))
                assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            ok((await client.telemetry(consumer_settings("g", "first", "a > 1", FilterType.SQL)))[1])

    run(scenario())


def test_a_second_proxy_ends_what_the_first_began(tmp_path: Path, mode: str) -> None:
    async def scenario() -> None:
        async with served(tmp_path, mode) as (server, address), GrpcClient(address) as client:
            other = await gateway_of(server, tmp_path)
            async with GrpcClient(other.address, "client-2") as second:
                ok(await client.route("paid"))
                (entry,) = ok(await client.send("paid", b"x", "id-1", **HALF)).entries
                await _end(second, entry.transaction_id, "id-1", TransactionResolution.COMMIT)
                assert len(await second.receive("g", "paid")) == 1
            await other.stop()

    run(scenario())


async def _appears(look: Any) -> Any:
    while True:
        try:
            return await look()
        except PyroMQError:
            await asyncio.sleep(0.05)


async def _vanishes(look: Any) -> None:
    while True:
        try:
            await look()
        except PyroMQError:
            return
        await asyncio.sleep(0.05)
