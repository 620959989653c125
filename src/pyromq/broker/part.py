"""`Part`: what a capability of the broker declares, so that the broker knows none of them by name.

A part is made from the `Core` and from the parts that it needs, which `parts.make_parts` hands it. It overrides what it
has to say. Life of a part: made, `start` before any request is served, `join` once all are served; at the end `leave`
first, then its periodic work ends, then `stop` while connections are still there. What it keeps in tables is saved by
the core behind that.
"""

import operator
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import NamedTuple, Protocol, TypeVar

from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Handler
from pyromq.store.arrival import Arrival, Arrived

K = TypeVar("K")
V = TypeVar("V")

Told = Callable[[Arrival], None]
"""Told about a message that became visible to readers."""

Values = Iterable[tuple[tuple[str, ...], float]]
"""Labels and number of each value of a metric."""


class Every(NamedTuple):
    """Work that is repeated after each pause of this many seconds; `at_once` also before the first."""

    seconds: float
    work: Callable[[], Awaitable[None] | None]
    at_once: bool = False


class Figure(NamedTuple):
    """A metric as it is now. Figures of one name, of whichever parts, are one metric.

    With `others`, at most so many values are shown as `metricsOtelCardinalityLimit` says. These are the labels of one
    more for the rest, which is their sum, or what `merge` makes of them.
    """

    name: str
    doc: str
    values: Values
    labels: tuple[str, ...] = ()
    counts: bool = False
    others: tuple[str, ...] | None = None
    merge: Callable[[float, float], float] = operator.add


def gauge(name: str, doc: str, value: float) -> Figure:
    """One number that goes up and down."""
    return Figure(name, doc, (((), value),))


def counter(name: str, doc: str, value: float) -> Figure:
    """One number that only grows."""
    return Figure(name, doc, (((), value),), counts=True)


def limit(name: str, count: int) -> Figure:
    """How often one of the broker's bounds was met."""
    return Figure("pyromq_limits", "How often a limit was met.", (((name,), count),), ("limit",), counts=True)


class Park(Protocol):
    """Requests that wait for messages. `heard` is told of messages, those of the `topics` that any of them waits for
    among them."""

    @property
    def topics(self) -> Collection[str]: ...

    def heard(self, arrived: Arrived) -> None: ...


class Part:
    """Declares nothing; a capability overrides what it has."""

    def handlers(self) -> Mapping[int, Handler]:
        """The request codes served here. No two parts may serve one."""
        return {}

    def follows(self) -> Mapping[str, Told]:
        """Topics of the broker's own, with what is told each message in them. No two parts may follow one."""
        return {}

    def parks(self) -> Iterable[Park]:
        """Where requests wait for messages of any topic."""
        return ()

    def every(self) -> Iterable[Every]:
        """What is done again and again, as long as requests are served."""
        return ()

    def runtime(self) -> Mapping[str, object]:
        """For the runtime information."""
        return {}

    def metrics(self) -> Iterable[Figure]:
        """For whoever scrapes them."""
        return ()

    async def start(self) -> None:
        """Load, recover and begin; no request has been served yet."""

    async def join(self) -> None:
        """Requests are served from now on: tell others."""

    async def leave(self) -> None:
        """Undo `join`."""

    async def stop(self) -> None:
        """Undo `start`, also one that failed: end what goes on by itself, and answer those who wait."""

    def role_changed(self) -> None:
        """A slave serves consumers in the place of its master from now on, or does not any more."""

    def lead(self) -> None:
        """A slave does the work of its master from now on."""

    def stand_back(self) -> None:
        """It leaves that to its master again."""

    def connection_closed(self, connection: Connection) -> None:
        """A client is gone."""

    def forget_topic(self, topic: str) -> None:
        """A topic is deleted; one of that name later is another."""


def all_handlers(parts: Iterable[Part]) -> dict[int, Handler]:
    """What all parts serve. Raises ValueError when two claim one code."""
    handlers: dict[int, Handler] = {}
    for part in parts:
        _claim(handlers, part, part.handlers())
    return handlers


def all_followers(parts: Iterable[Part]) -> dict[str, Told]:
    """What all parts follow. Raises ValueError when two claim one topic."""
    followers: dict[str, Told] = {}
    for part in parts:
        _claim(followers, part, part.follows())
    return followers


def _claim(claimed: dict[K, V], part: Part, more: Mapping[K, V]) -> None:
    for key in claimed.keys() & more.keys():
        raise ValueError(f"{type(part).__name__} claims {key!r}, which another part has claimed")
    claimed.update(more)
