"""From a broker's answer to a send result."""

from msgspec import field

from pyromq.client.errors import BrokerError
from pyromq.client.producer.outgoing import Outgoing
from pyromq.client.producer.results import SendResult, SendStatus
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.base import Header, Int, Long
from pyromq.protocol.message import MessageQueue

STATUSES = {
    int(ResponseCode.SUCCESS): SendStatus.SEND_OK,
    int(ResponseCode.FLUSH_DISK_TIMEOUT): SendStatus.FLUSH_DISK_TIMEOUT,
    int(ResponseCode.FLUSH_SLAVE_TIMEOUT): SendStatus.FLUSH_SLAVE_TIMEOUT,
    int(ResponseCode.SLAVE_NOT_AVAILABLE): SendStatus.SLAVE_NOT_AVAILABLE,
}


class _Receipt(Header, kw_only=True):
    """`SendMessageResponseHeader` with the trace switch as text, which every answer carries: quicker to read."""

    msg_id: str
    queue_id: Int
    queue_offset: Long
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None
    region: str | None = field(default=None, name="MSG_REGION")
    trace_on: str | None = field(default=None, name="TRACE_ON")


def send_result(outgoing: Outgoing, queue: MessageQueue, response: Command, retryable: frozenset[int]) -> SendResult:
    """The receipt. `queue` is what was sent to; the broker says which of its queues it took.

    Raises BrokerError when the answer is no status, HeaderError when it cannot be read.
    """
    status = STATUSES.get(response.code)
    if status is None:
        raise BrokerError(
            response.code,
            response.remark,
            broker=queue.broker_name,
            request="a send",
            retryable=response.code in retryable,
        )
    header = response.header(_Receipt)
    return SendResult(
        status=status,
        message_id=header.batch_uniq_id or outgoing.message_id,
        offset_message_id=header.msg_id,
        queue=MessageQueue(outgoing.first.topic, queue.broker_name, header.queue_id),
        queue_offset=header.queue_offset,
        transaction_id=header.transaction_id,
        recall_handle=header.recall_handle,
        region_id=header.region or "DefaultRegion",
        trace_on=header.trace_on != "false",
    )
