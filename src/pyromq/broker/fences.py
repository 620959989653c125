"""Fences: a batch of messages says which attempt at a job it belongs to, and is refused once a later attempt took over.

A job that is run again after a crash looks for what it had sent and sends the rest; that is exact only if nothing of
the earlier attempt arrives after the look. So the later attempt first raises a fence: it commits its number as the
offset of a private consumer group, on the queues it writes to. Fences are thus kept, replicated and restored as offsets
are, and a broker that does not know them (Apache's) simply stores the offsets.
"""

from collections.abc import Iterator

from pyromq.broker.errors import Refused
from pyromq.broker.offsets import ConsumerOffsets
from pyromq.broker.send import Sender
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers import SendMessageV2Header
from pyromq.remoting import Connection, Handler
from pyromq.remoting.endpoint import Outcome

FIELD = "fence"
"""Field of a batch request: `group=number`, several separated by `,`."""
MAX_FENCES = 8


class Fences:
    """Stands before the sender for batches."""

    def __init__(self, sender: Sender, offsets: ConsumerOffsets) -> None:
        self._offsets = offsets
        self._handlers = sender.handlers()

    def handlers(self) -> dict[int, Handler]:
        """Those of the sender, with batches checked."""
        store = self._handlers[RequestCode.SEND_BATCH_MESSAGE]

        def checked(request: Command, connection: Connection) -> Outcome:
            fence = request.field(FIELD)
            if fence is not None:
                self.check(fence, request.header(SendMessageV2Header))
            return store(request, connection)

        return {**self._handlers, RequestCode.SEND_BATCH_MESSAGE: checked}

    def check(self, fence: str, header: SendMessageV2Header) -> None:
        """Raises Refused when a later attempt has raised a fence, or the field makes no sense."""
        for group, number in _parse(fence):
            raised = self._offsets.get(group, header.topic, header.queue_id)
            if raised is not None and raised > number:
                raise Refused(
                    ResponseCode.NO_PERMISSION,
                    f"fenced off: attempt {raised} of {group} took over from {number}, which must stop",
                )


def _parse(text: str) -> Iterator[tuple[str, int]]:
    parts = text.split(",")
    if len(parts) > MAX_FENCES:
        raise Refused(ResponseCode.INVALID_PARAMETER, f"{len(parts)} fences are more than {MAX_FENCES}")
    for part in parts:
        group, _, number = part.partition("=")
        if not group or not number.isascii() or not number.isdigit() or len(number) > 19:
            raise Refused(ResponseCode.INVALID_PARAMETER, f"fence {part[:80]!r} is not group=number")
        yield group, int(number)
