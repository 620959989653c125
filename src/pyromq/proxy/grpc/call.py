"""One call: a stream of HTTP/2 whose request is read as gRPC, served by its method, and answered.

Invariant: a call ends once, in `_close`, and all that waits for it is told there; nothing is sent afterwards.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from pyromq.proxy.grpc.answer import (
    HEAD_BLOCK,
    OK_BLOCK,
    http_block,
    message_data,
    only_block,
    send_answer,
    trailers_block,
)
from pyromq.proxy.grpc.method import (
    Conversation,
    GrpcError,
    GrpcStatus,
    Method,
    ServerStream,
    Talk,
    Unary,
)
from pyromq.proxy.grpc.request import CONTENT_TYPE, http_refusal, is_gzip, metadata, timeout
from pyromq.proxy.grpc.wire import PREFIX, PREFIX_SIZE, MessageReader
from pyromq.proxy.http2.connection import Connection
from pyromq.proxy.http2.frames import ErrorCode
from pyromq.proxy.http2.hpack import Field
from pyromq.proxy.http2.stream import Stream, Values
from pyromq.remoting.address import Address

if TYPE_CHECKING:
    from pyromq.proxy.grpc.connection import GrpcConnection

ENOUGH = 64 * 1024
"""Bytes of a stream that may wait for the caller before `drained` does."""


class GrpcCall(Stream):
    """`Call`, as methods know it, and the stream below it."""

    __slots__ = (
        "_awaited",
        "_connection",
        "_deadline",
        "_due",
        "_fields",
        "_has_head",
        "_held",
        "_is_gzip",
        "_listeners",
        "_message",
        "_metadata",
        "_method",
        "_reader",
        "_stuck",
        "_talk",
        "_waiters",
        "is_open",
        "path",
    )

    def __init__(self, connection: "GrpcConnection", http2: Connection, stream_id: int) -> None:
        super().__init__(http2, stream_id)
        self._connection = connection
        self._deadline: float | None = None
        self._due: float | None = None
        self._has_head = False
        self._held = 0
        self._is_gzip = False
        self._awaited: asyncio.Future[bytes | None] | None = None
        self._listeners: list[Callable[[], None]] | None = None
        self._message: bytes | None = None
        self._metadata: Mapping[str, str] | None = None
        self._reader: MessageReader | None = None
        self._stuck: tuple[int, float] | None = None
        self._talk: Talk | None = None
        self._waiters: list[asyncio.Future[None]] | None = None
        self.is_open = True
        self.path = ""

    # What methods see.

    @property
    def metadata(self) -> Mapping[str, str]:
        if self._metadata is None:
            self._metadata = metadata(self._fields)
        return self._metadata

    @property
    def peer(self) -> Address:
        return self._connection.peer

    @property
    def local(self) -> Address:
        return self._connection.local

    @property
    def secure(self) -> bool:
        return self._connection.secure

    def remaining(self) -> float | None:
        if self._deadline is None:
            return None
        return max(0.0, self._deadline - self._connection.endpoint.clock())

    def on_end(self, listener: Callable[[], None]) -> None:
        if not self.is_open:
            listener()
        elif self._listeners is None:
            self._listeners = [listener]
        else:
            self._listeners.append(listener)

    def send(self, message: bytes) -> None:
        if not self.is_open:
            return
        sender = self.http2.sender
        if not self._has_head:
            self._has_head = True
            sender.headers(self, HEAD_BLOCK)
        sender.data(self, message_data(message))
        self._connection.flush_soon()

    def finish(self, status: GrpcStatus = GrpcStatus.OK, text: str = "") -> None:
        if not self.is_open:
            return
        sender = self.http2.sender
        if not self._has_head and status:
            sender.headers(self, only_block(status, text), end=True)
        else:
            if not self._has_head:
                sender.headers(self, HEAD_BLOCK)
            sender.trailers(self, trailers_block(status, text))
        self._close(status)
        self._connection.flush_soon()

    async def drained(self) -> None:
        while self.is_open and (self.queued > ENOUGH or self._connection.is_paused):
            waiter = asyncio.get_running_loop().create_future()
            if self._waiters is None:
                self._waiters = []
            self._waiters.append(waiter)
            await waiter

    # What HTTP/2 says.

    def opened(self, fields: list[Field], values: Values, data: bytes, ended: bool) -> None:
        connection = self._connection
        endpoint = connection.endpoint
        self._fields = fields
        if values[b":method"] != b"POST" or values.get(b"content-type") != CONTENT_TYPE:
            refusal = http_refusal(values)
            if refusal is not None:
                code, text = refusal
                self.http2.sender.headers(self, http_block(code, GrpcStatus.UNKNOWN, text), end=True)
                self._close(GrpcStatus.UNKNOWN)
                return
        try:
            self.path, self._method = endpoint.methods.get(values[b":path"]) or endpoint.missing(values[b":path"])
            endpoint.stats.calls[self.path] += 1
            if b"grpc-timeout" in values:
                self._deadline = connection.heard + timeout(values[b"grpc-timeout"])
            if b"grpc-encoding" in values:
                self._is_gzip = is_gzip(values[b"grpc-encoding"])
            if type(self._method) is Conversation:
                self._talk = self._method.begin(self)
        except GrpcError as error:
            self.finish(error.status, str(error))
        except Exception as error:  # noqa: BLE001 - one caller's trouble must not be another's
            self._fault(error)
        if data or ended:
            self.received(data, ended)
        elif self._deadline is not None:
            connection.watch(self)

    def received(self, data: bytes, ended: bool) -> None:
        if not self.is_open:
            return
        reader = self._reader
        if reader is None:
            if ended and self._talk is None and len(data) >= PREFIX_SIZE:
                # Nearly always: the whole request in one frame, without any packing.
                flag, length = PREFIX.unpack_from(data)
                if not flag and length == len(data) - PREFIX_SIZE and length <= self._connection.max_message:
                    self._serve(data[PREFIX_SIZE:])
                    return
            reader = self._reader = MessageReader(self._connection.max_message, is_gzip=self._is_gzip)
            if self._deadline is not None:
                self._connection.watch(self)
        try:
            messages = reader.feed(data)
            self._hold(reader.size + len(self._message or b""))
            if self._talk is not None:
                self._hear(self._talk, messages, reader.size, ended)
                return
            self._take_one(messages)
            if ended:
                if reader.size or self._message is None:
                    raise GrpcError(GrpcStatus.INTERNAL, "the request ended without a whole message")  # noqa: TRY301
                self._reader = None
                self._serve(self._message)
        except GrpcError as error:
            self.finish(error.status, str(error))
        except Exception as error:  # noqa: BLE001 - as above
            self._fault(error)

    def aborted(self) -> None:
        if self.is_open:
            self._connection.endpoint.stats.cancelled += 1
            self._close(None)
            self._give_up()

    def writable(self) -> None:
        self.wake()

    # What happens between the two.

    def wake(self) -> None:
        """Let those who wait in `drained` look again."""
        if self._waiters:
            waiters, self._waiters = self._waiters, None
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    def expire(self) -> None:
        """The deadline has passed."""
        self._due = None
        self.cut(GrpcStatus.DEADLINE_EXCEEDED, "the deadline has passed")

    def cut(self, status: GrpcStatus, text: str) -> None:
        """End the call although somebody still works for it."""
        self.finish(status, text)
        self._give_up()

    def sweep(self, now: float) -> None:
        """End a call whose request does not come to its end, or whose answer is not taken."""
        if self.queued:
            stage = self.queued
        elif not self.remote_ended and self._talk is None:
            stage = -1
        else:
            self._stuck = None
            return
        if self._stuck is None or self._stuck[0] != stage:
            self._stuck = (stage, now)
        elif now - self._stuck[1] >= self._connection.endpoint.limits.transport.frame_timeout:
            self.aborted()
            self.http2.reset(self, ErrorCode.CANCEL)
            self._connection.flush_soon()

    @property
    def is_endless(self) -> bool:
        """Whether it does not end by itself: a conversation, or a stream that the caller gave no time."""
        return self._talk is not None or (type(self._method) is ServerStream and self._deadline is None)

    def _hear(self, talk: Talk, messages: list[bytes], rest: int, ended: bool) -> None:
        """Messages of a conversation."""
        for message in messages:
            talk.received(message)
        if ended and rest:
            raise GrpcError(GrpcStatus.INTERNAL, "the stream ended within a message")
        if ended and self.is_open:
            talk.closed()

    def _take_one(self, messages: list[bytes]) -> None:
        if not messages:
            return
        if len(messages) > 1 or self._message is not None:
            raise GrpcError(GrpcStatus.INTERNAL, "more than one message in a call that has one")
        self._message = messages[0]
        self._hold(len(self._message))

    def _hold(self, size: int) -> None:
        """Count the bytes that are kept for this call. Raises GrpcError when there are too many."""
        more = size - self._held
        if not more:
            return
        self._held = size
        self._connection.hold(more)

    def _serve(self, message: bytes) -> None:
        """The request is here."""
        method: Method = self._method
        try:
            if type(method) is Unary:
                answer = method.serve(message, self)
                if type(answer) is bytes:
                    self._answer(answer)
                else:
                    self._await(answer, len(message))  # type: ignore[arg-type] # it is no bytes
            elif type(method) is ServerStream:
                self._await(method.serve(message, self), len(message))
        except GrpcError as error:
            self.finish(error.status, str(error))
        except Exception as error:  # noqa: BLE001 - as above
            self._fault(error)

    def _await(self, awaitable: Awaitable[bytes | None], size: int) -> None:
        self.watch()
        self._message = None
        self._awaited = future = asyncio.ensure_future(awaitable)
        future.add_done_callback(self._on_done)
        try:
            self._hold(size)
        except GrpcError as error:
            self.cut(error.status, str(error))

    def watch(self) -> None:
        """Have the call end at its deadline, unless it has ended before."""
        if self._deadline is not None and self._due is None and self.is_open:
            self._due = self._connection.endpoint.deadlines.add(self, self._deadline)

    def _on_done(self, future: "asyncio.Future[bytes | None]") -> None:
        self._awaited = None
        try:
            answer = future.result()
            if answer is None:
                self.finish()
            else:
                self._answer(answer)
        except GrpcError as error:
            self.finish(error.status, str(error))
        except asyncio.CancelledError:
            self.finish(GrpcStatus.CANCELLED, "given up by the server")
        except Exception as error:  # noqa: BLE001 - as above
            self._fault(error)

    def _answer(self, message: bytes) -> None:
        if not self.is_open:
            return
        sender = self.http2.sender
        if send_answer(sender, self, message):
            self.http2.answered(self)
        else:
            sender.headers(self, HEAD_BLOCK)
            sender.data(self, message_data(message))
            sender.trailers(self, OK_BLOCK)
        self._close(GrpcStatus.OK)
        self._connection.flush_soon()

    def _fault(self, error: Exception) -> None:
        """An error that nobody expected."""
        endpoint = self._connection.endpoint
        endpoint.stats.faults += 1
        endpoint.logger.error("%s of %s failed", self.path, self.peer, exc_info=error)
        self.finish(GrpcStatus.INTERNAL, "the server failed; its log has more")

    def _give_up(self) -> None:
        if self._awaited is not None:
            self._awaited.cancel()

    def _close(self, status: GrpcStatus | None) -> None:
        self.is_open = False
        stats = self._connection.endpoint.stats
        if status is not None:
            stats.ended[status] += 1
        if self._due is not None:
            self._connection.endpoint.deadlines.discard(self, self._due)
        if self._held:
            self._connection.hold(-self._held)
            self._held = 0
        self._message = self._reader = None
        if self._waiters:
            self.wake()
        if self._listeners:
            listeners, self._listeners = self._listeners, None
            for listener in listeners:
                try:
                    listener()
                except Exception:
                    self._connection.endpoint.logger.exception("A listener of %s failed", self.path)
