"""How long a sink bears with brokers: it asks again, with growing pauses, as often as it sends a frame again.

A broker that is started again must not end a query, whichever step of a batch it falls into.
"""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from pyromq.client.errors import BrokerError
from pyromq.spark.net.cluster import FAULTS, PASSING
from pyromq.spark.sink.options import TopicSinkOptions

log = logging.getLogger(__name__)

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0

T = TypeVar("T")


def pause_after(tries: int) -> float:
    """Seconds to wait after so many tries in vain."""
    return float(min(FIRST_PAUSE * 2 ** (tries - 1), LONGEST_PAUSE))


def patiently(options: TopicSinkOptions, ask: Callable[[], T], *, sleep: Callable[[float], None] = time.sleep) -> T:
    """The outcome of questions that may be asked twice. Raises what the last try raised, or what no try can change."""
    tries = 0
    while True:
        try:
            return ask()
        except (*FAULTS, BrokerError) as error:
            tries += 1
            lasting = isinstance(error, BrokerError) and error.code not in PASSING
            if lasting or tries > options.send_retries:
                raise
            log.info("asking the brokers of %s again: %s", options.topic, error)
        sleep(pause_after(tries))
