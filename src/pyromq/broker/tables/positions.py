"""No position is trusted beyond the log that it speaks of: offsets of groups, delay levels, ordered batches.

They are saved, and copied to slaves, on their own. After a power cut with ASYNC_FLUSH, or on a slave that is made a
master while it is behind, the log ends before them; what is stored next gets the offsets in between, and nobody would
ever get it. So they are set back to the end of their queue at each start, and when a slave begins to act for its
master. The timer looks after its own in the same way (`store.timerfiles`).
"""

import logging
from collections import Counter
from collections.abc import Iterable

from pyromq.broker.delay.delayoffsets import DelayOffsets
from pyromq.broker.pop.batches import OrderedBatches
from pyromq.broker.tables.offsets import ConsumerOffsets
from pyromq.protocol import names
from pyromq.store.config import BrokerRole
from pyromq.store.messagestore import MessageStore

log = logging.getLogger(__name__)

MAX_TOLD = 20
"""Positions of a kind that are named in the log; of more only the number is told."""


def within(store: MessageStore, topic: str, queue_id: int, offset: int) -> int:
    """What a consumer may commit: on a master nothing beyond the queue, as one that outlived a loss would.

    A slave may be behind what its consumers read at the master.
    """
    return offset if store.role is BrokerRole.SLAVE else min(offset, store.max_offset(topic, queue_id))


class Positions:
    """The positions of a broker whose tables are loaded and whose store is open."""

    def __init__(
        self, store: MessageStore, offsets: ConsumerOffsets, delays: DelayOffsets, batches: OrderedBatches
    ) -> None:
        self._store = store
        self._offsets = offsets
        self._delays = delays
        self._batches = batches
        self.set_back: Counter[str] = Counter()
        """How many positions of each kind were beyond the log."""

    def hold(self) -> None:
        """Set back what is beyond the end of its queue, and say so."""
        self.note(
            "group",
            (
                f"the group {group} in queue {queue_id} of {topic} was at {before}, which this log does not have: "
                f"set back to {after}"
                for topic, group, queue_id, before, after in self._offsets.hold_to(self._end_for)
            ),
        )
        self.note(
            "delay",
            (
                f"delay level {level} was delivered up to {before}, which this log does not have: set back to {after}"
                for level, before, after in self._delays.hold_to(
                    lambda level: self._end(names.SCHEDULE_TOPIC, level - 1)
                )
            ),
        )
        self.note(
            "ordered pop",
            (
                f"the group {group} popped messages of queue {queue_id} of {topic} which this log does not have"
                for topic, group, queue_id in self._batches.hold_to(self._end)
            ),
        )

    def note(self, kind: str, texts: Iterable[str]) -> None:
        """Count positions that were set back, and name some of them."""
        number = 0
        for number, text in enumerate(texts, 1):
            if number <= MAX_TOLD:
                log.warning("%s", text)
        if number > MAX_TOLD:
            log.warning("%d positions (%s) were beyond this log in all, and were set back", number, kind)
        self.set_back[kind] += number

    def _end(self, topic: str, queue_id: int) -> int:
        return self._store.max_offset(topic, queue_id, committed=False)

    def _end_for(self, topic: str, group: str, queue_id: int) -> int:
        """The offset of reviving is that of the last entry dealt with, all others those of the next."""
        end = self._end(topic, queue_id)
        return end - 1 if group == names.REVIVE_GROUP else end
