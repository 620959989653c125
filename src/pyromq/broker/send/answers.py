"""What is answered to a send, as a frame, and what a client is told about a message that was not stored."""

from typing import Final

from pyromq.broker.config import BrokerConfig
from pyromq.broker.errors import Refused
from pyromq.broker.refusals import answer as refused
from pyromq.broker.send.imprint import Imprint
from pyromq.protocol import names
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.command import Command, encode
from pyromq.protocol.errors import ValidationError
from pyromq.protocol.handles.recall import RecallHandle, encode_recall_handle
from pyromq.protocol.headers.send import SendMessageResponseHeader
from pyromq.protocol.properties import Property
from pyromq.store.log.put import PutMessage, PutResult, PutStatus

CODE_OF_STATUS = {
    PutStatus.PUT_OK: ResponseCode.SUCCESS,
    PutStatus.FLUSH_DISK_TIMEOUT: ResponseCode.FLUSH_DISK_TIMEOUT,
    PutStatus.FLUSH_SLAVE_TIMEOUT: ResponseCode.FLUSH_SLAVE_TIMEOUT,
    PutStatus.SLAVE_NOT_AVAILABLE: ResponseCode.SLAVE_NOT_AVAILABLE,
    PutStatus.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.PROPERTIES_SIZE_EXCEEDED: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.WHEEL_TIMER_MSG_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
    PutStatus.OS_PAGE_CACHE_BUSY: ResponseCode.SYSTEM_BUSY,
}
"""Every other status is SYSTEM_ERROR."""

_PUT_OK = PutStatus.PUT_OK
_TIMER = names.TIMER_TOPIC
_UNIQUE_KEY: Final[str] = Property.UNIQ_KEY


def refusal(result: PutResult) -> Refused:
    """What a client is told about a message that was not stored."""
    code = CODE_OF_STATUS.get(result.status, ResponseCode.SYSTEM_ERROR)
    prefix = "[PC_SYNCHRONIZED]broker busy: " if result.status is PutStatus.OS_PAGE_CACHE_BUSY else ""
    return Refused(code, f"{prefix}{result.status.name}: {result.reason}")


class Answers:
    """The answers of one broker."""

    def __init__(self, config: BrokerConfig, imprint: Imprint) -> None:
        self._config = config
        self._imprint = imprint
        self.busy = 0
        """How often a message was refused because too many wait for the disk."""

    def refusal(self, result: PutResult) -> Refused:
        """`refusal`, counted."""
        self.busy += result.status is PutStatus.OS_PAGE_CACHE_BUSY
        return refusal(result)

    def frame(
        self, request: Command, message: PutMessage, queue_id: int, result: PutResult, status: PutStatus = _PUT_OK
    ) -> bytes:
        """The answer to one send, as a frame."""
        unique_key = (message.property_map or {}).get(_UNIQUE_KEY)
        if result.status is status is _PUT_OK and unique_key and message.topic != _TIMER and not request.serialization:
            return self._imprint.replies.frame(
                request.opaque, result.message_id, queue_id, result.queue_offset, unique_key
            )
        if not result.stored:
            return encode(refused(request, self.refusal(result)))
        header = self._header(message, queue_id, result)
        remark = None if status is _PUT_OK else status.name
        return encode(request.reply(CODE_OF_STATUS[status], header, remark=remark))

    def _header(self, message: PutMessage, queue_id: int, result: PutResult) -> SendMessageResponseHeader:
        """What is said about a stored message, in the form that says everything."""
        properties = message.property_map or {}
        return SendMessageResponseHeader(
            msg_id=result.message_id,
            queue_id=queue_id,
            queue_offset=result.queue_offset,
            transaction_id=properties.get(Property.UNIQ_KEY),
            recall_handle=self._recall_handle(properties) if message.topic == names.TIMER_TOPIC else None,
            msg_region=self._config.region_id,
            trace_on=self._config.trace_on,
        )

    def _recall_handle(self, properties: dict[str, str]) -> str | None:
        """With which a producer can take a timed message back; none for retries."""
        topic, slot = properties.get(Property.REAL_TOPIC, ""), properties.get(Property.TIMER_OUT_MS, "")
        if names.is_retry_topic(topic):
            return None
        try:
            # A millisecond more, so that rounding down leads a recall to the same slot.
            due = int(slot) + 1
            return encode_recall_handle(
                RecallHandle(topic, self._config.broker_name, due, properties.get(Property.UNIQ_KEY, ""))
            )
        except (ValueError, ValidationError):
            return None  # the message is stored all the same
