"""How far groups have popped, as the end of the log says: a checkpoint is there before its messages are given out.

A position that was set back since, or forgotten with its topic or group, is noted in the log as well, so that what was
popped before no longer counts. Ordered pops have no checkpoints; for them the log says how far they are acknowledged.
"""

import logging
from collections.abc import Callable, Iterable, Mapping

from pyromq.broker.delay.detour import read_record
from pyromq.broker.pop.records import CHECKPOINT, POSITION, PopCheckpoint, PopPosition
from pyromq.broker.tables.offsets import ConsumerOffsets
from pyromq.protocol import names
from pyromq.protocol.bodies.offsets import ConsumerOffsetTable
from pyromq.protocol.errors import ProtocolError
from pyromq.protocol.properties import Property
from pyromq.store.log.walk import LogRecord
from pyromq.store.messagestore import MessageStore

log = logging.getLogger(__name__)


class PoppedPositions:
    """Learns from records of the log, in their order."""

    def __init__(self, store: MessageStore, revive_topic: str) -> None:
        self._store = store
        self._topic = revive_topic
        self._reached: dict[tuple[str, str], dict[int, int]] = {}
        """Topic and group → queue → the offset behind what was popped last."""

    def learn(self, record: LogRecord) -> None:
        """Take in a record that may be of the revive topic, or on its way there."""
        if record.topic not in (self._topic, names.TIMER_TOPIC):
            return
        try:
            properties = record.properties()
            tag = properties.get(Property.TAGS)
            if record.topic == names.TIMER_TOPIC and properties.get(Property.REAL_TOPIC) != self._topic:
                return
            if tag in (CHECKPOINT, POSITION):
                self._learn(tag, record.offset)
        except ProtocolError as error:
            log.warning("what was popped at %d of the log cannot be read: %s", record.offset, error)

    def _learn(self, tag: str, physical_offset: int) -> None:
        found = read_record(self._store, physical_offset, None)
        if found is None:
            return
        summary, record = found
        body = record[summary.body_start : summary.body_end]
        if tag == CHECKPOINT:
            checkpoint = PopCheckpoint.decode(body)
            offsets = checkpoint.offsets()
            if offsets:
                self._reach(checkpoint.topic, checkpoint.group, checkpoint.queue_id, offsets[-1] + 1)
            return
        position = PopPosition.decode(body)
        if position.offset >= 0:
            self._reach(position.topic, position.group, position.queue_id, position.offset)
        else:
            self._reached.get((position.topic, position.group), {}).pop(position.queue_id, None)

    def _reach(self, topic: str, group: str, queue_id: int, offset: int) -> None:
        queues = self._reached.setdefault((topic, group), {})
        queues[queue_id] = max(queues.get(queue_id, 0), offset)

    def take_up(
        self, offsets: ConsumerOffsets, wanted: Callable[[str, str], bool]
    ) -> Mapping[tuple[str, str], Iterable[int]]:
        """Raise the offsets of wanted topics and groups to what was learned, as far as the queues go.

        Returns which queues of a topic and a group that were.
        """
        known = {key: queues for key, queues in self._reached.items() if queues and wanted(*key)}
        table = {f"{topic}@{group}": queues for (topic, group), queues in known.items()}
        offsets.raise_to(ConsumerOffsetTable(offset_table=table), self._store.max_offset)
        return known
