"""How benchmarks run: workers on one event loop until enough was done, a line now and then, figures at the end."""

import asyncio
import contextlib
import itertools
import random
import string
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from pyromq.cli.bench.figures import Figures
from pyromq.cli.connection import client_options
from pyromq.cli.options import OnOff
from pyromq.cli.output import Record, show
from pyromq.cli.servers.flags import fail
from pyromq.cli.servers.foreground import loop_factory
from pyromq.errors import PyroMQError
from pyromq.protocol.message import Message

PAUSE_AFTER_FAILURE = 1.0

Topic = Annotated[str, typer.Option("--topic", "-t", help="Topic; brokers make this one by themselves.")]
Threads = Annotated[int, typer.Option("--threadCount", "-w", min=1, max=10_000, help="Sends under way at a time.")]
Size = Annotated[int, typer.Option("--messageSize", "-s", min=1, max=4 * 1024 * 1024, help="Bytes of a body.")]
Keys = Annotated[OnOff, typer.Option("--keyEnable", "-k", help="Give messages keys.")]
Properties = Annotated[int, typer.Option("--propertySize", "-p", min=0, max=32_000, help="Bytes of properties.")]
Tags = Annotated[int, typer.Option("--tagCount", "-l", min=0, help="Different tags.")]
Trace = Annotated[OnOff, typer.Option("--msgTraceEnable", "-m", help="Write traces.")]
Acl = Annotated[OnOff, typer.Option("--aclEnable", "-a", help="Sign requests with -ak and -sk.")]
AccessKey = Annotated[str | None, typer.Option("--accessKey", "-ak", help="Access key.")]
SecretKey = Annotated[
    str | None,
    typer.Option(
        "--secretKey",
        "-sk",
        envvar="PYROMQ_SECRET_KEY",
        show_envvar=False,
        help="Secret key; others can see it in the list of processes, so better use the variable PYROMQ_SECRET_KEY.",
    ),
]
Number = Annotated[
    int, typer.Option("--messageQuantity", "-q", min=0, help="Stop after so many; 0 continues until Ctrl-C.")
]
Seconds = Annotated[float | None, typer.Option("--seconds", min=0.1, help="Stop after so long.")]
Report = Annotated[float, typer.Option("--report", min=0.1, metavar="seconds", help="Time between lines.")]
Json = Annotated[bool, typer.Option("--json", help="Print the figures as JSON, and nothing else.")]


@dataclass(frozen=True, slots=True)
class Plan:
    """When to stop, and what to say."""

    number: int = 0
    seconds: float | None = None
    report: float = 10.0
    json: bool = False


def credentials(acl: OnOff, access_key: str | None, secret_key: str | None) -> dict[str, Any]:
    """The options of a client that signs."""
    if not acl:
        return {}
    if not access_key or not secret_key:
        fail("-a true needs an access key (-ak) and a secret key (-sk)", code=2)
    return {"access_key": access_key, "secret_key": secret_key}


def run(plan: Plan, namesrv: str | None, work: Callable[[Figures, dict[str, Any]], Awaitable[None]]) -> None:
    """Run a benchmark to its end or until Ctrl-C, then print its figures. Exit code 1 when nothing worked."""
    figures = Figures(time.perf_counter)
    try:
        options = client_options(namesrv)
        with (
            contextlib.suppress(KeyboardInterrupt, TimeoutError),
            asyncio.Runner(loop_factory=loop_factory()) as runner,
        ):
            runner.run(_timed(plan, figures, work(figures, options)))
    except (PyroMQError, OSError) as error:
        fail(str(error))
    show(Record(figures.summary()), json=plan.json)
    if figures.failed and not figures.messages:
        fail(f"nothing worked: {figures.last_error}")


async def _timed(plan: Plan, figures: Figures, work: Awaitable[None]) -> None:
    reporter = asyncio.create_task(_report(plan, figures))
    try:
        async with asyncio.timeout(plan.seconds):
            await work
    finally:
        reporter.cancel()


async def _report(plan: Plan, figures: Figures) -> None:
    while not plan.json:
        await asyncio.sleep(plan.report)
        typer.echo(figures.line(), err=True)


async def workers(number: int, limit: int, step: Callable[[], Awaitable[None]], figures: Figures) -> None:
    """Let `number` tasks do a step again and again, until they have done so `limit` times (0: no limit).

    A step that fails is counted, and its worker waits a little.
    """
    figures.began = figures.clock()
    begun = itertools.count()

    async def one() -> None:
        while not limit or next(begun) < limit:
            try:
                await step()
            except PyroMQError as error:
                figures.fail(error)
                await asyncio.sleep(PAUSE_AFTER_FAILURE)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(number, limit) if limit else number):
            group.create_task(one())


class Making:
    """Messages with a random body, made as the options say."""

    def __init__(self, topic: str, size: int, *, keys: bool, properties: int, tags: int, delay_level: int = 0) -> None:
        self._topic = topic
        self._body = "".join(random.choices(string.ascii_letters + string.digits, k=size)).encode()
        self._keys = keys
        self._tags = tags
        self._delay_level = delay_level
        self._made = itertools.count()
        self._properties: dict[str, str] = {}
        while sum(len(name) + len(value) for name, value in self._properties.items()) < properties:
            self._properties[f"prop{len(self._properties)}"] = f"hello{random.randrange(100)}"

    def __call__(self) -> Message:
        number = next(self._made)
        return Message(
            self._topic,
            self._body,
            keys=[str(number)] if self._keys else (),
            tags=f"tag{number % self._tags}" if self._tags else None,
            properties=self._properties,
            delay_level=self._delay_level,
        )
