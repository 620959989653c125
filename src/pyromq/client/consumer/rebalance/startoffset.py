"""Where a consumer begins in a queue it has just got."""

import logging
from datetime import datetime, timedelta

from pyromq.client.clock import Clock
from pyromq.client.consumer.offsets import NONE_STORED, OffsetStore, Read
from pyromq.client.errors import ClientError
from pyromq.client.queries import Queries
from pyromq.protocol.bodies.enums import ConsumeFromWhere
from pyromq.protocol.message import MessageQueue
from pyromq.protocol.names import is_retry_topic

log = logging.getLogger(__name__)

TIME_FORMAT = "%Y%m%d%H%M%S"
DEFAULT_AGE = timedelta(minutes=30)


def consume_time(given: datetime | str | None, clock: Clock) -> int:
    """Unix ms of a start time: a datetime, local time as `yyyyMMddHHmmss`, or half an hour ago.

    Raises ClientError for a text that is no such time.
    """
    if given is None:
        return clock.millis() - int(DEFAULT_AGE.total_seconds() * 1000)
    if isinstance(given, str):
        try:
            given = datetime.strptime(given, TIME_FORMAT).astimezone()
        except ValueError:
            raise ClientError(f"consume_timestamp {given!r} is not a time written as yyyyMMddHHmmss") from None
    return int(given.timestamp() * 1000)


class StartOffsets:
    """The stored offset, or by `where` for a queue of which the group has none."""

    def __init__(self, where: ConsumeFromWhere, time_ms: int, offsets: OffsetStore, queries: Queries) -> None:
        self._where = where
        self._time_ms = time_ms
        self._offsets = offsets
        self._queries = queries

    async def find(self, queue: MessageQueue, read: Read = Read.STORE) -> int:
        """Raises ClientError when it cannot be found out; the queue is then not taken yet.

        A position chosen here becomes the group's own at once. Otherwise a member that takes the queue over before
        anything of it was consumed would choose again, and skip what arrived in between.
        """
        stored = await self._offsets.read(queue, read)
        if stored >= 0:
            return stored
        if stored != NONE_STORED:
            raise ClientError(f"the stored offset of {queue} cannot be read", broker=queue.broker_name, retryable=True)
        offset = await self._choose(queue)
        log.info("group has no offset for %s, begins at %d (%s)", queue, offset, self._where)
        self._offsets.update(queue, offset)
        await self._offsets.persist(queue)
        return offset

    async def _choose(self, queue: MessageQueue) -> int:
        retry = is_retry_topic(queue.topic)
        if self._where == ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET:
            return 0
        if self._where == ConsumeFromWhere.CONSUME_FROM_TIMESTAMP:
            return await (
                self._queries.max_offset(queue) if retry else self._queries.search_offset(queue, self._time_ms)
            )
        return 0 if retry else await self._queries.max_offset(queue)
