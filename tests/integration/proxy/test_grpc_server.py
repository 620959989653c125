"""gRPC's own client against our server: calls, streams, statuses, deadlines, TLS, and how servers stop."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from pyromq.proxy.grpc.health import PROTO, Health, Serving
from pyromq.proxy.grpc.limits import GrpcLimits
from pyromq.proxy.grpc.method import Call, Conversation, GrpcError, GrpcStatus, ServerStream, Unary
from pyromq.proxy.grpc.protos import load_proto
from pyromq.proxy.grpc.reflection import reflection
from pyromq.proxy.grpc.server import GrpcServer
from pyromq.proxy.schema.messages import FILE_NAME, POOL
from pyromq.remoting.address import Address
from pyromq.remoting.limits import Limits
from pyromq.remoting.tls import ServerTls, TlsMode
from tests.integration.remoting.conftest import Authority

MIB = 1024 * 1024
UNBOUNDED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


class Talk:
    def __init__(self, call: Call) -> None:
        self._call = call

    def received(self, message: bytes) -> None:
        self._call.send(message.upper())

    def closed(self) -> None:
        self._call.finish()


class Service:
    """What the tests call. `cancelled` is set when a sleeper was given up."""

    def __init__(self) -> None:
        self.asleep = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.wake = asyncio.Event()
        self.health = Health(["echo.Echo"])
        messaging = FileDescriptorProto()
        POOL.FindFileByName(FILE_NAME).CopyToProto(messaging)
        self.methods = {
            "/echo.Echo/Say": Unary(lambda message, _: message),
            "/echo.Echo/Secure": Unary(lambda _, call: b"yes" if call.secure else b"no"),
            "/echo.Echo/Metadata": Unary(lambda message, call: call.metadata[message.decode()].encode("latin-1")),
            "/echo.Echo/Sleep": Unary(self.sleep),
            "/echo.Echo/Refuse": Unary(self.refuse),
            "/echo.Echo/Repeat": ServerStream(self.repeat),
            "/echo.Echo/Talk": Conversation(Talk),
            **self.health.service,
            **reflection([messaging, PROTO.file]),
        }

    async def sleep(self, message: bytes, _call: Call) -> bytes:
        self.asleep.set()
        try:
            await self.wake.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return message

    async def refuse(self, message: bytes, _call: Call) -> bytes:
        raise GrpcError(GrpcStatus(int(message)), "so wird das nichts: 100 % ☹")

    async def repeat(self, message: bytes, call: Call) -> None:
        for _ in range(int(message)):
            call.send(bytes(100_000))
            await call.drained()


@asynccontextmanager
async def served(
    service: Service, tls: ServerTls | None = None, limits: GrpcLimits | None = None
) -> AsyncIterator[tuple[GrpcServer, Address]]:
    server = GrpcServer(service.methods, tls=tls, limits=limits)
    address = await server.listen("127.0.0.1", 0)
    try:
        yield server, address
    finally:
        await server.stop(grace=5)
        assert server.stats.http2.streams == 0
        assert server.stats.bytes_in_flight == 0
        assert server.stats.transport.connections == 0


@asynccontextmanager
async def channel(address: Address) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(str(address), options=UNBOUNDED) as opened:
        yield opened


@pytest.mark.parametrize("size", [0, 1, 400, 16_384, 70_000, 5 * MIB, 40 * MIB])
async def test_messages_of_any_size(size: int) -> None:
    async with served(Service()) as (_, address), channel(address) as client:
        assert len(await client.unary_unary("/echo.Echo/Say")(bytes(size))) == size


async def test_many_calls_at_once() -> None:
    async with served(Service()) as (server, address), channel(address) as client:
        say = client.unary_unary("/echo.Echo/Say")
        answers = await asyncio.gather(*(say(b"%d" % each) for each in range(2000)))
        assert answers == [b"%d" % each for each in range(2000)]
        assert server.stats.ended[GrpcStatus.OK] == 2000


async def test_compressed_messages() -> None:
    async with served(Service()) as (_, address), channel(address) as client:
        say = client.unary_unary("/echo.Echo/Say")
        assert await say(b"hello" * 1000, compression=grpc.Compression.Gzip) == b"hello" * 1000
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await say(b"hello" * 1000, compression=grpc.Compression.Deflate)
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("status", [each for each in GrpcStatus if each])
async def test_every_status(status: GrpcStatus) -> None:
    async with served(Service()) as (_, address), channel(address) as client:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await client.unary_unary("/echo.Echo/Refuse")(b"%d" % status)
        assert caught.value.code().value[0] == status
        assert caught.value.details() == "so wird das nichts: 100 % ☹"


async def test_metadata() -> None:
    async with served(Service()) as (_, address), channel(address) as client:
        ask = client.unary_unary("/echo.Echo/Metadata")
        assert await ask(b"x-mq-client-id", metadata=[("x-mq-client-id", "me@1")]) == b"me@1"
        assert await ask(b"some-bin", metadata=[("some-bin", b"\0\xff")]) == b"\0\xff"
        assert (await ask(b"user-agent")).startswith(b"grpc-python")


async def test_a_deadline_passes() -> None:
    service = Service()
    async with served(service) as (_, address), channel(address) as client:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await client.unary_unary("/echo.Echo/Sleep")(b"", timeout=0.2)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        await service.cancelled.wait()


async def test_a_call_is_given_up() -> None:
    service = Service()
    async with served(service) as (server, address), channel(address) as client:
        call = client.unary_unary("/echo.Echo/Sleep")(b"")
        waiting = asyncio.ensure_future(call.code())
        await service.asleep.wait()
        call.cancel()
        await service.cancelled.wait()
        assert server.stats.cancelled == 1
        await waiting


async def test_a_long_stream_that_is_read_slowly() -> None:
    async with served(Service()) as (_, address), channel(address) as client:
        call = client.unary_stream("/echo.Echo/Repeat")(b"300")
        sizes = []
        async for message in call:
            sizes.append(len(message))
            await asyncio.sleep(0)
        assert sizes == [100_000] * 300
        assert await call.code() is grpc.StatusCode.OK


async def test_a_conversation() -> None:
    async with served(Service()) as (_, address), channel(address) as client:
        call = client.stream_stream("/echo.Echo/Talk")()
        for word in (b"one", b"two"):
            await call.write(word)
            assert await call.read() == word.upper()
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF
        assert await call.code() is grpc.StatusCode.OK


async def test_tls_and_plain_text_share_the_port(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    mine = authority.issue("server")
    tls = ServerTls(mine.certificate, mine.key)
    credentials = grpc.ssl_channel_credentials(authority.certificate.read_bytes())
    async with served(Service(), tls) as (_, address):
        async with channel(address) as client:
            assert await client.unary_unary("/echo.Echo/Secure")(b"") == b"no"
        # gRPC's core, as grpc-go, wants h2 to be agreed on by ALPN.
        async with grpc.aio.secure_channel(f"localhost:{address.port}", credentials) as client:
            assert await client.unary_unary("/echo.Echo/Secure")(b"") == b"yes"
            assert len(await client.unary_unary("/echo.Echo/Say")(bytes(2 * MIB))) == 2 * MIB


async def test_h2_is_agreed_on_by_alpn(tmp_path: Path) -> None:
    mine = Authority(tmp_path).issue("server")
    context = ssl.create_default_context(cafile=tmp_path / "authority.pem")
    context.set_alpn_protocols(["http/1.1", "h2"])
    async with served(Service(), ServerTls(mine.certificate, mine.key)) as (_, address):
        _, writer = await asyncio.open_connection(*address, ssl=context)
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
        writer.close()


async def test_plain_text_can_be_refused(tmp_path: Path) -> None:
    mine = Authority(tmp_path).issue("server")
    async with (
        served(Service(), ServerTls(mine.certificate, mine.key, mode=TlsMode.ENFORCING)) as (_, address),
        channel(address) as client,
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await client.unary_unary("/echo.Echo/Say")(b"")
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_stopping_lets_calls_end_and_ends_conversations() -> None:
    service = Service()
    async with served(service) as (server, address), channel(address) as client:
        talk = client.stream_stream("/echo.Echo/Talk")()
        await talk.write(b"hello")
        assert await talk.read() == b"HELLO"
        sleeper = client.unary_unary("/echo.Echo/Sleep")(b"slept")
        waiting = asyncio.ensure_future(sleeper.code())
        await service.asleep.wait()
        stopping = asyncio.create_task(server.stop(grace=60))
        await asyncio.sleep(0)
        service.wake.set()
        assert await waiting is grpc.StatusCode.OK
        assert await sleeper == b"slept"
        await stopping
        assert await talk.code() is grpc.StatusCode.UNAVAILABLE
        assert not server.connections


async def test_what_takes_longer_than_the_grace_is_ended() -> None:
    service = Service()
    async with served(service) as (server, address), channel(address) as client:
        sleeper = client.unary_unary("/echo.Echo/Sleep")(b"")
        waiting = asyncio.ensure_future(sleeper.code())
        await service.asleep.wait()
        await server.stop(grace=0.05)
        assert await waiting is grpc.StatusCode.UNAVAILABLE
        assert service.cancelled.is_set()


async def test_stopping_does_not_wait_for_who_has_nothing_to_do() -> None:
    """For the whole grace: pytest would end the test first."""
    async with served(Service()) as (server, address):
        _, writer = await asyncio.open_connection(*address)
        while not server.connections:  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0)
        await server.stop(grace=100_000)
        writer.close()


async def test_connections_over_the_limit_are_closed() -> None:
    limits = GrpcLimits(transport=Limits(connections_per_peer=1))
    async with served(Service(), limits=limits) as (server, address), channel(address) as client:
        assert await client.unary_unary("/echo.Echo/Say")(b"in") == b"in"
        reader, writer = await asyncio.open_connection(*address)
        assert await reader.read() == b""
        writer.close()
        assert server.stats.transport.connections_refused_per_peer == 1


async def test_health() -> None:
    service = Service()
    request, response = PROTO.messages["HealthCheckRequest"], PROTO.messages["HealthCheckResponse"]
    async with served(service) as (_, address), channel(address) as client:
        check = client.unary_unary("/grpc.health.v1.Health/Check", request.SerializeToString, response.FromString)
        watch = client.unary_stream("/grpc.health.v1.Health/Watch", request.SerializeToString, response.FromString)
        assert (await check(request())).status == Serving.SERVING
        assert (await check(request(service="echo.Echo"))).status == Serving.SERVING
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await check(request(service="other"))
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        watching, other = watch(request(service="echo.Echo")), watch(request(service="other"))
        assert (await watching.read()).status == Serving.SERVING
        assert (await other.read()).status == Serving.SERVICE_UNKNOWN
        service.health.set(False, "echo.Echo")
        assert (await watching.read()).status == Serving.NOT_SERVING
        service.health.stop()
        assert (await check(request())).status == Serving.NOT_SERVING


@pytest.mark.parametrize("package", ["grpc.reflection.v1", "grpc.reflection.v1alpha"])
async def test_reflection(package: str) -> None:
    proto = load_proto("reflection.proto", "reflection.proto", package)
    request, response = proto.messages["ServerReflectionRequest"], proto.messages["ServerReflectionResponse"]
    async with served(Service()) as (_, address), channel(address) as client:
        call = client.stream_stream(
            f"/{package}.ServerReflection/ServerReflectionInfo", request.SerializeToString, response.FromString
        )()

        async def ask(**question: str) -> Any:
            await call.write(request(**question))
            return await call.read()

        services = [each.name for each in (await ask(list_services="*")).list_services_response.service]
        assert "apache.rocketmq.v2.MessagingService" in services
        assert {"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"} < set(services)
        for question in (
            {"file_containing_symbol": "apache.rocketmq.v2.MessagingService.SendMessage"},
            {"file_containing_symbol": "apache.rocketmq.v2.SystemProperties"},
            {"file_by_filename": FILE_NAME},
        ):
            found = (await ask(**question)).file_descriptor_response.file_descriptor_proto
            assert FileDescriptorProto.FromString(found[0]).name == FILE_NAME
        missing = await ask(file_containing_symbol="no.such.Thing")
        assert missing.error_response.error_code == GrpcStatus.NOT_FOUND
        await call.done_writing()
        assert await call.code() is grpc.StatusCode.OK
