"""What happened, as lines of JSON: what clients asked and were told, what was delivered, what was done to the servers.

Times are nanoseconds of the monotonic clock, which is one for all processes of a machine and which no fault touches.
Every event is written before (a send, a delivery) or after (an answer) what it speaks of, so that a process that is
killed leaves a true history.
"""

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import msgspec


class Event(msgspec.Struct, kw_only=True, tag_field="event", tag=str.lower, omit_defaults=True):
    """Something that happened at the time `t`."""

    t: int = msgspec.field(default_factory=time.monotonic_ns)


E = TypeVar("E", bound=Event)


class Subscribed(Event):
    """A group reads a topic from its beginning; `mode` is concurrent, orderly, pop or pull."""

    group: str
    topic: str
    mode: str


class Sent(Event):
    """A message is about to be sent. It is not to come before `due`; those of one stream go to one queue in turn."""

    id: str
    topic: str
    due: int = 0
    stream: str = ""
    transactional: bool = False


class Acknowledged(Event):
    """The broker answered; `placed` says that it named the place where consumers find the message."""

    id: str
    status: str
    broker: str
    queue: int
    offset: int
    placed: bool = True


class Failed(Event):
    """No good answer: whether the message is stored is not known."""

    id: str
    error: str


class Rested(Event):
    """Nothing more is sent, and every answer that will come has come."""


class Decided(Event):
    """How the local transaction of a message ended; what is told later in answer to a check is the same."""

    id: str
    commit: bool


class Delivered(Event):
    """A listener was given a message from this place; `attempt` counts what was sent back, `sound` that it is whole."""

    id: str
    group: str
    member: str
    topic: str
    broker: str
    queue: int
    offset: int
    attempt: int = 0
    sound: bool = True


class Consumed(Event):
    """An ordered listener is through with a message."""

    group: str
    topic: str
    broker: str
    queue: int
    offset: int


class Position(Event):
    """A broker says that a group has consumed everything of a queue below this offset."""

    node: str
    group: str
    topic: str
    broker: str
    queue: int
    offset: int


class Found(Event):
    """A message was read at a node."""

    id: str
    node: str
    topic: str
    broker: str
    queue: int
    offset: int


class Audited(Event):
    """All of a node was read, after `since`; `statuses` says which acknowledged messages it must have by then."""

    node: str
    broker: str
    since: int
    statuses: tuple[str, ...]


class Began(Event):
    """A fault sets in. `brokers` names those that suffer; the clock of the broker `clock` jumps by `step` ns."""

    number: int
    kind: str
    text: str
    brokers: tuple[str, ...] = ()
    clock: str = ""
    step: int = 0


class Ended(Event):
    """A fault is over."""

    number: int


AnyEvent = (
    Subscribed
    | Sent
    | Acknowledged
    | Failed
    | Rested
    | Decided
    | Delivered
    | Consumed
    | Position
    | Found
    | Audited
    | Began
    | Ended
)

_decoder = msgspec.json.Decoder(AnyEvent)
_encoder = msgspec.json.Encoder()


class Recorder:
    """Appends events to a file; each is with the operating system before `write` returns."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)

    def write(self, event: Event) -> None:
        os.write(self._file, _encoder.encode(event) + b"\n")


class Tail:
    """Reads what was added to the history files of a folder since the last look."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}

    def __iter__(self) -> Iterator[AnyEvent]:
        for path in sorted(self._folder.glob("*.jsonl")):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    self._read[path] = self._read.get(path, 0) + len(line)
                    yield _decoder.decode(line)


def load(folder: Path) -> list[AnyEvent]:
    """All events of a folder, in the order in which they happened."""
    return ordered(Tail(folder))


def ordered(events: Iterable[E]) -> list[E]:
    """By time."""
    return sorted(events, key=lambda event: event.t)
