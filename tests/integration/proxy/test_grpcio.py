"""grpcio, the official implementation, as a client of `pyromq standalone`: what every gRPC library may rely on."""

import contextlib
import itertools
import os
import queue
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]  # it has no types
import pytest
from google.protobuf import descriptor_pool, message_factory
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (  # type: ignore[import-untyped]
    ProtoReflectionDescriptorDatabase,
)

from pyromq import Admin
from pyromq.proxy.schema import messages
from pyromq.proxy.schema.enums import Code
from pyromq.proxy.schema.messages import SERVICE
from tests.integration.proxy.stubs import BOUND, Client, connected, resource, settings
from tests.processes import Server

HEALTH = "grpc.health.v1.Health"
NUMBERS = itertools.count()
PORTS = [option for name in ("namesrv", "broker", "http", "grpc") for option in (f"--{name}-port", "0")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("standalone")
    with Server("standalone", "--data", str(folder), *PORTS) as running:
        yield running


@pytest.fixture
def topic(server: Server) -> str:
    name = f"grpcio{next(NUMBERS)}"
    with Admin(namesrv=server["namesrv"], instance_name=name) as admin:
        admin.create_topic(name, queues=1, cluster="DefaultCluster")
    return name


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with connected(server["grpc"]) as running:
        yield running


def refusal(call: Any) -> Any:
    """With which status a call ended; it says why."""
    assert call.details()
    return call.code()


def test_a_unary_call_has_its_answer_and_no_trailers_of_its_own(client: Client, topic: str) -> None:
    request = messages.QueryRouteRequest(topic=resource(topic))
    answer, call = client.unary("QueryRoute").with_call(request, timeout=BOUND, metadata=client.metadata)
    assert answer.status.code == Code.OK
    assert [each.id for each in answer.message_queues] == [0]
    assert (call.code(), call.details()) == (grpc.StatusCode.OK, "")
    assert [name for name, _ in call.trailing_metadata() if not name.startswith("grpc-")] == []


def test_what_goes_wrong_with_messages_is_an_answer(client: Client) -> None:
    answer = client.unary("QueryRoute")(messages.QueryRouteRequest(topic=resource("t")), timeout=BOUND)
    assert answer.status.code == Code.CLIENT_ID_REQUIRED
    assert client.ask("QueryRoute", topic=resource("no such name")).status.code == Code.ILLEGAL_TOPIC


def test_what_goes_wrong_with_calls_is_a_status(client: Client) -> None:
    unknown = client.channel.unary_unary(f"/{SERVICE}/Unknown")
    with pytest.raises(grpc.RpcError) as fault:
        unknown(b"", timeout=BOUND)
    assert refusal(fault.value) is grpc.StatusCode.UNIMPLEMENTED
    with pytest.raises(grpc.RpcError) as fault:
        client.unary("QueryRoute")(b"\x0a\xff", timeout=BOUND, metadata=client.metadata)
    assert refusal(fault.value) is grpc.StatusCode.INTERNAL


def test_a_stream_of_answers_ends(client: Client, topic: str) -> None:
    bodies = [f"m{number}".encode() for number in range(10)]
    for body in bodies:
        (entry,) = client.send(topic, body).entries
        assert entry.status.code == Code.OK
    got = client.receive("readers", topic, 10)
    assert [each.body for each in got] == bodies
    entries = [
        messages.AckMessageEntry(
            message_id=each.system_properties.message_id, receipt_handle=each.system_properties.receipt_handle
        )
        for each in got
    ]
    answer = client.ask("AckMessage", group=resource("readers"), topic=resource(topic), entries=entries)
    assert (answer.status.code, len(answer.entries)) == (Code.OK, 10)


def test_streams_both_ways_go_on_until_somebody_ends_them(client: Client, topic: str) -> None:
    commands: queue.Queue[object] = queue.Queue()
    call = client.telemetry(iter(commands.get, None), timeout=None)
    for _ in range(3):
        commands.put(settings(topic))
        answer = next(call)
        assert answer.status.code == Code.OK
        assert answer.settings.publishing.max_body_size > 0
    assert client.ask("QueryRoute", topic=resource(topic)).status.code == Code.OK
    call.cancel()
    commands.put(None)
    assert call.code() is grpc.StatusCode.CANCELLED


def test_a_deadline_ends_a_stream_but_not_its_connection(client: Client, topic: str) -> None:
    commands: queue.Queue[object] = queue.Queue()
    commands.put(settings(topic))
    call = client.telemetry(iter(commands.get, None), timeout=0.5)
    assert next(call).status.code == Code.OK
    with pytest.raises(grpc.RpcError) as fault:
        next(call)
    commands.put(None)
    assert refusal(fault.value) is grpc.StatusCode.DEADLINE_EXCEEDED
    assert client.ask("QueryRoute", topic=resource(topic)).status.code == Code.OK


def test_a_long_poll_is_answered_before_its_deadline(client: Client, topic: str) -> None:
    """As the client for Rust asks: for no longer than it waits."""
    answers = list(client.poll("pollers", topic, wait=5, timeout=5))
    assert [each.status.code for each in answers if each.HasField("status")] == [Code.MESSAGE_NOT_FOUND]


def test_a_poll_that_is_given_up_takes_no_message_along(client: Client, topic: str) -> None:
    given_up = client.poll("quitters", topic, wait=20)
    time.sleep(0.2)  # the poll waits now, or will be cancelled before it does
    given_up.cancel()
    client.send(topic, b"wanted")
    (message,) = client.receive("quitters", topic, 1)
    assert message.body == b"wanted"


def test_messages_may_be_compressed(server: Server, topic: str) -> None:
    body = b"again and again " * 65536
    with connected(server["grpc"], compression=grpc.Compression.Gzip) as client:
        assert client.send(topic, body).status.code == Code.OK
        (message,) = client.receive("unpackers", topic, 1)
    assert message.body == body


def test_but_not_in_a_way_that_nobody_reads_here(client: Client, topic: str) -> None:
    with pytest.raises(grpc.RpcError) as fault:
        client.send(topic, b"deflated " * 1000, compression=grpc.Compression.Deflate)
    assert refusal(fault.value) is grpc.StatusCode.UNIMPLEMENTED


def test_messages_of_megabytes_pass_windows_both_ways(client: Client, topic: str) -> None:
    sent = [os.urandom(4 << 20) for _ in range(4)]
    for body in sent:
        assert client.send(topic, body).status.code == Code.OK
    received = [each.body for each in client.receive("movers", topic, 4)]
    assert received == sent


def test_calls_share_a_connection(client: Client, topic: str) -> None:
    polls = [client.poll(f"sharers{number}", topic, wait=20) for number in range(20)]
    request = messages.QueryRouteRequest(topic=resource(topic))
    route = client.unary("QueryRoute")
    futures = [route.future(request, timeout=BOUND, metadata=client.metadata) for _ in range(500)]
    assert {future.result().status.code for future in futures} == {Code.OK}
    client.send(topic, b"for all")
    for poll in polls:
        assert [each.message.body for each in poll if each.HasField("message")] == [b"for all"]


def test_header_lists_have_a_bound(client: Client, topic: str) -> None:
    metadata = (*client.metadata, *((f"x-{number}", "x" * 8000) for number in range(20)))
    with pytest.raises(grpc.RpcError) as fault:
        client.unary("QueryRoute")(messages.QueryRouteRequest(), timeout=BOUND, metadata=metadata)
    refusal(fault.value)
    assert client.ask("QueryRoute", topic=resource(topic)).status.code == Code.OK


def test_health(client: Client) -> None:
    stub = health_pb2_grpc.HealthStub(client.channel)
    for service in ("", SERVICE):
        answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=BOUND)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    with pytest.raises(grpc.RpcError) as fault:
        stub.Check(health_pb2.HealthCheckRequest(service="unheard.Of"), timeout=BOUND)
    assert fault.value.code() is grpc.StatusCode.NOT_FOUND
    watched = stub.Watch(health_pb2.HealthCheckRequest(), timeout=BOUND)
    assert next(watched).status == health_pb2.HealthCheckResponse.SERVING
    watched.cancel()


