"""Requests that wait for their answers, of one client or one server, matched by opaque.

Opaques are unique over all connections of the endpoint, and an answer counts only on the connection the request went
out on. Time-outs are kept in coarse buckets with one timer for the earliest, because a timer for each call costs
more than the call.
"""

import asyncio
import heapq
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Protocol

from pyromq.protocol.codes import ResponseCode, request_name
from pyromq.protocol.command import RESPONSE_FLAG, Command
from pyromq.protocol.frame import decode
from pyromq.protocol.receipts import Receipt, ReceiptHeader
from pyromq.remoting.errors import CallTimeout, RemotingError
from pyromq.remoting.stats import Stats

TICK = 0.05
"""Width of a time-out bucket: a call fails at most this much after its time."""
_SUCCESS = int(ResponseCode.SUCCESS)


class Owner(Protocol):
    """What a call needs to know of the connection it went out on."""

    calls_in_flight: int
    arrivals: int
    """How many times data has arrived; tells a silent peer from a slow answer."""

    @property
    def peer(self) -> object: ...


class Pending(ABC):
    """One request that waits for its answer. What becomes of it is told once, by one of the last three methods."""

    __slots__ = ("arrivals", "code", "opaque", "owner", "timeout")

    def __init__(self, opaque: int, code: int, owner: Owner, timeout: float) -> None:
        self.opaque = opaque
        self.code = code
        self.owner = owner
        self.timeout = timeout
        self.arrivals = owner.arrivals

    @property
    def peer_was_silent(self) -> bool:
        """Whether nothing at all has arrived from the peer since the request was sent."""
        return self.owner.arrivals == self.arrivals

    @property
    @abstractmethod
    def abandoned(self) -> bool:
        """Whether nobody waits any more."""

    @abstractmethod
    def answer(self, response: Command) -> None: ...

    @abstractmethod
    def fail(self, error: RemotingError) -> None:
        """There is no answer, and will be none."""

    def receipt(self, receipt: Receipt, stream: bytes) -> None:
        """The answer was a plain receipt; what began as no send reads it as any other."""
        start = receipt[-1]
        self.answer(decode(stream[start + 4 : start + 4 + int.from_bytes(stream[start : start + 4])]))


class Call(Pending):
    """One whose answer is the result of a future."""

    __slots__ = ("future",)

    def __init__(self, opaque: int, code: int, owner: Owner, timeout: float, future: asyncio.Future[Command]) -> None:
        super().__init__(opaque, code, owner, timeout)
        self.future = future

    @property
    def abandoned(self) -> bool:
        return self.future.done()

    def answer(self, response: Command) -> None:
        self.future.set_result(response)

    def fail(self, error: RemotingError) -> None:
        self.future.set_exception(error)


class SendCall(Call):
    """One for a send to a broker of our own making: its receipt is read no further than it was cut."""

    __slots__ = ()

    def receipt(self, receipt: Receipt, stream: bytes) -> None:  # noqa: ARG002 - as `Pending` has it
        opaque, msg_id, queue_id, queue_offset, transaction_id, region, traced, _ = receipt
        header = ReceiptHeader(
            msg_id=msg_id,
            queue_id=queue_id,
            queue_offset=queue_offset,
            transaction_id=transaction_id,
            region=region,
            trace_on="true" if traced else "false",
        )
        self.future.set_result(Command(_SUCCESS, RESPONSE_FLAG, opaque, header))


class Calls:
    """The table of outstanding calls. `open`, then await the call's future, then `close` whatever happened."""

    __slots__ = ("_buckets", "_clock", "_due", "_opaque", "_stats", "_table", "_timer")

    def __init__(self, stats: Stats, clock: Callable[[], float]) -> None:
        self._table: dict[int, Pending] = {}
        self._buckets: dict[int, list[int]] = {}
        self._due: list[int] = []
        self._opaque = 0
        self._stats = stats
        self._clock = clock
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._table)

    def next_opaque(self) -> int:
        """The next free int32, wrapping to negative as every peer expects."""
        while True:
            self._opaque = (self._opaque + 1 + 0x80000000) % 0x100000000 - 0x80000000
            if self._opaque not in self._table:
                return self._opaque

    def open(self, owner: Owner, code: int, timeout: float, kind: type[Call] = Call) -> Call:
        """Enter a call that fails with CallTimeout after `timeout` seconds."""
        loop = asyncio.get_running_loop()
        call = kind(self.next_opaque(), code, owner, timeout, loop.create_future())
        self.enter(call, loop)
        return call

    def enter(self, call: Pending, loop: asyncio.AbstractEventLoop) -> None:
        """Enter what waits under an opaque that is free; the rest is as for `open`."""
        opaque, owner = call.opaque, call.owner
        self._table[opaque] = call
        owner.calls_in_flight += 1
        stats = self._stats
        stats.calls += 1
        stats.calls_in_flight += 1
        key = int((self._clock() + call.timeout) / TICK) + 1
        bucket = self._buckets.get(key)
        if bucket is not None:
            bucket.append(opaque)
        else:
            self._buckets[key] = [opaque]
            heapq.heappush(self._due, key)
            if self._due[0] == key:
                self._arm(loop)

    def close(self, call: Pending) -> None:
        """Forget a call, answered or not."""
        if self._table.get(call.opaque) is call:
            self._remove(call)

    def resolve(self, owner: Owner, response: Command) -> bool:
        """Hand an answer to its call. False when nobody on this connection waits for it (any more)."""
        call = self._table.get(response.opaque)
        if call is None or call.owner is not owner:
            return False
        self._remove(call)
        if call.abandoned:
            return False
        call.answer(response)
        return True

    def receive(self, owner: Owner, receipts: Iterable[Receipt], stream: bytes) -> int:
        """Hand receipts of one read to their calls; how many of them nobody waits for."""
        table, stats, unmatched = self._table, self._stats, 0
        for receipt in receipts:
            opaque = receipt[0]
            call = table.get(opaque)
            if call is None or call.owner is not owner:
                unmatched += 1
                continue
            del table[opaque]
            owner.calls_in_flight -= 1
            stats.calls_in_flight -= 1
            if call.abandoned:
                unmatched += 1
            else:
                call.receipt(receipt, stream)
        return unmatched

    def fail(self, owner: Owner, error: Callable[[Pending], RemotingError]) -> None:
        """Fail every call of a connection that died."""
        if owner.calls_in_flight:
            for call in [call for call in self._table.values() if call.owner is owner]:
                self._remove(call)
                if not call.abandoned:
                    call.fail(error(call))

    def expire(self, now: float) -> None:
        """Fail every call whose time is over."""
        while self._due and self._due[0] * TICK <= now:
            for opaque in self._buckets.pop(heapq.heappop(self._due)):
                call = self._table.get(opaque)
                if call is not None and not call.abandoned:
                    self._remove(call)
                    self._stats.calls_timed_out += 1
                    call.fail(
                        CallTimeout(
                            f"{request_name(call.code)} to {call.owner.peer} got no answer within {call.timeout:.3g} s"
                        )
                    )

    def stop(self) -> None:
        """Stop the timer; outstanding calls are the caller's to fail."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _remove(self, call: Pending) -> None:
        del self._table[call.opaque]
        call.owner.calls_in_flight -= 1
        self._stats.calls_in_flight -= 1

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        self.stop()
        if self._due:
            self._timer = loop.call_later(max(0.0, self._due[0] * TICK - self._clock()), self._on_timer, loop)

    def _on_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        self.expire(self._clock())
        self._arm(loop)
