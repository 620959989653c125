"""RECALL_MESSAGE: a producer takes back a timed message, with the handle that it got when it sent it.

The recall is a timed message itself, for the same slot of time; there it stops the one it names.
"""

import asyncio
import logging

from pyromq.broker.core import Core
from pyromq.broker.errors import Refused
from pyromq.broker.part import Part
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.handles.recall import RecallHandle, decode_recall_handle
from pyromq.protocol.headers.send import RecallMessageHeader, RecallMessageResponseHeader
from pyromq.protocol.properties import Property, encode_properties
from pyromq.protocol.records.host import pack_host
from pyromq.protocol.routes import is_writable
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Answer, Handler
from pyromq.store.log.put import PutMessage

log = logging.getLogger(__name__)

TAG = "_RECALL_TAG_"
BODY = b"0"


class Recalls(Part):
    """Takes recalls."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._config = core.config
        self._clock = core.clock

    def handlers(self) -> dict[int, Handler]:
        """The request codes served here."""
        return {RequestCode.RECALL_MESSAGE: self._recall}

    def _recall(self, request: Command, connection: Connection) -> asyncio.Future[Answer]:
        header, now = request.header(RecallMessageHeader), self._clock()
        self._check_allowed(now)
        if header.topic not in self._core.topics:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"recall failed, the topic[{header.topic}] not exist")
        handle = decode_recall_handle(header.recall_handle)
        self._check_handle(header.topic, handle, now)
        message = self._message(header, handle, connection, now)
        result = self._core.store.put(message)
        if not result.stored:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"recall failed, {result.status.name}: {result.reason}")
        self._core.stats.stored(message.topic, result)
        answer = RecallMessageResponseHeader(msg_id=handle.unique_id, msg_region=self._config.region_id)
        return self._core.durability.once_safe(result, lambda _status: request.reply(ResponseCode.SUCCESS, answer))

    def _check_allowed(self, now: int) -> None:
        config = self._config
        if not config.recall_message_enable:
            raise Refused(
                ResponseCode.NO_PERMISSION, "recall failed, operation is forbidden: it needs recallMessageEnable=true"
            )
        if self._core.is_slave:
            raise Refused(ResponseCode.SLAVE_NOT_AVAILABLE, "recall failed, this is a slave: ask its master")
        forbidden = not is_writable(config.broker_permission)
        if now < config.start_accept_send_request_time_stamp or (
            forbidden and not config.allow_recall_when_broker_not_writeable
        ):
            raise Refused(ResponseCode.SERVICE_NOT_AVAILABLE, "recall failed, the broker takes no messages now")

    def _check_handle(self, topic: str, handle: RecallHandle, now: int) -> None:
        if handle.topic != topic:
            raise Refused(
                ResponseCode.ILLEGAL_OPERATION, f"recall failed, topic not match: {handle.topic}, not {topic}"
            )
        if handle.broker_name != self._config.broker_name:
            raise Refused(
                ResponseCode.ILLEGAL_OPERATION,
                f"recall failed, the message is on broker {handle.broker_name}, this is {self._config.broker_name}",
            )
        if not 0 < handle.deliver_time - now < self._config.timer_max_delay_sec * 1000:
            raise Refused(
                ResponseCode.ILLEGAL_OPERATION,
                f"recall failed, timestamp invalid: {handle.deliver_time} is past or too far ahead (now {now})",
            )

    @staticmethod
    def _message(header: RecallMessageHeader, handle: RecallHandle, connection: Connection, now: int) -> PutMessage:
        properties = {
            Property.TAGS: TAG,
            Property.TIMER_DEL_UNIQ_KEY: f"{handle.topic}+{handle.unique_id}",
            Property.UNIQ_KEY: handle.unique_id,
            Property.TIMER_DELIVER_MS: str(handle.deliver_time),
            Property.BORN_TIMESTAMP: str(now),
        }
        if header.producer_group:
            properties[Property.PRODUCER_GROUP] = header.producer_group
        return PutMessage(
            handle.topic,
            0,
            BODY,
            encode_properties(properties),
            properties,
            born_timestamp=now,
            born_host=pack_host(connection.peer),
        )
