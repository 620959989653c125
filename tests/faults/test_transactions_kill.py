"""kill -9 between the steps of transactions: nothing that was stored is lost, nothing is visible twice or wrongly.

The producer of these tests decides by the number of a message whether it is committed, and gives that answer whenever
it is asked; so in the end exactly the even ones must be there.
"""

import asyncio
import random
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.handles.ids import parse_offset_message_id
from pyromq.protocol.headers.callbacks import CheckTransactionStateHeader
from pyromq.protocol.headers.consume import (
    GetMaxOffsetHeader,
    GetMaxOffsetResponseHeader,
    QueryConsumerOffsetHeader,
    QueryConsumerOffsetResponseHeader,
)
from pyromq.protocol.headers.send import EndTransactionHeader, SendMessageResponseHeader
from pyromq.protocol.names import (
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
    TRANSACTION_GROUP,
)
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.record import decode_record
from pyromq.remoting.connection import Connection
from pyromq.remoting.errors import RemotingError
from tests.integration.broker.servers import Peer

ROOT = Path(__file__).parents[2]
GROUP = "orders-service"
TOPIC = "orders"


@asynccontextmanager
async def broker(home: Path, *fate: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """A broker process and its address; killed at the end if it still lives."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.faults.transactionbroker",
        str(home),
        *fate,
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    try:
        assert process.stdout is not None
        line = await process.stdout.readline()
        assert line, "the broker did not start"
        yield process, line.decode().strip()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
    assert process.returncode == -signal.SIGKILL, "the broker ended by itself"


class Producer(Peer):
    """Commits what has an even number; `acknowledged` are the numbers of half messages that are surely stored."""

    def __init__(self, address: str, acknowledged: set[int]) -> None:
        super().__init__(address, {RequestCode.CHECK_TRANSACTION_STATE: self._check})
        self.acknowledged = acknowledged

    async def transact(self, number: int) -> None:
        """One transaction, as far as the broker lives."""
        answer = await self.send(TOPIC, str(number).encode(), TRAN_MSG="true", PGROUP=GROUP, UNIQ_KEY=f"u{number}")
        if answer.code == ResponseCode.SUCCESS:
            self.acknowledged.add(number)
            half = answer.header(SendMessageResponseHeader)
            physical = parse_offset_message_id(half.msg_id).physical_offset
            await self.call(RequestCode.END_TRANSACTION, ending(number, half.queue_offset, physical, from_check=False))

    async def numbers(self) -> list[int]:
        """What is visible, in order."""
        found: list[int] = []
        while messages := await self.messages(TOPIC, len(found)):
            found += [int(message.body) for message in messages]
        return found

    async def all_ended(self) -> None:
        """Wait until the broker has dealt with all of the half queue."""
        end = await self.call(RequestCode.GET_MAX_OFFSET, GetMaxOffsetHeader(topic=TRANS_HALF_TOPIC, queue_id=0))
        wanted = end.header(GetMaxOffsetResponseHeader).offset
        place = QueryConsumerOffsetHeader(consumer_group=TRANSACTION_GROUP, topic=TRANS_HALF_TOPIC, queue_id=0)
        reached = -1
        while reached < wanted:
            await asyncio.sleep(0.02)
            answer = await self.call(RequestCode.QUERY_CONSUMER_OFFSET, place)
            if answer.code == ResponseCode.SUCCESS:
                reached = answer.header(QueryConsumerOffsetResponseHeader).offset

    @staticmethod
    def _check(request: Command, connection: Connection) -> None:
        header = request.header(CheckTransactionStateHeader)
        end = ending(
            int(decode_record(request.body).body),
            header.tran_state_table_offset,
            header.commit_log_offset,
            from_check=True,
        )
        connection.send(Command.request(RequestCode.END_TRANSACTION, end, oneway=True))


def ending(number: int, queue_offset: int, physical_offset: int, *, from_check: bool) -> EndTransactionHeader:
    return EndTransactionHeader(
        producer_group=GROUP,
        tran_state_table_offset=queue_offset,
        commit_log_offset=physical_offset,
        commit_or_rollback=sysflag.ROLLBACK if number % 2 else sysflag.COMMIT,
        from_transaction_check=from_check,
        msg_id="",
    )


async def work(address: str, acknowledged: set[int], numbers: range, process: asyncio.subprocess.Process) -> None:
    """Send transactions until all are through or the broker is dead."""
    async with Producer(address, acknowledged) as producer:
        try:
            await producer.heartbeat("c1", producer=GROUP)
            for first in range(numbers.start, numbers.stop, 16):
                batch = range(first, min(first + 16, numbers.stop))
                outcomes = await asyncio.gather(*map(producer.transact, batch), return_exceptions=True)
                for outcome in outcomes:
                    if isinstance(outcome, BaseException):
                        raise outcome
        except RemotingError:
            await process.wait()


async def settle(home: Path, acknowledged: set[int]) -> list[int]:
    """Start the broker again and let it ask until no transaction is open; returns what is visible then."""
    async with broker(home) as (_, address), Producer(address, acknowledged) as producer:
        await producer.heartbeat("c1", producer=GROUP)
        await producer.all_ended()
        return await producer.numbers()


def judge(visible: list[int], acknowledged: set[int]) -> None:
    assert len(visible) == len(set(visible)), "a message is visible twice"
    assert not [number for number in visible if number % 2], "a message is visible that was rolled back"
    assert {number for number in acknowledged if number % 2 == 0} <= set(visible), "a committed message is lost"


@pytest.mark.parametrize(
    ("step", "number"),
    [
        (TRANS_HALF_TOPIC, 5),  # before a half message is stored
        (TOPIC, 4),  # half message stored, its commit not
        (TRANS_OP_HALF_TOPIC, 1),  # committed, but not noted that it was: the first, a later one
        (TRANS_OP_HALF_TOPIC, 9),
        (TRANS_OP_HALF_TOPIC, 10),
    ],
)
async def test_killed_between_two_steps(tmp_path: Path, step: str, number: int) -> None:
    acknowledged: set[int] = set()
    async with broker(tmp_path, step, str(number)) as (process, address):
        await work(address, acknowledged, range(24), process)
        assert process.returncode == -signal.SIGKILL, "the step was not reached"
    judge(await settle(tmp_path, acknowledged), acknowledged)


@pytest.mark.parametrize("step", [TRANS_CHECK_MAX_TIME_TOPIC, TRANS_OP_HALF_TOPIC])
async def test_killed_while_giving_up(tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nobody knows the outcome: before the message is put aside, and before that is noted.
    monkeypatch.setenv("CHECKS", "1")
    async with broker(tmp_path, step, "1") as (process, address), Producer(address, set()) as producer:
        await producer.send(TOPIC, b"0", TRAN_MSG="true", PGROUP="nobody", UNIQ_KEY="u0")
        await process.wait()
    async with broker(tmp_path) as (_, address), Producer(address, set()) as producer:
        await producer.all_ended()
        assert len(await producer.messages(TRANS_CHECK_MAX_TIME_TOPIC)) == 1
        assert await producer.numbers() == []


async def test_killed_at_any_time(tmp_path: Path, long_run: bool) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201 - shown when the test fails
    rng = random.Random(seed)
    acknowledged: set[int] = set()
    steps = (TRANS_HALF_TOPIC, TOPIC, TRANS_OP_HALF_TOPIC)
    for life in range(20 if long_run else 6):
        async with broker(tmp_path, rng.choice(steps), str(rng.randint(1, 120))) as (process, address):
            await work(address, acknowledged, range(life * 1000, life * 1000 + 300), process)
    judge(await settle(tmp_path, acknowledged), acknowledged)
