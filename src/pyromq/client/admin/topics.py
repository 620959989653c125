"""Topics: create, change, delete, list, measure, order configuration."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from pyromq.client.admin.nameservers import NameServerMethods
from pyromq.client.admin.reach import Reach, Server, Subject
from pyromq.client.clock import sleep
from pyromq.client.errors import ClientError
from pyromq.protocol.bodies.groups import GroupList
from pyromq.protocol.bodies.route import TopicRouteData
from pyromq.protocol.bodies.stats import TopicStatsTable
from pyromq.protocol.bodies.topics import (
    UNIT,
    UNIT_SUBSCRIBED,
    TopicConfig,
    TopicConfigList,
    TopicConfigTable,
    TopicList,
)
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.errors import ValidationError
from pyromq.protocol.headers.admin import (
    DeleteTopicInBrokerHeader,
    GetAllTopicConfigHeader,
    GetAllTopicConfigResponseHeader,
    GetTopicConfigHeader,
    GetTopicStatsInfoHeader,
    QueryTopicConsumeByWhoHeader,
    UpdateAndCreateTopicHeader,
)
from pyromq.protocol.headers.namesrv import (
    DeleteTopicInNamesrvHeader,
    GetTopicsByClusterHeader,
)
from pyromq.protocol.names import DEFAULT_TOPIC, check_topic
from pyromq.protocol.requests import topic_route
from pyromq.protocol.routes import READ_WRITE

ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"
DEFAULT_QUEUES = 8
MAX_PAGES = 10_000
LOOK_AGAIN = 0.05

Attributes = Mapping[str, str | None]
"""Topic attributes to set; None as value takes one away."""


class TopicMethods(Subject):
    """What `Admin` does with topics. `broker` is a name or `host:port`, and with no `cluster` either, all are meant."""

    async def create_topic(
        self,
        topic: str,
        *,
        queues: int = DEFAULT_QUEUES,
        read_queues: int | None = None,
        write_queues: int | None = None,
        perm: int = READ_WRITE,
        ordered: bool = False,
        unit: bool = False,
        unit_subscribed: bool = False,
        attributes: Attributes | None = None,
        broker: str | None = None,
        cluster: str | None = None,
    ) -> dict[str, TopicConfig]:
        """Create a topic, or change it, with the same numbers on every master meant; what was asked, by broker.

            await admin.create_topic("orders", queues=16, cluster="DefaultCluster")

        Permissions are 2 to write, 4 to read, 6 both. With `ordered` the name servers also learn the order of queues.
        Raises PartialFailureError when some brokers refused.
        """
        config = TopicConfig(
            topic_name=topic,
            read_queue_nums=queues if read_queues is None else read_queues,
            write_queue_nums=queues if write_queues is None else write_queues,
            perm=perm,
            order=ordered,
            topic_sys_flag=(UNIT if unit else 0) | (UNIT_SUBSCRIBED if unit_subscribed else 0),
        )
        _check(topic)
        masters = await self._reach().masters(broker=broker, cluster=cluster)
        header = _header(config, attribute_changes(attributes or {}))
        asked = await self._put(config, header, masters)
        if ordered:
            named = sorted(server.name for server in masters)
            await self.set_order_conf(topic, ";".join(f"{name}:{config.write_queue_nums}" for name in named))
        return asked

    async def wait_for_topic(self, topic: str, *, brokers: int = 1, seconds: float = 10.0) -> None:
        """Return as soon as every name server has the topic on that many brokers.

        A broker tells the name servers of a new topic on its own; consumers that look before miss it until their next
        look, half a minute later. Raises ClientError when it takes longer than `seconds`.
        """
        reach = self._reach()
        clock = reach.instance.clock
        deadline = clock.monotonic() + seconds

        async def count(server: Server) -> int:
            route = await reach.answer(server, topic_route(topic))
            return 0 if route is None else len(route.broker_datas)

        name_servers = [Server(address, address) for address in reach.instance.name_servers.addresses]
        while True:
            found = await reach.each(f"looking for topic {topic!r}", name_servers, count)
            late = [f"{name} ({number})" for name, number in found.items() if number < brokers]
            if not late:
                return
            if clock.monotonic() >= deadline:
                raise ClientError(
                    f"after {seconds:g} s topic {topic!r} is not on {brokers} broker(s) at {', '.join(late)}",
                    code=ResponseCode.TOPIC_NOT_EXIST,
                    retryable=True,
                )
            await sleep(clock, LOOK_AGAIN)

    async def create_topics(
        self, configs: Sequence[TopicConfig], *, broker: str | None = None, cluster: str | None = None
    ) -> None:
        """Create or change several topics with one request to each master."""
        for config in configs:
            _check(config.topic_name)
        reach = self._reach()
        body = TopicConfigList(topic_config_list=list(configs)).encode()
        masters = await reach.masters(broker=broker, cluster=cluster)
        await reach.ask_each(
            f"creating {len(configs)} topics", masters, RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=body
        )

    async def set_topic_permission(
        self, topic: str, perm: int, *, broker: str | None = None, cluster: str | None = None
    ) -> dict[str, TopicConfig]:
        """Change only the permission of a topic that exists; the new configuration by broker."""
        reach = self._reach()
        known = await self.topic_config(topic, broker=broker, cluster=cluster)
        servers = {server.name: server for server in await reach.masters(broker=broker, cluster=cluster)}

        async def change(server: Server) -> TopicConfig:
            config = msgspec.structs.replace(known[server.name], perm=perm)
            await reach.ask(server, RequestCode.UPDATE_AND_CREATE_TOPIC, _header(config, None))
            return config

        what = f"changing the permission of topic {topic!r}"
        return await reach.each(what, (servers[name] for name in known if name in servers), change)

    async def topic_config(
        self, topic: str, *, broker: str | None = None, cluster: str | None = None
    ) -> dict[str, TopicConfig]:
        """The configuration on each broker that has the topic. Raises BrokerError TOPIC_NOT_EXIST when none has."""
        reach = self._reach()
        return await reach.read_owners(
            f"reading topic {topic!r}",
            await reach.masters(broker=broker, cluster=cluster),
            RequestCode.GET_TOPIC_CONFIG,
            TopicConfig,
            GetTopicConfigHeader(topic=topic),
            ResponseCode.TOPIC_NOT_EXIST,
            f"no broker has topic {topic}",
        )

    async def topic_configs(
        self, *, broker: str | None = None, cluster: str | None = None
    ) -> dict[str, TopicConfigTable]:
        """All topics of each broker, read page by page where the broker can do that."""
        reach = self._reach()
        masters = await reach.masters(broker=broker, cluster=cluster)
        return await reach.each("reading topics", masters, self._topic_table)

    async def delete_topic(self, topic: str, *, cluster: str | None = None) -> None:
        """Take a topic away: from the brokers, then from all name servers, and its order configuration with it.

        The messages stay in the commit log until it expires, but nobody finds them any more.
        """
        reach = self._reach()
        await drop_topic(reach, topic, await reach.masters(cluster=cluster), cluster)
        await self.delete_order_conf(topic)

    async def topic_stats(self, topic: str) -> TopicStatsTable:
        """Offsets and last change of every queue of a topic, and how many messages a second arrive."""
        reach = self._reach()
        header = GetTopicStatsInfoHeader(topic=topic)
        brokers = await reach.serving(topic)
        parts = await reach.read_each(
            f"measuring topic {topic!r}", brokers, RequestCode.GET_TOPIC_STATS_INFO, TopicStatsTable, header
        )
        return merged_stats(parts.values())

    async def topic_route(self, topic: str) -> TopicRouteData:
        """Which brokers have the topic, with how many queues. Raises NoRouteError."""
        return await self._reach().route(topic)

    async def topics(self, *, cluster: str | None = None) -> list[str]:
        """Names of all topics, or of those of one cluster, as the name servers know them."""
        reach = self._reach()
        if cluster is None:
            found = await reach.read_name_server(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, TopicList)
        else:
            header = GetTopicsByClusterHeader(cluster=cluster)
            found = await reach.read_name_server(RequestCode.GET_TOPICS_BY_CLUSTER, TopicList, header)
        return sorted(found.topic_list)

    async def system_topics(self) -> list[str]:
        """RocketMQ's own topics: those of the name servers and of one broker that they name."""
        reach = self._reach()
        found = await reach.read_name_server(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS, TopicList)
        names = set(found.topic_list)
        if found.broker_addr:
            server = Server(found.broker_addr, found.broker_addr)
            own = await reach.read(server, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, TopicList)
            names.update(own.topic_list)
        return sorted(names)

    async def clusters_of_topic(self, topic: str) -> list[str]:
        """The clusters whose brokers have the topic."""
        return sorted({broker.cluster for broker in (await self._reach().route(topic)).broker_datas})

    async def groups_of_topic(self, topic: str) -> list[str]:
        """The consumer groups that read the topic, now or as their stored offsets show."""
        reach = self._reach()
        header = QueryTopicConsumeByWhoHeader(topic=topic)
        brokers = await reach.serving(topic)
        found = await reach.read_each(
            f"looking for consumers of topic {topic!r}",
            brokers,
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO,
            GroupList,
            header,
        )
        return sorted({group for groups in found.values() for group in groups.group_list})

    async def order_conf(self, topic: str) -> str | None:
        """The order of queues of an ordered topic, `broker-a:4;broker-b:4`; None when it has none."""
        return await NameServerMethods(self._reach()).get_kv(ORDER_NAMESPACE, topic)

    async def set_order_conf(self, topic: str, conf: str) -> None:
        """Tell all name servers the order of queues of a topic."""
        await NameServerMethods(self._reach()).put_kv(ORDER_NAMESPACE, topic, conf)

    async def delete_order_conf(self, topic: str) -> None:
        """Make a topic an unordered one again."""
        await NameServerMethods(self._reach()).delete_kv(ORDER_NAMESPACE, topic)

    async def _put(
        self, config: TopicConfig, header: UpdateAndCreateTopicHeader, masters: Iterable[Server]
    ) -> dict[str, TopicConfig]:
        reach = self._reach()

        async def one(server: Server) -> TopicConfig:
            await reach.ask(server, RequestCode.UPDATE_AND_CREATE_TOPIC, header)
            return config

        return await reach.each(f"creating topic {config.topic_name!r}", masters, one)

    async def _topic_table(self, server: Server) -> TopicConfigTable:
        """Releases up to 5.3.3 answer with everything at once and without a total."""
        reach = self._reach()
        size = reach.instance.config.page_size
        table = TopicConfigTable()
        for _ in range(MAX_PAGES):
            begin = len(table.topic_config_table)
            header = GetAllTopicConfigHeader(topic_seq=begin, max_topic_num=size)
            response = await reach.ask(server, RequestCode.GET_ALL_TOPIC_CONFIG, header)
            page = TopicConfigTable.decode(response.body)
            page.topic_config_table = {**table.topic_config_table, **page.topic_config_table}
            table = page
            total = response.header(GetAllTopicConfigResponseHeader).total_topic_num
            if total is None or len(table.topic_config_table) >= total or len(table.topic_config_table) == begin:
                break
        return table


