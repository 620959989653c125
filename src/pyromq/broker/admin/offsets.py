"""How far groups are: progress, resets, clones, time spans."""

import asyncio
import time

from pyromq.broker.admin.stats import Stat
from pyromq.broker.core import Core
from pyromq.broker.errors import Refused, group_not_exist, topic_not_exist
from pyromq.broker.part import Part
from pyromq.protocol.bodies.base import Body
from pyromq.protocol.bodies.offsets import CorrectionOffsets, ResetOffsetBody
from pyromq.protocol.bodies.stats import ConsumeStats, ConsumeStatsList, ConsumeTimeSpans, OffsetWrapper, QueueTimeSpan
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.admin import (
    CloneGroupOffsetHeader,
    GetBrokerConsumeStatsHeader,
    GetConsumeStatsHeader,
    InvokeBrokerToResetOffsetHeader,
    QueryConsumeTimeSpanHeader,
    QueryCorrectionOffsetHeader,
)
from pyromq.protocol.headers.callbacks import ResetConsumerClientOffsetHeader
from pyromq.protocol.message import MessageQueue
from pyromq.protocol.release import V3_0_7_SNAPSHOT, Language
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Handler
from pyromq.store.config import BrokerRole

WHICH_TABLE = "table"
ORDERED_BATCHES = "consumerOrderInfo"


