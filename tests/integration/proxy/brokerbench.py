"""The calls of the messaging service on a real broker, without a gRPC transport in front."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pyromq.broker.broker import Broker
from pyromq.clock import wall_clock
from pyromq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.command import Command
from pyromq.proxy.caller import Caller
from pyromq.proxy.calls.ack import Acks
from pyromq.proxy.calls.offsets import Offsets
from pyromq.proxy.calls.recall import Recalls
from pyromq.proxy.calls.receive import Receives
from pyromq.proxy.calls.send import Sends
from pyromq.proxy.catalogue import Catalogue
from pyromq.proxy.core import Core
from pyromq.proxy.messages.moments import duration
from pyromq.proxy.renewal import Renewal
from pyromq.proxy.schema import messages
from pyromq.proxy.schema.enums import Code, FilterType, MessageType
from pyromq.remoting.client import Client
from tests.integration.broker.servers import standalone
from tests.unit.proxy.messaging import Bench, Doorkeeper, FakeCall, FakeCluster

TOPIC, GROUP = "orders", "g"


class BrokerCluster(FakeCluster):
    """One broker, asked over a socket."""

    def __init__(self, broker: Broker, address: str) -> None:
        super().__init__(broker.core.config.broker_name)
        self._broker = broker
        self._address = address
        self.client = Client()

    async def route(self, topic: str) -> TopicRouteData | None:
        config = self._broker.core.topics.get(topic)
        if config is None:
            return None
        name = self.names[0]
        return TopicRouteData(
            broker_datas=[BrokerData(broker_name=name, broker_addrs={0: self._address})],
            queue_datas=[
                QueueData(
                    broker_name=name,
                    perm=config.perm,
                    read_queue_nums=config.read_queue_nums,
                    write_queue_nums=config.write_queue_nums,
                )
            ],
        )

    async def ask(self, caller: Caller | None, broker: str, command: Command, timeout: float) -> Command:  # noqa: ARG002, ASYNC109
        self.asked.append((broker, command))
        return await self.client.call(self._address, command, timeout)


class BrokerBench(Bench):
    """All calls about messages, and short forms of those that tests make."""

    def __init__(self, broker: Broker, address: str) -> None:
        cluster = BrokerCluster(broker, address)
        self.broker = broker
        self.cluster = cluster
        self.close = cluster.client.close
        self.core = Core(cluster, Doorkeeper(), wall_clock, time.monotonic)
        self.catalogue = Catalogue(cluster, time.monotonic)
        self.renewal = Renewal(self.core)
        self.methods = {
            **Sends(self.core, self.catalogue).methods(),
            **Receives(self.core, self.catalogue, self.renewal).methods(),
            **Acks(self.core, self.renewal).methods(),
            **Recalls(self.core).methods(),
            **Offsets(self.core).methods(),
        }

    async def topic(self, kind: str = "NORMAL", *, queues: int = 2) -> None:
        """Make the topic, for messages of a type."""
        config = TopicConfig(
            topic_name=TOPIC,
            read_queue_nums=queues,
            write_queue_nums=queues,
            attributes={"message.type": kind},
        )
        await self.broker.core.topics.put(config)

    async def send(self, *bodies: str, **system: Any) -> Any:
        """Each body as a message; the answer to the last one."""
        answer = None
        for body in bodies:
            system = {"message_type": MessageType.NORMAL, "message_id": f"id-{body}"} | system
            request = messages.SendMessageRequest()
            message = request.messages.add(
                body=body.encode(), system_properties=messages.SystemProperties(**system | {"message_id": f"id-{body}"})
            )
            message.topic.name = TOPIC
            answer = await self.call(self.methods, "SendMessage", request)
            assert answer.status.code == Code.OK, answer.status
        return answer

    async def receive(
        self,
        *,
        poll: float = 2,
        invisible: float = 10,
        auto_renew: bool = False,
        tags: str = "*",
        sql: str = "",
        most: int = 32,
        attempt_id: str = "",
        call: FakeCall | None = None,
    ) -> list[Any]:
        """The messages of one receive."""
        request = messages.ReceiveMessageRequest(
            batch_size=most, auto_renew=auto_renew, long_polling_timeout=duration(int(poll * 1000))
        )
        request.group.name, request.message_queue.topic.name = GROUP, TOPIC
        request.message_queue.broker.name = self.cluster.names[0]
        request.message_queue.id = -1
        request.filter_expression.type = FilterType.SQL if sql else FilterType.TAG
        request.filter_expression.expression = sql or tags
        if attempt_id:
            request.attempt_id = attempt_id
        if not auto_renew:
            request.invisible_duration.CopyFrom(duration(int(invisible * 1000)))
        answers = await self.stream(self.methods, "ReceiveMessage", request, call or FakeCall(poll + 3))
        kinds = [answer.WhichOneof("content") for answer in answers]
        assert kinds == ["status", *["message"] * (len(kinds) - 2), "delivery_timestamp"]
        expected = Code.OK if len(kinds) > 2 else Code.MESSAGE_NOT_FOUND
        assert answers[0].status.code == expected, answers[0].status
        return [answer.message for answer in answers[1:-1]]

    async def receive_all(self, count: int, **options: Any) -> list[Any]:
        """Receive until there are as many."""
        found: list[Any] = []
        async with asyncio.timeout(30):
            while len(found) < count:
                found += await self.receive(**options)
        return found

    async def ack(self, *received: Any) -> Any:
        """Acknowledge with one request."""
        request = messages.AckMessageRequest()
        request.group.name, request.topic.name = GROUP, TOPIC
        for message in received:
            system = message.system_properties
            request.entries.add(message_id=system.message_id, receipt_handle=system.receipt_handle)
        return await self.call(self.methods, "AckMessage", request)

    async def change(self, handle: str, seconds: float) -> Any:
        """Hide a message for another time."""
        request = messages.ChangeInvisibleDurationRequest(
            receipt_handle=handle, invisible_duration=duration(int(seconds * 1000))
        )
        request.group.name, request.topic.name = GROUP, TOPIC
        return await self.call(self.methods, "ChangeInvisibleDuration", request)

    async def forward(self, message: Any) -> Any:
        """Give up on a message."""
        system = message.system_properties
        request = messages.ForwardMessageToDeadLetterQueueRequest(
            receipt_handle=system.receipt_handle, message_id=system.message_id
        )
        request.group.name, request.topic.name = GROUP, TOPIC
        return await self.call(self.methods, "ForwardMessageToDeadLetterQueue", request)


@asynccontextmanager
async def broker_bench(path: Path, **settings: str) -> AsyncIterator[BrokerBench]:
    """A broker with quick timers, and calls on it."""
    async with standalone(path, timer_precision_ms="100", **settings) as (broker, peer):
        bench = BrokerBench(broker, peer.address)
        try:
            yield bench
        finally:
            await bench.close()
