"""Master and slaves, for admins and other brokers: GET_BROKER_HA_STATUS, EXCHANGE_BROKER_HA_INFO and COMPARE_LOG."""

import asyncio

from pyromq.broker.core import Core
from pyromq.broker.errors import Refused
from pyromq.broker.part import Part
from pyromq.broker.replication import proof
from pyromq.broker.replication.link import MasterLink
from pyromq.broker.replication.succession.actingmaster import ActingMaster
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


class ReplicationAdmin(Part):
    """Tells how replication goes."""

    def __init__(self, core: Core, link: MasterLink | None, acting: ActingMaster | None) -> None:
        self._core = core
        self._replicas = core.ports.replicas
        self._link = link
        self._acting = acting

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.GET_BROKER_HA_STATUS: self._status,
            RequestCode.EXCHANGE_BROKER_HA_INFO: self._addresses,
            RequestCode.COMPARE_LOG: self._compare,
        }

    def _status(self, request: Command, _connection: Connection) -> Command:
        status = self._link.status() if self._link is not None else self._replicas.status()
        return request.reply(body=status.encode())

    def _addresses(self, request: Command, _connection: Connection) -> Command:
        """Where to follow this broker. A slave that is told an address learns that its master is coming back.

        Where that is, it learns from the name servers all the same.
        """
        told = request.header(ExchangeBrokerHaInfoHeader)
        if self._link is not None and told.master_ha_address:
            if self._acting is not None:
                self._acting.make_way()
            return request.reply()
        identity = self._core.identity
        return request.reply(
            header=ExchangeBrokerHaInfoResponseHeader(
                master_ha_address=identity.ha_address,
                master_flush_offset=self._core.store.progress.flushed,
                master_address=identity.address,
            )
        )

    async def _compare(self, request: Command, connection: Connection) -> Command:
        """Whether a slave's log is the beginning of this one; if it is, the slave gets a ticket."""
        offset = request.header(CompareLogHeader).offset
        if self._link is not None:
            raise Refused(ResponseCode.SYSTEM_ERROR, "this broker is a slave itself: ask its master")
        theirs = LogProof.of_request(request.body) if request.body else LogProof()
        store, stretches = self._core.store, theirs.stretches
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
        ticket = self._replicas.tickets.give(offset, connection.peer.host)
        return request.reply(header=CompareLogResponseHeader(ticket=ticket))
