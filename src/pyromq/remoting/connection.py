"""One connection, the same on both sides: frames in, handlers and calls, frames out.

All frames of one read are handled before one write. Requests that a handler answers at once never see a task or a
future. Only a frame that cannot be read ends the connection, after the good ones before it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Any, cast

from pyromq.protocol.command import RESPONSE_FLAG, Command
from pyromq.protocol.errors import FrameError
from pyromq.protocol.frame import FrameReader
from pyromq.protocol.headers.run import Run
from pyromq.remoting.address import UNKNOWN, Address, peer_address
from pyromq.remoting.asker import Asker
from pyromq.remoting.endpoint import ConnectionListener, Endpoint, Handler, notify
from pyromq.remoting.errors import ConnectionLost
from pyromq.remoting.handler import MAX_GROUP
from pyromq.remoting.outbox import Frames, Outbox
from pyromq.remoting.requests import Requests


class State(Enum):
    """Life of a connection."""

    NEW = auto()
    OPEN = auto()
    FINISHING = auto()
    """Everything accepted has been answered and our side is shut; what still arrives is thrown away."""
    CLOSING = auto()
    """Ended by us; the transport still has to say so."""
    CLOSED = auto()


# Asked several times for each request, and a look-up in an enum's class is a call into Python.
_OPEN = State.OPEN


class Connection(asyncio.Protocol):
    """A peer we exchange commands with. Use it on its event loop only.

    `peer` and `local` are addresses, `context` is free for the application, `close_reason` says why it ended.
    `is_stranger` until somebody found out who the peer is, on servers that want to know.
    """

    __slots__ = (
        "_backlog",
        "_broken",
        "_close_listeners",
        "_endpoint",
        "_frames",
        "_idle_mark",
        "_idle_since",
        "_outbox",
        "_partial",
        "_partial_since",
        "_reading_paused",
        "_requests",
        "_share",
        "_state",
        "_stranger_bytes",
        "_transport",
        "_work_scheduled",
        "arrivals",
        "asker",
        "calls_in_flight",
        "close_reason",
        "context",
        "is_stranger",
        "local",
        "opened_at",
        "peer",
    )

    def __init__(self, endpoint: Endpoint, handlers: Mapping[int, Handler], peer: Address | None = None) -> None:
        self.peer = peer or UNKNOWN
        self.local = UNKNOWN
        self.context: object = None
        self.close_reason = ""
        self.arrivals = 0
        self.calls_in_flight = 0
        self.is_stranger = endpoint.strangers
        self.opened_at = endpoint.clock()
        self._endpoint = endpoint
        self._requests = Requests(self, endpoint, handlers, self._work_soon)
        self._frames = FrameReader(endpoint.limits.max_frame, runs=endpoint.is_server)
        self._backlog: deque[Command | Run] = deque()
        self._state = State.NEW
        self._share = 0
        self._partial = 0
        self._stranger_bytes = 0
        self._partial_since = 0.0
        self._idle_mark = (0, 0, 0)
        self._idle_since = endpoint.clock()
        self._broken: FrameError | None = None
        self._work_scheduled = False
        self._reading_paused = False
        self._close_listeners: list[ConnectionListener] = []
        # Set when the connection is made; nothing before that touches them.
        self._transport: asyncio.Transport
        self._outbox: Outbox
        self.asker: Asker
        """Requests of ours."""

    @property
    def is_open(self) -> bool:
        """Whether requests can still be sent and are still accepted."""
        return self._state is _OPEN and not self._transport.is_closing()

    @property
    def was_made(self) -> bool:
        """Whether the connection ever came up."""
        return self._state is not State.NEW

    @property
    def requests_in_flight(self) -> int:
        """Requests of the peer that wait for their answers."""
        return self._requests.in_flight

    @property
    def writing_paused(self) -> bool:
        """Whether the peer does not take what was written."""
        return self._outbox.paused

    @property
    def room(self) -> int:
        """Bytes of answers that may be queued before the peer must take them; a handler that gives many goes by it."""
        return self._endpoint.limits.unsent_high - self._outbox.size

    @property
    def secure(self) -> bool:
        """Whether the connection is encrypted."""
        return self._transport.get_extra_info("ssl_object") is not None

    @property
    def peer_certificate(self) -> dict[str, Any] | None:
        """The verified certificate of the peer as `ssl` describes it, with mutual TLS."""
        return self._transport.get_extra_info("peercert") or None

    def send(self, frames: Frames) -> bool:
        """Write a command, or whole frames already encoded, in order; False when the connection has ended.

        This is also how a handler that returned None answers later: `connection.send(request.reply(...))`.
        """
        if self._state is not _OPEN or self._transport.is_closing():
            return False
        self._outbox.put(frames)
        self._outbox.flush_soon()
        return True

    async def request(self, command: Command, timeout: float) -> Command:  # noqa: ASYNC109 - one timer serves all calls
        """Send a request and wait for its answer, whatever its code. Sets the command's opaque.

        Raises SendError and InFlightLimitReached when the request was not sent; CallTimeout and ConnectionLost when it
        may or may not have been carried out.
        """
        call = self.asker.open(command, timeout)
        try:
            return await call.future
        finally:
            self.asker.close(call)

    async def drained(self) -> None:
        """Wait until the peer has taken enough of what was written. Raises ConnectionLost."""
        await self._outbox.drained()
        if self._state is State.CLOSED:
            raise ConnectionLost(f"the connection with {self.peer} ended: {self.close_reason}")

    def on_close(self, listener: ConnectionListener) -> None:
        """Call `listener(connection)` when the connection has ended; at once when it already has."""
        if self._state is State.CLOSED:
            notify(listener, self)
        else:
            self._close_listeners.append(listener)

    def close(self, reason: str = "closed by us") -> None:
        """Write what is queued, then end the connection. What waits for the peer fails with ConnectionLost."""
        if self._state in (State.OPEN, State.FINISHING):
            self.close_reason = self.close_reason or reason
            self._outbox.flush()
            self._state = State.CLOSING
            self._transport.close()

    def abort(self, reason: str) -> None:
        """End the connection at once; what was not sent yet is lost."""
        if self._state in (State.OPEN, State.FINISHING, State.CLOSING):
            self.close_reason = self.close_reason or reason
            self._state = State.CLOSING
            self._transport.abort()

    def finish(self) -> None:
        """Flush and shut our side, then wait for the peer to close.

        Closing with unread input would make the system throw away answers that the peer has not read yet.
        """
        if self._state is not _OPEN:
            return
        self.close_reason = self.close_reason or "server stopped"
        if not self._transport.can_write_eof():
            self.close()
            return
        self._outbox.flush()
        self._state = State.FINISHING
        self._backlog.clear()
        self._resume_reading()
        self._transport.write_eof()

    def introduce(self) -> None:
        """The peer proved who it is: it is a stranger no more, and its address finds room where strangers do not."""
        self.is_stranger = False
        self._endpoint.introduced(self)

    def check_idle(self, now: float) -> None:
        """Close the connection if nothing moved for the idle time, or one frame or a farewell never ends."""
        limits = self._endpoint.limits
        if self.is_stranger and self._state is _OPEN and now - self.opened_at >= limits.stranger_timeout:
            self._endpoint.stats.closed_strangers += 1
            self.abort(f"nobody known after {limits.stranger_timeout:g} s, limit stranger_timeout")
            return
        mark = (self.arrivals, self._outbox.departures, self._transport.get_write_buffer_size())
        if self._partial and not self._reading_paused and now - self._partial_since >= limits.frame_timeout:
            self._cut(f"a frame did not end within {limits.frame_timeout:g} s, limit frame_timeout")
        elif mark != self._idle_mark or self.calls_in_flight:
            self._idle_mark = mark
            self._idle_since = now
        elif now - self._idle_since >= (limits.idle_timeout if self.is_open else limits.handshake_timeout):
            self._endpoint.stats.closed_idle += 1
            # A peer that vanished takes nothing any more, so waiting for it to do so would be in vain.
            self.abort(f"idle for {limits.idle_timeout:g} s")

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        endpoint = self._endpoint
        self._transport = cast("asyncio.Transport", transport)
        self._outbox = Outbox(self._transport, endpoint.limits, endpoint.stats, self._overflow)
        self.asker = Asker(self, endpoint, self._outbox)
        self.local = peer_address(transport.get_extra_info("sockname"))
        if self.peer is UNKNOWN:
            self.peer = peer_address(transport.get_extra_info("peername"))
        self._state = State.OPEN
        endpoint.opened(self)

    def data_received(self, data: bytes) -> None:
        if self._state is not _OPEN:
            return
        self.arrivals += 1
        self._endpoint.stats.bytes_received += len(data)
        frames = self._frames
        if not (self._endpoint.is_server or frames.buffered or self._backlog):
            data = self.asker.take_receipts(data)
            if not data:
                return
        items: Sequence[Command | Run]
        try:
            items = frames.receive(data)
        except FrameError as error:
            self._broken = error
            items = error.commands
        partial = frames.buffered
        if items:
            count = len(items)
            if frames.runs:
                for item in items:
                    if type(item) is not Command:
                        count += len(item) - 1
            self._share = (self._partial + len(data) - partial) // count
            self._backlog.extend(items)
            self._work()
        if partial or self._partial:
            self._note_partial(partial, begun=bool(items))
        if self._broken is not None and not self._backlog:
            self._break(self._broken)

    def eof_received(self) -> None:
        self.close_reason = self.close_reason or "closed by the peer"
        self._outbox.flush()

    def pause_writing(self) -> None:
        self._outbox.paused = True
        self._adjust_reading()

    def resume_writing(self) -> None:
        self._outbox.resume()
        self._resume_work()

    def connection_lost(self, exc: Exception | None) -> None:
        self._state = State.CLOSED
        self.close_reason = self.close_reason or (f"lost: {exc}" if exc is not None else "closed by the peer")
        if self._reading_paused:
            self._reading_paused = False
            self._endpoint.stats.reads_paused -= 1
        self._backlog.clear()
        endpoint = self._endpoint
        self._count_partial(0)
        self.asker.fail()
        self._outbox.clear()
        listeners, self._close_listeners = self._close_listeners, []
        for listener in listeners:
            notify(listener, self)
        endpoint.closed(self)

    # Reading

    def _work(self) -> None:
        """Handle what was read until nothing is left or the peer must be held back, then write once."""
        endpoint = self._endpoint
        requests, outbox, backlog = self._requests, self._outbox, self._backlog
        limits, is_server = endpoint.limits, endpoint.is_server
        unsent_high, max_bytes = limits.unsent_high, limits.bytes_per_connection
        outbox.held = True
        try:
            while backlog and self._state is _OPEN:
                if is_server and (outbox.paused or outbox.size >= unsent_high or requests.bytes_in_flight >= max_bytes):
                    break
                command = backlog.popleft()
                if type(command) is not Command:
                    left = requests.serve_run(command, self._share)
                    if left:
                        backlog.extendleft(reversed(left))
                elif not command.flag & RESPONSE_FLAG:
                    if backlog and backlog[0].code == command.code and requests.takes_many(command.code):
                        requests.serve_many(self._alike(command), self._share)
                    else:
                        requests.serve(command, self._share)
                elif not endpoint.calls.resolve(self, command):
                    endpoint.stats.replies_unmatched += 1
        finally:
            outbox.held = False
        outbox.flush()
        if is_server and (backlog or self._reading_paused or outbox.paused or requests.bytes_in_flight >= max_bytes):
            if backlog and not outbox.paused and not requests.full:
                # Much was answered at once: let the loop write it, and others have their turn, before continuing.
                self._work_soon()
            self._adjust_reading()

    def _alike(self, command: Command) -> list[Command]:
        """The command with the requests behind it that have the same code, taken off the backlog."""
        backlog, code, alike = self._backlog, command.code, [command]
        while backlog and len(alike) < MAX_GROUP:
            following = backlog[0]
            if not isinstance(following, Command) or following.code != code or following.flag & RESPONSE_FLAG:
                break
            alike.append(following)
            backlog.popleft()
        return alike

    def _work_soon(self) -> None:
        if not self._work_scheduled and self._state is _OPEN:
            self._work_scheduled = True
            asyncio.get_running_loop().call_soon(self._scheduled_work)

    def _scheduled_work(self) -> None:
        self._work_scheduled = False
        self._resume_work()

    def _resume_work(self) -> None:
        if self._state is _OPEN:
            self._work()
            if self._broken is not None and not self._backlog:
                self._break(self._broken)

    def _adjust_reading(self) -> None:
        """Read from the peer only while it takes its answers and its requests are within bounds."""
        if not self._endpoint.is_server or self._state is not _OPEN or self._transport.is_closing():
            return
        if not (self._outbox.paused or self._backlog or self._requests.full):
            self._resume_reading()
        elif not self._reading_paused:
            self._reading_paused = True
            self._endpoint.stats.reads_paused += 1
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._reading_paused:
            self._reading_paused = False
            self._endpoint.stats.reads_paused -= 1
            self._transport.resume_reading()

    def _note_partial(self, size: int, *, begun: bool) -> None:
        """Account for a frame that has begun but not ended."""
        endpoint = self._endpoint
        if begun or not self._partial:
            self._partial_since = endpoint.clock()
        grown = size > self._partial
        self._count_partial(size)
        if grown and endpoint.stats.stranger_bytes > endpoint.limits.stranger_bytes_total and self.is_stranger:
            self._cut("too many bytes of unfinished frames of unknown peers, limit stranger_bytes_total")
        elif grown and endpoint.stats.partial_bytes > endpoint.limits.partial_bytes_total:
            self._cut("too many bytes of unfinished frames on all connections, limit partial_bytes_total")

    def _count_partial(self, size: int) -> None:
        stats = self._endpoint.stats
        stats.partial_bytes += size - self._partial
        counted = size if self.is_stranger else 0
        stats.stranger_bytes += counted - self._stranger_bytes
        self._partial, self._stranger_bytes = size, counted

    # Endings

    def _break(self, error: FrameError) -> None:
        self._endpoint.stats.closed_malformed += 1
        self._endpoint.complain(logging.WARNING, "Closing the connection with %s: %s", self.peer, error)
        self.close_reason = self.close_reason or f"malformed frame: {error}"
        if self._endpoint.is_server:
            self.finish()
        else:
            self.close()

    def _overflow(self) -> None:
        self._cut("the peer does not read, limit unsent_max")

    def _cut(self, reason: str) -> None:
        self._endpoint.stats.closed_slow += 1
        self._endpoint.complain(logging.WARNING, "Closing the connection with %s: %s", self.peer, reason)
        self.abort(reason)
