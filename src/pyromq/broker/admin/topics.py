"""Topics: create, change, delete, list, measure."""

import asyncio
import itertools
from collections.abc import Iterable
from typing import TypeVar

from pyromq.broker.admin.stats import Stat
from pyromq.broker.core import Core
from pyromq.broker.errors import Refused, topic_not_exist
from pyromq.broker.part import Part
from pyromq.broker.tables.savedtable import Save
from pyromq.broker.tables.topics import MAX_QUEUES
from pyromq.protocol import names
from pyromq.protocol.bodies.enums import TopicFilterType
from pyromq.protocol.bodies.groups import GroupList
from pyromq.protocol.bodies.stats import TopicOffset, TopicStatsTable
from pyromq.protocol.bodies.topics import TopicConfig, TopicConfigList, TopicList
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.admin import (
    DeleteTopicInBrokerHeader,
    GetAllTopicConfigHeader,
    GetAllTopicConfigResponseHeader,
    GetTopicConfigHeader,
    GetTopicStatsInfoHeader,
    QueryTopicConsumeByWhoHeader,
    UpdateAndCreateTopicHeader,
)
from pyromq.protocol.message import MessageQueue
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Handler

V = TypeVar("V")

MAX_PERM = 7

MESSAGE_TYPES = frozenset({"UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"})
ATTRIBUTES = {
    "message.type": MESSAGE_TYPES,
    "queue.type": frozenset({"SimpleCQ"}),
    "cleanup.policy": frozenset({"DELETE"}),
}
"""Topic attributes and the values that are served; Apache's batch queues and compaction are not."""


class TopicAdmin(Part):
    """Topic administration."""

    def __init__(self, core: Core, parts: Iterable[Part]) -> None:
        self._core = core
        self._parts = parts

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.UPDATE_AND_CREATE_TOPIC: self._create,
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: self._create_list,
            RequestCode.DELETE_TOPIC_IN_BROKER: self._delete,
            RequestCode.GET_ALL_TOPIC_CONFIG: self._all,
            RequestCode.GET_TOPIC_CONFIG: self._one,
            RequestCode.GET_TOPIC_STATS_INFO: self._stats,
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: self._consumed_by,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: self._system,
        }

    async def _create(self, request: Command, _connection: Connection) -> Command:
        header = request.header(UpdateAndCreateTopicHeader)
        known = self._core.topics.get(header.topic)
        topic = TopicConfig(
            topic_name=header.topic,
            read_queue_nums=header.read_queue_nums,
            write_queue_nums=header.write_queue_nums,
            perm=header.perm,
            topic_filter_type=_filter_type(header.topic_filter_type),
            topic_sys_flag=header.topic_sys_flag or 0,
            order=header.order,
            attributes=changed_attributes(known, header.attributes or ""),
        )
        self._check(topic)
        await _saved_and_told(self._core.topics.put(topic))
        return request.reply()

    async def _create_list(self, request: Command, _connection: Connection) -> Command:
        topics = TopicConfigList.of_request(request.body).topic_config_list
        for topic in topics:
            known = self._core.topics.get(topic.topic_name)
            changes = ",".join(_change(key, value) for key, value in topic.attributes.items())
            topic.attributes = changed_attributes(known, changes)
            self._check(topic)
        await _saved_and_told(self._core.topics.put_all(topics))
        return request.reply()

    def _check(self, topic: TopicConfig) -> None:
        names.check_topic(topic.topic_name)
        config = self._core.config
        if config.validate_system_topic_when_update_topic and self._core.topics.is_system(topic.topic_name):
            raise Refused(
                ResponseCode.INVALID_PARAMETER, f"the topic[{topic.topic_name}] is conflict with system topic"
            )
        if not (0 <= topic.read_queue_nums <= MAX_QUEUES and 0 <= topic.write_queue_nums <= MAX_QUEUES):
            raise Refused(
                ResponseCode.INVALID_PARAMETER,
                f"queue numbers {topic.read_queue_nums} and {topic.write_queue_nums} must be from 0 to {MAX_QUEUES}",
            )
        if not 0 <= topic.perm <= MAX_PERM:
            raise Refused(ResponseCode.INVALID_PARAMETER, f"perm {topic.perm} must be from 0 to {MAX_PERM}")
        if topic.attributes.get("message.type") == "MIXED" and not config.enable_mixed_message_type:
            raise Refused(
                ResponseCode.INVALID_PARAMETER, "MIXED message type is not supported (enableMixedMessageType)"
            )

    async def _delete(self, request: Command, _connection: Connection) -> Command:
        topic = request.header(DeleteTopicInBrokerHeader).topic
        names.check_topic(topic)
        if self._core.topics.is_system(topic):
            raise Refused(ResponseCode.INVALID_PARAMETER, f"the topic[{topic}] is conflict with system topic")
        retries = {
            retry
            for group in self._core.offsets.groups_of(topic)
            for plus in (False, True)
            if (retry := names.pop_retry_topic(group, topic, plus=plus)) in self._core.topics
        }
        await self._forget({topic, *retries})
        return request.reply()

    async def _forget(self, topics: set[str]) -> None:
        """Everything that the broker knows about topics. What is in the log stays until it ages."""
        core = self._core
        for deletion in [*map(core.topics.delete, topics), *map(core.tables.modes.forget_topic, topics)]:
            await deletion
        for topic in topics:
            core.offsets.forget_topic(topic)
            for part in self._parts:
                part.forget_topic(topic)
            core.store.delete_topic(topic)
        core.stats.forget(lambda key: not topics.isdisjoint(key.split("@")))

    async def _all(self, request: Command, _connection: Connection) -> Command:
        header = request.header(GetAllTopicConfigHeader)
        table = self._core.topics.table()
        if header.topic_seq is None:
            return request.reply(body=await asyncio.to_thread(table.encode))
        total = len(table.topic_config_table)
        table.topic_config_table = page(table.topic_config_table, header.topic_seq, header.max_topic_num)
        body = await asyncio.to_thread(table.encode)
        return request.reply(header=GetAllTopicConfigResponseHeader(total_topic_num=total), body=body)

    def _one(self, request: Command, _connection: Connection) -> Command:
        name = request.header(GetTopicConfigHeader).topic
        topic = self._core.topics.get(name)
        if topic is None:
            raise topic_not_exist(name)
        return request.reply(body=topic.encode())

    def _stats(self, request: Command, _connection: Connection) -> Command:
        name = request.header(GetTopicStatsInfoHeader).topic
        topic = self._core.topics.get(name)
        if topic is None:
            raise topic_not_exist(name)
        store = self._core.store
        table = {}
        for queue_id in range(max(topic.read_queue_nums, topic.write_queue_nums)):
            low, high = store.min_offset(name, queue_id), store.max_offset(name, queue_id)
            newest = store.lookup.store_time(name, queue_id, high - 1) if high > 0 else 0
            queue = MessageQueue(name, self._core.config.broker_name, queue_id)
            table[queue] = TopicOffset(min_offset=low, max_offset=high, last_update_timestamp=max(newest, 0))
        rate = self._core.stats.per_second(Stat.TOPIC_PUT_NUMS, name)
        return request.reply(body=TopicStatsTable(offset_table=table, topic_put_tps=rate).encode())

    def _consumed_by(self, request: Command, _connection: Connection) -> Command:
        topic = request.header(QueryTopicConsumeByWhoHeader).topic
        live = self._core.consumers.groups_of_topic(topic)
        groups = sorted({*live, *self._core.offsets.groups_of(topic)})
        return request.reply(body=GroupList(group_list=groups).encode())

    def _system(self, request: Command, _connection: Connection) -> Command:
        topics = sorted(
            topic.topic_name for topic in self._core.topics if self._core.topics.is_system(topic.topic_name)
        )
        return request.reply(body=TopicList(topic_list=topics).encode())


