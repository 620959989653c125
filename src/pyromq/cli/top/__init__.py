"""`pyromq top`: a live screen of brokers, topics and groups."""

import asyncio
import contextlib
import sys
import time
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from pyromq.cli.connection import NameServers, client_options
from pyromq.cli.output import console, json_line
from pyromq.cli.servers.flags import fail
from pyromq.cli.top.sample import Sample, Sampler
from pyromq.cli.top.screen import screen
from pyromq.client.admin.admin import Admin
from pyromq.client.errors import ClientError
from pyromq.errors import PyroMQError

app = typer.Typer(add_completion=False)


@app.command("top", epilog="Example: pyromq top --interval 1")
def top(
    interval: Annotated[
        float, typer.Option("--interval", "-i", min=0.2, metavar="seconds", help="Between looks.")
    ] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="One look, then end.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each look.")] = False,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=10_000, help="Ask about so many topics and groups.")
    ] = 200,
    everything: Annotated[bool, typer.Option("--all", "-a", help="RocketMQ's own topics and groups too.")] = False,
    timeout: Annotated[float, typer.Option("--timeout", min=0.1, metavar="seconds", help="Of one request.")] = 3.0,
    namesrv: NameServers = None,
) -> None:
    """Show brokers, topics and groups with their rates and lag, again and again until Ctrl-C."""
    try:
        admin = Admin(timeout=timeout, **client_options(namesrv))
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_run(admin, interval, limit, once=once, json=json, everything=everything))
    except (PyroMQError, OSError) as error:
        fail(str(error))


async def _run(admin: Admin, interval: float, limit: int, *, once: bool, json: bool, everything: bool) -> None:
    async with admin:
        sampler = Sampler(admin, limit=limit, everything=everything)
        sample = await sampler.look(time.time())
        source = ", ".join(admin.name_servers())
        if once or json:
            while True:
                _print(sample, source, json=json)
                if once:
                    return
                await asyncio.sleep(interval)
                sample = await sampler.look(time.time())
        await _live(sampler, sample, source, interval)


async def _live(sampler: Sampler, sample: Sample, source: str, interval: float) -> None:
    """A cluster that cannot be asked for a while keeps its last picture, with the reason."""
    paper = Console()
    problem: str | None = None
    with Live(console=paper, screen=paper.is_terminal, auto_refresh=False, transient=False) as live:
        while True:
            live.update(screen(sample, source, paper.height, problem), refresh=True)
            await asyncio.sleep(interval)
            try:
                sample, problem = await sampler.look(time.time()), None
            except ClientError as error:
                problem = str(error)


def _print(sample: Sample, source: str, *, json: bool) -> None:
    if json:
        sys.stdout.buffer.write(json_line(sample) + b"\n")
        sys.stdout.buffer.flush()
    else:
        paper = console()
        # A picture has columns to fill: without a terminal it is as wide as a usual one.
        paper = paper if paper.is_terminal else Console(width=120, highlight=False, no_color=True)
        paper.print(screen(sample, source))
