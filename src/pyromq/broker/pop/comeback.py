"""A popped message that nobody acknowledged in time: where it goes, and putting it there.

It becomes a retry of its group, or a dead letter when it has been given out as often as the group's `retryMaxTimes`
allows. Apache's broker leaves the second to whoever pops; here it is the broker's, so that it holds for every client.
"""

import logging

from pyromq.broker.admin.stats import Stat
from pyromq.broker.core import Core
from pyromq.broker.delay.detour import copy_of
from pyromq.broker.errors import Refused
from pyromq.broker.pop.records import PopCheckpoint
from pyromq.broker.replication.succession.onward import HOPELESS, Onward
from pyromq.broker.tables.savedtable import Unsaved
from pyromq.errors import PyroMQError
from pyromq.protocol import names
from pyromq.protocol.errors import MessageError
from pyromq.protocol.properties import Property, decode_properties, encode_properties
from pyromq.protocol.records.host import pack_host
from pyromq.protocol.records.record import RecordSummary, peek_record
from pyromq.store.log.put import PutMessage, PutResult
from pyromq.store.queue.read import GetStatus

log = logging.getLogger(__name__)

RETRY_QUEUES = 1


class CannotReturnError(PyroMQError):
    """A message that is refused now and will be again soon; the text says why."""


class StoreBusyError(PyroMQError):
    """The store takes nothing at the moment."""


class TopicUnsavedError(StoreBusyError):
    """The topic it goes to is being made, which takes a moment."""


class Comeback:
    """Brings messages back, through `onward`."""

    def __init__(self, core: Core, onward: Onward) -> None:
        self._config = core.config
        self._topics = core.topics
        self._groups = core.groups
        self._offsets = core.offsets
        self._store = core.store
        self._stats = core.stats
        self._onward = onward

    def wanted(self, checkpoint: PopCheckpoint) -> bool:
        """Whether topic and group are still there."""
        return checkpoint.topic in self._topics and checkpoint.group in self._groups

    def __call__(self, checkpoint: PopCheckpoint, offset: int) -> int:
        """Put one message of a checkpoint where the group finds it; returns where its record ends in the log.

        0 when the message no longer exists. Raises CannotReturnError and StoreBusyError.
        """
        result = self._store.get(checkpoint.topic, checkpoint.queue_id, offset, 1)
        if result.status is not GetStatus.FOUND or result.queue_offsets != [offset]:
            return 0
        record = next(result.records())
        try:
            summary = peek_record(record, 0)
            message = self._message(checkpoint, summary, record)
        except (Refused, MessageError) as error:
            raise CannotReturnError(str(error)) from error
        except Unsaved as error:
            raise TopicUnsavedError(f"its retry topic is not there yet: {error}") from error
        put = self._onward.put(message)
        if put.stored:
            self._count(checkpoint, message, put)
            return put.end
        if put.status in HOPELESS:
            raise CannotReturnError(f"{put.status.name}: {put.reason}")
        raise StoreBusyError(f"{put.status.name}: {put.reason}")

    def _message(self, checkpoint: PopCheckpoint, summary: RecordSummary, record: memoryview) -> PutMessage:
        properties = decode_properties(summary.properties)
        properties.setdefault(Property.FIRST_POP_TIME, str(checkpoint.pop_time))
        # It has had its delay, if it had one.
        properties.pop(Property.DELAY, None)
        group = self._groups.require(checkpoint.group)
        if summary.reconsume_times >= group.retry_max_times:
            place = names.dlq_topic(checkpoint.group)
            self._topics.ensure(place, RETRY_QUEUES)
            properties.setdefault(Property.RETRY_TOPIC, self._origin(checkpoint))
            properties.setdefault(
                Property.ORIGIN_MESSAGE_ID, f"{summary.store_host.hex().upper()}{summary.physical_offset:016X}"
            )
        else:
            place = self._retry_topic(checkpoint)
        message = copy_of(
            summary,
            record,
            (place, 0),
            encode_properties(properties),
            properties,
            reconsume_times=summary.reconsume_times + 1,
        )
        message.store_host, message.born_host = None, pack_host(self._store.store_host)
        return message

    def _retry_topic(self, checkpoint: PopCheckpoint) -> str:
        topic, group = checkpoint.topic, checkpoint.group
        if not names.is_retry_topic(topic):
            topic = names.pop_retry_topic(group, topic, plus=self._config.enable_retry_topic_v2)
        self._topics.ensure(topic, RETRY_QUEUES)
        if self._offsets.get(group, topic, 0) is None:
            self._offsets.commit(group, topic, 0, 0)
        return topic

    @staticmethod
    def _origin(checkpoint: PopCheckpoint) -> str:
        """The topic that the message was first sent to."""
        for plus in (False, True):
            prefix = names.pop_retry_topic(checkpoint.group, "", plus=plus)
            if checkpoint.topic.startswith(prefix):
                return checkpoint.topic.removeprefix(prefix)
        return checkpoint.topic

    def _count(self, checkpoint: PopCheckpoint, message: PutMessage, put: PutResult) -> None:
        self._stats.stored(message.topic, put)
        if names.is_dlq_topic(message.topic):
            origin = self._origin(checkpoint)
            self._stats.add(Stat.DLQ_PUT_NUMS, f"{origin}@{checkpoint.group}")
            log.info("group %s failed on a message of %s for good: now in %s", checkpoint.group, origin, message.topic)
