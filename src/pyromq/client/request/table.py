"""Requests that wait for a reply message, by correlation id.

A reply comes back from a broker as a request to this client (`inbound.py`). The table is bounded, and swept by the
client instance's schedule: whoever waits with a callback learns of the time-out there.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from pyromq.client.clock import Clock
from pyromq.client.errors import ClientError, RequestTimeout, TooManyRequestsError
from pyromq.protocol.errors import HeaderError, MessageError
from pyromq.protocol.headers.callbacks import PushReplyMessageToClientHeader
from pyromq.protocol.message import Host, ReceivedMessage
from pyromq.protocol.properties import Property, decode_properties
from pyromq.protocol.records.compression import decompress
from pyromq.protocol.records.sysflag import COMPRESSED
from pyromq.remoting.address import Address
from pyromq.remoting.errors import AddressError

log = logging.getLogger(__name__)

MAX_PENDING = 65_536
MAX_REPLY_BODY = 64 * 1024 * 1024

OnReply = Callable[[ReceivedMessage | None, Exception | None], None]


@dataclass(slots=True)
class PendingRequest:
    """One request under way. `sent` tells a lost reply from a request that never left."""

    correlation_id: str
    deadline: float
    finish: OnReply
    sent: bool = False
    send_error: Exception | None = None

    def timeout_error(self) -> ClientError:
        """What to say when its time is over."""
        if self.sent:
            return RequestTimeout("the request message was sent, but no reply came in time")
        error = ClientError("the request message could not be sent in time", retryable=True)
        error.__cause__ = self.send_error
        return error


class RequestTable:
    """Pending requests of one client instance."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pending: dict[str, PendingRequest] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, correlation_id: str, timeout: float, finish: OnReply) -> PendingRequest:
        """Expect a reply. Raises TooManyRequestsError when too many are expected already."""
        if len(self._pending) >= MAX_PENDING:
            raise TooManyRequestsError(f"{MAX_PENDING} requests wait for their replies already; try again later")
        pending = PendingRequest(correlation_id, self._clock.monotonic() + timeout, finish)
        self._pending[correlation_id] = pending
        return pending

    def remove(self, correlation_id: str) -> None:
        self._pending.pop(correlation_id, None)

    def reply(self, header: PushReplyMessageToClientHeader, body: bytes) -> None:
        """Hand a reply to whoever waits for it; one that nobody waits for is logged. Raises ProtocolError."""
        properties = decode_properties(header.properties or "")
        if header.sys_flag & COMPRESSED:
            try:
                body = decompress(body, header.sys_flag, limit=MAX_REPLY_BODY)
            except MessageError as error:  # whoever waits is better off with this than with a time-out
                self._fail(properties.get(Property.CORRELATION_ID, ""), f"its reply is damaged: {error}")
                raise
        # Before it is taken from those that wait, or what cannot be read would leave the request waiting for ever.
        born_host, store_host = _host(header.born_host), _host(header.store_host)
        properties[Property.ARRIVE_TIME] = str(self._clock.millis())
        correlation_id = properties.get(Property.CORRELATION_ID, "")
        pending = self._pending.pop(correlation_id, None)
        if pending is None:
            log.warning(
                "reply for correlation id %r, which nobody waits for, from %s", correlation_id, header.born_host
            )
            return
        pending.finish(
            ReceivedMessage(
                header.topic,
                body,
                properties,
                flag=header.flag,
                queue_id=header.queue_id,
                sys_flag=header.sys_flag & ~COMPRESSED,
                born_timestamp=header.born_timestamp,
                born_host=born_host,
                store_timestamp=header.store_timestamp,
                store_host=store_host,
                reconsume_times=header.reconsume_times or 0,
            ),
            None,
        )

    def _fail(self, correlation_id: str, reason: str) -> None:
        pending = self._pending.pop(correlation_id, None)
        if pending is not None:
            pending.finish(None, ClientError(f"request {correlation_id} was answered, but {reason}"))

    async def sweep(self) -> None:
        """Fail every request whose time is over."""
        now = self._clock.monotonic()
        for correlation_id, pending in list(self._pending.items()):
            if pending.deadline <= now:
                del self._pending[correlation_id]
                pending.finish(None, pending.timeout_error())

    def fail_all(self, error: Exception) -> None:
        """The client stops."""
        pending, self._pending = list(self._pending.values()), {}
        for request in pending:
            request.finish(None, error)


def _host(text: str) -> Host:
    try:
        return Host(*Address.parse(text))
    except AddressError as error:
        raise HeaderError(f"PushReplyMessageToClientHeader: {error}") from None
