"""A member of a group that is killed (-9): the others have its queues soon, in order where order was asked for."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

import pytest

from pyromq.aio import Message, Producer
from tests import processes

QUEUES = 4
SOON = 30.0
"""Half of what a lock lasts that nobody renews."""


class Member:
    """A process of `groupmember`, with the offsets that it got of each queue."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.got: dict[int, list[int]] = {}
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, *arguments: str) -> Self:
        command = (sys.executable, "-m", "tests.faults.groupmember", *arguments)
        return cls(await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE))

    async def kill(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()
        await self._listening

    async def _listen(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            queue, offset = map(int, line.split())
            self.got.setdefault(queue, []).append(offset)


@asynccontextmanager
async def load(namesrv: str) -> AsyncIterator[None]:
    """Send a message to each queue every few milliseconds while the block runs."""

    async def work() -> None:
        async with Producer("load", namesrv=namesrv, default_topic_queues=QUEUES) as producer:
            await producer.send(Message("orders", b"x"))
            while True:
                for queue in await producer.publish_queues("orders"):
                    await producer.send(Message("orders", b"x"), queue=queue)
                await asyncio.sleep(0.005)

    task = asyncio.create_task(work())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(condition: Callable[[], bool], seconds: float = processes.BOUND, *, every: float = 0.01) -> None:
    """Wait for something that the members bring about."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what is waited for sets no event
            await asyncio.sleep(every)


def shared(first: Member, second: Member) -> bool:
    """Whether each of the two gets its half now."""
    halves = [set(member.got) for member in (first, second)]
    for member in (first, second):
        member.got.clear()
    return len(halves[0]) == len(halves[1]) == QUEUES // 2 and halves[0].isdisjoint(halves[1])


@pytest.mark.parametrize("kind", ["concurrent", "orderly"])
async def test_the_queues_of_a_killed_member_are_taken_over_soon(tmp_path: Path, kind: str) -> None:
    server = processes.standalone(tmp_path)
    await asyncio.to_thread(server.start)
    members: list[Member] = []
    try:
        async with load(server["namesrv"]):
            members += [await Member.start(server["namesrv"], "g", "orders", kind) for _ in range(2)]
            dead, survivor = members
            await until(lambda: shared(dead, survivor), every=0.5)
            await until(lambda: len(dead.got) == QUEUES // 2)
            await dead.kill()
            await until(lambda: len(survivor.got) == QUEUES, SOON)
            for queue, offsets in dead.got.items():
                assert survivor.got[queue][0] <= offsets[-1] + 1  # nothing is passed over
                if kind == "orderly":
                    assert survivor.got[queue] == sorted(survivor.got[queue])
    finally:
        for member in members:
            await member.kill()
        server.kill()
