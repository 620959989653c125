"""Requests that brokers send to clients: found here by code, carried out by the producer or consumer concerned.

One-way notices (39, 40, 220) never get an answer. What takes time runs as its own task, so that reading from the
broker's connection goes on.
"""

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from typing import Any, Protocol

from pyromq.client.instance.members import ConsumerMember, ProducerMember
from pyromq.client.request.table import RequestTable
from pyromq.protocol import namespace
from pyromq.protocol.bodies.offsets import ConsumerStatusBody, ResetOffsetBody
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.errors import ProtocolError
from pyromq.protocol.headers.admin import ConsumeMessageDirectlyHeader, GetConsumerRunningInfoHeader
from pyromq.protocol.headers.callbacks import (
    CheckTransactionStateHeader,
    GetConsumerStatusFromClientHeader,
    NotifyConsumerIdsChangedHeader,
    PushReplyMessageToClientHeader,
    ResetConsumerClientOffsetHeader,
)
from pyromq.protocol.message import Message
from pyromq.protocol.properties import Property
from pyromq.protocol.records.salvage import salvage_record
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Handler

log = logging.getLogger(__name__)


class Host(Protocol):
    """What the handlers need of the client instance."""

    producers: dict[str, ProducerMember]
    consumers: dict[str, ConsumerMember]
    requests: RequestTable

    @property
    def namespace(self) -> str | None: ...

    def wake_rebalance(self) -> None: ...

    def spawn(self, work: Coroutine[Any, Any, object], name: str) -> "asyncio.Task[object]": ...


class Inbound:
    """The handlers of one client instance."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def handlers(self) -> Mapping[int, Handler]:
        return {
            RequestCode.CHECK_TRANSACTION_STATE: self.check_transaction_state,
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: self.consumer_ids_changed,
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: self.reset_offsets,
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self.consumer_status,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self.running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self.consume_directly,
            RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: self.push_reply,
        }

    def check_transaction_state(self, command: Command, connection: Connection) -> None:
        header = command.header(CheckTransactionStateHeader)
        message = salvage_record(command.body)
        message.broker_name = header.bname or ""
        self._strip_namespace(message)
        message.transaction_id = message.unique_id or message.transaction_id
        group = message.producer_group
        producer = self._host.producers.get(group) if group else None
        if producer is None:
            log.warning("transaction check for unknown producer group %r ignored", group)
            return
        producer.check_transaction(str(connection.peer), message, header)

    def consumer_ids_changed(self, command: Command, _: Connection) -> None:
        header = command.header(NotifyConsumerIdsChangedHeader)
        log.info("members of consumer group %r changed", header.consumer_group)
        self._host.wake_rebalance()

    def reset_offsets(self, command: Command, _connection: Connection) -> None:
        header = command.header(ResetConsumerClientOffsetHeader)
        body = ResetOffsetBody.decode(command.body)
        consumer = self._host.consumers.get(header.group)
        if consumer is None:
            log.warning("offset reset for unknown consumer group %r ignored", header.group)
            return
        _ = self._host.spawn(consumer.reset_offsets(header.topic, body.offset_table), "reset of offsets")

    def consumer_status(self, command: Command, _: Connection) -> Command:
        header = command.header(GetConsumerStatusFromClientHeader)
        consumer = self._host.consumers.get(header.group)
        if consumer is None:
            return self._unknown_group(command, header.group)
        body = ConsumerStatusBody(message_queue_table=dict(consumer.consumer_status(header.topic)))
        return command.reply(body=body.encode())

    async def running_info(self, command: Command, _: Connection) -> Command:
        header = command.header(GetConsumerRunningInfoHeader)
        consumer = self._host.consumers.get(header.consumer_group)
        if consumer is None:
            return self._unknown_group(command, header.consumer_group)
        info = await consumer.running_info(jstack=bool(header.jstack_enable))
        return command.reply(body=info.encode())

    async def consume_directly(self, command: Command, _: Connection) -> Command:
        header = command.header(ConsumeMessageDirectlyHeader)
        consumer = self._host.consumers.get(header.consumer_group)
        if consumer is None:
            return self._unknown_group(command, header.consumer_group)
        message = salvage_record(command.body)
        message.broker_name = header.broker_name or ""
        self._strip_namespace(message)
        result = await consumer.consume_directly(message, header.broker_name)
        return command.reply(body=result.encode())

    def push_reply(self, command: Command, _: Connection) -> Command:
        try:
            header = command.header(PushReplyMessageToClientHeader)
            self._host.requests.reply(header, bytes(command.body))
        except ProtocolError as error:
            log.warning("a reply could not be read: %s", error)
            return command.reply(ResponseCode.SYSTEM_ERROR, remark=f"process reply message fail: {error}")
        return command.reply()

    def _unknown_group(self, command: Command, group: str) -> Command:
        remark = f"The Consumer Group <{group}> not exist in this consumer"
        return command.reply(ResponseCode.SYSTEM_ERROR, remark=remark)

    def _strip_namespace(self, message: Message) -> None:
        if self._host.namespace:
            message.topic = namespace.unwrap(message.topic, self._host.namespace)
            message.properties.pop(Property.INSTANCE_ID, None)
