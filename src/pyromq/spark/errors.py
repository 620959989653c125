"""What can go wrong between Spark and RocketMQ. Each error says what happened, to what, and what to do next."""

import functools
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple, ParamSpec, TypeVar

from pyromq.errors import PyroMQError

P = ParamSpec("P")
T = TypeVar("T")


class SparkError(PyroMQError):
    """A read or write of the Spark formats could not be carried out."""


class OptionError(SparkError):
    """An option is unknown, missing, contradicts another, or has a value that is not allowed."""


class RouteError(SparkError):
    """Nobody serves a topic, or the broker that does cannot be reached."""

    retryable = True


class SinkError(SparkError):
    """Rows could not be written where they should go."""


class RowError(SinkError):
    """A row cannot be written; the message says which and why."""


class TableChangedError(SinkError):
    """A table is not what it was when a batch was written for it; the batch can be written again."""

    retryable = True


class CatalogUnavailableError(SinkError):
    """The catalog of a table does not answer at the moment."""

    retryable = True


class LostRange(NamedTuple):
    """Messages [start, end) of a queue that cannot be read any more.

    `reason` is expired, truncated, deleted or recreated: the topic was deleted and made again. How far the earlier one
    reached is often unknown; then the range is empty, and only says where it begins.
    """

    topic: str
    broker: str
    queue: int
    start: int
    end: int
    reason: str

    @property
    def messages(self) -> int:
        return self.end - self.start

    def __str__(self) -> str:
        what = f"[{self.start}, {self.end})" if self.messages else f"from {self.start} on,"
        return f"{self.topic} on {self.broker} queue {self.queue}: {what} {self.reason}"


class DataLossError(SparkError):
    """Messages are gone that a query still had to read, and `failOnDataLoss` is true."""

    def __init__(self, ranges: Sequence[LostRange]) -> None:
        shown = "; ".join(map(str, ranges[:8])) + (f"; and {len(ranges) - 8} more" if len(ranges) > 8 else "")
        super().__init__(
            f"messages are gone that this query has not read: {shown}. Keep messages longer (fileReservedTime), start "
            "from a new checkpoint or rewind this one, or set failOnDataLoss to false (skip) or record (skip and note)"
        )
        self.ranges = list(ranges)


def wants_tracebacks() -> bool:
    """Whether whoever runs this looks for a mistake in PyroMQ itself: PYROMQ_DEBUG=1."""
    return bool(os.environ.get("PYROMQ_DEBUG"))


def plainly(function: Callable[P, T]) -> Callable[P, T]:
    """For what Spark calls: errors of ours without their way through the package, which Spark prints before them."""

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except PyroMQError as error:
            if wants_tracebacks():
                raise
            raise error.with_traceback(None) from None

    return called
