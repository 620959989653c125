"""What can go wrong between Spark and RocketMQ. Each error says what happened, to what, and what to do next."""

from collections.abc import Sequence
from typing import NamedTuple

from pyromq.errors import PyroMQError


class SparkError(PyroMQError):
    """A read or write of the Spark formats could not be carried out."""


class OptionError(SparkError):
    """An option is unknown, missing, contradicts another, or has a value that is not allowed."""


class ColumnError(SparkError):
    """A column was asked for that does not exist, or with a type that it cannot have."""


class RouteError(SparkError):
    """Nobody serves a topic, or the broker that does cannot be reached."""

    retryable = True


class ReadError(SparkError):
    """Messages that should be there could not be read, after all attempts."""


class InflationError(ReadError):
    """The bodies of some records are more than may be inflated in one go."""


class BadRecordError(SparkError):
    """A message does not have the form that the options promise, and `badRecords` is `fail`."""


class SinkError(SparkError):
    """Rows could not be written where they should go."""


class RowError(SinkError):
    """A row cannot be written; the message says which and why."""


class LostRange(NamedTuple):
    """Messages [start, end) of a queue that cannot be read any more; `reason` is expired, truncated or deleted."""

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
        return f"{self.topic} on {self.broker} queue {self.queue}: [{self.start}, {self.end}) {self.reason}"


class DataLossError(SparkError):
    """Messages are gone that a query still had to read, and `failOnDataLoss` is true."""

    def __init__(self, ranges: Sequence[LostRange]) -> None:
        shown = "; ".join(map(str, ranges[:8])) + (f"; and {len(ranges) - 8} more" if len(ranges) > 8 else "")
        super().__init__(
            f"messages are gone that this query has not read: {shown}. Keep messages longer (fileReservedTime), start "
            "from a new checkpoint or rewind this one, or set failOnDataLoss to false (skip) or record (skip and note)"
        )
        self.ranges = list(ranges)