async def drop_topic(reach: Reach, topic: str, masters: Iterable[Server], cluster: str | None) -> None:
    """Delete a topic on brokers, then at all name servers."""
    at_broker = DeleteTopicInBrokerHeader(topic=topic)
    await reach.ask_each(f"deleting topic {topic!r}", masters, RequestCode.DELETE_TOPIC_IN_BROKER, at_broker)
    header = DeleteTopicInNamesrvHeader(topic=topic, cluster_name=cluster)
    what = f"deleting topic {topic!r} at name servers"
    await reach.each_name_server(what, RequestCode.DELETE_TOPIC_IN_NAMESRV, header)


def attribute_changes(attributes: Attributes) -> str | None:
    """Changes as brokers read them.

    >>> attribute_changes({"message.type": "FIFO", "reserve.time": None})
    '+message.type=FIFO,-reserve.time'
    """
    return ",".join(f"-{name}" if value is None else f"+{name}={value}" for name, value in attributes.items()) or None


def merged_stats(parts: Iterable[TopicStatsTable]) -> TopicStatsTable:
    """Figures of several brokers as one table, in order of the queues."""
    whole = TopicStatsTable()
    for part in parts:
        whole.offset_table.update(part.offset_table)
        whole.topic_put_tps += part.topic_put_tps
    whole.offset_table = dict(sorted(whole.offset_table.items()))
    return whole


def _header(config: TopicConfig, attributes: str | None) -> UpdateAndCreateTopicHeader:
    return UpdateAndCreateTopicHeader(
        topic=config.topic_name,
        default_topic=DEFAULT_TOPIC,
        read_queue_nums=config.read_queue_nums,
        write_queue_nums=config.write_queue_nums,
        perm=config.perm,
        topic_filter_type=str(config.topic_filter_type),
        topic_sys_flag=config.topic_sys_flag,
        order=config.order,
        attributes=attributes,
    )


def _check(topic: str) -> None:
    try:
        check_topic(topic)
    except ValidationError as error:
        raise ClientError(f"topic cannot be created: {error}") from error
