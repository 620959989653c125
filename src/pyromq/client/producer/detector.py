"""Finding out whether brokers that became unreachable can be reached again."""

import logging
from collections.abc import Callable

from pyromq.client.instance.instance import ClientInstance
from pyromq.client.producer.faults import FaultTable
from pyromq.protocol.requests import max_offset
from pyromq.remoting.errors import RemotingError

log = logging.getLogger(__name__)

DETECTOR_PERIOD = 3.0


class Detector:
    """Probes due brokers of a fault table with a cheap request about any topic the producer knows."""

    def __init__(self, instance: ClientInstance, faults: FaultTable, any_topic: Callable[[], str | None]) -> None:
        self._instance = instance
        self._faults = faults
        self._any_topic = any_topic

    async def run(self) -> None:
        """One round."""
        config = self._instance.config
        for broker, record in self._faults.due(config.detect_interval * 1000):
            address = self._instance.topology.publish_address(broker)
            if address is None:
                self._faults.forget(broker)
                continue
            topic = self._any_topic()
            if topic is None:
                continue
            try:
                await self._instance.call(address, max_offset(topic, 0).command, config.detect_timeout)
            except RemotingError as error:
                log.debug("broker %s is not reachable: %s", broker, error)
                continue
            if not record.reachable:
                log.info("broker %s is reachable again", broker)
                record.reachable = True
