"""Master and slaves, for admins and other brokers: GET_BROKER_HA_STATUS, EXCHANGE_BROKER_HA_INFO and COMPARE_LOG."""

import asyncio
from typing import TYPE_CHECKING

from pyromq.broker.errors import Refused
from pyromq.broker.replication import proof
from pyromq.protocol.bodies.replication import LogProof
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.replication import (
    CompareLogHeader,
    CompareLogResponseHeader,
    ExchangeBrokerHaInfoHeader,
    ExchangeBrokerHaInfoResponseHeader,
)
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Handler

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
            RequestCode.COMPARE_LOG: self._compare,
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
                master_flush_offset=self._broker.store.progress.flushed,
                master_address=identity.address,
            )
        )

    async def _compare(self, request: Command, connection: Connection) -> Command:
        """Whether a slave's log is the beginning of this one; if it is, the slave gets a ticket."""
        broker, offset = self._broker, request.header(CompareLogHeader).offset
        if broker.link is not None:
            raise Refused(ResponseCode.SYSTEM_ERROR, "this broker is a slave itself: ask its master")
        theirs = LogProof.of_request(request.body) if request.body else LogProof()
        store, stretches = broker.store, theirs.stretches
        low, high = store.min_physical_offset, store.max_physical_offset
        if not proof.is_acceptable(theirs):
            raise Refused(ResponseCode.INVALID_PARAMETER, "stretches that are too long, too many or nowhere")
        if not proof.is_about(theirs, offset) and (stretches or offset not in (0, low)):
            raise Refused(ResponseCode.INVALID_PARAMETER, f"nothing proves a log that ends at {offset}")
        pieces = [proof.piece(store, each.offset, each.offset + each.length) for each in stretches]
        if None in pieces:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"the log reaches from {low} to {high}, others cannot be compared")
        mine = await asyncio.to_thread(proof.checksums, [piece for piece in pieces if piece is not None])
        differs = proof.difference(theirs, mine)
        if differs is not None:
            return request.reply(header=CompareLogResponseHeader(differs=differs))
        ticket = broker.replicas.tickets.give(offset, connection.peer.host)
        return request.reply(header=CompareLogResponseHeader(ticket=ticket))
