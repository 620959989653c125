"""`pyromq send`: messages out of files, standard input or the command line."""

import sys
import threading
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from pyromq.cli.completion import topics
from pyromq.cli.connection import NameServers, client_options
from pyromq.cli.messages.form import Format
from pyromq.cli.messages.inputs import messages_of
from pyromq.cli.output import json_line
from pyromq.cli.plaintext import counted, printable
from pyromq.cli.servers.flags import fail
from pyromq.cli.times import millis_of
from pyromq.client.blocking.producer import Producer
from pyromq.client.errors import ClientError
from pyromq.client.producer.results import SendResult
from pyromq.errors import PyroMQError
from pyromq.protocol.message import Message, MessageQueue
from pyromq.selectors import by_hash

app = typer.Typer(add_completion=False)


@app.command("send", epilog="Example: pyromq send orders -K : --tag paid < orders.txt")
def send(
    topic: Annotated[str, typer.Argument(help="Topic to send to.", show_default=False, autocompletion=topics)],
    files: Annotated[list[Path] | None, typer.Argument(help="Files to read; - or none is standard input.")] = None,
    message: Annotated[list[str] | None, typer.Option("--message", "-m", help="A message, instead of files.")] = None,
    form: Annotated[
        Format,
        typer.Option(
            "--format",
            "-f",
            help="lines: a message a line. raw: a message a file. jsonl: a JSON object a line, as consume writes them. "
            "json: one object or a list of them a file.",
        ),
    ] = Format.LINES,
    separator: Annotated[
        str | None, typer.Option("--key-separator", "-K", help="With lines: what stands before it is the key.")
    ] = None,
    key: Annotated[list[str] | None, typer.Option("--key", "-k", help="A key of every message.")] = None,
    tag: Annotated[str | None, typer.Option("--tag", "-t", help="The tag of every message.")] = None,
    properties: Annotated[
        list[str] | None, typer.Option("--property", "-p", metavar="name=value", help="A property of every message.")
    ] = None,
    delay_level: Annotated[int, typer.Option("--delay-level", min=0, max=18, help="1 s, 5 s, … up to 2 h.")] = 0,
    delay: Annotated[int, typer.Option("--delay", min=0, metavar="seconds", help="Deliver after so long.")] = 0,
    deliver_at: Annotated[
        str | None, typer.Option("--deliver-at", metavar="time", help="Deliver at this time.")
    ] = None,
    queue: Annotated[str | None, typer.Option("--queue", "-q", metavar="broker:queue", help="Into this queue.")] = None,
    ordered: Annotated[
        bool, typer.Option("--ordered", help="Messages with the same first key into one queue.")
    ] = False,
    group: Annotated[str, typer.Option("--group", "-g", help="Producer group.")] = "pyromq-send",
    in_flight: Annotated[int, typer.Option("--in-flight", min=1, max=10_000, help="Sends under way at a time.")] = 256,
    count: Annotated[int | None, typer.Option("--count", "-c", min=1, help="Stop after so many.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print a receipt a line.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing when all goes well.")] = False,
    timeout: Annotated[float, typer.Option("--timeout", min=0.1, metavar="seconds", help="Of one send.")] = 3.0,
    namesrv: NameServers = None,
) -> None:
    """Send messages from files, standard input or the command line.

    With --queue or --ordered, one send follows the other. The first message that cannot be sent ends the command with
    exit code 1; those before it may have been sent.
    """
    try:
        extras = Extras(
            tags=tag,
            keys=key or [],
            properties=_pairs(properties or []),
            delay_level=delay_level,
            delay_seconds=delay,
            deliver_at_ms=millis_of(deliver_at) if deliver_at is not None else 0,
        )
        target = _queue(topic, queue) if queue is not None else None
        bodies = messages_of(topic, form, separator, files or [], message)
        messages = (extras.applied(each) for each in bodies)
        with Producer(group, send_timeout=timeout, **client_options(namesrv)) as producer:
            window = 1 if target is not None or ordered else in_flight
            sending = Sending(producer, window, queue=target, ordered=ordered, receipts=json)
            sending.all(messages, count)
        if not quiet and not json:
            typer.echo(f"{counted(sending.sent, 'message')} sent to {topic}", err=True)
    except (PyroMQError, OSError) as error:
        fail(str(error))


@dataclass(slots=True)
class Extras:
    """What the command line adds to every message."""

    tags: str | None = None
    keys: list[str] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)
    delay_level: int = 0
    delay_seconds: int = 0
    deliver_at_ms: int = 0

    def applied(self, message: Message) -> Message:
        """The message with them; what it says itself about tag, delay and properties stands."""
        message.tags = message.tags or self.tags
        message.keys = (*message.keys, *self.keys)
        for name, value in self.properties.items():
            if name not in message.properties:
                message.put_property(name, value)
        if not message.is_delayed:
            message.delay_level = self.delay_level
            message.delay_seconds = self.delay_seconds
            message.deliver_at_ms = self.deliver_at_ms
        return message


class Sending:
    """Sends with a bounded number under way; the first failure stops it."""

    def __init__(
        self, producer: Producer, window: int, *, queue: MessageQueue | None, ordered: bool, receipts: bool
    ) -> None:
        self.sent = 0
        self._producer = producer
        self._room = threading.BoundedSemaphore(window)
        self._window = window
        self._queue = queue
        self._ordered = ordered
        self._receipts = receipts
        self._lock = threading.Lock()
        self._error: BaseException | None = None

    def all(self, messages: Iterable[Message], count: int | None) -> None:
        """Send everything and wait for the last receipt. Raises ClientError with how many were sent before."""
        try:
            for number, message in enumerate(messages):
                if number == count or self._error is not None:
                    break
                self._room.acquire()
                self._send(message)
        finally:
            for _ in range(self._window):
                self._room.acquire()
        if self._error is not None:
            raise ClientError(f"{counted(self.sent, 'message')} sent, then: {self._error}")

    def _send(self, message: Message) -> None:
        chosen: dict[str, Any] = {}
        if self._queue is not None:
            chosen["queue"] = self._queue
        elif self._ordered and message.keys:
            chosen |= {"selector": by_hash, "arg": message.keys[0]}
        try:
            self._producer.send_async(message, **chosen).add_done_callback(self._done)
        except BaseException:
            self._room.release()
            raise

    def _done(self, future: "Future[SendResult]") -> None:
        with self._lock:
            error = future.exception()
            if error is not None:
                self._error = self._error or error
            else:
                self.sent += 1
                if self._receipts:
                    _write_receipt(future.result())
        self._room.release()


def _write_receipt(result: SendResult) -> None:
    receipt = {
        "status": result.status,
        "messageId": result.message_id,
        "offsetMessageId": result.offset_message_id,
        "brokerName": result.queue.broker_name,
        "queueId": result.queue.queue_id,
        "queueOffset": result.queue_offset,
    }
    sys.stdout.buffer.write(json_line(receipt) + b"\n")
    sys.stdout.buffer.flush()


def _pairs(texts: list[str]) -> dict[str, str]:
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ClientError(f"{printable(text)!r} is no property; write name=value")
        pairs[name] = value
    return pairs


def _queue(topic: str, text: str) -> MessageQueue:
    broker, colon, number = text.rpartition(":")
    if not colon or not broker or not number.isdecimal():
        raise ClientError(f"{text!r} is no queue; write broker:queue, for example broker-a:0")
    return MessageQueue(topic, broker, int(number))
