"""Waiting for messages: requests that brokers hold until something arrives, on connections of their own.

PyroMQ's brokers hold one for all of their queues, Apache's a pull for each. They stay parked from one wait to the next
as long as the positions are the same, so an idle stream costs next to nothing and hears of an arrival at once. Whatever
goes wrong only means that the wait ends early or late.
"""

import logging
import time
from collections.abc import Callable, Mapping

from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.message import MessageQueue
from pyromq.spark.net.patience import FAULTS
from pyromq.spark.net.wire import Wire
from pyromq.spark.source.brokers.cluster import Cluster

log = logging.getLogger(__name__)

HOLD = 20.0
"""Seconds that a broker may hold a request."""
MAX_PARKED = 256
"""Pulls beyond which the driver looks from time to time instead."""
LOOK = 0.1
SEND_TIMEOUT = 1.0

Parked = tuple[MessageQueue, Command]
"""A request, and a queue of the broker that it goes to."""


class LongPoll:
    """The parked requests of one query."""

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
        self._positions: Mapping[MessageQueue, int] = {}
        self._due: list[Parked] = []
        """What is to be parked."""
        self._parked: dict[int, tuple[str, Parked]] = {}

    def wait(self, positions: Mapping[MessageQueue, int], timeout: float) -> None:
        """Return when something is there at one of the positions, or when the time is over."""
        deadline = self._clock() + timeout
        if positions is not self._positions and positions != self._positions:
            self.close()
            self._due = self._planned(positions)
        self._positions = positions
        if not self._due and not self._parked:
            self._sleep(min(LOOK, timeout))
            return
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
        self._due, self._positions = [], {}

    def _planned(self, positions: Mapping[MessageQueue, int]) -> list[Parked]:
        """What hears of arrivals at all of the positions; nothing if that would be too much."""
        found: list[Parked] = []
        for queues in self._cluster.by_broker(positions).values():
            own = {queue: positions[queue] for queue in queues}
            look = self._cluster.wait(own, HOLD)
            if look is not None:
                found.append((queues[0], look))
            else:
                found += [(queue, self._cluster.pull(queue, offset, 1, hold=HOLD)) for queue, offset in own.items()]
        return found if len(found) <= MAX_PARKED else []

    def _park(self) -> None:
        while self._due:
            queue, command = self._due[-1]
            address = self._cluster.address(queue)
            self._parked[self._wire.send(address, command, SEND_TIMEOUT)] = (address, self._due.pop())

    def _hear(self, address: str) -> bool:
        """Take an answer; whether it means an arrival. What was held to no avail is parked again."""
        answer = self._wire.receive(address, SEND_TIMEOUT)
        _, parked = self._parked.pop(answer.opaque, (address, None))
        if parked is not None:
            self._due.append(parked)
        if answer.code not in (ResponseCode.PULL_NOT_FOUND, ResponseCode.SUCCESS):
            self._sleep(LOOK)  # refused: do not ask again at once
        return answer.code != ResponseCode.PULL_NOT_FOUND
