"""Master and slaves, for admins and for other brokers: GET_BROKER_HA_STATUS and EXCHANGE_BROKER_HA_INFO."""

from typing import TYPE_CHECKING

from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers import ExchangeBrokerHaInfoResponseHeader
from pyromq.remoting import Connection, Handler

if TYPE_CHECKING:
    from pyromq.broker.broker import Broker


class ReplicationAdmin:
    """Tells how replication goes."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    def handlers(self) -> dict[int, Handler]:
        """The request codes served here."""
        return {
            RequestCode.GET_BROKER_HA_STATUS: self._status,
            RequestCode.EXCHANGE_BROKER_HA_INFO: self._addresses,
        }

    def _status(self, request: Command, _connection: Connection) -> Command:
        broker = self._broker
        status = broker.link.status() if broker.link is not None else broker.replicas.status()
        return request.reply(body=status.encode())

    def _addresses(self, request: Command, _connection: Connection) -> Command:
        """Only asking is served: who the master is, a slave learns from the name servers."""
        identity = self._broker.registration.identity
        return request.reply(
            header=ExchangeBrokerHaInfoResponseHeader(
                master_ha_address=identity.ha_address,
                master_flush_offset=self._broker.store.flushed_offset,
                master_address=identity.address,
            )
        )