def test_reflection_is_enough_to_call(client: Client, topic: str) -> None:
    """As grpcurl does, which knows no schema."""
    database = ProtoReflectionDescriptorDatabase(client.channel)
    assert {SERVICE, HEALTH} <= set(database.get_services())
    pool = descriptor_pool.DescriptorPool(database)
    method = pool.FindServiceByName(SERVICE).methods_by_name["QueryRoute"]
    asked: Any = message_factory.GetMessageClass(method.input_type)()
    asked.topic.name = topic
    answered = message_factory.GetMessageClass(method.output_type)
    call = client.channel.unary_unary(f"/{SERVICE}/QueryRoute", response_deserializer=answered.FromString)
    answer = call(asked.SerializeToString(), timeout=BOUND, metadata=client.metadata)
    assert answer.status.code == Code.OK
    with pytest.raises(KeyError):
        pool.FindServiceByName("unheard.Of")


def test_a_server_that_ends_lets_nobody_wait(tmp_path: Path) -> None:
    with Server("standalone", "--data", str(tmp_path), *PORTS) as server, connected(server["grpc"]) as client:
        with Admin(namesrv=server["namesrv"], instance_name="ending") as admin:
            admin.create_topic("ending", queues=1, cluster="DefaultCluster")
        commands: queue.Queue[object] = queue.Queue()
        commands.put(settings("ending"))
        talk = client.telemetry(iter(commands.get, None), timeout=None)
        assert next(talk).status.code == Code.OK
        poll = client.poll("waiters", "ending", wait=20)
        ended = threading.Thread(target=server.terminate)
        ended.start()
        assert [each.status.code for each in _answers(poll) if each.HasField("status")] == [Code.MESSAGE_NOT_FOUND]
        _answers(talk)
        ended.join(BOUND)
        commands.put(None)


def _answers(call: Any) -> list[Any]:
    """What came before a stream ended, however it did."""
    got: list[Any] = []
    with contextlib.suppress(grpc.RpcError):
        got.extend(call)
    assert call.code() in (grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
    return got
