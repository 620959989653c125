"""What brokers say: registration, leaving, signs of life."""

import zlib
from collections.abc import Callable, Iterable, Mapping

from pyromq.namesrv.config import NamesrvConfig
from pyromq.namesrv.kv import ORDER_TOPICS, KVConfig
from pyromq.namesrv.members import GroupChange, Registration
from pyromq.namesrv.routes import RouteTable
from pyromq.protocol.bodies.registration import RegisterBrokerBody
from pyromq.protocol.bodies.route import BrokerMemberGroup, BrokerMemberGroupBody
from pyromq.protocol.bodies.tables import DataVersion, KVTable
from pyromq.protocol.bounds import check_value
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.namesrv import (
    BrokerHeartbeatHeader,
    GetBrokerMemberGroupHeader,
    QueryDataVersionHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerHeader,
    RegisterBrokerResponseHeader,
    UnregisterBrokerHeader,
)
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Handler


class RegistrationHandlers:
    """`tell` is given every change of the smallest id of a broker group."""

    def __init__(
        self,
        config: NamesrvConfig,
        routes: RouteTable,
        kv: KVConfig,
        tell: Callable[[Iterable[GroupChange]], None],
    ) -> None:
        self._config = config
        self._routes = routes
        self._kv = kv
        self._tell = tell
        self._watched: set[Connection] = set()

    def table(self) -> Mapping[int, Handler]:
        return {
            RequestCode.REGISTER_BROKER: self.register,
            RequestCode.UNREGISTER_BROKER: self.unregister,
            RequestCode.QUERY_DATA_VERSION: self.query_version,
            RequestCode.BROKER_HEARTBEAT: self.heartbeat,
            RequestCode.GET_BROKER_MEMBER_GROUP: self.members,
        }

    def register(self, command: Command, connection: Connection) -> Command:
        header = command.header(RegisterBrokerHeader)
        if header.body_crc32 and header.body_crc32 != zlib.crc32(command.body) & 0x7FFFFFFF:
            return command.reply(ResponseCode.SYSTEM_ERROR, remark="crc32 not match")
        registration = _registration(header, command)
        answer = self._routes.register(registration, connection)
        if connection not in self._watched:
            self._watched.add(connection)
            connection.on_close(self._disconnected)
        if answer.change:
            self._tell([answer.change])
        rival = f"the broker at {answer.rival} tries to register under the same name and id" if answer.rival else None
        ordered = self._kv.namespace(ORDER_TOPICS) if self._config.return_order_topic_config_to_broker else {}
        return command.reply(
            header=RegisterBrokerResponseHeader(ha_server_addr=answer.ha_address, master_addr=answer.master_address),
            body=KVTable(table=dict(ordered)).encode() if ordered else b"",
            remark=rival,
        )

    def unregister(self, command: Command, _: Connection) -> Command:
        header = command.header(UnregisterBrokerHeader)
        change = self._routes.unregister(header.cluster_name, header.broker_name, header.broker_addr)
        if change:
            self._tell([change])
        return command.reply()

    def query_version(self, command: Command, _: Connection) -> Command:
        header = command.header(QueryDataVersionHeader)
        theirs = DataVersion.of_request(command.body)
        ours = self._routes.version(header.cluster_name, header.broker_addr)
        self._routes.refresh(header.cluster_name, header.broker_addr)
        return command.reply(
            header=QueryDataVersionResponseHeader(changed=ours != theirs), body=ours.encode() if ours else b""
        )

    def heartbeat(self, command: Command, _: Connection) -> Command:
        header = command.header(BrokerHeartbeatHeader)
        self._routes.refresh(header.cluster_name, header.broker_addr)
        return command.reply()

    def members(self, command: Command, _: Connection) -> Command:
        header = command.header(GetBrokerMemberGroupHeader)
        owned = self._routes.cluster_of(header.broker_name) == header.cluster_name
        group = self._routes.brokers.get(header.broker_name) if owned else None
        members = BrokerMemberGroup(
            cluster=header.cluster_name,
            broker_name=header.broker_name,
            broker_addrs=dict(sorted(group.broker_addrs.items())) if group else {},
        )
        return command.reply(body=BrokerMemberGroupBody(broker_member_group=members).encode())

    def _disconnected(self, connection: Connection) -> None:
        self._watched.discard(connection)
        self._tell(self._routes.disconnected(connection))


def _registration(header: RegisterBrokerHeader, command: Command) -> Registration:
    if len(command.body):
        body = RegisterBrokerBody.decode(command.body, compressed=bool(header.compressed), version=command.version)
        check_value(body, RegisterBrokerBody)
    else:
        body = RegisterBrokerBody()
    return Registration(
        cluster=header.cluster_name,
        name=header.broker_name,
        broker_id=header.broker_id,
        address=header.broker_addr,
        ha_address=header.ha_server_addr,
        version=body.topics.data_version,
        topics=body.topics.topic_config_table,
        mappings=body.topics.topic_queue_mapping_info_map or {},
        filter_servers=body.filter_servers,
        acting_master=header.enable_acting_master,
        zone=header.zone_name,
        timeout=None if header.heartbeat_timeout_millis is None else header.heartbeat_timeout_millis / 1000,
    )
