"""`pyromq bench producer` and `pyromq bench batch`."""

import time
from typing import Annotated, Any

import typer

from pyromq.cli.bench import run
from pyromq.cli.bench.figures import Figures
from pyromq.cli.connection import NameServers
from pyromq.cli.options import OnOff
from pyromq.client.producer.producer import Producer
from pyromq.client.producer.results import SendStatus
from pyromq.protocol.names import BENCHMARK_TOPIC

NEVER = 2**31 - 1
"""Bodies are not compressed, as in RocketMQ's benchmark."""


def producer(
    topic: run.Topic = BENCHMARK_TOPIC,
    threads: run.Threads = 64,
    size: run.Size = 128,
    keys: run.Keys = OnOff.FALSE,
    properties: run.Properties = 0,
    tags: run.Tags = 0,
    trace: run.Trace = OnOff.FALSE,
    acl: run.Acl = OnOff.FALSE,
    access_key: run.AccessKey = None,
    secret_key: run.SecretKey = None,
    number: run.Number = 0,
    delay: Annotated[OnOff, typer.Option("--delayEnable", "-d", help="Send delayed messages.")] = OnOff.FALSE,
    delay_level: Annotated[int, typer.Option("--delayLevel", "-e", min=1, max=18, help="Their level.")] = 1,
    asynchronous: Annotated[
        OnOff, typer.Option("--asyncEnable", "-y", help="As asynchronous sends: not retried in place.")
    ] = OnOff.FALSE,
    seconds: run.Seconds = None,
    report: run.Report = 10.0,
    json: run.Json = False,
    namesrv: NameServers = None,
) -> None:
    """Send messages, so many at a time, and measure how long each takes."""
    signing = run.credentials(acl, access_key, secret_key)
    make = run.Making(
        topic,
        size,
        keys=bool(keys),
        properties=properties,
        tags=tags,
        delay_level=delay_level if delay else 0,
    )

    async def work(figures: Figures, options: dict[str, Any]) -> None:
        figures.size = size
        async with Producer(
            "benchmark_producer", enable_trace=bool(trace), compress_over=NEVER, **signing, **options
        ) as sender:
            send = sender.send_async if asynchronous else sender.send

            async def step() -> None:
                began = time.perf_counter()
                result = await send(make())
                figures.latency("rt").add(time.perf_counter() - began)
                _count(figures, result.status, 1)

            await run.workers(threads, number, step, figures)

    run.run(run.Plan(number, seconds, report, json), namesrv, work)


def batch(
    topic: run.Topic = BENCHMARK_TOPIC,
    threads: run.Threads = 64,
    size: run.Size = 128,
    batch_size: Annotated[int, typer.Option("--batchSize", "-b", min=1, max=10_000, help="Messages of a batch.")] = 16,
    keys: run.Keys = OnOff.FALSE,
    properties: run.Properties = 0,
    tags: run.Tags = 0,
    trace: run.Trace = OnOff.FALSE,
    acl: run.Acl = OnOff.FALSE,
    access_key: run.AccessKey = None,
    secret_key: run.SecretKey = None,
    number: run.Number = 0,
    seconds: run.Seconds = None,
    report: run.Report = 10.0,
    json: run.Json = False,
    namesrv: NameServers = None,
) -> None:
    """Send batches of messages, so many at a time, and measure how long each batch takes."""
    signing = run.credentials(acl, access_key, secret_key)
    make = run.Making(topic, size, keys=bool(keys), properties=properties, tags=tags)

    async def work(figures: Figures, options: dict[str, Any]) -> None:
        figures.size = size
        async with Producer(
            "benchmark_batch_producer", enable_trace=bool(trace), compress_over=NEVER, **signing, **options
        ) as sender:

            async def step() -> None:
                messages = [make() for _ in range(batch_size)]
                began = time.perf_counter()
                result = await sender.send(messages)
                figures.latency("rt").add(time.perf_counter() - began)
                _count(figures, result.status, batch_size)

            batches = -(-number // batch_size)
            await run.workers(threads, batches, step, figures)

    run.run(run.Plan(number, seconds, report, json), namesrv, work)


def _count(figures: Figures, status: SendStatus, number: int) -> None:
    """A message that is stored but not as safely as asked for is counted apart, as RocketMQ's benchmark does."""
    figures.messages += number
    if status is not SendStatus.SEND_OK:
        figures.count(str(status), number)
