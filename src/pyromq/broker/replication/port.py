"""The master's replication port: every slave gets the log from where it stands, straight from the mapped files.

Only what is confirmed is sent, so with SYNC_FLUSH a slave never has what its master could lose. A slave that does not
read is waited for, not buffered for. A connection that never reports costs a socket until it is closed as silent.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import cast

from pyromq.broker.config import BrokerConfig
from pyromq.broker.replication.follower import Follower
from pyromq.broker.replication.tickets import Tickets
from pyromq.broker.replication.waits import ReplicaWaits
from pyromq.broker.replication.wire import BLOCK_HEAD, Reports
from pyromq.protocol.bodies.replication import HARuntimeInfo
from pyromq.protocol.errors import FrameError
from pyromq.remoting.accept.listener import Listener
from pyromq.remoting.address import Address, peer_address
from pyromq.remoting.tls import ServerTls
from pyromq.store.arrival import Arrived
from pyromq.store.messagestore import MessageStore

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 64
BLOCKS_PER_TURN = 32
"""After so many blocks others have their turn."""
WRITE_BUFFER = 1 << 20
NOT_KNOWN = "it has no ticket, and no signed exchange of a slave came from there"


class _Session(asyncio.Protocol):
    """The connection of one slave, or of one who only looks."""

    def __init__(self, port: "ReplicationPort") -> None:
        self._port = port
        self.reports = Reports()
        self._paused = False
        self._again = False
        self._transport: asyncio.Transport | None = None
        self.follower: Follower
        self.peer: Address

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.peer = peer_address(transport.get_extra_info("peername"))
        self.follower = self._port.follower(str(self.peer))
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER)
        if not self._port.admit(self):
            self._transport.abort()

    def connection_lost(self, _error: Exception | None) -> None:
        self._transport = None
        self._port.leave(self)

    def data_received(self, data: bytes) -> None:
        offset = self.reports.feed(data)
        if offset is None:
            return
        try:
            self._port.reported(self, offset)
        except FrameError as error:
            self.close(str(error))
            return
        self.push()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self.push()

    def push(self) -> None:
        """Send what there is, as fast as the slave takes it."""
        now, size = self._port.clock(), self._port.config.ha_transfer_batch_size
        for _ in range(BLOCKS_PER_TURN):
            if self._paused or self._transport is None:
                return
            block = self.follower.next_block(size, now)
            if block is None:
                return
            offset, data = block
            self._transport.writelines((BLOCK_HEAD.pack(offset, len(data)), data))
        if not self._again:
            self._again = True
            asyncio.get_running_loop().call_soon(self._push_again)

    def _push_again(self) -> None:
        self._again = False
        self.push()

    def tick(self, now: int) -> None:
        """Signs of life, and the end of those who give none."""
        config, follower = self._port.config, self.follower
        follower.sample(now)
        if follower.is_silent(now, config.ha_housekeeping_interval):
            self.close(f"nothing heard for {config.ha_housekeeping_interval} ms")
        elif follower.lost_its_place():
            self.close("it was too slow: what it needs next is not kept any more")
        else:
            self.push()
            due = follower.needs_sign_of_life(now, config.ha_send_heartbeat_interval)
            if due and self._transport is not None and not self._paused:
                self._transport.write(BLOCK_HEAD.pack(follower.position, 0))

    def sign_of_life(self) -> None:
        """Tell it at once where this log is."""
        if self._transport is not None:
            self._transport.write(BLOCK_HEAD.pack(self.follower.position, 0))

    def close(self, reason: str) -> None:
        """End it; those who never were slaves without a word."""
        if self.follower.started:
            log.warning("slave %s is disconnected: %s", self.follower.peer, reason)
        if self._transport is not None:
            self._transport.abort()


class ReplicationPort:
    """Serves slaves between `listen` and `stop`; `tick` a few times a second.

    `may_follow` tells whether slaves from an address are welcome without a ticket.
    """

    def __init__(
        self, config: BrokerConfig, clock: Callable[[], int], may_follow: Callable[[str], bool] = lambda _host: True
    ) -> None:
        self.config = config
        self.clock = clock
        self._may_follow = may_follow
        self.address: Address | None = None
        self.waits = ReplicaWaits(config, clock, self.followers)
        self.tickets = Tickets(clock)
        self._store: MessageStore | None = None
        self._listener: Listener | None = None
        self._sessions: set[_Session] = set()
        self._refused = ("", "")
        self._listening_to_store = False
        self._pushing = False

    async def listen(self, host: str, port: int, store: MessageStore, tls: ServerTls | None = None) -> None:
        """Accept slaves. Raises OSError."""
        self._store = store
        self._listener = Listener(lambda: _Session(self), tls)
        self.address = await self._listener.start(host, port)

    async def stop(self) -> None:
        """Close the port and every connection; those who wait for a copy are told that there will be none."""
        self.waits.end_all()
        if self._listener is not None:
            await self._listener.stop()
            for session in list(self._sessions):
                session.close("the master stops")
            self._listener = None

    def followers(self) -> list[Follower]:
        """The slaves that are connected."""
        return [session.follower for session in self._sessions if session.follower.started]

    def tick(self) -> None:
        """Whatever is due."""
        now = self.clock()
        for session in list(self._sessions):
            session.tick(now)
        self.waits.expire(now)

    def status(self) -> HARuntimeInfo:
        """For GET_BROKER_HA_STATUS."""
        gap, followers = self.config.ha_max_gap_not_in_sync, self.followers()
        return HARuntimeInfo(
            master=True,
            master_commit_log_max_offset=self._source.max_physical_offset,
            in_sync_slave_nums=sum(follower.in_sync(gap) for follower in followers),
            ha_connection_info=[follower.info(gap) for follower in followers],
        )

    def runtime(self) -> dict[str, object]:
        """For the runtime information."""
        gap, followers = self.config.ha_max_gap_not_in_sync, self.followers()
        high = self._source.max_physical_offset
        return {
            "haSlaves": len(followers),
            "haSlavesInSync": sum(follower.in_sync(gap) for follower in followers),
            "haSlavesUnproved": sum(not follower.proved for follower in followers),
            "haSlaveMaxLag": max((high - max(follower.ack, 0) for follower in followers), default=0),
            "haWaitingForSlaves": len(self.waits),
        }

    @property
    def _source(self) -> MessageStore:
        if self._store is None:
            raise RuntimeError("the replication port is not open")
        return self._store

    def follower(self, peer: str) -> Follower:
        return Follower(peer, self._source, self.clock())

    def admit(self, session: _Session) -> bool:
        reason, host = "", session.peer.host
        if not self._may_follow(host) and not self.tickets.expects(host):
            reason = NOT_KNOWN
        elif len(self._sessions) >= MAX_CONNECTIONS:
            reason = f"there are {MAX_CONNECTIONS} connections already"
        else:
            self._sessions.add(session)
        if reason and self._refused != (session.peer.host, reason):
            # Once for a run of refusals: who is refused tries again and again.
            log.warning("the replication port refuses %s: %s", session.peer, reason)
        self._refused = (session.peer.host, reason)
        return not reason

    def leave(self, session: _Session) -> None:
        self._sessions.discard(session)
        if session.follower.started:
            log.info("slave %s is gone, its log ended at %d", session.follower.peer, session.follower.ack)

    def reported(self, session: _Session, offset: int) -> None:
        """A slave told how far it is. Raises FrameError."""
        follower = session.follower
        if follower.started:
            follower.reported(offset, self.clock(), fresh_start=0)
        else:
            compared = self._compared(session)
            follower.reported(offset, self.clock(), fresh_start=self._fresh_start(), compared=compared)
            log.info("slave %s follows from %d on", follower.peer, follower.position)
            if not follower.proved:
                log.warning(
                    "slave %s did not prove that what it has is this log, as Apache's cannot: it counts all the same",
                    follower.peer,
                )
            if not self._listening_to_store:
                self._listening_to_store = True
                self._source.add_watcher(self._grown)
            if follower.astray:
                session.sign_of_life()
        self.waits.advance()

    def _compared(self, session: _Session) -> int | None:
        """Up to where a slave's log is known to be this one, by its ticket; None without one. Raises FrameError."""
        number = session.reports.ticket
        if number is None:
            if self._may_follow(session.peer.host):
                return None
            raise FrameError(NOT_KNOWN)
        compared = self.tickets.take(number)
        if compared is None:
            raise FrameError("the ticket it shows was not given here, or is too old: it has to ask again")
        return compared

    def _fresh_start(self) -> int:
        """Where a slave begins that has nothing."""
        store, size = self._source, self.config.mapped_file_size_commit_log
        if self.config.sync_from_last_file:
            return store.max_physical_offset - store.max_physical_offset % size
        return store.min_physical_offset

    def _grown(self, _arrived: Arrived) -> None:
        """There is more to send: once for all that arrives in this turn."""
        if self._sessions and not self._pushing:
            self._pushing = True
            asyncio.get_running_loop().call_soon(self._push_all)

    def _push_all(self) -> None:
        self._pushing = False
        for session in list(self._sessions):
            session.push()
