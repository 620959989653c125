"""What administrators ask about topics: lists, deletion, single registration, write permission."""

from collections.abc import Callable, Mapping

from pyromq.namesrv.config import NamesrvConfig
from pyromq.namesrv.routes import RouteTable
from pyromq.protocol.bodies.route import TopicRouteData
from pyromq.protocol.bodies.topics import UNIT, UNIT_SUBSCRIBED, TopicList
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.namesrv import (
    AddWritePermOfBrokerHeader,
    AddWritePermOfBrokerResponseHeader,
    DeleteTopicInNamesrvHeader,
    GetTopicsByClusterHeader,
    RegisterTopicInNamesrvHeader,
    WipeWritePermOfBrokerHeader,
    WipeWritePermOfBrokerResponseHeader,
)
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Handler


class TopicHandlers:
    def __init__(self, config: NamesrvConfig, routes: RouteTable) -> None:
        self._config = config
        self._routes = routes
        self._topics = routes.topics

    def table(self) -> Mapping[int, Handler]:
        return {
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self.all_topics,
            RequestCode.GET_TOPICS_BY_CLUSTER: self.topics_of_cluster,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: self.system_topics,
            RequestCode.GET_UNIT_TOPIC_LIST: self._list(lambda flag: bool(flag & UNIT)),
            RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: self._list(lambda flag: bool(flag & UNIT_SUBSCRIBED)),
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: self._list(
                lambda flag: flag & (UNIT | UNIT_SUBSCRIBED) == UNIT_SUBSCRIBED
            ),
            RequestCode.DELETE_TOPIC_IN_NAMESRV: self.delete,
            RequestCode.REGISTER_TOPIC_IN_NAMESRV: self.register,
            RequestCode.WIPE_WRITE_PERM_OF_BROKER: self.forbid_writes,
            RequestCode.ADD_WRITE_PERM_OF_BROKER: self.allow_writes,
        }

    def all_topics(self, command: Command, _: Connection) -> Command:
        if not self._config.enable_all_topic_list:
            return command.reply(ResponseCode.SYSTEM_ERROR, remark="disable")
        return command.reply(body=TopicList(topic_list=self._topics.names()).encode())

    def topics_of_cluster(self, command: Command, _: Connection) -> Command:
        if not self._config.enable_topic_list:
            return command.reply(ResponseCode.SYSTEM_ERROR, remark="disable")
        brokers = self._routes.clusters.get(command.header(GetTopicsByClusterHeader).cluster, set())
        return command.reply(body=TopicList(topic_list=self._topics.of_brokers(brokers)).encode())

    def system_topics(self, command: Command, _: Connection) -> Command:
        names = [name for cluster, brokers in self._routes.clusters.items() for name in (cluster, *sorted(brokers))]
        group = next(iter(self._routes.brokers.values()), None)
        address = next(iter(group.broker_addrs.values())) if group else None
        return command.reply(body=TopicList(broker_addr=address, topic_list=names).encode())

    def delete(self, command: Command, _: Connection) -> Command:
        header = command.header(DeleteTopicInNamesrvHeader)
        self._routes.delete_topic(header.topic, header.cluster_name or None)
        return command.reply()

    def register(self, command: Command, _: Connection) -> Command:
        header = command.header(RegisterTopicInNamesrvHeader)
        self._routes.register_topic(header.topic, TopicRouteData.of_request(command.body).queue_datas)
        return command.reply()

    def forbid_writes(self, command: Command, _: Connection) -> Command:
        count = self._topics.forbid_writes(command.header(WipeWritePermOfBrokerHeader).broker_name)
        return command.reply(header=WipeWritePermOfBrokerResponseHeader(wipe_topic_count=count))

    def allow_writes(self, command: Command, _: Connection) -> Command:
        count = self._topics.allow_writes(command.header(AddWritePermOfBrokerHeader).broker_name)
        return command.reply(header=AddWritePermOfBrokerResponseHeader(add_topic_count=count))

    def _list(self, accept: Callable[[int], bool]) -> Handler:
        def handler(command: Command, _: Connection) -> Command:
            if not self._config.enable_topic_list:
                return command.reply(ResponseCode.SYSTEM_ERROR, remark="disable")
            return command.reply(body=TopicList(topic_list=self._topics.flagged(accept)).encode())

        return handler
