"""`pyromq consume`: messages of a topic to standard output or to files."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from pyromq.cli.completion import groups, topics
from pyromq.cli.connection import NameServers, client_options
from pyromq.cli.messages.form import Format
from pyromq.cli.messages.reader import LOOK_AGAIN, Reader, bounds, group_messages, tools_consumer
from pyromq.cli.messages.writer import FIELDS_HELP, FolderWriter, Writer
from pyromq.cli.plaintext import counted, printable
from pyromq.cli.servers.flags import fail
from pyromq.cli.times import FORMS, millis_of
from pyromq.client.consumer.damage import DamageContext, OnDamaged
from pyromq.client.consumer.pull.consumer import PullConsumer
from pyromq.client.errors import ClientError
from pyromq.errors import PyroMQError
from pyromq.protocol.bodies.enums import ConsumeFromWhere
from pyromq.protocol.message import MessageQueue, ReceivedMessage

app = typer.Typer(add_completion=False)

Output = Writer | FolderWriter


@app.command(
    "consume", epilog="Example: pyromq consume orders --from earliest --exit-at-end --format jsonl > orders.jsonl"
)
def consume(
    topic: Annotated[str, typer.Argument(help="Topic to read.", show_default=False, autocompletion=topics)],
    begin: Annotated[
        str, typer.Option("--from", metavar="earliest|latest|time", help=f"Where to begin. A time is {FORMS}.")
    ] = "earliest",
    exit_at_end: Annotated[
        bool, typer.Option("--exit-at-end", "-e", help="Stop at what is the end now, instead of waiting for more.")
    ] = False,
    count: Annotated[int | None, typer.Option("--count", "-c", min=1, help="Stop after so many.")] = None,
    idle: Annotated[
        float | None, typer.Option("--idle", min=0.1, metavar="seconds", help="Stop when nothing comes for so long.")
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-g",
            autocompletion=groups,
            help="Read as a member of this consumer group: share its queues, resume where it left off, store how far "
            "it got. Without it nothing is stored. --from then only counts where the group has not been yet.",
        ),
    ] = None,
    tags: Annotated[str | None, typer.Option("--tags", "-t", metavar="'a || b'", help="Only with these tags.")] = None,
    sql: Annotated[str | None, typer.Option("--sql", help="Only where this SQL92 expression holds.")] = None,
    queues: Annotated[
        list[str] | None, typer.Option("--queue", "-q", metavar="broker:queue[:offset]", help="Only this queue.")
    ] = None,
    form: Annotated[
        Format,
        typer.Option(
            "--format",
            "-f",
            help="lines: a body a line. raw: bodies as they are. jsonl: a JSON object a line, which send can read. "
            "json: a list of them.",
        ),
    ] = Format.LINES,
    template: Annotated[
        str | None, typer.Option("--template", "-T", help=f"Instead of a format: {FIELDS_HELP}.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file.")] = None,
    folder: Annotated[
        Path | None, typer.Option("--output-dir", help="Write a file a message into this folder.")
    ] = None,
    on_damaged: Annotated[
        OnDamaged,
        typer.Option(
            "--on-damaged",
            help="A message that cannot be read as it was sent: print it as it is stored, pass over it, or with "
            "--group make it a dead letter of the group. Each is reported on standard error.",
        ),
    ] = OnDamaged.DELIVER,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not say at the end how many there were.")] = False,
    namesrv: NameServers = None,
) -> None:
    """Print the messages of a topic, and those that follow until Ctrl-C.

    Every message is written before the next one is asked for: in a group, none is lost when the command is killed.
    """
    try:
        if output is not None and folder is not None:
            raise ClientError("give --output or --output-dir, not both")
        if group is not None and queues:
            raise ClientError("members of a group share its queues; --queue cannot be chosen with --group")
        if group is None and on_damaged is OnDamaged.DEAD_LETTER:
            raise ClientError("only a group has dead letters: give --group, or --on-damaged deliver or skip")
        where = begin if begin in ("earliest", "latest") else millis_of(begin)
        chosen = [_chosen(topic, text) for text in queues or ()]
        writer = _writer(output, folder, form, template)
        options = client_options(namesrv) | {"on_damaged": on_damaged}
        wanted = Wanted(topic, where, tags, sql, exit_at_end, count, idle)
        work = (
            _as_member(wanted, group, writer, options)
            if group is not None
            else _without_trace(wanted, chosen, writer, options)
        )
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(work)
        writer.close()
        if not quiet:
            typer.echo(counted(writer.written, "message"), err=True)
    except BrokenPipeError:
        # Whoever read has had enough; nothing more may be written, also not when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (PyroMQError, OSError) as error:
        fail(str(error))


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to read, and when to stop."""

    topic: str
    begin: str | int
    tags: str | None
    sql: str | None
    exit_at_end: bool
    count: int | None
    idle: float | None


