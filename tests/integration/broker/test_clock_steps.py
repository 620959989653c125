"""A wall clock that is set while a broker runs: locks and held requests last as long as they should."""

import asyncio
import time
from pathlib import Path

import pytest

from pyromq.broker.consume.pull import Puller
from pyromq.protocol.bodies.queues import LockBatchRequest, LockBatchResponse
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.message import MessageQueue
from tests.integration.broker.servers import Peer, consumer_of, standalone

HOUR = 3_600 * 10**9
QUEUE = MessageQueue("orders", "broker-a", 0)


def step_clock(monkeypatch: pytest.MonkeyPatch, by: int) -> None:
    true = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: true() + by)


async def lock(peer: Peer, client: str) -> bool:
    body = LockBatchRequest(client_id=client, consumer_group="g", mq_set=[QUEUE]).encode()
    answer = await peer.call(RequestCode.LOCK_BATCH_MQ, body=body)
    return QUEUE in LockBatchResponse.decode(answer.body).lock_ok_mq_set


async def test_a_lock_is_not_lost_when_the_clock_is_put_forward(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with standalone(tmp_path, broker_name="broker-a") as (_, peer):
        await peer.stored("orders")
        await peer.heartbeat("first", consumer=consumer_of("g", "orders"))
        assert await lock(peer, "first")
        step_clock(monkeypatch, HOUR)
        assert not await lock(peer, "second")
        assert await lock(peer, "first")


async def test_a_held_pull_is_answered_in_time_when_the_clock_is_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with standalone(tmp_path) as (broker, peer):
        await peer.stored("orders")
        held = asyncio.create_task(peer.pull("orders", 1, hold=1_000))
        while not len(broker.part(Puller).park):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)
        step_clock(monkeypatch, -HOUR)
        assert (await held).code == ResponseCode.PULL_NOT_FOUND
