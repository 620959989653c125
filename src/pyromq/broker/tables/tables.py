"""`Tables`: everything that a broker keeps in `config/`, made together so that a part has it complete."""

import logging
from collections.abc import Callable

from pyromq.broker.config import BrokerConfig
from pyromq.broker.delay.delayoffsets import DelayOffsets
from pyromq.broker.filter.filters import Filters
from pyromq.broker.pop.batches import OrderedBatches
from pyromq.broker.tables.groups import Groups
from pyromq.broker.tables.offsets import ConsumerOffsets
from pyromq.broker.tables.requestmodes import RequestModes
from pyromq.broker.tables.tail import LogPosition
from pyromq.broker.tables.topics import Topics
from pyromq.store.config import BrokerRole

log = logging.getLogger(__name__)


class Tables:
    """The tables of one broker. What delays and pops keep is saved by these."""

    def __init__(self, config: BrokerConfig, clock: Callable[[], int]) -> None:
        folder = config.config_dir
        self.topics = Topics(config, clock)
        self.groups = Groups(config, clock)
        self.offsets = ConsumerOffsets(
            folder / "consumerOffset.json",
            clock,
            version_step=config.consumer_offset_update_version_step,
            follows=config.broker_role is BrokerRole.SLAVE,
        )
        self.delays = DelayOffsets(
            folder / "delayOffset.json", clock, version_step=config.delay_offset_update_version_step
        )
        self.batches = OrderedBatches(folder / "consumerOrderInfo.json", clock)
        self.modes = RequestModes(config)
        self.filters = Filters(config, clock)
        self.log_position = LogPosition(folder / "logPosition.json")

    def load(self) -> None:
        """Read the files. Raises ProtocolError when neither one nor its backup is legible."""
        for table in (self.topics, self.groups, self.offsets, self.delays, self.batches, self.modes):
            table.load()
        self.filters.registered.load()

    async def save(self) -> None:
        """For the end of the broker. Whatever the disk refuses, the rest is saved."""
        saves = (self.topics.saved.close, self.groups.saved.close, self.modes.saved.close, self.offsets.save)
        for save in (*saves, self.filters.registered.save):
            try:
                await save()
            except OSError as error:
                log.error("stopped without a last save: %s", error)  # noqa: TRY400 - one line says it all
