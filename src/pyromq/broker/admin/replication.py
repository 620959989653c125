"""Master and slaves, for admins and for other brokers: GET_BROKER_HA_STATUS and EXCHANGE_BROKER_HA_INFO."""

from typing import TYPE_CHECKING

from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers import ExchangeBrokerHaInfoHeader, ExchangeBrokerHaInfoResponseHeader
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
        """Where to follow this broker. A slave that is told an address learns that its master is coming back.

        Where that is, it learns from the name servers all the same.
        """
        broker, told = self._broker, request.header(ExchangeBrokerHaInfoHeader)
        if broker.link is not None and told.master_ha_address:
            if broker.acting is not None:
                broker.acting.stand_back()
            return request.reply()
        identity = broker.registration.identity
        return request.reply(
            header=ExchangeBrokerHaInfoResponseHeader(
                master_ha_address=identity.ha_address,
                master_flush_offset=self._broker.store.flushed_offset,
                master_address=identity.address,
            )
        )
