"""`pyromq bench transaction`."""

import asyncio
import random
import time
from typing import Annotated, Any

import typer

from pyromq.cli.bench import run as running
from pyromq.cli.bench.figures import Figures
from pyromq.cli.connection import NameServers
from pyromq.cli.options import OnOff
from pyromq.client.producer.results import LocalTransactionState
from pyromq.client.producer.transaction import TransactionProducer
from pyromq.clock import wall_clock
from pyromq.protocol.message import Message, ReceivedMessage
from pyromq.protocol.names import BENCHMARK_TOPIC

RATE = {"min": 0.0, "max": 1.0}


class Dice:
    """The local transactions: their outcomes are thrown, at the send and at each check."""

    def __init__(
        self, figures: Figures, run: str, *, rollback: float, unknown: float, check: tuple[float, float]
    ) -> None:
        self._figures = figures
        self._run = run
        self._send = (rollback, unknown)
        self._check = check

    def execute(self, _message: Message, _arg: Any) -> LocalTransactionState:
        return self._throw(*self._send)

    def check(self, message: ReceivedMessage) -> LocalTransactionState:
        if message.properties.get("run") != self._run:
            return LocalTransactionState.ROLLBACK  # what an earlier run left behind
        self._figures.count("checks")
        return self._throw(*self._check)

    def _throw(self, rollback: float, unknown: float) -> LocalTransactionState:
        chance = random.random()
        if chance < rollback:
            return LocalTransactionState.ROLLBACK
        return LocalTransactionState.UNKNOWN if chance < rollback + unknown else LocalTransactionState.COMMIT


def transaction(
    topic: running.Topic = BENCHMARK_TOPIC,
    threads: running.Threads = 32,
    size: running.Size = 2048,
    send_rollback: Annotated[float, typer.Option("--sendRollbackRate", "-sr", help="Share rolled back.", **RATE)] = 0.0,
    send_unknown: Annotated[float, typer.Option("--sendUnknownRate", "-su", help="Share left open.", **RATE)] = 0.0,
    check_rollback: Annotated[
        float, typer.Option("--checkRollbackRate", "-cr", help="Share of checks that roll back.", **RATE)
    ] = 0.0,
    check_unknown: Annotated[
        float, typer.Option("--checkUnknownRate", "-cu", help="Share of checks that leave it open.", **RATE)
    ] = 0.0,
    batch_id: Annotated[
        str | None, typer.Option("--batchId", "-b", help="Name of this run; checks about others roll back.")
    ] = None,
    interval: Annotated[int, typer.Option("--sendInterval", "-i", min=0, metavar="ms", help="Pause after a send.")] = 0,
    acl: running.Acl = OnOff.FALSE,
    access_key: running.AccessKey = None,
    secret_key: running.SecretKey = None,
    number: running.Number = 0,
    seconds: running.Seconds = None,
    report: running.Report = 10.0,
    json: running.Json = False,
    namesrv: NameServers = None,
) -> None:
    """Send messages in transactions and measure how long each takes, half message to end."""
    signing = running.credentials(acl, access_key, secret_key)
    run = batch_id or str(wall_clock())
    make = running.Making(topic, size, keys=False, properties=0, tags=0)

    async def work(figures: Figures, options: dict[str, Any]) -> None:
        figures.size = size
        dice = Dice(figures, run, rollback=send_rollback, unknown=send_unknown, check=(check_rollback, check_unknown))
        group = "benchmark_transaction_producer"
        async with TransactionProducer(group, dice, compress_over=2**31 - 1, **signing, **options) as sender:

            async def step() -> None:
                message = make()
                message.put_property("run", run)
                began = time.perf_counter()
                result = await sender.send_in_transaction(message)
                figures.latency("rt").add(time.perf_counter() - began)
                figures.messages += 1
                figures.count(result.local_state.name.lower())
                if interval:
                    await asyncio.sleep(interval / 1000)

            await running.workers(threads, number, step, figures)

    running.run(running.Plan(number, seconds, report, json), namesrv, work)