class OffsetAdmin(Part):
    """Offset administration."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.GET_ALL_CONSUMER_OFFSET: self._all,
            RequestCode.GET_CONSUME_STATS: self._stats,
            RequestCode.GET_BROKER_CONSUME_STATS: self._all_stats,
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: self._reset,
            RequestCode.CLONE_GROUP_OFFSET: self._clone,
            RequestCode.QUERY_CONSUME_TIME_SPAN: self._time_span,
            RequestCode.QUERY_CORRECTION_OFFSET: self._correction,
        }

    async def _all(self, request: Command, _connection: Connection) -> Command:
        """For slaves. One of ours asks under the same code for the batches of ordered pops, which Apache's keep."""
        ordered = request.ext.get(WHICH_TABLE) == ORDERED_BATCHES
        table: Body = self._core.tables.batches.table() if ordered else self._core.offsets.table()
        return request.reply(body=await asyncio.to_thread(table.encode))

    def _stats(self, request: Command, _connection: Connection) -> Command:
        header = request.header(GetConsumeStatsHeader)
        group = header.consumer_group
        if header.topic:
            topics = {header.topic}
        elif header.topic_list:
            topics = {topic for topic in header.topic_list.split(";") if topic}
        else:
            topics = self._core.offsets.topics_of(group)
        stats = ConsumeStats()
        for topic in sorted(topics):
            config = self._core.topics.get(topic)
            if config is None or not self._consumes(group, topic):
                continue
            stats.offset_table.update(self._progress(group, config))
            stats.consume_tps += self._core.stats.per_second(Stat.GROUP_GET_NUMS, f"{topic}@{group}")
        return request.reply(body=stats.encode())

    def _consumes(self, group: str, topic: str) -> bool:
        """Whether the group subscribes to the topic now; unknown while none of its members is connected."""
        live = self._core.consumers.get(group)
        return live is None or not live.subscriptions or topic in live.subscriptions

    def _progress(self, group: str, topic: TopicConfig) -> dict[MessageQueue, OffsetWrapper]:
        store, offsets, name = self._core.store, self._core.offsets, topic.topic_name
        table = {}
        for queue_id in range(topic.read_queue_nums):
            broker_offset = max(0, store.max_offset(name, queue_id))
            stored = offsets.get(group, name, queue_id)
            consumer_offset = stored or 0
            pulled = offsets.pull_offset(group, name, queue_id)
            last = store.lookup.store_time(name, queue_id, consumer_offset - 1) if consumer_offset > 0 else 0
            table[MessageQueue(name, self._core.config.broker_name, queue_id)] = OffsetWrapper(
                broker_offset=broker_offset,
                consumer_offset=consumer_offset,
                pull_offset=max(pulled or 0, consumer_offset),
                last_timestamp=max(last, 0),
            )
        return table

    def _all_stats(self, request: Command, _connection: Connection) -> Command:
        ordered = request.header(GetBrokerConsumeStatsHeader).is_order
        groups = []
        total = inflight = 0
        for group in self._core.groups:
            each = []
            for name in sorted(self._core.offsets.topics_of(group.group_name)):
                topic = self._core.topics.get(name)
                if topic is None or (ordered and not topic.order):
                    continue
                table = self._progress(group.group_name, topic)
                total += sum(max(0, row.broker_offset - row.consumer_offset) for row in table.values())
                inflight += sum(max(0, row.pull_offset - row.consumer_offset) for row in table.values())
                rate = self._core.stats.per_second(Stat.GROUP_GET_NUMS, f"{name}@{group.group_name}")
                each.append(ConsumeStats(offset_table=table, consume_tps=rate))
            groups.append({group.group_name: each})
        body = ConsumeStatsList(
            broker_addr=self._core.address,
            consume_stats_list=groups,
            total_diff=total,
            total_inflight_diff=inflight,
        )
        return request.reply(body=body.encode())

    def _reset(self, request: Command, _connection: Connection) -> Command:
        header = request.header(InvokeBrokerToResetOffsetHeader)
        core = self._core
        if core.config.broker_role is BrokerRole.SLAVE:
            raise Refused(ResponseCode.SYSTEM_ERROR, "can not reset offset in slave broker: ask its master")
        topic = core.topics.get(header.topic)
        if topic is None:
            raise topic_not_exist(header.topic)
        if header.group not in core.groups:
            raise group_not_exist(header.group)
        if core.config.use_server_side_reset_offset:
            targets = self._targets(header, topic)
            for queue, offset in targets.items():
                core.offsets.reset(header.group, header.topic, queue.queue_id, offset)
            return request.reply(body=ResetOffsetBody(offset_table=targets).encode())
        return self._push_reset(request, header, topic)

    def _targets(self, header: InvokeBrokerToResetOffsetHeader, topic: TopicConfig) -> dict[MessageQueue, int]:
        """Where the group resumes in each queue. Raises Refused for a queue or offset that does not exist."""
        core, name = self._core, header.topic
        queue_ids = range(topic.read_queue_nums)
        if header.queue_id is not None and header.queue_id >= 0:
            if header.queue_id not in queue_ids:
                raise Refused(
                    ResponseCode.SYSTEM_ERROR, f"topic {name} has {topic.read_queue_nums} queues, not {header.queue_id}"
                )
            queue_ids = range(header.queue_id, header.queue_id + 1)
        targets = {}
        for queue_id in queue_ids:
            low, high = core.store.min_offset(name, queue_id), core.store.max_offset(name, queue_id)
            if header.offset is not None and header.offset >= 0:
                if not low <= header.offset <= high:
                    raise Refused(
                        ResponseCode.SYSTEM_ERROR,
                        f"target offset {header.offset} not in consume queue range [{low}-{high}] of queue {queue_id}",
                    )
                target = header.offset
            elif header.timestamp < 0:
                target = high
            else:
                target = core.store.lookup.offset_by_time(name, queue_id, header.timestamp)
            targets[MessageQueue(name, core.config.broker_name, queue_id)] = target
        return targets

    def _push_reset(self, request: Command, header: InvokeBrokerToResetOffsetHeader, topic: TopicConfig) -> Command:
        """Tell the connected members to resume elsewhere; without force, only backwards."""
        core = self._core
        live = core.consumers.get(header.group)
        if live is None:
            raise Refused(
                ResponseCode.CONSUMER_NOT_ONLINE,
                f"consumer not online, so can not reset online. Group: {header.group} Topic: {header.topic} "
                f"Timestamp: {header.timestamp}",
            )
        targets = {}
        for queue, target in self._targets(header, topic).items():
            stored = core.offsets.get(header.group, header.topic, queue.queue_id)
            if stored is not None:
                targets[queue] = target if header.is_force or target < stored else stored
        notice = ResetConsumerClientOffsetHeader(
            topic=header.topic, group=header.group, timestamp=header.timestamp, is_force=header.is_force
        )
        body = ResetOffsetBody(offset_table=targets)
        for member in live.members.values():
            if member.version < V3_0_7_SNAPSHOT:
                raise Refused(
                    ResponseCode.SYSTEM_ERROR,
                    f"the client {member.client_id} does not support this, its version is too old",
                )
            # C++ clients read a list, all others only the table.
            text = body.encode_list() if member.language is Language.CPP else body.encode()
            code = RequestCode.RESET_CONSUMER_CLIENT_OFFSET
            member.connection.send(Command.request(code, notice, body=text, oneway=True))
        return request.reply(body=body.encode())

    def _clone(self, request: Command, _connection: Connection) -> Command:
        header = request.header(CloneGroupOffsetHeader)
        core = self._core
        core.groups.require(header.dest_group)
        topics = {header.topic} if header.topic else core.offsets.topics_of(header.src_group)
        for topic in topics:
            if topic not in core.topics:
                continue
            if not header.offline and not self._consumes(header.src_group, topic):
                continue
            core.offsets.clone(header.src_group, header.dest_group, topic)
        return request.reply()

    def _time_span(self, request: Command, _connection: Connection) -> Command:
        header = request.header(QueryConsumeTimeSpanHeader)
        core, name = self._core, header.topic
        topic = core.topics.get(name)
        if topic is None:
            raise topic_not_exist(name)
        now = core.clock()
        spans = []
        for queue_id in range(topic.write_queue_nums):
            low, high = core.store.min_offset(name, queue_id), core.store.max_offset(name, queue_id)
            oldest = core.store.lookup.store_time(name, queue_id, low)
            newest = core.store.lookup.store_time(name, queue_id, high - 1) if high > 0 else -1
            consumed = core.offsets.get(header.group, name, queue_id) or 0
            reached = core.store.lookup.store_time(name, queue_id, consumed - 1) if consumed > 0 else oldest
            waiting = core.store.lookup.store_time(name, queue_id, consumed) if consumed < high else -1
            spans.append(
                QueueTimeSpan(
                    message_queue=MessageQueue(name, core.config.broker_name, queue_id),
                    min_time_stamp=oldest,
                    min_time_stamp_str=_text(oldest),
                    max_time_stamp=newest,
                    max_time_stamp_str=_text(newest),
                    consume_time_stamp=reached,
                    consume_time_stamp_str=_text(reached),
                    delay_time=now - waiting if waiting > 0 else 0,
                )
            )
        return request.reply(body=ConsumeTimeSpans(consume_time_span_set=spans).encode())

    def _correction(self, request: Command, _connection: Connection) -> Command:
        """The smallest offset of each queue over the groups of a topic, not below that of the group to compare with."""
        header = request.header(QueryCorrectionOffsetHeader)
        offsets, topic = self._core.offsets, header.topic
        skipped = {group for group in (header.filter_groups or "").split(",") if group}
        smallest: dict[int, int] = {}
        for group in offsets.groups_of(topic) - skipped:
            for queue_id, offset in offsets.queues(group, topic).items():
                smallest[queue_id] = min(offset, smallest.get(queue_id, offset))
        for queue_id, offset in offsets.queues(header.compare_group, topic).items():
            if queue_id in smallest:
                smallest[queue_id] = max(offset, smallest[queue_id])
        return request.reply(body=CorrectionOffsets(correction_offsets=smallest).encode())


def _text(timestamp: int) -> str | None:
    """A store time as people read it, None when there is none."""
    if timestamp <= 0:
        return None
    seconds, millis = divmod(timestamp, 1000)
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(seconds))},{millis:03d}"
