"""A client of the messaging service on gRPC's own library, and the two ways to serve it."""

import asyncio
import hmac
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import grpc  # type: ignore[import-untyped]

from pyromq.broker.standalone import Standalone
from pyromq.proxy.gateway import Gateway
from pyromq.proxy.messages.moments import duration
from pyromq.proxy.schema import messages
from pyromq.proxy.schema.enums import AddressScheme, ClientType, Code, FilterType, MessageType
from pyromq.proxy.settings import ProxyConfig

MOMENT = "20261115T182345Z"
MODES = ("local", "remote")


def run(scenario: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await scenario

    asyncio.run(bounded())


def resource(name: str) -> Any:
    return messages.Resource(name=name)


def settings_of(*topics: str) -> Any:
    """Settings of a producer."""
    publishing = messages.Publishing(topics=[resource(topic) for topic in topics])
    return messages.Settings(client_type=ClientType.PRODUCER, publishing=publishing)


def consumer_settings(group: str, topic: str, expression: str = "*", kind: int = FilterType.TAG) -> Any:
    entry = messages.SubscriptionEntry(
        topic=resource(topic), expression=messages.FilterExpression(type=kind, expression=expression)
    )
    subscription = messages.Subscription(group=resource(group), subscriptions=[entry])
    return messages.Settings(client_type=ClientType.PUSH_CONSUMER, subscription=subscription)


class GrpcClient:
    """One client. With `user` and `secret` it signs."""

    def __init__(
        self, address: str, client_id: str = "client-1", *, user: str = "", secret: str = "", ca: bytes = b""
    ) -> None:
        self.address = address
        self.metadata = [("x-mq-client-id", client_id), ("x-mq-language", "GO"), ("x-mq-client-version", "5.1.4")]
        if user:
            signature = hmac.digest(secret.encode(), MOMENT.encode(), "sha1").hex()
            text = f"MQv2-HMAC-SHA1 Credential={user}, SignedHeaders=x-mq-date-time, Signature={signature}"
            self.metadata += [("x-mq-date-time", MOMENT), ("authorization", text)]
        if ca:
            self.channel = grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(ca))
        else:
            self.channel = grpc.aio.insecure_channel(address)
        self._streams: list[Any] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for stream in self._streams:
            stream.cancel()
        await self.channel.close()

    async def call(self, name: str, request: Any, timeout: float = 10.0) -> Any:  # noqa: ASYNC109 - the deadline
        """One answer, by the names of the schema."""
        answer = getattr(messages, f"{name}Response")
        method = self.channel.unary_unary(
            f"/{messages.SERVICE}/{name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )
        return await method(request, metadata=self.metadata, timeout=timeout)

    async def route(self, topic: str) -> Any:
        host, _, port = self.address.rpartition(":")
        endpoints = messages.Endpoints(
            scheme=AddressScheme.IPv4, addresses=[messages.Address(host=host, port=int(port))]
        )
        return await self.call("QueryRoute", messages.QueryRouteRequest(topic=resource(topic), endpoints=endpoints))

    async def telemetry(self, settings: Any) -> Any:
        """A stream, with the answer to these settings read."""
        method = self.channel.stream_stream(
            f"/{messages.SERVICE}/Telemetry",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=messages.TelemetryCommand.FromString,
        )
        stream = method(metadata=self.metadata)
        self._streams.append(stream)
        await stream.write(messages.TelemetryCommand(settings=settings))
        return stream, await stream.read()

    async def send(self, topic: str, body: bytes = b"x", message_id: str = "0" * 34, **system: Any) -> Any:
        system.setdefault("message_type", MessageType.NORMAL)
        message = messages.Message(
            topic=resource(topic),
            body=body,
            system_properties=messages.SystemProperties(message_id=message_id, body_encoding=1, **system),
        )
        return await self.call("SendMessage", messages.SendMessageRequest(messages=[message]))

    async def receive(self, group: str, topic: str, seconds: float = 5.0) -> list[Any]:
        """The messages of one poll."""
        method = self.channel.unary_stream(
            f"/{messages.SERVICE}/ReceiveMessage",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=messages.ReceiveMessageResponse.FromString,
        )
        request = messages.ReceiveMessageRequest(
            group=resource(group),
            message_queue=messages.MessageQueue(topic=resource(topic), id=-1, broker=messages.Broker(name="broker-a")),
            filter_expression=messages.FilterExpression(type=FilterType.TAG, expression="*"),
            batch_size=32,
            invisible_duration=duration(30_000),
            long_polling_timeout=duration(int(seconds * 1000)),
        )
        answers = [answer async for answer in method(request, metadata=self.metadata, timeout=seconds + 5)]
        return [answer.message for answer in answers if answer.HasField("message")]

    async def heartbeat(self, kind: int = ClientType.PRODUCER, group: str = "") -> Any:
        request = messages.HeartbeatRequest(client_type=kind)
        if group:
            request.group.name = group
        return await self.call("Heartbeat", request)

    async def terminate(self, group: str = "") -> Any:
        request = messages.NotifyClientTerminationRequest()
        if group:
            request.group.name = group
        return await self.call("NotifyClientTermination", request)


def ok(answer: Any) -> Any:
    """The answer, which must be good."""
    assert answer.status.code == Code.OK, answer
    return answer


@asynccontextmanager
async def served(path: Path, mode: str = "local", **settings: str) -> AsyncIterator[tuple[Standalone, str]]:
    """A broker, and the address for gRPC clients: its own, or that of a proxy in front of it."""
    server = Standalone(
        path / "data", namesrv_port=0, broker_port=0, grpc_port=0 if mode == "local" else -1, settings=settings
    )
    await server.start()
    gateway: Gateway | None = None
    try:
        if mode == "remote":
            gateway = await gateway_of(server, path)
        yield server, gateway.address if gateway is not None else str(server.grpc_address)
    finally:
        if gateway is not None:
            await gateway.stop()
        await server.stop()


async def gateway_of(server: Standalone, path: Path, **settings: str) -> Gateway:
    """A proxy in front of a broker."""
    flags = {"namesrv": server.namesrv_address, "grpc_port": "0", "data_dir": str(path / "proxy")}
    gateway = Gateway(ProxyConfig.load(flags=flags | settings))
    await gateway.start()
    return gateway
