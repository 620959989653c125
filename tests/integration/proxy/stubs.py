"""RocketMQ's calls for grpcio: each method of the service, with the messages of our own schema."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc  # type: ignore[import-untyped]  # it has no types

from pyromq.proxy.schema import messages
from pyromq.proxy.schema.enums import ClientType, Code, FilterType, MessageType
from pyromq.proxy.schema.messages import SERVICE

BOUND = 30.0
"""Seconds for each call; nothing is expected to take so long."""
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


class Client:
    """One client of RocketMQ over one channel, with an identity of its own."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.channel = channel
        self.metadata = (("x-mq-client-id", f"grpcio@{uuid.uuid4()}"), ("x-mq-language", "PYTHON"))

    def unary(self, name: str) -> Any:
        """A call with one answer: `QueryRoute` takes a QueryRouteRequest."""
        return self.channel.unary_unary(f"/{SERVICE}/{name}", _bytes, getattr(messages, f"{name}Response").FromString)

    def stream(self, name: str) -> Any:
        """A call with a stream of answers."""
        return self.channel.unary_stream(f"/{SERVICE}/{name}", _bytes, getattr(messages, f"{name}Response").FromString)

    def ask(self, name: str, timeout: float = BOUND, **fields: Any) -> Any:
        """The one answer."""
        request = getattr(messages, f"{name}Request")(**fields)
        return self.unary(name)(request, timeout=timeout, metadata=self.metadata)

    def telemetry(self, commands: Iterator[Any], timeout: float | None = BOUND) -> Any:
        """The stream of commands both ways."""
        call = self.channel.stream_stream(f"/{SERVICE}/Telemetry", _bytes, messages.TelemetryCommand.FromString)
        return call(commands, timeout=timeout, metadata=self.metadata)

    def send(self, topic: str, body: bytes, **options: Any) -> Any:
        """Send one message; the answer."""
        properties = messages.SystemProperties(
            message_id=uuid.uuid4().hex.upper(), message_type=MessageType.NORMAL, body_encoding=1
        )
        message = messages.Message(topic=resource(topic), system_properties=properties, body=body)
        request = messages.SendMessageRequest(messages=[message])
        return self.unary("SendMessage")(request, timeout=BOUND, metadata=self.metadata, **options)

    def poll(self, group: str, topic: str, wait: float, timeout: float = BOUND) -> Any:
        """A receive that waits for messages; its answers as they come."""
        queue = self.ask("QueryRoute", topic=resource(topic)).message_queues[0]
        request = messages.ReceiveMessageRequest(
            group=resource(group),
            message_queue=queue,
            filter_expression=messages.FilterExpression(type=FilterType.TAG, expression="*"),
            batch_size=32,
            invisible_duration=messages.Duration(seconds=15),
            long_polling_timeout=messages.Duration(seconds=int(wait)),
        )
        return self.stream("ReceiveMessage")(request, timeout=timeout, metadata=self.metadata)

    def receive(self, group: str, topic: str, count: int, wait: float = 5) -> list[Any]:
        """So many messages, with as many polls as it takes."""
        got: list[Any] = []
        while len(got) < count:
            answers = list(self.poll(group, topic, wait))
            assert [each.status.code for each in answers if each.HasField("status")] == [Code.OK]
            got += [each.message for each in answers if each.HasField("message")]
        return got


def settings(topic: str) -> Any:
    """What a producer says of itself first."""
    publishing = messages.Publishing(topics=[resource(topic)])
    said = messages.Settings(client_type=ClientType.PRODUCER, publishing=publishing)
    return messages.TelemetryCommand(settings=said)


def resource(name: str) -> Any:
    """A name without a namespace."""
    return messages.Resource(name=name)


@contextmanager
def connected(address: str, **options: Any) -> Iterator[Client]:
    """A client of a server without TLS."""
    with grpc.insecure_channel(address, options=UNLIMITED, **options) as channel:
        yield Client(channel)


def _bytes(message: Any) -> bytes:
    data: bytes = message if isinstance(message, bytes) else message.SerializeToString()
    return data
