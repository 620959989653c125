"""Times of the schema as milliseconds, and back."""

from typing import Any

from pyromq.proxy.schema import messages


def millis(moment: Any) -> int:
    """A `Timestamp` or `Duration`, cut to whole milliseconds."""
    number: int = moment.seconds * 1000 + moment.nanos // 1_000_000
    return number


def timestamp(unix_ms: int) -> Any:
    """A `Timestamp`."""
    return messages.Timestamp(seconds=unix_ms // 1000, nanos=unix_ms % 1000 * 1_000_000)


def duration(span_ms: int) -> Any:
    """A `Duration`."""
    return messages.Duration(seconds=span_ms // 1000, nanos=span_ms % 1000 * 1_000_000)
