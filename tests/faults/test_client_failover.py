"""Clients while servers die under them: two name servers and two brokers, all processes, killed under load."""

import asyncio
import signal
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pyromq.aio import Message, Producer
from pyromq.client.hooks import SendContext, SendMode
from pyromq.client.producer.results import SendResult, SendStatus
from tests import processes
from tests.faults.test_cluster import Cluster, cluster, until
from tests.integration.broker.servers import Peer
from tests.integration.broker.test_processes import route

TOPIC = "load"
QUEUES = 2
BOTH = {"broker-a", "broker-b"}
LIMIT = 30.0
"""Time of each request: nothing is expected to take so long, however busy the machine is."""
BOUND = 60.0
"""Ends a test that hangs once its servers run."""
ENOUGH = 30
"""Messages of each kind that must get through in each phase."""
ANSWERED = (SendMode.SYNC, SendMode.ASYNC)


class Place(NamedTuple):
    """Where the broker said that it put a message."""

    broker: str
    queue_id: int
    offset: int


class Ledger:
    """What the senders were told, and, as a send hook, what became of every attempt."""

    name = "ledger"

    def __init__(self) -> None:
        self.acknowledged: dict[Place, bytes] = {}
        self.oneway: defaultdict[str, set[bytes]] = defaultdict(set)
        """Bodies that were handed to the network, by broker."""
        self.failed: dict[bytes, str] = {}
        """Bodies of which an attempt failed, and on which broker."""
        self.elsewhere: Counter[SendMode] = Counter()
        """Messages that were acknowledged by another broker than the one that failed."""
        self.counts: Counter[tuple[SendMode, str]] = Counter()
        self.under_way: Counter[tuple[SendMode, str]] = Counter()
        """Attempts that wait for their outcome."""
        self._changed = asyncio.Event()

    def before(self, context: SendContext) -> None:
        self.under_way[context.mode, context.queue.broker_name] += 1
        self._changed.set()

    def after(self, context: SendContext) -> None:
        assert isinstance(context.message, Message)
        broker, body = context.queue.broker_name, context.message.body
        self.under_way[context.mode, broker] -= 1
        if context.error is not None:
            self.failed[body] = broker
        elif context.mode is SendMode.ONEWAY:
            self.oneway[broker].add(body)
            self.counts[context.mode, broker] += 1

    def acknowledge(self, mode: SendMode, body: bytes, result: SendResult) -> None:
        assert result.status is SendStatus.SEND_OK
        broker = result.queue.broker_name
        place = Place(broker, result.queue.queue_id, result.queue_offset)
        assert place not in self.acknowledged, f"{place} was given to two messages"
        self.acknowledged[place] = body
        self.counts[mode, broker] += 1
        if self.failed.get(body, broker) != broker:
            self.elsewhere[mode] += 1
        self._changed.set()

    async def change(self) -> None:
        """Wait for the next attempt or receipt."""
        self._changed.clear()
        await self._changed.wait()

    async def reach(self, done: Callable[[], bool]) -> None:
        """Wait for something that attempts and receipts bring about; the test's own limit bounds it."""
        while not done():
            await self.change()

    async def advance(self, *brokers: str) -> None:
        """Wait until every kind of send has got further on each of these brokers."""
        goals = {(mode, broker): self.counts[mode, broker] + ENOUGH for mode in SendMode for broker in brokers}
        await self.reach(lambda: all(self.counts[key] >= goal for key, goal in goals.items()))


class Load:
    """Senders of all kinds that go on until they are stopped; an error of any of them fails the test."""

    def __init__(self, producer: Producer, ledger: Ledger) -> None:
        self._producer = producer
        self._ledger = ledger
        self._stopped = False
        self._number = 0

    async def run(self) -> None:
        async with asyncio.TaskGroup() as senders:
            for _ in range(2):
                senders.create_task(self._sync())
            for _ in range(4):
                senders.create_task(self._async())
            senders.create_task(self._oneway())

    def stop(self) -> None:
        self._stopped = True

    async def _sync(self) -> None:
        while not self._stopped:
            message = self._message()
            self._ledger.acknowledge(SendMode.SYNC, message.body, await self._producer.send(message, timeout=LIMIT))

    async def _async(self) -> None:
        while not self._stopped:
            message = self._message()
            result = await self._producer.send_async(message, timeout=LIMIT)
            self._ledger.acknowledge(SendMode.ASYNC, message.body, result)

    async def _oneway(self) -> None:
        """As many as there are receipts for the others: nothing else holds it back."""
        while not self._stopped:
            await self._producer.send_oneway(self._message())
            await self._ledger.change()

    def _message(self) -> Message:
        self._number += 1
        return Message(TOPIC, f"{self._number}".encode())


