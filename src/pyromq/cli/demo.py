"""`pyromq demo`: the whole way of a stream of orders in one process, with checks at the end.

A name server and a broker on free ports and in a temporary folder; a producer that repeats some orders and breaks
others; a consumer group that parses, removes duplicates, adds up revenue and sends what is broken to its own topic.
"""

import asyncio
import json
import random
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, TaskID
from rich.table import Table

from pyromq.aio import Admin, Message, Producer, PushConsumer, ReceivedMessage
from pyromq.broker.standalone import Standalone
from pyromq.cli.flags import fail

app = typer.Typer()

ORDERS = "orders"
BROKEN = "orders-broken"
SHOPS = ("Amsterdam", "Berlin", "Hangzhou", "Lisbon", "Nairobi")
IN_FLIGHT = 256
DUPLICATES = 0.05
BREAKAGES = 0.02
WAIT_SECONDS = 60.0


@dataclass
class Ledger:
    """What was sent and what came out."""

    sent: int = 0
    orders: int = 0
    broken: int = 0
    revenue_sent: Counter[str] = field(default_factory=Counter)
    received: int = 0
    seen: set[str] = field(default_factory=set)
    duplicates: int = 0
    broken_found: set[str] = field(default_factory=set)
    revenue: Counter[str] = field(default_factory=Counter)

    def checks(self, stored: int) -> list[tuple[str, bool]]:
        """Each promise and whether it held."""
        return [
            (f"sent {self.sent} = stored {stored}", self.sent == stored),
            (f"stored {stored} = received {self.received} (at least once)", self.received >= stored),
            (f"orders {self.orders} = counted once each {len(self.seen)}", self.orders == len(self.seen)),
            (f"broken {self.broken} = set aside {len(self.broken_found)}", self.broken == len(self.broken_found)),
            ("revenue per shop agrees to the cent", self.revenue_sent == self.revenue),
        ]


@app.command("demo")
def demo(
    messages: Annotated[int, typer.Option(min=10, max=1_000_000, help="How many orders to make.")] = 5_000,
    seed: Annotated[int, typer.Option(help="Same seed, same orders.")] = 7,
) -> None:
    """Produce, store and consume a stream of orders on an embedded cluster, then check the books."""
    console = Console()
    with tempfile.TemporaryDirectory(prefix="pyromq-demo-") as folder:
        held = asyncio.run(_demo(Path(folder), messages, random.Random(seed), console))
    if not held:
        fail("a check failed, see above")


async def _demo(folder: Path, count: int, chance: random.Random, console: Console) -> bool:
    server = Standalone(folder, namesrv_port=0, broker_port=0)
    await server.start()
    try:
        namesrv = server.namesrv_address
        console.print(f"[bold]1[/] name server {namesrv}, broker {server.broker_address}   [dim]pyromq standalone[/]")
        async with Admin(namesrv=namesrv) as admin:
            for topic in (ORDERS, BROKEN):
                await admin.create_topic(topic, queues=8)
                await admin.wait_for_topic(topic)
            console.print(f"[bold]2[/] topics {ORDERS} and {BROKEN}, 8 queues each")
            ledger = Ledger()
            with Progress(console=console, transient=True) as progress:
                await _produce(namesrv, count, chance, ledger, progress)
                console.print(f"[bold]3[/] {ledger.sent} messages sent, each on disk before its acknowledgement")
                await _consume(namesrv, ledger, progress)
            console.print(f"[bold]4[/] {ledger.received} messages consumed by group demo")
            stats = await admin.topic_stats(ORDERS)
        stored = sum(queue.max_offset - queue.min_offset for queue in stats.offset_table.values())
    finally:
        await server.stop()
    console.print(_table(ledger))
    checks = ledger.checks(stored)
    for text, held in checks:
        console.print(f"  [green]✔[/] {text}" if held else f"  [red]✘ {text}[/]")
    return all(held for _, held in checks)


async def _produce(namesrv: str, count: int, chance: random.Random, ledger: Ledger, progress: Progress) -> None:
    task = progress.add_task("sending orders", total=count)
    room = asyncio.Semaphore(IN_FLIGHT)

    async with Producer("demo-producer", namesrv=namesrv) as producer, asyncio.TaskGroup() as sends:
        for number in range(count):
            shop, cents = chance.choice(SHOPS), chance.randrange(100, 50_000)
            body = json.dumps({"id": f"o-{number}", "shop": shop, "cents": cents}).encode()
            copies = 2 if chance.random() < DUPLICATES else 1
            if chance.random() < BREAKAGES:
                body, copies = body[: len(body) // 2], 1
                ledger.broken += 1
            else:
                ledger.orders += 1
                ledger.revenue_sent[shop] += cents
            for _ in range(copies):
                await room.acquire()
                message = Message(ORDERS, body, keys=[f"o-{number}"])
                sends.create_task(_send(producer, message, room, ledger))
            progress.advance(task)


async def _send(producer: Producer, message: Message, room: asyncio.Semaphore, ledger: Ledger) -> None:
    try:
        await producer.send(message, timeout=30.0)
        ledger.sent += 1
    finally:
        room.release()


async def _consume(namesrv: str, ledger: Ledger, progress: Progress) -> None:
    task = progress.add_task("consuming", total=ledger.sent)
    done = asyncio.Event()
    consumer = PushConsumer("demo", namesrv=namesrv, consume_from="CONSUME_FROM_FIRST_OFFSET")
    consumer.subscribe(ORDERS)
    async with Producer("demo-router", namesrv=namesrv) as router:

        @consumer.listen
        async def handle(message: ReceivedMessage) -> None:
            await _book(message, router, ledger)
            _advance(progress, task, ledger, done)

        async with consumer, asyncio.timeout(WAIT_SECONDS):
            await done.wait()


async def _book(message: ReceivedMessage, router: Producer, ledger: Ledger) -> None:
    try:
        order = json.loads(message.body)
    except ValueError:
        await router.send(Message(BROKEN, message.body, keys=message.keys))
        ledger.broken_found.update(message.keys)
    else:
        if order["id"] in ledger.seen:
            ledger.duplicates += 1
        else:
            ledger.seen.add(order["id"])
            ledger.revenue[order["shop"]] += order["cents"]


def _advance(progress: Progress, task: TaskID, ledger: Ledger, done: asyncio.Event) -> None:
    ledger.received += 1
    progress.advance(task)
    if ledger.received >= ledger.sent:
        done.set()


def _table(ledger: Ledger) -> Table:
    table = Table(title="Revenue", caption=f"{ledger.duplicates} duplicates removed, {len(ledger.broken_found)} broken")
    table.add_column("shop")
    table.add_column("revenue", justify="right")
    for shop in sorted(ledger.revenue):
        table.add_row(shop, f"{ledger.revenue[shop] / 100:,.2f}")
    return table
