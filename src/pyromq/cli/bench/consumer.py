"""`pyromq bench consumer`."""

import asyncio
import random
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from pyromq.cli.bench import run
from pyromq.cli.bench.figures import Figures
from pyromq.cli.connection import NameServers
from pyromq.cli.options import OnOff
from pyromq.cli.servers.flags import fail
from pyromq.client.consumer.push.consumer import PushConsumer
from pyromq.clock import wall_clock
from pyromq.protocol.bodies.enums import ConsumeFromWhere
from pyromq.protocol.message import ReceivedMessage
from pyromq.protocol.names import BENCHMARK_TOPIC


class FilterType(StrEnum):
    """What the expression is."""

    TAG = "TAG"
    SQL92 = "SQL92"


def consumer(
    topic: run.Topic = BENCHMARK_TOPIC,
    threads: Annotated[
        int, typer.Option("--threadCount", "-w", min=1, max=1000, help="Messages under way at a time.")
    ] = 20,
    group: Annotated[str, typer.Option("--group", "-g", help="Consumer group.")] = "benchmark_consumer",
    suffix: Annotated[
        OnOff, typer.Option("--groupPrefixEnable", "-p", help="Add a number to the name of the group.")
    ] = OnOff.TRUE,
    filter_type: Annotated[
        FilterType | None, typer.Option("--filterType", "-f", case_sensitive=False, help="Kind of the expression.")
    ] = None,
    expression: Annotated[
        Path | None, typer.Option("--expression", "-e", help="File that holds the filter expression.")
    ] = None,
    fail_rate: Annotated[
        float, typer.Option("--failRate", "-r", min=0.0, max=1.0, help="Share that is consumed again later.")
    ] = 0.0,
    trace: run.Trace = OnOff.FALSE,
    acl: run.Acl = OnOff.FALSE,
    access_key: run.AccessKey = None,
    secret_key: run.SecretKey = None,
    number: run.Number = 0,
    earliest: Annotated[
        bool, typer.Option("--from-earliest", help="A new group begins with the oldest message.")
    ] = False,
    seconds: run.Seconds = None,
    report: run.Report = 10.0,
    json: run.Json = False,
    namesrv: NameServers = None,
) -> None:
    """Consume messages and measure how old they are, since they were made (b2c) and since they were stored (s2c)."""
    signing = run.credentials(acl, access_key, secret_key)
    if (filter_type is None) != (expression is None):
        fail("a filter needs its kind (-f) and the file of its expression (-e)", code=2)
    try:
        text = expression.read_text().strip() if expression is not None else None
    except (OSError, UnicodeDecodeError) as error:
        fail(f"the filter expression cannot be read: {error}")
    begin = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET if earliest else ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    name = f"{group}_{wall_clock() % 100}" if suffix else group

    async def work(figures: Figures, options: dict[str, Any]) -> None:
        enough = asyncio.Event()
        reader = PushConsumer(
            name,
            consume_thread_min=threads,
            consume_thread_max=threads,
            consume_from=begin,
            enable_trace=bool(trace),
            **signing,
            **options,
        )
        if filter_type is FilterType.SQL92:
            reader.subscribe(topic, sql=text)
        else:
            reader.subscribe(topic, tags=text)

        @reader.listen
        async def take(message: ReceivedMessage) -> bool:
            now = time.time()
            if not figures.messages:
                figures.began = figures.clock()  # the first message: what came before was waiting
            figures.messages += 1
            figures.size = len(message.body)
            figures.latency("b2c").add(max(0.0, now - message.born_timestamp / 1000))
            figures.latency("s2c").add(max(0.0, now - message.store_timestamp / 1000))
            if number and figures.messages >= number:
                enough.set()
            if fail_rate and random.random() < fail_rate:
                figures.count("sentBack")
                return False
            return True

        async with reader:
            await enough.wait()

    run.run(run.Plan(number, seconds, report, json), namesrv, work)
