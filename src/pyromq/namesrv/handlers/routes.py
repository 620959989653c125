"""What clients ask: the route of a topic, and the whole cluster."""

from collections.abc import Callable, Mapping

from pyromq.namesrv.config import NamesrvConfig
from pyromq.namesrv.kv import ORDER_TOPICS, KVConfig
from pyromq.namesrv.routes import RouteTable
from pyromq.protocol.bodies.route import ClusterInfo
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.namesrv import GetRouteInfoByTopicHeader
from pyromq.protocol.release import V4_9_4
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Handler


class RouteHandlers:
    """The clock, in seconds, is only for the wait after start."""

    def __init__(self, config: NamesrvConfig, routes: RouteTable, kv: KVConfig, clock: Callable[[], float]) -> None:
        self._config = config
        self._routes = routes
        self._kv = kv
        self._clock = clock
        self._started = clock()

    def table(self) -> Mapping[int, Handler]:
        return {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self.route,
            RequestCode.GET_BROKER_CLUSTER_INFO: self.cluster_info,
        }

    def route(self, command: Command, _: Connection) -> Command:
        header = command.header(GetRouteInfoByTopicHeader)
        if self._config.need_wait_for_service and not self._has_waited():
            return command.reply(ResponseCode.SYSTEM_ERROR, remark="name server not ready")
        route = self._routes.route(header.topic)
        if route is None:
            remark = f"No topic route info in name server for the topic: {header.topic[:255]}"
            return command.reply(ResponseCode.TOPIC_NOT_EXIST, remark=remark)
        if self._config.order_message_enable:
            route.order_topic_conf = self._kv.get(ORDER_TOPICS, header.topic)
        strict = command.version >= V4_9_4 or bool(header.accept_standard_json_only)
        return command.reply(body=route.encode(strict=strict))

    def cluster_info(self, command: Command, _: Connection) -> Command:
        clusters = {cluster: sorted(names) for cluster, names in self._routes.clusters.items()}
        info = ClusterInfo(broker_addr_table=self._routes.brokers, cluster_addr_table=clusters)
        return command.reply(body=info.encode())

    def _has_waited(self) -> bool:
        return self._clock() - self._started >= self._config.wait_seconds_for_service
