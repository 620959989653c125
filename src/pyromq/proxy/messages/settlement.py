"""What brokers are asked about a message that a consumer was given: acknowledged, hidden for longer, or given up."""

from collections.abc import Iterable

import msgspec

from pyromq.protocol.bodies.pop import BatchAckBody
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.errors import HeaderError, MessageError
from pyromq.protocol.handles.pop import NORMAL
from pyromq.protocol.handles.popped import batch_acks
from pyromq.protocol.headers.pop import (
    AckMessageHeader,
    ChangeMessageInvisibletimeHeader,
    ChangeMessageInvisibletimeResponseHeader,
)
from pyromq.protocol.headers.query import ViewMessageByIdHeader
from pyromq.protocol.headers.send import ConsumerSendMsgBackHeader
from pyromq.protocol.records.record import peek_record
from pyromq.proxy.messages.receipt import Receipt
from pyromq.proxy.schema.enums import Code
from pyromq.proxy.status import Refusal, refused_by

TO_DEAD_LETTERS = -1
"""The delay level that stands for no further delivery."""
_STALE = frozenset({ResponseCode.NO_MESSAGE, ResponseCode.MESSAGE_ILLEGAL, ResponseCode.INVALID_PARAMETER})
"""Answers of a broker that does not know the message by this handle, or no longer."""


class Given(msgspec.Struct, frozen=True):
    """A message that a group was given from a topic."""

    topic: str
    group: str
    receipt: Receipt

    @property
    def broker(self) -> str:
        return self.receipt.handle.broker_name

    def ack(self) -> Command:
        """It is done."""
        handle = self.receipt.handle
        header = AckMessageHeader(
            consumer_group=self.group,
            topic=self.receipt.stored_topic(self.topic, self.group),
            queue_id=handle.queue_id,
            extra_info=handle.encode(),
            offset=handle.queue_offset,
            bname=handle.broker_name,
        )
        return Command.request(RequestCode.ACK_MESSAGE, header)

    def hide(self, span_ms: int) -> Command:
        """It comes again after a time, counted from now."""
        handle = self.receipt.handle
        header = ChangeMessageInvisibletimeHeader(
            consumer_group=self.group,
            topic=self.receipt.stored_topic(self.topic, self.group),
            queue_id=handle.queue_id,
            extra_info=handle.encode(),
            offset=handle.queue_offset,
            invisible_time=span_ms,
            bname=handle.broker_name,
        )
        return Command.request(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header)

    def hidden(self, response: Command) -> "Given":
        """It, by the handle that it has once it is hidden. Raises Refusal."""
        self.check(response)
        try:
            answer = response.header(ChangeMessageInvisibletimeResponseHeader)
        except HeaderError:
            return self  # it was done already, which is no reason for anybody to try again
        return Given(self.topic, self.group, self.receipt.renewed(answer))

    def view(self) -> Command:
        """Let it be seen, to make sure that the handle tells the truth about where it lies. Raises Refusal."""
        if self.receipt.physical_offset < 0:
            raise Refusal(Code.INVALID_RECEIPT_HANDLE, "the receipt handle does not say where the message lies")
        header = ViewMessageByIdHeader(offset=self.receipt.physical_offset, topic=self.topic)
        return Command.request(RequestCode.VIEW_MESSAGE_BY_ID, header)

    def check_viewed(self, response: Command) -> None:
        """Raises Refusal unless it was this message: clients may write into handles what they like."""
        handle = self.receipt.handle
        wanted = self.receipt.stored_topic(self.topic, self.group), handle.queue_id, handle.queue_offset
        try:
            record = peek_record(response.body, 0) if response.code == ResponseCode.SUCCESS else None
        except MessageError:
            record = None
        if record is None or (record.topic, record.queue_id, record.queue_offset) != wanted:
            raise Refusal(Code.INVALID_RECEIPT_HANDLE, "the message is not where the receipt handle says, or no longer")

    def bury(self, message_id: str) -> Command:
        """A copy of it goes to the dead letters of its group; it is to be acknowledged then."""
        header = ConsumerSendMsgBackHeader(
            offset=self.receipt.physical_offset,
            group=self.group,
            delay_level=TO_DEAD_LETTERS,
            origin_msg_id=message_id,
            origin_topic=self.receipt.stored_topic(self.topic, self.group),
            max_reconsume_times=0,
            bname=self.broker,
        )
        return Command.request(RequestCode.CONSUMER_SEND_MSG_BACK, header)

    def check(self, response: Command) -> None:
        """Raises Refusal for an answer that is none. Clients give up on a stale handle only if they are told so."""
        if response.code == ResponseCode.SUCCESS:
            return
        refusal = refused_by(response)
        retried = self.receipt.handle.retry_flag != NORMAL
        if response.code in _STALE or (retried and response.code == ResponseCode.TOPIC_NOT_EXIST):
            raise Refusal(Code.INVALID_RECEIPT_HANDLE, str(refusal))
        raise refusal


def ack_together(given: Iterable[Given]) -> Command:
    """Messages of one topic, group and broker are done. Raises BodyError for handles that do not fit together."""
    several = list(given)
    acks = batch_acks(several[0].group, several[0].topic, (each.receipt.handle for each in several))
    return Command.request(
        RequestCode.BATCH_ACK_MESSAGE, body=BatchAckBody(acks=acks, broker_name=several[0].broker).encode()
    )
