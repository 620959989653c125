"""A send that has left: one frame on the wire and what comes back for it, with neither a task nor a command between.

Invariant: the permit of the request is given back once, and one of `stored` and `failed` is called, once, unless the
departure is called off before.
"""

import asyncio
from abc import abstractmethod

from pyromq.client.errors import BrokerError
from pyromq.client.producer.envelope import Envelope
from pyromq.client.producer.results import SendResult, SendStatus
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.errors import ProtocolError
from pyromq.protocol.message import MessageQueue
from pyromq.protocol.receipts import Receipt, ReceiptHeader
from pyromq.remoting.calls import Pending
from pyromq.remoting.client import Client
from pyromq.remoting.connection import Connection
from pyromq.remoting.errors import CallTimeout, RemotingError

STATUSES = {
    int(ResponseCode.SUCCESS): SendStatus.SEND_OK,
    int(ResponseCode.FLUSH_DISK_TIMEOUT): SendStatus.FLUSH_DISK_TIMEOUT,
    int(ResponseCode.FLUSH_SLAVE_TIMEOUT): SendStatus.FLUSH_SLAVE_TIMEOUT,
    int(ResponseCode.SLAVE_NOT_AVAILABLE): SendStatus.SLAVE_NOT_AVAILABLE,
}
REGION = "DefaultRegion"
_OK = SendStatus.SEND_OK


class GoingAwayError(RemotingError):
    """The broker is going away and did not store it: another connection leads to its successor."""


class Departure(Pending):
    """One attempt to send `envelope` to `queue`, whose topic is that of the wire."""

    __slots__ = ("_address", "_client", "_connection", "_ended", "_retryable", "envelope", "queue")

    def __init__(
        self,
        client: Client,
        connection: Connection,
        address: str,
        code: int,
        timeout: float,
        envelope: Envelope,
        queue: MessageQueue,
        retryable: frozenset[int],
    ) -> None:
        super().__init__(connection.asker.next_opaque(), code, connection, timeout)
        self.envelope = envelope
        self.queue = queue
        self._client = client
        self._connection = connection
        self._address = address
        self._retryable = retryable
        self._ended = False

    @abstractmethod
    def stored(self, result: SendResult) -> None: ...

    @abstractmethod
    def failed(self, error: RemotingError | BrokerError | ProtocolError) -> None: ...

    def leave(self, frame: bytes, loop: asyncio.AbstractEventLoop) -> bool:
        """Write the frame; False, and nothing was done, if a bound is reached."""
        client = self._client
        if not client.take_permit():
            return False
        if self._connection.asker.enter(self, frame, loop):
            return True
        client.give_permit()
        return False

    def call_off(self) -> None:
        """Nobody wants to know any more what becomes of it."""
        if not self._ended:
            self._end()
            self._connection.asker.close(self)

    @property
    def abandoned(self) -> bool:
        return self._ended

    def receipt(self, receipt: Receipt, stream: bytes) -> None:  # noqa: ARG002 - the receipt says it all
        self._end()
        _, offset_id, queue_id, queue_offset, transaction_id, region, trace_on, _ = receipt
        envelope, queue = self.envelope, self.queue
        topic = envelope.first.topic
        if queue_id != queue.queue_id or topic != queue.topic:
            queue = MessageQueue(topic, queue.broker_name, queue_id)
        self.stored(
            SendResult(
                status=_OK,
                message_id=envelope.message_id,
                offset_message_id=offset_id,
                queue=queue,
                queue_offset=queue_offset,
                transaction_id=transaction_id,
                region_id=region or REGION,
                trace_on=trace_on,
            )
        )

    def answer(self, response: Command) -> None:
        self._end()
        if response.code == ResponseCode.GO_AWAY:
            self._client.retire(self._address, self._connection)
            self.failed(GoingAwayError(f"{self._address} is going away"))
            return
        try:
            result = read_receipt(self.envelope, self.queue, response, self._retryable)
        except (BrokerError, ProtocolError) as error:
            self.failed(error)
        else:
            self.stored(result)

    def fail(self, error: RemotingError) -> None:
        self._end()
        if isinstance(error, CallTimeout):
            self._client.judge_silence(self._connection, self)
        self._connection.asker.close(self)
        self.failed(error)

    def _end(self) -> None:
        self._ended = True
        self._client.give_permit()


class AwaitedDeparture(Departure):
    """One whose receipt is the result of `future`."""

    __slots__ = ("future",)

    future: "asyncio.Future[SendResult]"

    def stored(self, result: SendResult) -> None:
        if not self.future.done():
            self.future.set_result(result)

    def failed(self, error: RemotingError | BrokerError | ProtocolError) -> None:
        if not self.future.done():
            self.future.set_exception(error)


def read_receipt(envelope: Envelope, queue: MessageQueue, response: Command, retryable: frozenset[int]) -> SendResult:
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
    header = response.header(ReceiptHeader)
    return SendResult(
        status=status,
        message_id=header.batch_uniq_id or envelope.message_id,
        offset_message_id=header.msg_id,
        queue=MessageQueue(envelope.first.topic, queue.broker_name, header.queue_id),
        queue_offset=header.queue_offset,
        transaction_id=header.transaction_id,
        recall_handle=header.recall_handle,
        region_id=header.region or REGION,
        trace_on=header.trace_on != "false",
    )
