"""Requests that are answered by messages: the asking side, and how a reply is made.

The request is an ordinary message that names this client; the reply comes back through a broker to the instance's
table of pending requests (`table.py`).
"""

import asyncio
import functools
import logging
import uuid
from collections.abc import Callable, Coroutine
from typing import Any

from pyromq.client.callbacks import Callback, deliver_outcome
from pyromq.client.clock import within
from pyromq.client.errors import ClientError, ErrorCode
from pyromq.client.instance.instance import ClientInstance
from pyromq.client.producer.envelope import REPLY_TYPE
from pyromq.client.producer.publish_table import Choice
from pyromq.client.producer.sends import Sends
from pyromq.client.request.table import PendingRequest
from pyromq.protocol import namespace as namespaces
from pyromq.protocol.message import Message, ReceivedMessage
from pyromq.protocol.names import reply_topic
from pyromq.protocol.properties import Property

log = logging.getLogger(__name__)

SLOW_PREPARATION = 0.5


class Requests:
    """The asking side of one producer."""

    def __init__(self, instance: ClientInstance, sends: Sends) -> None:
        self._instance = instance
        self._sends = sends
        self._clock = instance.clock

    async def call(self, message: Message, seconds: float, choice: Choice) -> ReceivedMessage:
        """Send and wait. Raises RequestTimeout, ClientError."""
        started = self._clock.monotonic()
        reply: asyncio.Future[ReceivedMessage] = asyncio.get_running_loop().create_future()
        pending = await self._prepare(message, seconds, functools.partial(_settle, reply))
        try:
            sending = self._send(message, pending, seconds, started, choice)
            return await within(self._clock, seconds - (self._clock.monotonic() - started), _both(sending, reply))
        except TimeoutError:
            raise pending.timeout_error() from pending.send_error
        finally:
            self._instance.requests.remove(pending.correlation_id)

    def begin(
        self,
        message: Message,
        seconds: float,
        callback: "Callback[ReceivedMessage] | None",
        choice: Choice,
    ) -> "asyncio.Future[ReceivedMessage]":
        """Send without waiting; a request that is not answered fails at the next sweep after its time."""
        reply: asyncio.Future[ReceivedMessage] = asyncio.get_running_loop().create_future()
        if callback is not None:
            reply.add_done_callback(functools.partial(deliver_outcome, self._instance.callbacks, callback))
        _ = self._instance.spawn(self._begin(message, seconds, reply, choice), "request message")
        return reply

    async def _begin(
        self,
        message: Message,
        seconds: float,
        reply: "asyncio.Future[ReceivedMessage]",
        choice: Choice,
    ) -> None:
        started = self._clock.monotonic()
        try:
            pending = await self._prepare(message, seconds, functools.partial(_settle, reply))
            try:
                await self._send(message, pending, seconds, started, choice)
            except ClientError:
                self._instance.requests.remove(pending.correlation_id)
                raise
        except ClientError as error:
            _settle(reply, None, error)
        except asyncio.CancelledError:
            _settle(reply, None, ClientError("the client was closed"))
            raise

    async def _prepare(
        self, message: Message, seconds: float, finish: Callable[[ReceivedMessage | None, Exception | None], None]
    ) -> PendingRequest:
        """Mark the message, and make sure that the brokers of its topic know this client."""
        if seconds <= 0:
            raise ClientError(f"a request needs a time-out above 0, not {seconds}")
        correlation_id = str(uuid.uuid4())
        message.properties[Property.CORRELATION_ID] = correlation_id
        message.properties[Property.REPLY_TO_CLIENT] = self._instance.client_id
        message.properties[Property.TTL] = str(round(seconds * 1000))
        began = self._clock.monotonic()
        topic = namespaces.wrap(self._instance.namespace or "", message.topic)
        if topic not in self._instance.topology.routes:
            await self._sends.topics.find(topic)
            await self._instance.heart.beat_all()
            if self._clock.monotonic() - began > SLOW_PREPARATION:
                log.warning("preparing a request to topic %s took long", topic)
        return self._instance.requests.add(correlation_id, seconds, finish)

    async def _send(
        self,
        message: Message,
        pending: PendingRequest,
        seconds: float,
        started: float,
        choice: Choice,
    ) -> None:
        left = seconds - (self._clock.monotonic() - started)
        try:
            await self._sends.begin(message, left, choice)
        except ClientError as error:
            pending.send_error = error
            raise
        pending.sent = True


async def _both(sending: Coroutine[Any, Any, None], reply: "asyncio.Future[ReceivedMessage]") -> ReceivedMessage:
    """The reply may overtake the receipt of the request."""
    task = asyncio.get_running_loop().create_task(sending)
    try:
        await asyncio.wait((task, reply), return_when=asyncio.FIRST_COMPLETED)
        if not reply.done():
            await task
        return await reply
    finally:
        task.cancel()


def _settle(reply: "asyncio.Future[ReceivedMessage]", message: ReceivedMessage | None, error: Exception | None) -> None:
    if reply.done():
        return
    if message is not None:
        reply.set_result(message)
    else:
        reply.set_exception(error or ClientError("the request failed"))


def create_reply(request: ReceivedMessage, body: bytes) -> Message:
    """The message that answers a request; send it with any producer. Raises ClientError when it is no request.

    >>> create_reply(ReceivedMessage("orders", b"?", {"CLUSTER": "DefaultCluster", "TTL": "3000"}), b"!").topic
    'DefaultCluster_REPLY_TOPIC'
    """
    cluster = request.cluster
    if not cluster:
        raise ClientError(
            "this message is no request that can be answered: it has no CLUSTER property",
            code=ErrorCode.CREATE_REPLY_MESSAGE,
        )
    reply = Message(reply_topic(cluster), body)
    reply.properties[Property.MSG_TYPE] = REPLY_TYPE
    for name in (Property.CORRELATION_ID, Property.REPLY_TO_CLIENT, Property.TTL):
        value = request.properties.get(name)
        if value:
            reply.properties[name] = value
    return reply
