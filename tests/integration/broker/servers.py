"""A name server and a broker in this process, and a client that speaks raw commands to them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from pyromq.broker.broker import Broker
from pyromq.broker.standalone import Standalone
from pyromq.protocol.bodies.clients import ConsumerData, HeartbeatData, ProducerData, SubscriptionData
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.base import Header
from pyromq.protocol.headers.consume import PullMessageHeader
from pyromq.protocol.headers.namesrv import GetRouteInfoByTopicHeader
from pyromq.protocol.headers.send import SendMessageResponseHeader, SendMessageV2Header
from pyromq.protocol.message import ReceivedMessage
from pyromq.protocol.properties import encode_properties
from pyromq.protocol.records.record import decode_records
from pyromq.protocol.release import Language
from pyromq.remoting.client import Client
from pyromq.remoting.endpoint import Handler

TIMEOUT = 30.0
SUSPEND = 2
SUBSCRIPTION = 4


class Peer:
    """A raw client of one broker: commands out, answers back, callbacks with the codes `notes` into `received`."""

    def __init__(
        self,
        address: str,
        handlers: dict[int, Handler] | None = None,
        *,
        notes: tuple[int, ...] = (RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,),
    ) -> None:
        self.address = address
        self.received: asyncio.Queue[Command] = asyncio.Queue()
        self._client = Client(dict.fromkeys(notes, self._note) | (handlers or {}))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.close()

    @property
    def is_connected(self) -> bool:
        """Whether a connection is up."""
        return self._client.is_connected(self.address)

    def _note(self, request: Command, _connection: object) -> None:
        self.received.put_nowait(request)

    async def call(
        self,
        code: int,
        header: Header | None = None,
        *,
        body: bytes = b"",
        ext: dict[str, str] | None = None,
        version: int | None = None,
        language: Language | None = None,
    ) -> Command:
        """One request and its answer, whatever its code; as a client of this version and language."""
        request = Command.request(code, header, body=body, ext=ext)
        request.version = request.version if version is None else version
        request.language = language or request.language
        return await self._client.call(self.address, request, TIMEOUT)

    async def send(
        self,
        topic: str,
        body: bytes = b"hello",
        *,
        queue: int = 0,
        code: int = RequestCode.SEND_MESSAGE_V2,
        batch: bool = False,
        default_queues: int = 4,
        reconsume_times: int | None = None,
        **properties: str,
    ) -> Command:
        """Send a message with these properties."""
        header = SendMessageV2Header(
            producer_group="p",
            topic=topic,
            default_topic="TBW102",
            default_topic_queue_nums=default_queues,
            queue_id=queue,
            sys_flag=0,
            born_timestamp=1_700_000_000_000,
            flag=0,
            properties=encode_properties(properties).decode(),
            batch=batch,
            reconsume_times=reconsume_times,
        )
        return await self.call(code, header, body=body)

    async def stored(self, topic: str, body: bytes = b"hello", **options: str) -> SendMessageResponseHeader:
        """Send and insist on success."""
        answer = await self.send(topic, body, **options)  # type: ignore[arg-type]  # properties only
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        return answer.header(SendMessageResponseHeader)

    async def pull(
        self,
        topic: str,
        offset: int = 0,
        *,
        queue: int = 0,
        group: str = "g",
        hold: int = 0,
        tags: str | None = "*",
        expression_type: str | None = "TAG",
        count: int = 32,
        version: int = 0,
    ) -> Command:
        """Pull with the subscription inside the request; with `tags` None, the heartbeat's is used."""
        flag = (SUSPEND if hold else 0) | (SUBSCRIPTION if tags is not None else 0)
        header = PullMessageHeader(
            consumer_group=group,
            topic=topic,
            queue_id=queue,
            queue_offset=offset,
            max_msg_nums=count,
            sys_flag=flag,
            commit_offset=0,
            suspend_timeout_millis=hold,
            subscription=tags,
            sub_version=version,
            expression_type=expression_type,
        )
        return await self.call(RequestCode.PULL_MESSAGE, header)

    async def messages(self, topic: str, offset: int = 0, **options: int) -> list[ReceivedMessage]:
        """What a pull finds."""
        answer = await self.pull(topic, offset, **options)  # type: ignore[arg-type]  # queue, hold, count
        return decode_records(answer.body) if answer.code == ResponseCode.SUCCESS else []

    async def heartbeat(
        self,
        client_id: str,
        *,
        consumer: ConsumerData | None = None,
        producer: str | None = None,
        fingerprint: int = 0,
        without_sub: bool = False,
        version: int | None = None,
        language: Language | None = None,
    ) -> Command:
        """Join groups."""
        data = HeartbeatData(
            client_id=client_id,
            consumer_data_set=[consumer] if consumer is not None else [],
            producer_data_set=[ProducerData(group_name=producer)] if producer is not None else [],
            heartbeat_fingerprint=fingerprint,
            without_sub=without_sub,
        )
        return await self.call(RequestCode.HEART_BEAT, body=data.encode(), version=version, language=language)


async def routed(broker: Broker, *topics: str) -> None:
    """Wait until the broker's first name server routes to these topics."""
    for topic in topics:
        request = Command.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoByTopicHeader(topic=topic))
        while True:
            answer = await broker.core.client.call(broker.config.namesrv_addr[0], request, TIMEOUT)
            if answer.code == ResponseCode.SUCCESS:
                break
            await asyncio.sleep(0.001)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that other callbacks of this loop bring about."""
    while not condition():  # noqa: ASYNC110 - what is waited for sets no event
        await asyncio.sleep(0.001)


def consumer_of(group: str, *topics: str, version: int = 1) -> ConsumerData:
    """A push consumer's part of a heartbeat, subscribing to everything in these topics."""
    subscriptions = [SubscriptionData(topic=topic, sub_string="*", sub_version=version) for topic in topics]
    return ConsumerData(group_name=group, subscription_data_set=subscriptions)


@asynccontextmanager
async def standalone(path: Path, **settings: str) -> AsyncIterator[tuple[Broker, Peer]]:
    """A running broker with these settings (Python names) and a client of it."""
    server = Standalone(path, namesrv_port=0, broker_port=0, settings=settings)
    await server.start()
    try:
        assert server.broker is not None
        async with Peer(server.broker_address) as peer:
            yield server.broker, peer
    finally:
        await server.stop()
