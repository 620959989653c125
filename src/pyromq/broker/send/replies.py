"""SEND_REPLY_MESSAGE: an answer to a request message goes straight to the client that asked, over its own connection.

The asking client is known by its id, as a producer: it sends heartbeats to the brokers it sends requests to. The answer
is stored as well unless configured otherwise, so that it can be looked up later; nobody consumes it from there.
"""

import logging
from functools import partial

from pyromq.broker.core import Core
from pyromq.broker.part import Part
from pyromq.broker.send.sender import Sender
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.errors import MessageError
from pyromq.protocol.headers.callbacks import PushReplyMessageToClientHeader
from pyromq.protocol.headers.send import SendMessageHeader, SendMessageResponseHeader, SendMessageV2Header
from pyromq.protocol.properties import Property, encode_properties
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Handler
from pyromq.remoting.errors import RemotingError
from pyromq.store.log.put import PutMessage

log = logging.getLogger(__name__)

PUSH_TIMEOUT = 10.0
NOT_STORED = "0"


class Replies(Part):
    """Hands answers to those who asked."""

    def __init__(self, core: Core, sender: Sender) -> None:
        self._core = core
        self._sender = sender

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.SEND_REPLY_MESSAGE: partial(self._serve, SendMessageHeader),
            RequestCode.SEND_REPLY_MESSAGE_V2: partial(self._serve, SendMessageV2Header),
        }

    async def _serve(self, header_class: type[SendMessageHeader], request: Command, connection: Connection) -> Command:
        header = request.header(header_class)
        message = self._sender.message(header, request, connection, self._core.clock())
        failure = await self._push(header, message, connection)
        answer = self._store_it(message)
        if failure is not None:
            return request.reply(ResponseCode.SYSTEM_ERROR, answer, remark=failure)
        return request.reply(header=answer)

    async def _push(self, header: SendMessageHeader, message: PutMessage, connection: Connection) -> str | None:
        """Give the reply to its addressee; what went wrong, or None."""
        properties = message.property_map or {}
        client_id = properties.get(Property.REPLY_TO_CLIENT)
        if not client_id:
            return f"{Property.REPLY_TO_CLIENT} is null, can not reply message: it must name the client that asked"
        asker = self._core.producers.connection_of(client_id)
        if asker is None:
            return f"push reply message fail, channel of <{client_id}> not found: that client is not connected here"
        try:
            message.property_map = properties | {Property.PUSH_REPLY_TIME: str(self._core.clock())}
            message.properties = encode_properties(message.property_map)
            answer = await asker.request(self._command(header, message, connection), PUSH_TIMEOUT)
        except (RemotingError, MessageError) as error:
            return f"push reply message to <{client_id}> fail: {error}"
        if answer.code != ResponseCode.SUCCESS:
            return f"push reply message to <{client_id}> fail: it answered {answer.code} {answer.remark or ''}"
        return None

    def _command(self, header: SendMessageHeader, message: PutMessage, connection: Connection) -> Command:
        store_host = self._core.store.store_host
        pushed = PushReplyMessageToClientHeader(
            producer_group=header.producer_group,
            topic=header.topic,
            default_topic=header.default_topic,
            default_topic_queue_nums=header.default_topic_queue_nums,
            queue_id=message.queue_id,
            sys_flag=message.sys_flag,
            born_timestamp=header.born_timestamp,
            flag=header.flag,
            properties=message.properties.decode(),
            reconsume_times=header.reconsume_times,
            unit_mode=header.unit_mode,
            born_host=str(connection.peer),
            store_host=f"{store_host.ip}:{store_host.port}",
            store_timestamp=self._core.clock(),
        )
        return Command.request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, pushed, body=message.body)

    def _store_it(self, message: PutMessage) -> SendMessageResponseHeader:
        answer = SendMessageResponseHeader(
            msg_id=NOT_STORED,
            queue_id=message.queue_id,
            queue_offset=0,
            transaction_id=(message.property_map or {}).get(Property.UNIQ_KEY),
            msg_region=self._core.config.region_id,
            trace_on=self._core.config.trace_on,
        )
        if self._core.config.store_reply_message_enable:
            result = self._core.store.put(message)
            if result.stored:
                answer.msg_id, answer.queue_offset = result.message_id, result.queue_offset
                self._core.stats.stored(message.topic, result)
            else:
                log.warning("a reply was pushed but not stored: %s", result.reason)
        return answer
