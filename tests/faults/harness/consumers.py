"""A client process that is a member of every group, until SIGTERM. Some messages fail at first, and come again."""

import asyncio
import contextlib
import signal
from contextlib import AsyncExitStack
from typing import Any

from pyromq.aio import ConsumeFromWhere, PullConsumer, PushConsumer, ReceivedMessage
from tests.faults.harness.history import Consumed, Delivered
from tests.faults.harness.workload import (
    GROUPS,
    TIMES,
    Group,
    Job,
    announce,
    asked_by,
    name_in,
    number_of,
    payload,
    run,
)

REFUSED = 23
"""Every message whose number is a multiple of it fails the first time."""
CONSUMING = 0.002


class Member:
    """One consumer's listener, and what it tells the history."""

    def __init__(self, job: Job, group: Group) -> None:
        self._job = job
        self._group = group
        self._refused: set[str] = set()

    async def listen(self, message: ReceivedMessage) -> bool:
        name = self.note(message)
        await asyncio.sleep(CONSUMING)
        if number_of(name) % REFUSED == 0 and message.reconsume_times == 0 and name not in self._refused:
            self._refused.add(name)
            return False
        if self._group.mode == "orderly":
            self._job.recorder.write(Consumed(**self._place(message)))
        return True

    def note(self, message: ReceivedMessage) -> str:
        """Write down that it came; returns its name."""
        name = name_in(message.body)
        self._job.recorder.write(
            Delivered(
                id=name,
                member=self._job.name,
                attempt=message.reconsume_times if self._group.mode != "orderly" else 0,
                sound=bytes(message.body) == payload(name),
                **self._place(message),
            )
        )
        return name

    def _place(self, message: ReceivedMessage) -> dict[str, Any]:
        return {
            "group": self._group.name,
            "topic": message.topic,
            "broker": message.broker_name,
            "queue": message.queue_id,
            "offset": message.queue_offset,
        }


def common(job: Job) -> dict[str, Any]:
    return {
        **TIMES,
        "namesrv": job.name_servers,
        "instance_name": job.name,
        "consume_from": ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        "rebalance_interval": 2.0,
    }


def push_consumer(job: Job, group: Group) -> PushConsumer:
    options: dict[str, Any] = {
        "lock_interval": 2.0,
        "suspend_time": 0.1,
        "first_pull_delay": 0.2,
        "local_retry_delay": 1.0,
        "pop_invisible_time": 5.0,
        "client_rebalance": group.mode != "pop",
    }
    member = PushConsumer(group.name, **common(job), **options)
    member.subscribe(group.topic)
    member.listen(Member(job, group).listen, orderly=group.mode == "orderly")
    return member


async def pull(job: Job, group: Group) -> None:
    """Take messages one by one; each counts as done when the next one is asked for."""
    async with PullConsumer(group.name, auto_commit_interval=0.5, **common(job)) as consumer:
        consumer.subscribe(group.topic)
        member = Member(job, group)
        async for message in consumer:
            member.note(message)


async def work(job: Job) -> None:
    async with asked_by(signal.SIGTERM) as stop, AsyncExitStack() as members:
        for group in GROUPS:
            if group.mode == "pull":
                members.push_async_callback(_cancel, asyncio.create_task(pull(job, group)))
            else:
                await members.enter_async_context(push_consumer(job, group))
        announce()
        await stop.wait()


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


if __name__ == "__main__":
    run(work)
