"""How long brokers have for an answer, how long they may hold a request, and how much it may ask for."""

from typing import Any, Final

from pyromq.proxy.grpc.method import Call
from pyromq.proxy.limits import Limits
from pyromq.proxy.messages.moments import millis
from pyromq.proxy.schema.enums import Code
from pyromq.proxy.status import Refusal

MARGIN: Final = 3.0
"""Seconds that a broker has to answer beyond the time for which it may hold a request."""
_HASTE_MS: Final = 100
"""How long before the caller's deadline an answer is on its way."""
_UNSAID_MS: Final = 1500
"""What is left of the deadline for the answer when a caller does not say how long it waits."""
_TIMEOUT: Final = 3.0


def seconds_left(call: Call) -> float:
    """Until the caller's deadline; three for who has none."""
    left = call.remaining()
    return _TIMEOUT if left is None else left


def poll_time(request: Any, call: Call, limits: Limits) -> int:
    """Milliseconds: as asked, within the limits, and so that the answer is in time. Raises Refusal."""
    left = call.remaining()
    left_ms = None if left is None else int(left * 1000)
    if request.HasField("long_polling_timeout"):
        poll = millis(request.long_polling_timeout)
    else:
        poll = limits.max_poll if left_ms is None else left_ms - _UNSAID_MS
    poll = min(max(poll, limits.min_poll), limits.max_poll)
    if left_ms is None or poll + _HASTE_MS <= left_ms:
        return poll
    if left_ms < limits.min_poll:
        raise Refusal(
            Code.ILLEGAL_POLLING_TIME,
            f"the deadline is {left_ms} ms ahead, too near for a poll of {limits.min_poll} ms or more",
        )
    return max(left_ms - _HASTE_MS, 0)


def batch_size(request: Any, limits: Limits) -> int:
    """How many messages an answer may have."""
    size: int = request.batch_size
    return max(1, min(size, limits.batch_size))
