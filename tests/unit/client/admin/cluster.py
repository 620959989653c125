"""A cluster without sockets for the admin client: name servers that know clusters, brokers that answer as told."""

from collections.abc import Callable
from typing import Any

from pyromq.client.admin.admin import Admin
from pyromq.protocol.bodies.route import BrokerData, ClusterInfo
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from tests.unit.client.fakes import Answer, FakeCluster


class AdminCluster(FakeCluster):
    """`answers` of a broker or of `at_name_server` map a request code to what is answered."""

    def __init__(self, *brokers: str, name_servers: tuple[str, ...] = ("ns1:9876",)) -> None:
        super().__init__(*brokers, name_servers=name_servers)
        self.at_name_server: dict[int, Callable[[Command], Answer]] = {}
        for address in name_servers:
            self.transport.peers[address] = self._answer

    def _answer(self, command: Command) -> Answer:
        if command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            return self.answer_route(command)
        if command.code in self.at_name_server:
            return self.at_name_server[command.code](command)
        if command.code == RequestCode.GET_BROKER_CLUSTER_INFO:
            return command.reply(body=self.info().encode())
        return command.reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=f"code {command.code}")

    def info(self) -> ClusterInfo:
        table = {
            name: BrokerData(broker_name=name, cluster="C", broker_addrs={0: broker.address})
            for name, broker in self.brokers.items()
        }
        return ClusterInfo(broker_addr_table=table, cluster_addr_table={"C": list(table)})

    def everywhere(self, code: int, answer: Callable[[Command], Answer]) -> None:
        """All brokers answer a request so."""
        for broker in self.brokers.values():
            broker.answers[code] = answer

    def admin(self, **options: Any) -> Admin:
        """An admin client that is yet to be started."""
        return Admin(
            namesrv=";".join(self.name_servers),
            clock=self.clock,
            transport=self.transport,
            client_ip="10.1.1.1",
            **options,
        )


def accept(command: Command) -> Answer:
    """Success, and nothing more."""
    return command.reply()
