"""Groups that are too far behind, which a broker may stop so that reading old files does not slow down the others."""

import contextlib
import logging
from collections.abc import Iterable, Iterator

from pyromq.broker.core import Core
from pyromq.broker.errors import Refused
from pyromq.broker.part import Every, Part
from pyromq.store.config import BrokerRole

log = logging.getLogger(__name__)

INTERVAL = 180.0


class Laggards(Part):
    """Disables consumption of a group once one of its queues is `consumerFallbehindThreshold` bytes behind."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def every(self) -> Iterable[Every]:
        """A slave leaves it to its master."""
        return [] if self._core.config.broker_role is BrokerRole.SLAVE else [Every(INTERVAL, self.stop_them)]

    async def stop_them(self) -> None:
        """Look once; does nothing unless `disableConsumeIfConsumerReadSlowly` is set."""
        if not self._core.config.disable_consume_if_consumer_read_slowly:
            return
        limit, saves = self._core.config.consumer_fallbehind_threshold, []
        for group, topic, behind in self._far_behind(limit):
            log.warning(
                "consumption of group %s is stopped: it is %d bytes behind in %s, "
                "more than consumerFallbehindThreshold (%d); allow it again with updateSubGroup",
                group,
                behind,
                topic,
                limit,
            )
            saves.append(self._core.groups.disable(group))
        for save in saves:
            with contextlib.suppress(Refused):  # the next look tries again
                await save

    def _far_behind(self, limit: int) -> Iterator[tuple[str, str, int]]:
        for topic, group in list(self._core.offsets.pairs()):
            known = self._core.groups.get(group)
            if known is None or not known.consume_enable:
                continue
            worst = max(
                (self._behind(topic, *queue) for queue in self._core.offsets.queues(group, topic).items()), default=0
            )
            if worst > limit:
                yield group, topic, worst

    def _behind(self, topic: str, queue_id: int, offset: int) -> int:
        """Bytes of the log between the message at the offset and the end; 0 when nothing is left to consume."""
        queue = self._core.store.queues.get(topic, queue_id)
        entry = queue.entry(max(offset, queue.min_offset)) if queue is not None else None
        return 0 if entry is None else self._core.store.max_physical_offset - entry[0]
