"""What we ask of one peer: requests that leave on a connection, and their answers.

The table of all that wait is the endpoint's (`calls`); this knows the one connection, its bound and its outbox.
"""

import asyncio
from typing import Protocol

from pyromq.native import NativeCoreError
from pyromq.protocol.codes import request_name
from pyromq.protocol.command import Command
from pyromq.protocol.receipts import cut_receipts
from pyromq.remoting.calls import Call, Owner, Pending
from pyromq.remoting.endpoint import Endpoint
from pyromq.remoting.errors import ConnectionLost, InFlightLimitReached, SendError
from pyromq.remoting.outbox import Outbox


class Line(Owner, Protocol):
    """The connection."""

    @property
    def is_open(self) -> bool: ...

    @property
    def close_reason(self) -> str: ...

    def close(self, reason: str, /) -> None: ...


class Asker:
    """`retired` once no more is to be asked here: the connection ends with the last answer."""

    __slots__ = ("_endpoint", "_line", "_outbox", "_retired")

    def __init__(self, line: Line, endpoint: Endpoint, outbox: Outbox) -> None:
        self._line = line
        self._endpoint = endpoint
        self._outbox = outbox
        self._retired = False

    def open(self, command: Command, timeout: float, kind: type[Call] = Call) -> Call:
        """Send a request now; its answer is the result of the call's future. Give it to `close` afterwards.

        Raises SendError and InFlightLimitReached, it was not sent then.
        """
        line, calls = self._line, self._endpoint.calls
        if not line.is_open:
            raise SendError(f"{request_name(command.code)} not sent: the connection with {line.peer} has ended")
        if line.calls_in_flight >= self._endpoint.max_calls:
            raise InFlightLimitReached(
                f"{request_name(command.code)} not sent: {line.calls_in_flight} requests already wait for"
                f" {line.peer}, which is the limit"
            )
        call = calls.open(line, command.code, timeout, kind)
        command.opaque = call.opaque
        try:
            self._outbox.put(command)
        except BaseException:
            calls.close(call)
            raise
        self._outbox.flush_soon()
        return call

    def next_opaque(self) -> int:
        """For a request that is written ahead of `enter`."""
        return self._endpoint.calls.next_opaque()

    def enter(self, pending: Pending, frame: bytes, loop: asyncio.AbstractEventLoop) -> bool:
        """Send a request that is a frame already; False, and nothing was done, if as many wait as may.

        It is written with those that follow in this turn of the event loop, or at once where none is under way.
        """
        endpoint, line, outbox = self._endpoint, self._line, self._outbox
        if line.calls_in_flight >= endpoint.max_calls:
            return False
        endpoint.calls.enter(pending, loop)
        outbox.put(frame)
        if line.calls_in_flight == 1 and not outbox.held:
            outbox.flush()
        else:
            outbox.flush_soon()
        return True

    def close(self, call: Pending) -> None:
        """Forget a call, answered or not."""
        self._endpoint.calls.close(call)
        self._rest()

    def take_receipts(self, data: bytes) -> bytes:
        """Hand out the receipts that a read begins with, and return the rest of it."""
        endpoint, outbox = self._endpoint, self._outbox
        try:
            end, receipts = cut_receipts(data, 0, endpoint.limits.max_frame)
        except NativeCoreError:
            return data
        if not receipts:
            return data
        outbox.held = True
        try:
            endpoint.stats.replies_unmatched += endpoint.calls.receive(self._line, receipts, data)
        finally:
            outbox.held = False
        outbox.flush()
        self._rest()
        return data[end:]

    def retire(self) -> None:
        """Close the connection as soon as nobody waits for an answer on it."""
        self._retired = True
        self._rest()

    def fail(self) -> None:
        """The connection has ended: what waits gets no answer any more."""
        self._endpoint.calls.fail(self._line, self._lost)

    def _rest(self) -> None:
        if self._retired and not self._line.calls_in_flight:
            self._line.close("replaced")

    def _lost(self, call: Pending) -> ConnectionLost:
        line = self._line
        return ConnectionLost(
            f"{request_name(call.code)} to {line.peer} got no answer: the connection ended ({line.close_reason})"
        )
