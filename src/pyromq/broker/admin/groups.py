"""Consumer groups: create, change, delete, list, forbid; and how their members get messages."""

import asyncio

from pyromq.broker.admin.topics import page
from pyromq.broker.core import Core
from pyromq.broker.errors import Refused, group_not_exist, topic_not_exist
from pyromq.broker.part import Part
from pyromq.broker.tables.topics import MAX_QUEUES
from pyromq.protocol import names
from pyromq.protocol.bodies.groups import (
    GroupForbidden,
    GroupSubscription,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
)
from pyromq.protocol.bodies.topics import TopicList
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.admin import (
    DeleteSubscriptiongroupHeader,
    GetAllSubscriptiongroupConfigHeader,
    GetAllSubscriptiongroupConfigResponseHeader,
    GetSubscriptiongroupConfigHeader,
    QuerySubscriptionByConsumerHeader,
    QueryTopicsByConsumerHeader,
    UpdateAndGetGroupForbiddenHeader,
)
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Handler


class GroupAdmin(Part):
    """Group administration."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self._create,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: self._create_list,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self._all,
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: self._one,
            RequestCode.DELETE_SUBSCRIPTIONGROUP: self._delete,
            RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: self._forbid,
            RequestCode.QUERY_TOPICS_BY_CONSUMER: self._topics,
            RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: self._subscription,
        }

    async def _create(self, request: Command, _connection: Connection) -> Command:
        group = SubscriptionGroupConfig.of_request(request.body)
        _check(group)
        await self._core.groups.put(group)
        return request.reply()

    async def _create_list(self, request: Command, _connection: Connection) -> Command:
        groups = SubscriptionGroupList.of_request(request.body).group_config_list
        for group in groups:
            _check(group)
        await self._core.groups.put_all(groups)
        return request.reply()

    async def _all(self, request: Command, _connection: Connection) -> Command:
        header = request.header(GetAllSubscriptiongroupConfigHeader)
        table = self._core.groups.table()
        if header.group_seq is None:
            return request.reply(body=await asyncio.to_thread(table.encode))
        total = len(table.subscription_group_table)
        table.subscription_group_table = page(table.subscription_group_table, header.group_seq, header.max_group_num)
        answer = GetAllSubscriptiongroupConfigResponseHeader(total_group_num=total)
        return request.reply(header=answer, body=await asyncio.to_thread(table.encode))

    def _one(self, request: Command, _connection: Connection) -> Command:
        name = request.header(GetSubscriptiongroupConfigHeader).group
        group = self._core.groups.get(name)
        if group is None:
            raise group_not_exist(name)
        return request.reply(body=group.encode())

    async def _delete(self, request: Command, _connection: Connection) -> Command:
        header = request.header(DeleteSubscriptiongroupHeader)
        await self._core.groups.delete(header.group_name)
        self._core.stats.forget(lambda key: key.endswith(f"@{header.group_name}"))
        if header.clean_offset:
            self._core.offsets.forget_group(header.group_name)
            self._core.tables.batches.forget_group(header.group_name)
        return request.reply()

    async def _forbid(self, request: Command, _connection: Connection) -> Command:
        header = request.header(UpdateAndGetGroupForbiddenHeader)
        groups = self._core.groups
        if header.group not in groups:
            raise group_not_exist(header.group)
        if header.topic not in self._core.topics:
            raise topic_not_exist(header.topic)
        if header.readable is not None:
            await groups.forbid(header.group, header.topic, readable=header.readable)
        readable = not groups.is_forbidden(header.group, header.topic)
        return request.reply(body=GroupForbidden(group=header.group, topic=header.topic, readable=readable).encode())

    def _topics(self, request: Command, _connection: Connection) -> Command:
        group = request.header(QueryTopicsByConsumerHeader).group
        topics = sorted(self._core.offsets.topics_of(group))
        return request.reply(body=TopicList(topic_list=topics, broker_addr=self._core.address).encode())

    def _subscription(self, request: Command, _connection: Connection) -> Command:
        header = request.header(QuerySubscriptionByConsumerHeader)
        live = self._core.consumers.get(header.group)
        topic = header.topic or ""
        found = live.subscriptions.get(topic) if live is not None else None
        return request.reply(body=GroupSubscription(group=header.group, topic=topic, subscription_data=found).encode())


def _check(group: SubscriptionGroupConfig) -> None:
    names.check_group(group.group_name)
    if not 0 <= group.retry_queue_nums <= MAX_QUEUES or group.retry_max_times < -1:
        raise Refused(
            ResponseCode.INVALID_PARAMETER,
            f"retryQueueNums {group.retry_queue_nums} must be from 0 to {MAX_QUEUES}, "
            f"retryMaxTimes {group.retry_max_times} not below -1",
        )