class _Told:
    """A damage hook that tells the user."""

    name = "told"

    def damaged(self, context: DamageContext) -> None:
        message, queue = context.message, context.queue
        where = f"offset {message.queue_offset} of {queue.broker_name}:{queue.queue_id}, log {message.physical_offset}"
        typer.echo(f"damaged message at {where} ({context.action}): {printable(context.fault)}", err=True)


async def _without_trace(
    wanted: Wanted, chosen: list[tuple[MessageQueue, int | None]], writer: Output, options: dict[str, Any]
) -> None:
    consumer = tools_consumer(options)
    consumer.damage_hooks.append(_Told())
    async with consumer:
        known = await consumer.fetch_queues(wanted.topic)
        for queue, _ in chosen:
            if queue not in known:
                raise ClientError(f"topic {wanted.topic!r} has no queue {queue.broker_name}:{queue.queue_id}")
        starts, ends = await bounds(consumer, [queue for queue, _ in chosen] or known, wanted.begin)
        starts |= {queue: offset for queue, offset in chosen if offset is not None}
        reader = Reader(consumer, starts, ends if wanted.exit_at_end else None, tags=wanted.tags, sql=wanted.sql)
        await _pump(reader.messages(), writer, wanted)


async def _as_member(wanted: Wanted, group: str, writer: Output, options: dict[str, Any]) -> None:
    consumer = PullConsumer(group, poll_timeout=LOOK_AGAIN, **_beginning(wanted.begin), **options)
    consumer.subscribe(wanted.topic, wanted.tags, sql=wanted.sql)
    consumer.damage_hooks.append(_Told())
    async with consumer:
        ends = None
        if wanted.exit_at_end:
            _, ends = await bounds(consumer, await consumer.fetch_queues(wanted.topic), "latest")
        try:
            await _pump(group_messages(consumer, ends), writer, wanted)
        except asyncio.CancelledError:  # Ctrl-C: what was given out is written
            await consumer.commit()
            raise
        await consumer.commit()


async def _pump(messages: AsyncGenerator[ReceivedMessage, None], writer: Output, wanted: Wanted) -> None:
    async with contextlib.aclosing(messages) as stream:
        while wanted.count is None or writer.written < wanted.count:
            try:
                async with asyncio.timeout(wanted.idle):
                    message = await anext(stream)
            except (StopAsyncIteration, TimeoutError):
                return
            writer.write(message)


def _beginning(begin: str | int) -> dict[str, Any]:
    from datetime import UTC, datetime  # noqa: PLC0415 - wanted here alone

    if begin == "earliest":
        return {"consume_from": ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET}
    if begin == "latest":
        return {"consume_from": ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET}
    moment = datetime.fromtimestamp(int(begin) / 1000, UTC)
    return {"consume_from": ConsumeFromWhere.CONSUME_FROM_TIMESTAMP, "consume_timestamp": moment}


def _writer(output: Path | None, folder: Path | None, form: Format, template: str | None) -> Output:
    if folder is not None:
        return FolderWriter(folder, form, template)
    return Writer(sys.stdout.buffer if output is None else output.open("wb"), form, template)


def _chosen(topic: str, text: str) -> tuple[MessageQueue, int | None]:
    broker, *numbers = text.split(":")
    if not broker or len(numbers) not in (1, 2) or not all(number.isdecimal() for number in numbers):
        raise ClientError(f"{text!r} is no queue; write broker:queue or broker:queue:offset")
    queue, *offset = map(int, numbers)
    return MessageQueue(topic, broker, queue), offset[0] if offset else None
