"""Sends that leave at once, against a broker that the test plays: order, every kind of answer, and none at all."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

import pyromq
from pyromq.aio import Message, MessageQueue, Producer, SendResult, SendStatus
from pyromq.client.errors import BrokerError, ClientError, ServiceStateError, TransportError
from pyromq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command, encode
from pyromq.protocol.headers.send import SendMessageResponseHeader, SendMessageV2Header
from pyromq.remoting.client import Client
from pyromq.selectors import Selector
from tests.integration.client.clusters import LIMIT, asyncio_test
from tests.integration.remoting.peers import RawPeer, raw_server, until

Reaction = Callable[[RawPeer, Command], object]
QUEUE = MessageQueue("T", "a", 0)


class Played:
    """A name server and a broker in one. `script` has a reaction for each of the next sends; the others are stored."""

    def __init__(self) -> None:
        self.address = ""
        self.bodies: list[bytes] = []
        self.script: list[Reaction] = []
        self.held: list[tuple[RawPeer, Command]] = []
        self.connections = 0
        self.may_speak = asyncio.Event()
        """Cleared while a test writes pieces of frames: what is answered in between would break them."""
        self.may_speak.set()

    async def talk(self, peer: RawPeer) -> None:
        self.connections += 1
        while True:
            command = await peer.receive()
            await self.may_speak.wait()
            if command.code == RequestCode.SEND_MESSAGE_V2:
                self.bodies.append(bytes(command.body))
                reaction = self.script.pop(0) if self.script else self.store
                reaction(peer, command)
            elif command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
                route = TopicRouteData(
                    broker_datas=[BrokerData(cluster="c", broker_name="a", broker_addrs={0: self.address})],
                    queue_datas=[QueueData(broker_name="a", read_queue_nums=4, write_queue_nums=4, perm=6)],
                )
                peer.send(command.reply(body=route.encode(strict=True)))
            else:
                peer.send(command.reply())

    def store(self, peer: RawPeer, command: Command) -> None:
        peer.send(self.receipt(command))

    def receipt(self, command: Command, code: int = ResponseCode.SUCCESS) -> Command:
        header = command.header(SendMessageV2Header)
        offset = len(self.bodies)
        return command.reply(
            code, SendMessageResponseHeader(msg_id="A" * 32, queue_id=header.queue_id, queue_offset=offset)
        )

    def hold(self, peer: RawPeer, command: Command) -> None:
        """Answer later, or never."""
        self.held.append((peer, command))

    def answering(self, code: int) -> Reaction:
        return lambda peer, command: peer.send(self.receipt(command, code))

    def refusing(self, code: int) -> Reaction:
        return lambda peer, command: peer.send(command.reply(code, remark="no"))

    @staticmethod
    def hang_up(peer: RawPeer, _: Command) -> None:
        peer.writer.transport.abort()


@asynccontextmanager
async def played(**options: Any) -> AsyncIterator[tuple[Played, Producer]]:
    """A broker, and a producer that knows the topic already."""
    broker = Played()
    async with (
        raw_server(broker.talk) as broker.address,
        Producer("PG", namesrv=broker.address, topics=("T",), **options) as producer,
    ):
        await producer.send(Message("T", b"warm"), timeout=LIMIT)
        broker.bodies.clear()
        yield broker, producer


def nothing_left(producer: Producer) -> bool:
    client = producer._instance.transport
    assert isinstance(client, Client)
    return client.stats.calls_in_flight == 0 and client._call_permits._free == client.limits.calls


def to_first(queues: list[MessageQueue], message: Message, arg: object) -> MessageQueue:
    assert (message.topic, arg) == ("T", "x")
    return queues[0]


@pytest.mark.parametrize("how", [{"queue": QUEUE}, {"selector": to_first, "arg": "x"}])
@asyncio_test
async def test_order_is_kept(how: dict[str, Selector | MessageQueue]) -> None:
    """Also where some cannot leave at once, as those with large bodies."""
    async with played(compress_over=1 << 20) as (broker, producer):
        sent: list[bytes] = []
        futures = []
        for number in range(400):
            large = number % 60 == 59
            body = b"%d" % number + b"x" * (70_000 if large else 0)
            sent.append(body)
            futures.append(producer.send_async(Message("T", body), timeout=LIMIT, **how))  # type: ignore[arg-type]
            if number % 7 == 6:
                await asyncio.sleep(0)
        results = await asyncio.gather(*futures)
        assert broker.bodies == sent
        assert all(result.queue == QUEUE for result in results)
        await until(lambda: nothing_left(producer))


@asyncio_test
async def test_each_gets_its_own_receipt_however_they_come() -> None:
    """In another order, in one piece with refusals, and cut at any byte."""
    async with played() as (broker, producer):
        broker.script = [broker.hold] * 40
        futures = [producer.send_async(Message("T", b"%d" % number), timeout=LIMIT) for number in range(40)]
        await until(lambda: len(broker.held) == 40)
        peer = broker.held[0][0]
        expected: dict[int, int | None] = {}
        answers = []
        for number, (_, command) in reversed(list(enumerate(broker.held))):
            header = SendMessageResponseHeader(msg_id=f"{number:032X}", queue_id=2, queue_offset=number)
            refused = number % 5 == 2
            expected[number] = None if refused else number
            answers.append(command.reply(ResponseCode.NO_PERMISSION) if refused else command.reply(0, header))
        stream = b"".join(map(encode, answers))
        broker.may_speak.clear()
        for start in range(0, len(stream), 1013):
            peer.writer.write(stream[start : start + 1013])
            await peer.writer.drain()
            await asyncio.sleep(0)
        broker.may_speak.set()
        outcomes = await asyncio.gather(*futures, return_exceptions=True)
        for number, outcome in enumerate(outcomes):
            if expected[number] is None:
                assert isinstance(outcome, BrokerError)
            else:
                assert isinstance(outcome, SendResult)
                assert (outcome.queue_offset, outcome.offset_message_id) == (number, f"{number:032X}")
                assert outcome.queue == MessageQueue("T", "a", 2)
        await until(lambda: nothing_left(producer))


@asyncio_test
async def test_refusals_are_judged_as_ever() -> None:
    async with played() as (broker, producer):
        broker.script = [broker.refusing(ResponseCode.SYSTEM_ERROR)]
        with pytest.raises(BrokerError, match="no"):
            await producer.send_async(Message("T", b"async"), timeout=LIMIT)
        broker.script = [broker.refusing(ResponseCode.SYSTEM_ERROR)]
        assert (await producer.send(Message("T", b"again"), timeout=LIMIT)).status is SendStatus.SEND_OK
        broker.script = [broker.refusing(ResponseCode.MESSAGE_ILLEGAL)]
        with pytest.raises(BrokerError, match="no"):
            await producer.send(Message("T", b"illegal"), timeout=LIMIT)
        broker.script = [broker.refusing(ResponseCode.SYSTEM_ERROR)]
        with pytest.raises(BrokerError, match="no"):
            await producer.send(Message("T", b"chosen"), queue=QUEUE, timeout=LIMIT)
        assert broker.bodies == [b"async", b"again", b"again", b"illegal", b"chosen"]
        broker.script = [lambda peer, command: peer.send(command.reply(0))]
        with pytest.raises(ClientError, match="cannot be read"):
            await producer.send_async(Message("T", b"odd"), timeout=LIMIT)
        assert nothing_left(producer)


@asyncio_test
async def test_unsafe_receipts_are_results() -> None:
    async with played(retry_when_not_stored=True) as (broker, producer):
        broker.script = [broker.answering(ResponseCode.FLUSH_DISK_TIMEOUT)]
        result = await producer.send_async(Message("T", b"async"), timeout=LIMIT)
        assert result.status is SendStatus.FLUSH_DISK_TIMEOUT
        broker.script = [broker.answering(ResponseCode.FLUSH_DISK_TIMEOUT)]
        assert (await producer.send(Message("T", b"sync"), timeout=LIMIT)).status is SendStatus.SEND_OK
        broker.script = [broker.answering(ResponseCode.SLAVE_NOT_AVAILABLE), *[broker.refusing(16)] * 3]
        result = await producer.send(Message("T", b"sync"), timeout=LIMIT)
        assert result.status is SendStatus.SLAVE_NOT_AVAILABLE
        broker.script = [broker.answering(ResponseCode.FLUSH_SLAVE_TIMEOUT)]
        result = await producer.send(Message("T", b"chosen"), queue=QUEUE, timeout=LIMIT)
        assert result.status is SendStatus.FLUSH_SLAVE_TIMEOUT


@asyncio_test
async def test_a_broker_that_goes_away_is_asked_again() -> None:
    async with played() as (broker, producer):
        for queue in (None, QUEUE):
            broker.script = [broker.refusing(ResponseCode.GO_AWAY)]
            assert (await producer.send(Message("T", b"sync"), queue=queue, timeout=LIMIT)).status is SendStatus.SEND_OK
            broker.script = [broker.refusing(ResponseCode.GO_AWAY)]
            result = await producer.send_async(Message("T", b"async"), queue=queue, timeout=LIMIT)
            assert result.status is SendStatus.SEND_OK
        assert broker.connections == 5
        assert broker.bodies == [b"sync", b"sync", b"async", b"async"] * 2
        await until(lambda: nothing_left(producer))


@asyncio_test
async def test_lost_connections_and_missing_answers_are_tried_again() -> None:
    async with played() as (broker, producer):
        broker.script = [broker.hold] * 20 + [broker.hang_up]
        futures = [producer.send_async(Message("T", b"%d" % number), timeout=LIMIT) for number in range(21)]
        results = await asyncio.gather(*futures)
        assert all(result.status is SendStatus.SEND_OK for result in results)
        assert sorted(broker.bodies) == sorted([b"%d" % number for number in range(21)] * 2)
        broker.script = [broker.hang_up]
        assert (await producer.send(Message("T", b"sync"), timeout=LIMIT)).status is SendStatus.SEND_OK
        broker.script = [broker.hang_up]
        with pytest.raises(TransportError):
            await producer.send(Message("T", b"chosen"), queue=QUEUE, timeout=LIMIT)
        broker.script = [broker.hold] * 2
        with pytest.raises(TransportError, match="no answer within"):
            await producer.send_async(Message("T", b"silence"), timeout=0.1)
        with pytest.raises(ClientError):
            await producer.send(Message("T", b"silence"), timeout=0.1)
        await until(lambda: nothing_left(producer))


@asyncio_test
async def test_who_cancels_or_closes_leaves_nothing() -> None:
    async with played(close_timeout=0.05) as (broker, producer):
        broker.script = [broker.hold] * 4
        cancelled, late = (producer.send_async(Message("T", b"x"), timeout=LIMIT) for _ in range(2))
        waiting = asyncio.ensure_future(producer.send(Message("T", b"x"), timeout=LIMIT))
        await until(lambda: len(broker.held) == 3)
        cancelled.cancel()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        for peer, command in broker.held:
            broker.store(peer, command)
        assert (await late).status is SendStatus.SEND_OK
        await until(lambda: nothing_left(producer))
        left = producer.send_async(Message("T", b"x"), timeout=LIMIT)
        await until(lambda: len(broker.held) == 4)
    with pytest.raises(asyncio.CancelledError):
        await left
    assert nothing_left(producer)


@asyncio_test
async def test_threads_get_the_same() -> None:
    broker = Played()

    def use() -> None:
        told: list[tuple[SendResult | None, Exception | None]] = []
        with pyromq.Producer("PG", namesrv=broker.address, topics=("T",), close_timeout=0.1) as producer:
            assert producer.send(Message("T", b"warm"), timeout=LIMIT).status is SendStatus.SEND_OK
            broker.bodies.clear()
            futures = [
                producer.send_async(Message("T", b"%d" % number), lambda *outcome: told.append(outcome), queue=QUEUE)
                for number in range(200)
            ]
            assert [future.result(LIMIT).queue for future in futures] == [QUEUE] * 200
            assert broker.bodies == [b"%d" % number for number in range(200)]
            broker.script = [broker.refusing(ResponseCode.GO_AWAY)]
            assert producer.send(Message("T", b"x"), timeout=LIMIT).status is SendStatus.SEND_OK
            broker.script = [broker.refusing(ResponseCode.MESSAGE_ILLEGAL)] * 2
            with pytest.raises(BrokerError):
                producer.send(Message("T", b"x"), timeout=LIMIT)
            with pytest.raises(BrokerError):
                producer.send_async(Message("T", b"x"), lambda *outcome: told.append(outcome)).result(LIMIT)
            with pytest.raises(ClientError, match="cannot be sent"):
                producer.send_async(Message("T", b"")).result(LIMIT)
            with pytest.raises(ClientError, match="cannot be sent"):
                producer.send(Message("T", b""))
            broker.script = [broker.hold]
            left = producer.send_async(Message("T", b"x"), timeout=LIMIT)
        with pytest.raises(ServiceStateError, match="closed"):
            left.result(LIMIT)
        assert sorted(error is None for _, error in told) == [False] + [True] * 200

    async with raw_server(broker.talk) as broker.address:
        await asyncio.to_thread(use)
