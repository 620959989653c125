"""Requests of one peer: find the handler, refuse what is over a limit, answer now or when the answer is there.

Whatever a handler does, other requests continue: its fault becomes an answer and a line in the log.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from pyromq.errors import PyroMQError
from pyromq.protocol.codes import ResponseCode, request_name
from pyromq.protocol.command import ONEWAY_FLAG, RESPONSE_FLAG, Command, encode
from pyromq.protocol.errors import ValidationError
from pyromq.protocol.frame import commands_of, first_of
from pyromq.protocol.headers.run import Run
from pyromq.protocol.release import V5_3_1
from pyromq.remoting.endpoint import Answer, Endpoint, Handler, Outcome, logger
from pyromq.remoting.handler import Begun, Deferred, Grouped
from pyromq.remoting.outbox import Frames

if TYPE_CHECKING:
    from pyromq.remoting.connection import Connection

READY = (Command, bytes, list)
REMARK_MAX = 500
BUSY = "[OVERLOAD]system busy, start flow control for a while"


class Requests:
    """Serves one connection. `in_flight` and `bytes_in_flight` count what was accepted but not answered yet."""

    __slots__ = (
        "_connection",
        "_endpoint",
        "_handlers",
        "_rates",
        "_released",
        "_share",
        "_stats",
        "_tally",
        "bytes_in_flight",
        "in_flight",
    )

    def __init__(
        self,
        connection: "Connection",
        endpoint: Endpoint,
        handlers: Mapping[int, Handler],
        released: Callable[[], None],
    ) -> None:
        self.in_flight = 0
        self.bytes_in_flight = 0
        self._connection = connection
        self._endpoint = endpoint
        self._stats = endpoint.stats
        self._rates = endpoint.request_rates
        self._tally = endpoint.tally(connection.peer.host)
        # A quarter of the room for all stays for other addresses, whatever one of them has in flight.
        self._share = endpoint.limits.bytes_total - endpoint.limits.bytes_total // 4
        self._handlers = handlers
        self._released = released

    @property
    def full(self) -> bool:
        """Whether the peer has so many bytes in flight that it must not be read from."""
        return self.bytes_in_flight >= self._endpoint.limits.bytes_per_connection

    def serve(self, command: Command, size: int) -> None:
        """Handle one request of about `size` bytes."""
        stats = self._stats
        oneway = command.flag & ONEWAY_FLAG
        if oneway:
            stats.oneways += 1
        else:
            stats.requests += 1
        handler = self._handlers.get(command.code)
        answer: Outcome = None
        if handler is None:
            stats.unsupported += 1
            answer = command.reply(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=f" request type {command.code} not supported"
            )
        elif stats.requests_in_flight or self._endpoint.leaving:
            answer = self._refusal(command, size)
        if answer is None and self._rates is not None and not self._rates.take(self._connection.peer.host):
            stats.requests_refused_rate += 1
            answer = command.reply(ResponseCode.SYSTEM_BUSY, remark=f"{BUSY}: limit request_rate; try again later")
        if answer is None and handler is not None:
            try:
                answer = handler(command, self._connection)
            except Exception as fault:  # noqa: BLE001 - whatever a handler raises must not reach other requests
                answer = self._fault(command, fault)
        if answer is None:
            return
        if type(answer) is bytes:
            if not oneway:
                self._connection.send(answer)
                stats.responses += 1
        elif not isinstance(answer, READY):
            self._await(command, size, answer)
        elif not oneway:
            self._answer(command, answer)

    def takes_many(self, code: int) -> bool:
        """Whether the handler of a code can answer several requests at once."""
        handler = self._handlers.get(code)
        return type(handler) is Grouped and handler.many is not None

    def serve_many(self, commands: list[Command], size: int) -> None:
        """Handle several requests of one code, each of about `size` bytes: at once if their handler can, in order."""
        handler, count = self._handlers.get(commands[0].code), len(commands)
        if type(handler) is Grouped and handler.many is not None and self._have_room(count, count * size):
            try:
                answer = handler.many(commands, self._connection)
            except Exception as fault:  # noqa: BLE001 - whatever a handler raises must not reach other requests
                answer = self._faults(commands, fault)
            if answer is not None:
                oneways = sum(command.flag & ONEWAY_FLAG for command in commands) // ONEWAY_FLAG
                self._take_answers(count, oneways, count * size, answer)
                return
        for command in commands:
            self.serve(command, size)

    def serve_run(self, run: Run, size: int) -> Sequence[Command | Run]:
        """Handle a run of plain requests, each of about `size` bytes: as one if their handler can.

        What is given back is to be served next, if the peer need not be held back before.
        """
        handler, count = self._handlers.get(run.code), len(run)
        many = None
        if type(handler) is Grouped:
            many = handler.many
            if handler.run is not None and self._have_room(count, count * size):
                try:
                    answer = handler.run(run, self._connection)
                except Exception as fault:  # noqa: BLE001 - whatever a handler raises must not reach other requests
                    answer = self._faults(commands_of(run), fault)
                if isinstance(answer, Begun):
                    taken, stats = answer.taken, self._stats
                    stats.requests += taken
                    self._connection.send(answer.frames)
                    stats.responses += taken
                    return _behind(run, taken) if taken < count else ()
                if answer is not None:
                    self._take_answers(count, run.oneways, count * size, answer)
                    return ()
                if many is None:
                    self.serve(first_of(run), size)
                    return _behind(run, 1) if count > 1 else ()
        commands = commands_of(run)
        if many is not None and count > 1:
            self.serve_many(commands, size)
            return ()
        self.serve(commands[0], size)
        return commands[1:]

    def _faults(self, commands: list[Command], fault: Exception) -> bytes:
        faults = [(command, self._fault(command, fault)) for command in commands]
        return b"".join([encode(reply) for command, reply in faults if not command.is_oneway])

    def _take_answers(self, count: int, oneways: int, size: int, answer: bytes | Deferred) -> None:
        """Requests were handled together: count them, and answer now or later."""
        self._stats.oneways += oneways
        self._stats.requests += count - oneways
        if isinstance(answer, Deferred):
            self._accept(size, count)
            answer.when_answered(partial(self._on_answers, count, oneways, size))
            return
        if answer:
            self._connection.send(answer)
        self._stats.responses += count - oneways

    def _have_room(self, count: int, size: int) -> bool:
        """Whether no limit can be met by so many requests."""
        endpoint = self._endpoint
        limits, stats = endpoint.limits, self._stats
        if self._rates is not None or endpoint.leaving:
            return False
        few = self.in_flight + count <= limits.requests_per_connection
        fits = self._tally.bytes + size <= self._share
        return few and fits and stats.bytes_in_flight + size <= limits.bytes_total

    def _refusal(self, command: Command, size: int) -> Command | None:
        """The answer to a request that is not accepted, because of a limit or because the server is going away."""
        endpoint = self._endpoint
        limits, stats = endpoint.limits, self._stats
        if endpoint.leaving and command.version > V5_3_1 and not command.flag & ONEWAY_FLAG:
            return command.reply(ResponseCode.GO_AWAY, remark="please go away")
        if self.in_flight >= limits.requests_per_connection:
            reason = f"{self.in_flight} requests in flight on this connection, limit requests_per_connection"
        elif stats.bytes_in_flight and stats.bytes_in_flight + size > limits.bytes_total:
            reason = f"{stats.bytes_in_flight} request bytes in flight on all connections, limit bytes_total"
        elif self._tally.bytes and self._tally.bytes + size > self._share:
            reason = f"{self._tally.bytes} request bytes in flight from this address, its share of limit bytes_total"
        else:
            return None
        stats.busy += 1
        return command.reply(ResponseCode.SYSTEM_BUSY, remark=f"{BUSY}: {reason}; try again later")

    def _await(self, command: Command, size: int, awaitable: Awaitable[Answer] | Deferred) -> None:
        if type(awaitable) is Deferred:
            self._accept(size)
            awaitable.when_answered(partial(self._on_deferred, command, size))
            return
        if asyncio.isfuture(awaitable):
            future = cast("asyncio.Future[Answer]", awaitable)
        elif asyncio.iscoroutine(awaitable):
            future = self._endpoint.run(cast("Coroutine[Any, Any, Answer]", awaitable))
        else:
            fault = TypeError(f"the handler returned {type(awaitable).__name__}, which is no answer")
            self._answer(command, self._fault(command, fault))
            return
        self._accept(size)
        future.add_done_callback(partial(self._on_answer, command, size))

    def _on_answer(self, command: Command, size: int, future: "asyncio.Future[Answer]") -> None:
        answer: Answer
        if future.cancelled():
            answer = command.reply(ResponseCode.SYSTEM_ERROR, remark="the request was cancelled")
        elif (fault := future.exception()) is not None:
            answer = self._fault(command, fault)
        else:
            answer = future.result()
        if answer is not None:
            self._answer(command, answer)
        self._finish(size)

    def _on_deferred(self, command: Command, size: int, answer: Frames) -> None:
        self._answer(command, answer)
        self._finish(size)

    def _on_answers(self, count: int, oneways: int, size: int, answers: Frames) -> None:
        if answers:
            self._connection.send(answers)
        self._stats.responses += count - oneways
        self._finish(size, count)

    def _accept(self, size: int, count: int = 1) -> None:
        self.in_flight += count
        self.bytes_in_flight += size
        self._tally.bytes += size
        self._endpoint.accept(size, count)

    def _finish(self, size: int, count: int = 1) -> None:
        was_full = self.full
        self.in_flight -= count
        self.bytes_in_flight -= size
        self._tally.bytes -= size
        # Only now that the answer is queued: a server that stops flushes and closes when nothing is in flight.
        self._endpoint.finish(size, count)
        if was_full:
            self._released()

    def _answer(self, command: Command, answer: Frames) -> None:
        if command.flag & ONEWAY_FLAG:
            return
        try:
            if isinstance(answer, Command):
                answer.opaque = command.opaque
                answer.flag |= RESPONSE_FLAG
            self._connection.send(answer)
        except Exception as fault:  # noqa: BLE001 - an answer that cannot be written is the handler's fault
            self._connection.send(self._fault(command, fault))
        self._stats.responses += 1

    def _fault(self, command: Command, fault: BaseException) -> Command:
        self._stats.faults += 1
        code = ResponseCode.SYSTEM_ERROR
        if isinstance(fault, PyroMQError):
            text = str(fault)
            code = fault.code if isinstance(fault, ValidationError) else code
            self._endpoint.complain(
                logging.INFO, "%s from %s failed: %s", request_name(command.code), self._connection.peer, text
            )
        else:
            text = f"{type(fault).__name__}: {fault}"
            logger.error("%s from %s failed", request_name(command.code), self._connection.peer, exc_info=fault)
        return command.reply(code, remark=text[:REMARK_MAX])


def _behind(run: Run, count: int) -> Sequence[Command | Run]:
    """What follows the first requests of a run: one again where it can be begun, as those of pulls can."""
    rest: Callable[[int], Run] | None = getattr(run, "rest", None)
    return [rest(count)] if rest is not None else commands_of(run)[count:]
