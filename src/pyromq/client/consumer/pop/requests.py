"""Single requests of pop consumption: pop, acknowledge, change the time of invisibility.

The broker keeps the position of the group; a client names a popped message by its handle, which the answer tells.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pyromq.client.consumer.damage import Damage
from pyromq.client.consumer.subscription import is_tag_filter, keep_wanted
from pyromq.client.errors import BrokerError, ClientError, ErrorCode
from pyromq.client.instance.instance import ClientInstance
from pyromq.protocol import namespace as namespaces
from pyromq.protocol.bodies.clients import SubscriptionData
from pyromq.protocol.bodies.pop import BatchAckBody
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.handles.pop import PopHandle, real_topic
from pyromq.protocol.handles.popped import attach_handles, batch_acks, handle_of
from pyromq.protocol.headers.base import Header
from pyromq.protocol.headers.pop import (
    AckMessageHeader,
    ChangeMessageInvisibletimeHeader,
    PopMessageHeader,
    PopMessageResponseHeader,
)
from pyromq.protocol.message import MessageQueue, ReceivedMessage
from pyromq.protocol.records.salvage import salvage_records

POLL_TIME = 15.0
CALL_MARGIN = 10.0
ANSWER_TIMEOUT = 3.0

_EMPTY = (ResponseCode.PULL_NOT_FOUND, ResponseCode.POLLING_TIMEOUT)


@dataclass(frozen=True, slots=True)
class PopRequest:
    """What to pop. `queue.queue_id` -1 means any queue of the broker; `init_mode` is 0 for oldest first, else 1."""

    queue: MessageQueue
    subscription: SubscriptionData
    max_messages: int
    invisible: float
    init_mode: int


class PopFetcher:
    """Pops for one group (its name on the wire)."""

    def __init__(self, instance: ClientInstance, group: str, damage: Damage) -> None:
        """`damage` sets damaged messages aside."""
        self._instance = instance
        self._group = group
        self._without_batches: set[str] = set()
        """Brokers that take acknowledgements only one by one."""
        self._damage = damage

    async def pop(self, request: PopRequest) -> list[ReceivedMessage]:
        """Messages, each with its handle; none when the time was over. Raises ClientError, RemotingError, MessageError.

        BrokerError with POLLING_FULL says that the broker has no room for a waiting request.
        """
        subscription = request.subscription
        header = PopMessageHeader(
            consumer_group=self._group,
            topic=request.queue.topic,
            queue_id=request.queue.queue_id,
            max_msg_nums=request.max_messages,
            invisible_time=int(request.invisible * 1000),
            poll_time=int(POLL_TIME * 1000),
            born_time=self._instance.clock.millis(),
            init_mode=request.init_mode,
            exp_type=str(subscription.expression_type),
            exp=subscription.sub_string,
            order=False,
            bname=request.queue.broker_name,
        )
        command = Command.request(RequestCode.POP_MESSAGE, header)
        address = await self._address(request.queue.broker_name, request.queue.topic)
        response = await self._instance.call_for(request.queue.topic, address, command, POLL_TIME + CALL_MARGIN)
        if response.code in _EMPTY:
            return []
        if response.code != ResponseCode.SUCCESS:
            raise BrokerError(response.code, response.remark, broker=request.queue.broker_name, request=command.name)
        config = self._instance.config
        # What is not complete is not acknowledged either, and comes again.
        messages = salvage_records(
            response.body, inflate=config.decompress_body, max_body=config.max_body_size
        ).messages
        attach_handles(messages, request.queue.broker_name, response.header(PopMessageResponseHeader))
        for message in messages:
            message.broker_name = request.queue.broker_name
            message.topic = namespaces.unwrap(request.queue.topic, self._instance.namespace or "")
        wanted = keep_wanted(subscription, messages) if is_tag_filter(subscription) else messages
        await self.ack_all([message for message in messages if message not in wanted])
        return await self._sound(request.queue, wanted)

    async def _sound(self, queue: MessageQueue, messages: list[ReceivedMessage]) -> list[ReceivedMessage]:
        """What is to be consumed; damaged messages that were set aside are acknowledged, others come again."""
        if not any(message.fault for message in messages):
            return messages
        kept: list[ReceivedMessage] = []
        for message in messages:
            if message.fault is None:
                kept.append(message)
                continue
            place = MessageQueue(queue.topic, queue.broker_name, message.queue_id)
            if not await self._damage.set_aside(place, message):
                continue
            if self._damage.delivers:
                kept.append(message)
            else:
                await self.ack(message)
        return kept

    async def ack(self, message: ReceivedMessage) -> None:
        """It is consumed. Raises ClientError or RemotingError; the message then comes again."""
        handle = handle_of(message)
        header = AckMessageHeader(
            consumer_group=self._group,
            topic=self._stored_topic(message, handle),
            queue_id=handle.queue_id,
            extra_info=handle.encode(),
            offset=handle.queue_offset,
            bname=handle.broker_name,
        )
        await self._tell(message, RequestCode.ACK_MESSAGE, header)

    async def ack_all(self, messages: Sequence[ReceivedMessage]) -> None:
        """They are consumed: those of one broker in one request, where it knows that. Raises like `ack`."""
        by_broker: dict[str, list[ReceivedMessage]] = {}
        for message in messages:
            by_broker.setdefault(message.broker_name, []).append(message)
        for broker, members in by_broker.items():
            if len(members) > 1 and broker not in self._without_batches:
                try:
                    await self._ack_batch(members)
                    continue
                except BrokerError as error:
                    if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                        raise
                    self._without_batches.add(broker)
            for message in members:
                await self.ack(message)

    async def _ack_batch(self, messages: Sequence[ReceivedMessage]) -> None:
        topic = namespaces.wrap(self._instance.namespace or "", messages[0].topic)
        handles = [handle_of(message) for message in messages]
        acks = batch_acks(self._group, topic, handles)
        body = BatchAckBody(acks=acks, broker_name=handles[0].broker_name).encode()
        await self._tell(messages[0], RequestCode.BATCH_ACK_MESSAGE, body=body)

    async def hide(self, message: ReceivedMessage, seconds: float) -> None:
        """Let it come again after a time. Raises ClientError or RemotingError."""
        handle = handle_of(message)
        header = ChangeMessageInvisibletimeHeader(
            consumer_group=self._group,
            topic=self._stored_topic(message, handle),
            queue_id=handle.queue_id,
            extra_info=handle.encode(),
            offset=handle.queue_offset,
            invisible_time=int(seconds * 1000),
            bname=handle.broker_name,
        )
        await self._tell(message, RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header)

    def _stored_topic(self, message: ReceivedMessage, handle: PopHandle) -> str:
        topic = namespaces.wrap(self._instance.namespace or "", message.topic)
        return real_topic(topic, self._group, handle.retry_flag)

    async def _tell(
        self, message: ReceivedMessage, code: RequestCode, header: Header | None = None, body: bytes = b""
    ) -> None:
        broker = message.broker_name
        address = await self._address(broker, namespaces.wrap(self._instance.namespace or "", message.topic))
        command = Command.request(code, header, body=body)
        await self._instance.invoke(address, command, ANSWER_TIMEOUT, broker=broker)

    async def _address(self, broker: str, topic: str) -> str:
        address = self._instance.topology.publish_address(broker)
        if address is None:
            await self._instance.routes.refresh(topic)
            address = self._instance.topology.publish_address(broker)
        if address is None:
            raise ClientError(
                f"broker {broker!r} has no master", code=ErrorCode.BROKER_NOT_EXIST, broker=broker, retryable=True
            )
        return address
