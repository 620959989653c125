"""Consumer groups: create, change, delete, list; whether they may read; how their members get messages."""

from collections.abc import Sequence

from pyromq.client.admin.reach import Server, Subject
from pyromq.client.admin.topics import drop_topic
from pyromq.client.errors import ClientError
from pyromq.protocol.bodies.clients import SubscriptionData
from pyromq.protocol.bodies.enums import MessageRequestMode
from pyromq.protocol.bodies.groups import (
    GroupForbidden,
    GroupSubscription,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    SubscriptionGroupTable,
)
from pyromq.protocol.bodies.queues import SetMessageRequestMode
from pyromq.protocol.bodies.topics import TopicList
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.errors import ValidationError
from pyromq.protocol.headers.admin import (
    DeleteSubscriptiongroupHeader,
    GetAllSubscriptiongroupConfigHeader,
    GetAllSubscriptiongroupConfigResponseHeader,
    GetSubscriptiongroupConfigHeader,
    QuerySubscriptionByConsumerHeader,
    QueryTopicsByConsumerHeader,
    UpdateAndGetGroupForbiddenHeader,
)
from pyromq.protocol.names import check_group, dlq_topic, retry_topic

MAX_PAGES = 10_000


class GroupMethods(Subject):
    """What `Admin` does with consumer groups. Without `broker` and `cluster`, all masters are meant."""

    async def create_group(
        self, group: str | SubscriptionGroupConfig, *, broker: str | None = None, cluster: str | None = None
    ) -> SubscriptionGroupConfig:
        """Create a group, by name with the usual settings, or create or change it as the configuration says."""
        config = SubscriptionGroupConfig(group_name=group) if isinstance(group, str) else group
        _check(config.group_name)
        reach = self._reach()
        body = config.encode()
        masters = await reach.masters(broker=broker, cluster=cluster)
        await reach.ask_each(
            f"creating group {config.group_name!r}", masters, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body
        )
        return config

    async def create_groups(
        self, configs: Sequence[SubscriptionGroupConfig], *, broker: str | None = None, cluster: str | None = None
    ) -> None:
        """Create or change several groups with one request to each master."""
        for config in configs:
            _check(config.group_name)
        reach = self._reach()
        body = SubscriptionGroupList(group_config_list=list(configs)).encode()
        masters = await reach.masters(broker=broker, cluster=cluster)
        await reach.ask_each(
            f"creating {len(configs)} groups", masters, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, body=body
        )

    async def group_config(
        self, group: str, *, broker: str | None = None, cluster: str | None = None
    ) -> dict[str, SubscriptionGroupConfig]:
        """The settings on each broker that has the group. Raises BrokerError when none has it."""
        reach = self._reach()
        return await reach.read_owners(
            f"reading group {group!r}",
            await reach.masters(broker=broker, cluster=cluster),
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG,
            SubscriptionGroupConfig,
            GetSubscriptiongroupConfigHeader(group=group),
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            f"no broker has group {group}",
        )

    async def group_configs(
        self, *, broker: str | None = None, cluster: str | None = None
    ) -> dict[str, SubscriptionGroupTable]:
        """All groups of each broker, read page by page where the broker can do that."""
        reach = self._reach()
        masters = await reach.masters(broker=broker, cluster=cluster)
        return await reach.each("reading groups", masters, self._group_table)

    async def groups(self, *, cluster: str | None = None) -> list[str]:
        """Names of all consumer groups."""
        tables = await self.group_configs(cluster=cluster)
        return sorted({name for table in tables.values() for name in table.subscription_group_table})

    async def delete_group(
        self, group: str, *, clean_offsets: bool = False, broker: str | None = None, cluster: str | None = None
    ) -> None:
        """Delete a group, its offsets too if told so. Unless only one broker is meant, its retry topic and its dead
        letters go with it."""
        reach = self._reach()
        masters = await reach.masters(broker=broker, cluster=cluster)
        header = DeleteSubscriptiongroupHeader(group_name=group, clean_offset=clean_offsets)
        await reach.ask_each(f"deleting group {group!r}", masters, RequestCode.DELETE_SUBSCRIPTIONGROUP, header)
        if broker is None:
            for topic in (retry_topic(group), dlq_topic(group)):
                await drop_topic(reach, topic, masters, cluster)

    async def group_may_read(self, group: str, topic: str) -> dict[str, bool]:
        """Whether each broker of a topic lets the group read it."""
        return await self._forbidden(group, topic, None)

    async def let_group_read(self, group: str, topic: str, *, readable: bool) -> dict[str, bool]:
        """Forbid or allow a group to read a topic, on every broker of it."""
        return await self._forbidden(group, topic, readable)

    async def set_request_mode(
        self,
        group: str,
        topic: str,
        mode: MessageRequestMode,
        *,
        share_queues: int = 0,
        broker: str | None = None,
        cluster: str | None = None,
    ) -> None:
        """Choose whether members of a group pull a topic or pop it; `share_queues` is how many queues they share."""
        reach = self._reach()
        body = SetMessageRequestMode(
            consumer_group=group, topic=topic, mode=mode, pop_share_queue_num=share_queues
        ).encode()
        masters = await reach.masters(broker=broker, cluster=cluster)
        await reach.ask_each(
            f"setting the mode of group {group!r}", masters, RequestCode.SET_MESSAGE_REQUEST_MODE, body=body
        )

    async def topics_of_group(self, group: str) -> list[str]:
        """Topics of which some broker has offsets of the group."""
        reach = self._reach()
        header = QueryTopicsByConsumerHeader(group=group)
        masters = await reach.masters()
        found = await reach.read_each(
            f"looking for topics of group {group!r}", masters, RequestCode.QUERY_TOPICS_BY_CONSUMER, TopicList, header
        )
        return sorted({topic for topics in found.values() for topic in topics.topic_list})

    async def subscription(self, group: str, topic: str) -> SubscriptionData | None:
        """What the group, while it is online, subscribes to in a topic; None when nothing."""
        reach = self._reach()
        header = QuerySubscriptionByConsumerHeader(group=group, topic=topic)
        brokers = await reach.serving(topic)
        found = await reach.read_each(
            f"reading the subscription of group {group!r}",
            brokers,
            RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER,
            GroupSubscription,
            header,
        )
        known = [answer.subscription_data for answer in found.values() if answer.subscription_data is not None]
        return max(known, key=lambda data: data.sub_version, default=None)

    async def _forbidden(self, group: str, topic: str, readable: bool | None) -> dict[str, bool]:
        reach = self._reach()
        header = UpdateAndGetGroupForbiddenHeader(group=group, topic=topic, readable=readable)

        async def one(server: Server) -> bool:
            code = RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN
            return (await reach.read(server, code, GroupForbidden, header)).readable is not False

        return await reach.each(f"reading of {topic!r} by group {group!r}", await reach.serving(topic), one)

    async def _group_table(self, server: Server) -> SubscriptionGroupTable:
        """Releases up to 5.3.3 answer with everything at once and without a total."""
        reach = self._reach()
        size = reach.instance.config.page_size
        table = SubscriptionGroupTable()
        for _ in range(MAX_PAGES):
            begin = len(table.subscription_group_table)
            header = GetAllSubscriptiongroupConfigHeader(group_seq=begin, max_group_num=size)
            response = await reach.ask(server, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, header)
            page = SubscriptionGroupTable.decode(response.body)
            page.subscription_group_table = {**table.subscription_group_table, **page.subscription_group_table}
            table = page
            total = response.header(GetAllSubscriptiongroupConfigResponseHeader).total_group_num
            read = len(table.subscription_group_table)
            if total is None or read >= total or read == begin:
                break
        return table


def _check(group: str) -> None:
    try:
        check_group(group)
    except ValidationError as error:
        raise ClientError(f"group cannot be created: {error}") from error
