"""A client process that sends in every way there is: sync, async, batched, ordered, delayed, timed, transactional.

What is not acknowledged is not sent again: every message has one name and one fate. SIGUSR1 ends the sending, SIGTERM
the process; between them it answers for its transactions.
"""

import asyncio
import itertools
import signal
import time
from collections.abc import Awaitable, Callable
from typing import Any

from pyromq.aio import (
    ClientError,
    LocalTransactionState,
    Message,
    MessageQueue,
    Producer,
    ReceivedMessage,
    SendResult,
    TransactionProducer,
)
from tests.faults.harness.cluster import BROKERS
from tests.faults.harness.history import Acknowledged, Decided, Failed, Recorder, Rested, Sent
from tests.faults.harness.workload import QUEUES, TIMES, Job, announce, asked_by, name_in, number_of, payload, run

PAUSE = 0.03
AFTER_FAILURE = 0.1
MS = 1_000_000
SEND_TIMEOUT = 3.0

Send = Callable[[Any], Awaitable[SendResult]]
"""Takes a message, or several as a batch."""


class LocalTransactions:
    """A database whose transactions end by the number of a message: committed, rolled back, or only on being asked."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._ended: dict[str, bool] = {}

    async def execute(self, message: Message, _arg: Any) -> LocalTransactionState | None:
        name = name_in(message.body)
        state = self._end(name, commit=number_of(name) % 2 == 0)
        return LocalTransactionState.UNKNOWN if number_of(name) % 5 == 0 else state

    async def check(self, message: ReceivedMessage) -> LocalTransactionState | None:
        """What has not run yet will not: its half message was not acknowledged in time."""
        return self._end(name_in(message.body), commit=False)

    def _end(self, name: str, *, commit: bool) -> LocalTransactionState:
        """End it this way, unless it has ended already."""
        if name not in self._ended:
            self._ended[name] = commit
            self._recorder.write(Decided(id=name, commit=commit))
        return LocalTransactionState.COMMIT if self._ended[name] else LocalTransactionState.ROLLBACK


class Senders:
    """Loops that send until they are told to stop."""

    def __init__(self, job: Job, stop: asyncio.Event) -> None:
        self._recorder = job.recorder
        self._stop = stop

    async def loop(self, kind: str, topic: str, send: Send, size: int = 1, **facts: Any) -> None:
        """One message, or batch of this size, after the other, each message named after the kind."""
        numbers = itertools.count()
        while not self._stop.is_set():
            batch = [self._message(kind, topic, next(numbers), facts) for _ in range(size)]
            try:
                result = await send(batch[0] if size == 1 else batch)
            except ClientError as error:
                for message in batch:
                    self._recorder.write(
                        Failed(id=name_in(message.body), error=f"{type(error).__name__}: {error}"[:200])
                    )
                await asyncio.sleep(AFTER_FAILURE)
                continue
            for place, message in enumerate(batch, result.queue_offset):
                self._recorder.write(
                    Acknowledged(
                        id=name_in(message.body),
                        status=str(result.status),
                        broker=result.queue.broker_name,
                        queue=result.queue.queue_id,
                        offset=place,
                        placed=topic in {"plain", "ordered", "popped"},
                    )
                )
            await asyncio.sleep(PAUSE)

    def _message(self, kind: str, topic: str, number: int, facts: dict[str, Any]) -> Message:
        """The next message, noted as sent."""
        name = f"{kind}-{number}"
        begun = time.monotonic_ns()
        message = Message(topic, payload(name), keys=[name])
        delay = _delay(message, kind, number)
        self._recorder.write(Sent(t=begun, id=name, topic=topic, due=begun + delay * MS if delay else 0, **facts))
        return message


def _delay(message: Message, kind: str, number: int) -> int:
    """Delay the message if its kind is delayed; returns the milliseconds."""
    if kind == "level":
        message.delay_level = 1 + number % 3
        return message.delay_level * 1000
    if kind == "timed":
        delay = 500 + 370 * (number % 7)
        message.deliver_at_ms = time.time_ns() // MS + delay
        return delay - 1  # less than a millisecond was cut off above
    return 0


async def work(job: Job) -> None:
    options: dict[str, Any] = {
        **TIMES,
        "namesrv": job.name_servers,
        "instance_name": job.name,
        "send_timeout": SEND_TIMEOUT,
    }
    producer = Producer("producers", **options)
    transactional = TransactionProducer("transactions", LocalTransactions(job.recorder), **options)
    async with asked_by(signal.SIGTERM) as leave, asked_by(signal.SIGUSR1) as rest, producer, transactional:
        await _send_all(Senders(job, rest), producer, transactional)
        job.recorder.write(Rested())
        await leave.wait()


async def _send_all(senders: Senders, producer: Producer, transactional: TransactionProducer) -> None:
    async with asyncio.TaskGroup() as loops:

        def begin(kind: str, topic: str, send: Send, size: int = 1, **facts: Any) -> None:
            loops.create_task(senders.loop(kind, topic, send, size, **facts))

        begin("sync", "plain", producer.send)
        begin("async", "plain", producer.send_async)
        begin("batch", "plain", producer.send, size=3)
        begin("pop", "popped", producer.send)
        begin("level", "delayed", producer.send)
        begin("timed", "delayed", producer.send)
        begin("transaction", "transactions", transactional.send_in_transaction, transactional=True)
        for queue in (MessageQueue("ordered", broker, number) for broker in BROKERS for number in range(QUEUES)):
            stream = f"{queue.broker_name}-{queue.queue_id}"
            begin(f"ordered-{stream}", "ordered", _to(producer, queue), stream=stream)
        announce()


def _to(producer: Producer, queue: MessageQueue) -> Send:
    async def send(message: Message) -> SendResult:
        return await producer.send(message, queue=queue)

    return send


if __name__ == "__main__":
    run(work)
