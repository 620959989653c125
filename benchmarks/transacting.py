"""Committed transactions beside plain sends, by the same client on a broker in a process of its own.

python -m benchmarks.transacting [--json]

A transaction is two records and two requests where a plain send is one of each, so half the rate would be all there is.
"""

import asyncio
import json
import sys
import tempfile
import time
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable

from benchmarks.report import Figure, arguments, show
from pyromq.aio import LocalTransactionState, Message, TransactionListener, TransactionProducer

TOPIC = "transacted"
MESSAGES = 2_000
AT_ONCE = 64
ROUNDS = 3


class Commit(TransactionListener):
    """Says yes to everything."""

    def execute(self, message: Message, arg: object) -> LocalTransactionState:  # noqa: ARG002 - the contract
        return LocalTransactionState.COMMIT

    def check(self, message: Message) -> LocalTransactionState:  # noqa: ARG002 - the contract
        return LocalTransactionState.COMMIT


async def _rate(send: Callable[[Message], Awaitable[object]]) -> float:
    """Messages a second with some of them under way at a time."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one() -> None:
        async with room:
            await send(Message(TOPIC, b"x" * 128))

    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(MESSAGES):
            group.create_task(one())
    return MESSAGES / (time.perf_counter() - started)


async def _measure(namesrv: str, rounds: int) -> dict[str, Figure]:
    plain = transacted = 0.0
    async with TransactionProducer("bench-transactions", Commit(), namesrv=namesrv) as producer:
        await producer.send(Message(TOPIC, b"creates the topic"))
        for _ in range(rounds):
            plain = max(plain, await _rate(producer.send))
            transacted = max(transacted, await _rate(producer.send_in_transaction))
    return {
        "plain_sends_per_second": plain,
        "transactions_per_second": transacted,
        "transactions_share_of_plain_sends": transacted / plain,
    }


async def transaction_rates(rounds: int = ROUNDS) -> dict[str, Figure]:
    """Start a broker, measure, stop it."""
    with tempfile.TemporaryDirectory(prefix="pyromq-bench-") as folder:
        command = ["-m", "pyromq", "standalone", "--data", folder, "--json", "--log-level", "error"]
        ports = ["--namesrv-port", "0", "--broker-port", "0", "--http-port", "-1"]
        process = await asyncio.create_subprocess_exec(sys.executable, *command, *ports, stdout=PIPE)
        assert process.stdout is not None
        try:
            return await _measure(json.loads(await process.stdout.readline())["namesrv"], rounds)
        finally:
            process.terminate()
            await process.wait()


def main() -> None:
    """Entry point."""
    options = arguments("Committed transactions beside plain sends.", rounds=ROUNDS)
    show("transacting", asyncio.run(transaction_rates(options.rounds)), as_json=options.json)


if __name__ == "__main__":
    main()
