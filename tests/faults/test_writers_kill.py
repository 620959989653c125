"""A writer at a broker that is killed (-9) again and again: what has no answer is sent again, and all is there once.

Two lanes write to two queues each, several batches under way at a time. The run stays the same over all lives of the
broker; one that was replaced before the first kill never gets a message in. Files of the log are small, so that the
table of writers is written down several times, too.
"""

import asyncio
import random
from pathlib import Path

import pytest

from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.handles.writer import Place
from pyromq.protocol.names import WRITERS_TOPIC
from pyromq.remoting.errors import RemotingError
from tests.faults.test_transactions_kill import broker
from tests.integration.broker.servers import Peer
from tests.integration.broker.writing import TOPIC, begin, items, open_lane, send

LANES = QUEUES = 2
SIZE = 5
"""Messages of a batch."""
WINDOW = 4
PADDING = "x" * 500
BUSY = {ResponseCode.OUT_OF_SEQUENCE, ResponseCode.SYSTEM_BUSY, ResponseCode.FLUSH_DISK_TIMEOUT}


class Job:
    """A writer that outlives brokers. `acknowledged` counts the messages of each lane and queue."""

    def __init__(self) -> None:
        self.replaced = 0
        self.run = 0
        self.acknowledged = {(lane, queue): 0 for lane in range(LANES) for queue in range(QUEUES)}

    async def work(self, address: str, target: int) -> None:
        """Go on until each lane has so many messages in each queue. Raises RemotingError when the broker dies."""
        async with Peer(address) as peer:
            if not self.run:
                await peer.stored(TOPIC)
                self.replaced = await begin(peer)
                await open_lane(peer, self.replaced)
                self.run = await begin(peer)
            for lane in range(LANES):
                await open_lane(peer, self.run, lane)
            zombie = Place(self.replaced, 0, 0)
            assert (await send(peer, zombie, items(zombie, ["zombie"]))).code == ResponseCode.NO_PERMISSION
            for stream in self.acknowledged:
                await self._repeat(peer, *stream)
            while min(self.acknowledged.values()) < target:
                await asyncio.gather(*(self._advance(peer, *stream, target) for stream in self.acknowledged))

    async def _advance(self, peer: Peer, lane: int, queue: int, target: int) -> None:
        """Some batches, under way together."""
        first = self.acknowledged[lane, queue]
        starts = range(first, min(first + WINDOW * SIZE, target), SIZE)
        answers = await asyncio.gather(
            *(self._batch(peer, lane, queue, start) for start in starts), return_exceptions=True
        )
        for start, answer in zip(starts, answers, strict=True):
            if isinstance(answer, BaseException):
                raise answer
            if answer.code == ResponseCode.SUCCESS:
                assert self.acknowledged[lane, queue] == start, "a batch was taken before the one that it follows"
                self.acknowledged[lane, queue] += SIZE
            else:
                assert answer.code in BUSY, answer.remark

    async def _repeat(self, peer: Peer, lane: int, queue: int) -> None:
        """Send the last that was acknowledged once more."""
        if start := self.acknowledged[lane, queue]:
            answer = await self._batch(peer, lane, queue, start - SIZE)
            assert answer.code == ResponseCode.SUCCESS, answer.remark

    async def _batch(self, peer: Peer, lane: int, queue: int, start: int) -> Command:
        place = Place(self.run, lane, 0, queue, start)
        return await send(peer, place, items(place, [f"{lane} {start + number} {PADDING}" for number in range(SIZE)]))


async def check(address: str, target: int) -> None:
    """Everything is there, in order, and nothing else."""
    async with Peer(address) as peer:
        for queue in range(QUEUES):
            found: list[bytes] = []
            while messages := await peer.messages(TOPIC, len(found), queue=queue):
                found += [message.body for message in messages]
            words = [body.decode().split() for body in found if body != b"hello"]
            for lane in range(LANES):
                numbers = [int(number) for owner, number, _ in words if owner == str(lane)]
                assert numbers == list(range(target))
            assert len(words) == LANES * target


@pytest.mark.parametrize(
    ("step", "number"),
    [
        (WRITERS_TOPIC, 1),  # before a run begins, before another does
        (WRITERS_TOPIC, 3),
        (WRITERS_TOPIC, 5),  # one lane is open, the other is not
        (TOPIC, 2),  # the first batch
        (TOPIC, 9),  # some are stored, and their answers may be under way
    ],
)
async def test_killed_before_a_step(tmp_path: Path, step: str, number: int) -> None:
    job = Job()
    async with broker(tmp_path, step, str(number)) as (process, address):
        with pytest.raises(RemotingError):
            await job.work(address, 100)
        await process.wait()
    async with broker(tmp_path) as (_, address):
        await job.work(address, 100)
        await check(address, 100)


async def test_killed_at_any_time(tmp_path: Path, long_run: bool) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201 - shown when the test fails
    rng = random.Random(seed)
    job, target = Job(), 0
    for _ in range(20 if long_run else 4):
        target += 250
        async with broker(tmp_path, TOPIC, str(rng.randint(1, 190))) as (process, address):
            with pytest.raises(RemotingError):
                await job.work(address, target)
            await process.wait()
    async with broker(tmp_path) as (_, address):
        await job.work(address, target)
        await check(address, target)
