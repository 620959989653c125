"""What a slave asks its master before it follows: where its log is, and whether this one is the beginning of it.

A master of ours compares checksums and gives a ticket. Apache's is asked for single messages, which have to be the same
byte for byte. Whatever cannot be found out is no verdict, and without a verdict there is no session.
"""

import asyncio
from typing import NamedTuple

from pyromq.broker.core import Core
from pyromq.broker.replication import proof
from pyromq.broker.replication.peer import Peer, PeerRefused
from pyromq.errors import PyroMQError
from pyromq.protocol.bodies.tables import KVTable
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.query import ViewMessageByIdHeader
from pyromq.protocol.headers.replication import CompareLogHeader, CompareLogResponseHeader

MESSAGES = 8
"""Compared one by one where the master is not one of ours."""


class MasterLog(NamedTuple):
    """Where the master's log begins and ends."""

    begin: int
    end: int


class Astray(PyroMQError):  # noqa: N818 - the name says what happened
    """This log is not the beginning of the master's."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"{reason}: the master lost messages, or is not the one this slave belongs to. Nothing is changed; if the "
            "master is right, delete this slave's store"
        )


class NoVerdict(PyroMQError):  # noqa: N818 - the name says what happened
    """Whether this log is the beginning of the master's cannot be found out now."""


class MasterVerdict:
    """Asks on behalf of a slave."""

    def __init__(self, core: Core, master: Peer) -> None:
        self._config = core.config
        self._store = core.store
        self._master = master

    async def log(self) -> MasterLog:
        """Where the master's log begins and ends. Raises NoVerdict."""
        answer = await self._call(Command.request(RequestCode.GET_BROKER_RUNTIME_INFO))
        try:
            info = KVTable.decode(answer.body).table
            return MasterLog(max(0, int(info["commitLogMinOffset"])), int(info["commitLogMaxOffset"]))
        except (PyroMQError, KeyError, ValueError) as error:
            raise self._none(f"it does not tell where its log is: {error!r}") from error

    async def compare(self, master: MasterLog, first_report: int) -> int | None:
        """See that this log, up to where it would resume, is the master's; returns a ticket, None where there are none.

        Raises Astray when it is not, and NoVerdict when that cannot be found out.
        """
        store = self._store
        begin = max(master.begin, store.min_physical_offset) if store.max_physical_offset else first_report
        pieces = [proof.piece(store, *place) for place in proof.places(begin, first_report)]
        if None in pieces:
            raise NoVerdict("no verdict on this log: it cannot be read here")
        mine = await asyncio.to_thread(proof.checksums, [piece for piece in pieces if piece is not None])
        request = Command.request(RequestCode.COMPARE_LOG, CompareLogHeader(offset=first_report), body=mine.encode())
        answer = await self._call(request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            if mine.stretches:
                await self._compare_messages(begin)
            return None
        header = answer.header(CompareLogResponseHeader)
        if header.differs is not None:
            raise Astray(f"what is here from {header.differs} on is not what the master has in its place")
        return header.ticket

    async def _compare_messages(self, begin: int) -> None:
        """The same with a master that knows no checksums: the newest messages of some queues, from `begin` on."""
        store = self._store
        newest = sorted(store.queues, key=lambda queue: queue.max_physical_offset, reverse=True)[:MESSAGES]
        entries = [entry for queue in newest if (entry := queue.entry(queue.max_offset - 1)) is not None]
        compared = 0
        for offset, size, _ in entries:
            mine = store.lookup.record_at(offset, size) if offset >= begin else None
            if mine is None:
                continue
            request = Command.request(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageByIdHeader(offset=offset))
            answer = await self._call(request, ResponseCode.SYSTEM_ERROR)  # which means that none begins there
            if answer.code != ResponseCode.SUCCESS or bytes(answer.body) != bytes(mine):
                raise Astray(f"the message at {offset} is not the one that the master has in its place")
            compared += 1
        if not compared:
            raise self._none("it has no message of this log any more")

    async def _call(self, request: Command, *meaningful: int) -> Command:
        if not self._master.address:
            raise self._none("its main port is not known")
        try:
            return await self._master.call(request, *meaningful)
        except PeerRefused as refused:
            raise self._none(f"it answers {request.name} with {refused.answer}") from refused
        except PyroMQError as error:
            raise self._none(f"it does not answer {request.name}: {error}") from error

    def _none(self, reason: str) -> NoVerdict:
        address = self._master.address or "an unknown address"
        hint = "" if self._config.namesrv_addr else " (masterBrokerAddress says where to ask)"
        return NoVerdict(f"no verdict of the master at {address} on this slave's log: {reason}{hint}")
