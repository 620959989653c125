"""Offsets of consumer groups: progress and lag, resets, clones, single offsets, time spans."""

import functools
from collections.abc import Iterable, Sequence

from pyromq.client.admin.lag import GroupLag, QueueLag, queue_lag
from pyromq.client.admin.reach import Server, Subject
from pyromq.client.errors import BrokerError
from pyromq.protocol.bodies.offsets import CorrectionOffsets, ResetOffsetBody
from pyromq.protocol.bodies.stats import ConsumeStats, ConsumeStatsList, ConsumeTimeSpans, OffsetWrapper, QueueTimeSpan
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.headers.admin import (
    CloneGroupOffsetHeader,
    GetBrokerConsumeStatsHeader,
    GetConsumeStatsHeader,
    InvokeBrokerToResetOffsetHeader,
    QueryConsumeTimeSpanHeader,
    QueryCorrectionOffsetHeader,
)
from pyromq.protocol.message import MessageQueue
from pyromq.protocol.requests import commit_offset, consumer_offset, max_offset, search_offset
from pyromq.protocol.routes import subscribe_queues

END = -1
"""As a time: the end of each queue."""
STATS_PATIENCE = 3.0


class OffsetMethods(Subject):
    """What `Admin` does with offsets of groups."""

    async def consume_stats(self, group: str, topic: str | None = None) -> ConsumeStats:
        """Progress of a group as brokers report it, over all its topics or one. A queue without a stored offset shows
        offset 0; `lag` tells the two apart."""
        reach = self._reach()
        parts = await reach.each(
            f"reading the progress of group {group!r}",
            await self._brokers(topic),
            functools.partial(self._stats, group=group, topic=topic),
        )
        return merged_progress(parts.values())

    async def lag(self, group: str, topic: str | None = None) -> GroupLag:
        """How far a group is behind, queue by queue, of all its topics or one.

        What cannot be told is None: a queue of which the group has stored no offset, a broker that did not answer.
        """
        reach = self._reach()
        servers = await self._brokers(topic)

        async def one(server: Server) -> tuple[ConsumeStats, set[MessageQueue]]:
            stats = await self._stats(server, group=group, topic=topic)
            doubtful = [queue for queue, seen in stats.offset_table.items() if seen.consumer_offset <= 0]
            unknown = {queue for queue in doubtful if await self._stored(server, group, queue) is None}
            return stats, unknown

        answers, failed = await reach.try_each(servers, one)
        if failed and not answers:
            await reach.each(f"reading the lag of group {group!r}", servers, one)
        rows = [
            queue_lag(queue, seen, stored=queue not in unknown)
            for stats, unknown in answers.values()
            for queue, seen in stats.offset_table.items()
        ]
        if topic is not None and failed:
            route = await reach.route(topic)
            rows += [QueueLag(queue=queue) for queue in subscribe_queues(topic, route) if queue.broker_name in failed]
        return GroupLag(
            group=group,
            queues=tuple(sorted(rows, key=lambda row: row.queue)),
            consume_tps=sum(stats.consume_tps for stats, _ in answers.values()),
            failed=failed,
        )

    async def broker_consume_stats(self, broker: str, *, ordered: bool = False) -> ConsumeStatsList:
        """Progress of all groups on one broker; with `ordered` only in ordered topics."""
        reach = self._reach()
        header = GetBrokerConsumeStatsHeader(is_order=ordered)
        code = RequestCode.GET_BROKER_CONSUME_STATS
        return await reach.read(await reach.master(broker), code, ConsumeStatsList, header, patience=STATS_PATIENCE)

    async def consumer_offset(self, group: str, queue: MessageQueue) -> int | None:
        """Where a group is in one queue; None when nothing is stored."""
        return await self._stored(await self._reach().master(queue.broker_name), group, queue)

    async def update_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Store an offset of a group that is not online; a consumer that runs would overwrite it."""
        await self._store(await self._reach().master(queue.broker_name), group, queue, offset)

    async def reset_offsets(
        self, group: str, topic: str, timestamp_ms: int, *, force: bool = True
    ) -> dict[MessageQueue, int]:
        """Have a group resume, in every queue, at the first message stored at a time; returns where that is.

        `timestamp_ms` -1 is the end. Without `force` queues only go backwards. Works online, and where the broker says
        that no consumer is, on the stored offsets. Raises PartialFailureError when some brokers refused.
        """
        reach = self._reach()
        header = InvokeBrokerToResetOffsetHeader(
            group=group, topic=topic, timestamp=timestamp_ms, is_force=force, queue_id=-1
        )

        async def one(server: Server) -> dict[MessageQueue, int]:
            try:
                return await self._ask_reset(server, header)
            except BrokerError as error:
                if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
                    raise
            return await self._reset_stored(server, group, topic, timestamp_ms, force=force)

        parts = await reach.each(f"resetting group {group!r} on {topic!r}", await reach.serving(topic), one)
        return {queue: offset for part in parts.values() for queue, offset in sorted(part.items())}

    async def reset_offset(self, group: str, queue: MessageQueue, offset: int) -> dict[MessageQueue, int]:
        """Have a group resume at one offset of one queue. Raises BrokerError when the queue does not have it."""
        header = InvokeBrokerToResetOffsetHeader(
            group=group, topic=queue.topic, queue_id=queue.queue_id, offset=offset, timestamp=0, is_force=True
        )
        return await self._ask_reset(await self._reach().master(queue.broker_name), header)

    async def skip_accumulated(self, group: str, topic: str, *, force: bool = True) -> dict[MessageQueue, int]:
        """Have a group resume at the end of every queue; what waits is skipped."""
        return await self.reset_offsets(group, topic, END, force=force)

    async def clone_offsets(self, source: str, destination: str, topic: str, *, offline: bool = True) -> None:
        """Put one group where another one is in a topic. Unless `offline`, only if the source subscribes to it now."""
        reach = self._reach()
        header = CloneGroupOffsetHeader(src_group=source, dest_group=destination, topic=topic, offline=offline)
        await reach.ask_each(
            f"cloning offsets of group {source!r}", await reach.serving(topic), RequestCode.CLONE_GROUP_OFFSET, header
        )

    async def consume_time_spans(self, group: str, topic: str) -> list[QueueTimeSpan]:
        """Store times of the first and last message of every queue, and of the one the group has reached."""
        reach = self._reach()
        header = QueryConsumeTimeSpanHeader(topic=topic, group=group)
        brokers = await reach.serving(topic)
        parts = await reach.read_each(
            f"reading time spans of {topic!r}", brokers, RequestCode.QUERY_CONSUME_TIME_SPAN, ConsumeTimeSpans, header
        )
        spans = [span for part in parts.values() for span in part.consume_time_span_set]
        return sorted(spans, key=lambda span: span.message_queue)

    async def correction_offsets(
        self, topic: str, group: str, *, without: Sequence[str] = ()
    ) -> dict[MessageQueue, int]:
        """The smallest offset over all groups of a topic but those in `without`, not below that of `group`."""
        reach = self._reach()
        header = QueryCorrectionOffsetHeader(topic=topic, compare_group=group, filter_groups=",".join(without) or None)
        brokers = await reach.serving(topic)
        parts = await reach.read_each(
            f"reading offsets of {topic!r}", brokers, RequestCode.QUERY_CORRECTION_OFFSET, CorrectionOffsets, header
        )
        return {
            MessageQueue(topic, broker, queue_id): offset
            for broker, part in parts.items()
            for queue_id, offset in sorted(part.correction_offsets.items())
        }

    async def _brokers(self, topic: str | None) -> list[Server]:
        """A group can have offsets on any broker; of one topic, only where that is."""
        reach = self._reach()
        return await reach.masters() if topic is None else await reach.serving(topic)

    async def _stats(self, server: Server, *, group: str, topic: str | None) -> ConsumeStats:
        header = GetConsumeStatsHeader(consumer_group=group, topic=topic)
        code = RequestCode.GET_CONSUME_STATS
        return await self._reach().read(server, code, ConsumeStats, header, patience=STATS_PATIENCE)

    async def _stored(self, server: Server, group: str, queue: MessageQueue) -> int | None:
        request = consumer_offset(group, queue.topic, queue.queue_id, zero_if_absent=False)
        return await self._reach().answer(server, request)

    async def _store(self, server: Server, group: str, queue: MessageQueue, offset: int) -> None:
        await self._reach().answer(server, commit_offset(group, queue.topic, queue.queue_id, offset))

    async def _ask_reset(self, server: Server, header: InvokeBrokerToResetOffsetHeader) -> dict[MessageQueue, int]:
        code = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
        return (await self._reach().read(server, code, ResetOffsetBody, header)).offset_table

    async def _reset_stored(
        self, server: Server, group: str, topic: str, timestamp_ms: int, *, force: bool
    ) -> dict[MessageQueue, int]:
        """For a group that nobody is online of: change the stored offsets, queue by queue."""
        moved: dict[MessageQueue, int] = {}
        stats = await self._stats(server, group=group, topic=topic)
        for queue, seen in sorted(stats.offset_table.items()):
            offset = await self._offset_at(server, queue, timestamp_ms)
            if may_move(seen, offset, force=force):
                await self._store(server, group, queue, offset)
                moved[queue] = offset
        return moved

    async def _offset_at(self, server: Server, queue: MessageQueue, timestamp_ms: int) -> int:
        topic, queue_id = queue.topic, queue.queue_id
        at_end = timestamp_ms == END
        request = max_offset(topic, queue_id) if at_end else search_offset(topic, queue_id, timestamp_ms)
        return await self._reach().answer(server, request)


def may_move(seen: OffsetWrapper, offset: int, *, force: bool) -> bool:
    """Whether a reset may take a queue there: backwards always, forwards only by force."""
    return force or offset <= seen.consumer_offset


def merged_progress(parts: Iterable[ConsumeStats]) -> ConsumeStats:
    """Progress on several brokers as one table, in order of the queues."""
    whole = ConsumeStats()
    for part in parts:
        whole.offset_table.update(part.offset_table)
        whole.consume_tps += part.consume_tps
    whole.offset_table = dict(sorted(whole.offset_table.items()))
    return whole
