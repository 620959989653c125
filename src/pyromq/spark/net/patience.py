"""How patient Spark's processes are with servers: they ask again, with growing pauses, while that can help.

A broker that is started again must not end a query, whichever step of a batch it falls into.
"""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from pyromq.client.errors import BrokerError
from pyromq.clock import pause_after
from pyromq.protocol.errors import ProtocolError
from pyromq.protocol.requests import PASSING
from pyromq.remoting.errors import RemotingError
from pyromq.spark.errors import RouteError

log = logging.getLogger(__name__)

FAULTS = (RemotingError, ProtocolError, RouteError, BrokerError)
"""What a question to a server can end with."""

T = TypeVar("T")


def patiently(
    ask: Callable[[], T],
    *,
    retries: int,
    first: float = 0.1,
    until: float | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """The outcome of questions that may be asked twice: so many tries more, and as many as fit `until` a moment.

    Raises what the last try raised, or what no try can change.
    """
    tries = 0
    while True:
        try:
            return ask()
        except FAULTS as error:
            tries += 1
            pause = pause_after(tries, first=first)
            lasting = isinstance(error, BrokerError) and error.code not in PASSING
            if lasting or (tries > retries and (until is None or clock() + pause > until)):
                raise
            log.info("asking again in %s s: %s", pause, error)
        sleep(pause)