async def _saved_and_told(save: Save) -> None:
    await save
    await save.told()


def page(table: dict[str, V], begin: int, size: int | None) -> dict[str, V]:
    """The entries of a table from the given one on, at most `size` of them. Raises Refused for negative numbers."""
    if begin < 0 or (size is not None and size < 0):
        raise Refused(ResponseCode.INVALID_PARAMETER, f"a page cannot begin at {begin} and have {size} entries")
    return dict(itertools.islice(table.items(), begin, begin + (size or len(table))))


def _filter_type(name: str) -> TopicFilterType:
    if name not in TopicFilterType.__members__:
        raise Refused(
            ResponseCode.INVALID_PARAMETER, f"unknown topicFilterType {name!r}: {sorted(TopicFilterType.__members__)}"
        )
    return TopicFilterType[name]


def _change(key: str, value: str) -> str:
    """An attribute of a topic in a list as a change: there the sign is part of the key, and may be absent."""
    return key if key.startswith("-") else f"+{key.removeprefix('+')}={value}"


def changed_attributes(known: TopicConfig | None, changes: str) -> dict[str, str]:
    """The attributes of a topic after `+key=value,-key`. Raises Refused for what is unknown or not served."""
    attributes = dict(known.attributes) if known is not None else {}
    for change in filter(None, (part.strip() for part in changes.split(","))):
        key, equals, value = change[1:].partition("=")
        if change[0] == "-" and not equals:
            attributes.pop(key, None)
        elif change[0] == "+" and equals:
            allowed = ATTRIBUTES.get(key)
            if allowed is None:
                raise Refused(ResponseCode.INVALID_PARAMETER, f"unknown topic attribute {key!r}: {sorted(ATTRIBUTES)}")
            if value not in allowed:
                raise Refused(ResponseCode.INVALID_PARAMETER, f"{key}={value} is not served: {sorted(allowed)}")
            attributes[key] = value
        else:
            raise Refused(ResponseCode.INVALID_PARAMETER, f"attribute change {change!r} is neither +key=value nor -key")
    return attributes
