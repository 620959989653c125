"""LOOK_AT_QUEUES: bounds of many queues in one answer, and one wait for all of them."""

import asyncio
from pathlib import Path

from pyromq.broker.broker import Broker
from pyromq.broker.consume.queuelooks import QueueLooks
from pyromq.protocol.bodies.offsets import QueueBounds, QueueLook, QueueRun
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.consume import LookAtQueuesHeader
from tests.integration.broker.servers import Peer, standalone, until

CODE = RequestCode.LOOK_AT_QUEUES


async def look(peer: Peer, *runs: QueueRun, hold: int | None = None) -> Command:
    return await peer.call(CODE, LookAtQueuesHeader(hold_millis=hold), body=QueueLook(runs=list(runs)).encode())


async def _held(broker: Broker, count: int) -> None:
    await until(lambda: len(broker.part(QueueLooks).park) == count)


async def test_bounds_and_store_times(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (_, peer):
        for number in range(3):
            await peer.send("orders", b"%d" % number, queue=2)
        stored = (await peer.pull("orders", 1, queue=2, count=1)).body
        answer = await look(
            peer,
            QueueRun(topic="orders", first=1, count=3, queues=[2, 2, 0], offsets=[1, 3, 0]),
            QueueRun(topic="unknown", count=2, queues=[0], offsets=[0]),
            QueueRun(topic="orders", count=-5),
        )
        assert answer.code == ResponseCode.SUCCESS
        orders, unknown, none = QueueBounds.decode(answer.body).runs
        assert (orders.lows, orders.highs) == ([0, 0, 0], [0, 3, 0])
        assert orders.times == [int.from_bytes(stored[56:64], "big"), -1, -1]
        assert (unknown.lows, unknown.highs, unknown.times) == ([0, 0], [0, 0], [-1])
        assert (none.lows, none.highs) == ([], [])
        too_many = await look(peer, QueueRun(topic="orders", count=60_000), QueueRun(topic="orders", count=60_000))
        assert too_many.code == ResponseCode.INVALID_PARAMETER
        assert (await peer.call(CODE, LookAtQueuesHeader())).code == ResponseCode.SUCCESS
        assert (await peer.call(CODE, LookAtQueuesHeader(), body=b"{")).code != ResponseCode.SUCCESS


async def test_one_wait_hears_of_whichever_queue_has_more(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        await peer.stored("orders")
        other = QueueRun(topic="others", count=2, ends=[0, 0])
        ahead = QueueRun(topic="orders", count=4, ends=[0, 0, 0, 0])
        assert (await look(peer, other, ahead, hold=60_000)).code == ResponseCode.SUCCESS  # at once
        even = QueueRun(topic="orders", count=4, ends=[1, 0, 0, 0])
        waiting = asyncio.ensure_future(look(peer, other, even, hold=60_000))
        await _held(broker, 1)
        await peer.send("orders", queue=3)
        assert (await waiting).code == ResponseCode.SUCCESS
        await _held(broker, 0)
        in_vain = await look(peer, other, hold=1)
        assert (in_vain.code, in_vain.body) == (ResponseCode.PULL_NOT_FOUND, b"")


async def test_a_wait_ends_with_its_connection_and_with_the_broker(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        run = QueueRun(topic="orders", count=1, ends=[0])
        async with Peer(peer.address) as gone:
            lost = asyncio.ensure_future(look(gone, run, hold=60_000))
            await _held(broker, 1)
            lost.cancel()
        await _held(broker, 0)
        waiting = asyncio.ensure_future(look(peer, run, hold=60_000))
        await _held(broker, 1)
        broker.part(QueueLooks).park.answer_all()
        assert (await waiting).code == ResponseCode.SUCCESS