async def stored(server: processes.Server, broker: str) -> dict[Place, bytes]:
    """Everything a broker has of the topic."""
    found: dict[Place, bytes] = {}
    async with Peer(server["broker"]) as peer:
        for queue_id in range(QUEUES):
            offset = 0
            while messages := await peer.messages(TOPIC, offset, queue=queue_id):
                found |= {Place(broker, queue_id, message.queue_offset): message.body for message in messages}
                offset = messages[-1].queue_offset + 1
    return found


async def everywhere_known(servers: Cluster, topic: str) -> None:
    for names in servers.names:

        async def known(names: processes.Server = names) -> bool:
            return set(await route(names["namesrv"], topic)) == BOTH

        await until(known)


async def check_stored(servers: Cluster, ledger: Ledger) -> None:
    """Every receipt names the place of its message; what was sent one-way to the broker that lived is there too."""
    first, second = servers.brokers
    kept = await stored(first, "broker-a") | await stored(second, "broker-b")
    assert {place: kept.get(place) for place in ledger.acknowledged} == ledger.acknowledged

    async def arrived() -> bool:
        return ledger.oneway["broker-b"] <= set((await stored(second, "broker-b")).values())

    await until(arrived)


async def test_senders_outlive_a_broker_and_a_name_server(tmp_path: Path) -> None:
    # P-61, P-71, P-84, P-101, P-105, P-115, C-14
    async with cluster(tmp_path) as servers, asyncio.timeout(BOUND):
        addresses = ";".join(names["namesrv"] for names in servers.names)
        ledger = Ledger()
        producer = Producer("PG", namesrv=addresses, api_timeout=LIMIT, poll_name_server_interval=1.0)
        producer.send_hooks.append(ledger)
        async with producer:
            await producer.create_topic("TBW102", TOPIC, QUEUES)
            await everywhere_known(servers, TOPIC)
            load = Load(producer, ledger)
            async with asyncio.TaskGroup() as group:
                group.create_task(load.run())
                await ledger.advance(*BOTH)
                # It dies with sends of both kinds under way: one that comes later may know already that it is gone.
                servers.brokers[0].signal(signal.SIGSTOP)
                await ledger.reach(lambda: all(ledger.under_way[mode, "broker-a"] > 0 for mode in ANSWERED))
                await asyncio.to_thread(servers.brokers[0].kill)
                await ledger.reach(lambda: all(ledger.elsewhere[mode] > 0 for mode in ANSWERED))
                await ledger.advance("broker-b")
                await asyncio.to_thread(servers.names[0].kill)
                await ledger.advance("broker-b")
                # Only the name server that is left can tell them that the broker has returned.
                await asyncio.to_thread(servers.brokers[0].start)
                await ledger.advance(*BOTH)
                load.stop()
        assert set(ledger.failed.values()) == {"broker-a"}
        await check_stored(servers, ledger)


async def test_a_new_client_finds_its_way_past_a_dead_name_server_and_a_dead_broker(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers, asyncio.timeout(BOUND):
        await asyncio.to_thread(servers.names[0].kill)
        await asyncio.to_thread(servers.brokers[0].kill)

        async def gone() -> bool:
            return set(await route(servers.names[1]["namesrv"], "TBW102")) == {"broker-b"}

        await until(gone)
        addresses = ";".join(names["namesrv"] for names in servers.names)
        async with Producer("PG", namesrv=addresses, api_timeout=LIMIT) as producer:
            results = [await producer.send(Message("fresh", b"x"), timeout=LIMIT) for _ in range(4)]
        assert {result.queue.broker_name for result in results} == {"broker-b"}
