"""One connection on the event loop: bytes from the transport to HTTP/2, and its frames back in few writes."""

import asyncio
from functools import partial
from typing import cast

from pyromq.proxy.grpc.call import GrpcCall
from pyromq.proxy.grpc.endpoint import Endpoint
from pyromq.proxy.grpc.method import GrpcError, GrpcStatus
from pyromq.proxy.http2.connection import Connection
from pyromq.proxy.http2.frames import PING, ErrorCode, frame
from pyromq.remoting.address import UNKNOWN, Address, peer_address
from pyromq.remoting.outbox import Outbox

MANY_PIECES = 512
"""Of frames; so many are written at once."""
_KEEPALIVE = frame(PING, 0, 0, b"keep up!")


class GrpcConnection(asyncio.Protocol):
    """The protocol of one socket. `is_paused` while the peer does not take what was written; `heard` is when it said
    something last."""

    def __init__(self, endpoint: Endpoint) -> None:
        limits = endpoint.limits
        self.endpoint = endpoint
        self.max_message = limits.message
        self.peer: Address = UNKNOWN
        self.local: Address = UNKNOWN
        self.secure = False
        self.http2 = Connection(partial(GrpcCall, self), limits.http2, endpoint.stats.http2, endpoint.clock)
        self._outbox: Outbox | None = None
        self._transport: asyncio.Transport | None = None
        self._is_reading = False
        self._is_scheduled = False
        self._held = 0
        self._begun: list[GrpcCall] = []
        self.heard = endpoint.clock()
        self._stuck: tuple[int, float] | None = None
        self._asked: float | None = None

    @property
    def is_paused(self) -> bool:
        return self._outbox is not None and self._outbox.paused

    @property
    def calls(self) -> int:
        """Calls under way."""
        return len(self.http2.streams)

    # What the event loop says.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        endpoint = self.endpoint
        self.peer = peer_address(transport.get_extra_info("peername"))
        self.local = peer_address(transport.get_extra_info("sockname"))
        self.secure = transport.get_extra_info("sslcontext") is not None
        socket = cast("asyncio.Transport", transport)  # other event loops' transports derive from nothing of asyncio
        if not endpoint.quota.enter(self.peer.host):
            socket.abort()
            return
        stats = endpoint.stats.transport
        stats.connections += 1
        stats.connections_opened += 1
        self._transport = socket
        self._outbox = Outbox(socket, endpoint.limits.transport, stats, self._on_overflow)
        endpoint.connections.add(self)
        self.flush()

    def data_received(self, data: bytes) -> None:
        self._is_reading = True
        self.heard = self.endpoint.clock()
        self.endpoint.stats.transport.bytes_received += len(data)
        self.http2.receive(data)
        self._is_reading = False
        if self._begun:
            for call in self._begun:
                call.watch()
            self._begun.clear()
        self.flush()

    def eof_received(self) -> None:
        """Nothing more comes, and nobody reads on: the transport closes."""

    def connection_lost(self, _error: Exception | None) -> None:
        if self._transport is None:
            return
        self._transport = None
        endpoint = self.endpoint
        endpoint.connections.discard(self)
        endpoint.stats.transport.connections -= 1
        endpoint.quota.leave(self.peer.host)
        if self._outbox is not None:
            endpoint.stats.transport.reads_paused -= self._outbox.paused
            self._outbox.clear()
        self.http2.abandon()

    def pause_writing(self) -> None:
        if self._outbox is not None and self._transport is not None:
            self._outbox.paused = True
            self.endpoint.stats.transport.reads_paused += 1
            if not self._transport.is_closing():
                # Who does not take answers is not asked for more questions.
                self._transport.pause_reading()

    def resume_writing(self) -> None:
        if self._outbox is not None and self._transport is not None:
            self._outbox.resume()
            self.endpoint.stats.transport.reads_paused -= 1
            if not self._transport.is_closing():
                self._transport.resume_reading()
            for call in self._calls():
                call.wake()

    # What calls ask for.

    def flush_soon(self) -> None:
        """Write what there is at the end of this turn of the loop, with what else comes until then; now if it is much.

        A method that never lets the loop turn must still find out that the peer does not read.
        """
        if self._is_reading:
            return
        if len(self.http2.sender.out) >= MANY_PIECES:
            self.flush()
        elif not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._scheduled_flush)

    def flush(self) -> None:
        """Write what there is."""
        outbox, transport, out = self._outbox, self._transport, self.http2.sender.out
        if outbox is None or transport is None or transport.is_closing():
            out.clear()  # one with TLS that is closing cannot even be written to in vain
            return
        if out:
            outbox.put(b"".join(out))
            out.clear()
            outbox.flush()
        http2 = self.http2
        if http2.closed or (not http2.streams and (http2.peer_leaves or http2.is_settled)):
            http2.closed = True
            transport.close()

    def _scheduled_flush(self) -> None:
        self._is_scheduled = False
        self.flush()

    def watch(self, call: GrpcCall) -> None:
        """Keep a deadline for a call of which more must come; not before the end of this read, which may have it."""
        self._begun.append(call)

    def hold(self, size: int) -> None:
        """Count bytes of requests in, or out. Raises GrpcError when they are too many."""
        limits, stats = self.endpoint.limits, self.endpoint.stats
        self._held += size
        stats.bytes_in_flight += size
        if size > 0:
            if self._held > limits.bytes_per_connection:
                raise GrpcError(GrpcStatus.RESOURCE_EXHAUSTED, "limit bytes_per_connection: wait for answers first")
            if stats.bytes_in_flight > limits.bytes_total:
                raise GrpcError(GrpcStatus.RESOURCE_EXHAUSTED, "limit bytes_total: the server is busy, try again")

    # What the server asks for.

    def drain(self) -> None:
        """Take no more calls, and close when those under way have ended."""
        self.http2.drain()
        self.flush()

    def close(self, code: ErrorCode, reason: str) -> None:
        """End the connection, and tell why."""
        self.http2.fail(code, reason)
        self.flush()

    def end_calls(self, *, endless: bool = False) -> None:
        """End the calls that are under way; or those that do not end by themselves, once there are no others."""
        calls = self._calls()
        if not endless or all(call.is_endless for call in calls):
            for call in calls:
                call.cut(GrpcStatus.UNAVAILABLE, "the server stops")

    def abort(self) -> None:
        """End the connection without a word."""
        if self._transport is not None:
            self._transport.abort()

    def sweep(self, now: float) -> None:
        """Close the connection if it is idle or stuck, and end calls that are; runs every few seconds."""
        limits, http2 = self.endpoint.limits, self.http2
        stats = self.endpoint.stats.transport
        silence = now - self.heard
        if self.is_paused and silence >= limits.transport.idle_timeout:
            stats.closed_slow += 1
            self.abort()
        elif self._is_overdue(now):
            stats.closed_malformed += 1
            self.close(ErrorCode.PROTOCOL_ERROR, "what began did not end in time")
        elif not http2.streams and silence >= limits.transport.idle_timeout:
            stats.closed_idle += 1
            self.close(ErrorCode.NO_ERROR, "idle")
        elif self._is_deaf(now, silence):
            stats.closed_idle += 1
            self.abort()
        else:
            for call in self._calls():
                call.sweep(now)

    def _is_overdue(self, now: float) -> bool:
        """Whether the preface, or a frame that has begun, is waited for too long."""
        limits, http2 = self.endpoint.limits.transport, self.http2
        if http2.is_ready and not http2.is_midway:
            self._stuck = None
            return False
        if self._stuck is None or self._stuck[0] != http2.progress:
            self._stuck = (http2.progress, now)
        return now - self._stuck[1] >= (limits.frame_timeout if http2.is_ready else limits.handshake_timeout)

    def _is_deaf(self, now: float, silence: float) -> bool:
        """Whether nobody answers; asks when there was silence for long."""
        limits = self.endpoint.limits
        if self._asked is not None and self.heard < self._asked:
            return now - self._asked >= limits.keepalive_timeout
        self._asked = None
        if silence >= limits.keepalive:
            self._asked = now
            self.http2.sender.out.append(_KEEPALIVE)
            self.flush()
        return False

    def _calls(self) -> list[GrpcCall]:
        return [call for call in self.http2.streams.values() if isinstance(call, GrpcCall)]

    def _on_overflow(self) -> None:
        self.endpoint.stats.transport.closed_slow += 1
        self.abort()
