"""Waiting for messages: pulls that brokers hold until something arrives, on connections of their own.

They stay parked from one wait to the next as long as the positions are the same, so an idle stream costs next to
nothing and hears of an arrival at once. Whatever goes wrong only means that the wait ends early or late.
"""

import logging
import time
from collections.abc import Callable, Mapping

from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.message import MessageQueue
from pyromq.spark.net.patience import FAULTS
from pyromq.spark.net.wire import Wire
from pyromq.spark.source.cluster import Cluster

log = logging.getLogger(__name__)

HOLD = 20.0
"""Seconds that a broker may hold a pull."""
MAX_PARKED = 256
"""Queues beyond which the driver looks from time to time instead."""
LOOK = 0.1
SEND_TIMEOUT = 1.0


class LongPoll:
    """The parked pulls of one query."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._cluster = cluster
        self._wire = Wire(cluster.options)
        self._clock = clock
        self._sleep = sleep
        self._positions: dict[MessageQueue, int] = {}
        self._parked: dict[int, tuple[str, MessageQueue]] = {}

    def wait(self, positions: Mapping[MessageQueue, int], timeout: float) -> None:
        """Return when something is there at one of the positions, or when the time is over."""
        deadline = self._clock() + timeout
        if not 0 < len(positions) <= MAX_PARKED:
            self._sleep(min(LOOK, timeout))
            return
        if positions != self._positions:
            self.close()
            self._positions = dict(positions)
        try:
            self._park()
            while (left := deadline - self._clock()) > 0:
                addresses = sorted({address for address, _ in self._parked.values()})
                if any(self._hear(address) for address in self._wire.heard(addresses, left)):
                    return
                self._park()
        except (*FAULTS, OSError) as error:
            log.debug("the wait for messages was cut short: %s", error)
            self.close()
            self._sleep(max(min(LOOK, deadline - self._clock()), 0.0))

    def close(self) -> None:
        """Give up what is parked."""
        self._wire.close()
        self._parked.clear()

    def _park(self) -> None:
        waiting = {queue for _, queue in self._parked.values()}
        for queue, offset in self._positions.items():
            if queue not in waiting:
                address = self._cluster.address(queue)
                opaque = self._wire.send(address, self._cluster.pull(queue, offset, 1, hold=HOLD), SEND_TIMEOUT)
                self._parked[opaque] = (address, queue)

    def _hear(self, address: str) -> bool:
        """Take an answer; whether it means an arrival. What was held to no avail is parked again."""
        answer = self._wire.receive(address, SEND_TIMEOUT)
        self._parked.pop(answer.opaque, None)
        if answer.code not in (ResponseCode.PULL_NOT_FOUND, ResponseCode.SUCCESS):
            self._sleep(LOOK)  # refused: do not ask again at once
        return answer.code != ResponseCode.PULL_NOT_FOUND
