"""One attempt to send one message to one queue: address, hooks, header, request, receipt.

Whether there is another attempt is decided elsewhere (`sends.py`).
"""

import asyncio
import logging
from typing import TypeVar

from pyromq.client.config import ProducerConfig
from pyromq.client.errors import (
    ClientError,
    ErrorCode,
    SendForbiddenError,
    TooManyRequestsError,
    UnsendableError,
)
from pyromq.client.hooks import (
    ForbiddenCheck,
    ForbiddenHook,
    MessageType,
    SendContext,
    SendHook,
    SendMode,
    run_hooks,
)
from pyromq.client.instance.instance import ClientInstance
from pyromq.client.producer.departure import AwaitedDeparture, Departure, GoingAwayError, read_receipt
from pyromq.client.producer.envelope import Envelope
from pyromq.client.producer.results import SendResult
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.errors import MessageError
from pyromq.protocol.headers.send import (
    FRAME_END,
    SendMessageHeader,
    SendMessageV2Header,
    frame_head,
    frame_tail,
    send_fields,
    send_frame,
    send_head,
    send_tail,
)
from pyromq.protocol.message import MessageQueue
from pyromq.protocol.properties import encode_properties
from pyromq.remoting.client import Client
from pyromq.remoting.errors import ConnectError, ConnectionLost, RemotingError, SendError
from pyromq.remoting.outbox import JOIN_MAX

log = logging.getLogger(__name__)

D = TypeVar("D", bound=Departure)


class Attempts:
    """Makes attempts for one producer."""

    def __init__(self, instance: ClientInstance, config: ProducerConfig, group: str) -> None:
        self.instance = instance
        self.config = config
        self.group = group
        self.send_hooks: list[SendHook] = []
        self.forbidden_hooks: list[ForbiddenHook] = []
        self._clock = instance.clock
        transport = instance.transport
        self._client = transport if isinstance(transport, Client) else None
        self._loop = asyncio.get_running_loop()
        self._asking = 0
        """Attempts that wait for the address of their broker: what comes later lets them pass."""

    async def make(self, envelope: Envelope, queue: MessageQueue, mode: SendMode, seconds: float) -> SendResult | None:
        """The receipt, None for one-way. `queue` has the topic's name on the wire.

        Raises RemotingError, BrokerError, ClientError; TooManyRequestsError when the time is over before sending.
        """
        began = self._clock.monotonic()
        instance = self.instance
        broker = instance.topology.broker_of(queue)
        address = instance.topology.publish_address(broker) or await self._find_address(broker, queue.topic)
        address = instance.vip(address)
        if self.forbidden_hooks:
            self._check_forbidden(envelope, queue, mode, address)
        context = self._before(envelope, queue, mode, address) if self.send_hooks else None
        result: SendResult | None = None
        try:
            left = self._left(seconds, began, queue)
            instance.check_usable()
            if mode is SendMode.ONEWAY:
                await self._oneway(address, self._command(envelope, queue, broker), left)
            else:
                result = await self._exchange(envelope, queue, address, left)
        except BaseException as error:
            if mode is not SendMode.ONEWAY and isinstance(error, RemotingError):
                instance.routes.doubt(queue.topic)
            if context is not None:
                context.error = error
            raise
        finally:
            if context is not None:
                context.result = result
                run_hooks(self.send_hooks, lambda hook: hook.after(context), "send")
        return result

    def depart(self, kind: type[D], envelope: Envelope, queue: MessageQueue, seconds: float) -> D | None:
        """Let it leave at once, past all that hooks are for; None, and nothing was done, when something has to wait.

        Raises UnsendableError.
        """
        instance = self.instance
        broker = instance.topology.broker_of(queue)
        address = instance.topology.publish_address(broker)
        if address is None:
            return None
        return self._depart(kind, envelope, queue, broker, instance.vip(address), seconds)

    def _depart(
        self, kind: type[D], envelope: Envelope, queue: MessageQueue, broker: str, address: str, seconds: float
    ) -> D | None:
        client, config = self._client, self.config
        if client is None or self._asking or not config.smart_send:
            return None
        if envelope.is_reply or len(envelope.body) > JOIN_MAX:
            return None
        connection = client.ready(address)
        if connection is None or envelope.max_reconsume_times is not None:
            return None
        batch = envelope.is_batch
        code = RequestCode.SEND_BATCH_MESSAGE if batch else RequestCode.SEND_MESSAGE_V2
        departure = kind(client, connection, address, code, seconds, envelope, queue, config.retryable_codes)
        try:
            frame = send_frame(
                frame_head(code, self.group, envelope.topic, config.create_topic_key, config.default_topic_queues),
                queue.queue_id,
                envelope.sys_flag,
                self._clock.millis(),
                envelope.flag,
                envelope.properties,
                envelope.reconsume_times,
                frame_tail(config.unit_mode, batch, broker),
                departure.opaque,
                FRAME_END,
                envelope.body,
            )
        except MessageError as error:
            raise UnsendableError(f"this message cannot be sent: {error}", code=ResponseCode.MESSAGE_ILLEGAL) from error
        return departure if frame is not None and departure.leave(frame, self._loop) else None

    async def _exchange(self, envelope: Envelope, queue: MessageQueue, address: str, seconds: float) -> SendResult:
        broker, began = self.instance.topology.broker_of(queue), self._clock.monotonic()
        departure = self._depart(AwaitedDeparture, envelope, queue, broker, address, seconds)
        if departure is not None:
            departure.future = self._loop.create_future()
            try:
                return await departure.future
            except GoingAwayError:
                pass
            finally:
                departure.call_off()
            seconds = max(0.0, seconds - (self._clock.monotonic() - began))
        response = await self.instance.transport.call(address, self._command(envelope, queue, broker), seconds)
        return read_receipt(envelope, queue, response, self.config.retryable_codes)

    def _left(self, seconds: float, began: float, queue: MessageQueue) -> float:
        left = seconds - (self._clock.monotonic() - began)
        if left < 0:
            raise TooManyRequestsError(
                f"the {seconds:g} s for this attempt were over before the request was sent", broker=queue.broker_name
            )
        return left

    async def _oneway(self, address: str, command: Command, seconds: float) -> None:
        """What goes wrong on the connection is nobody's business; being over a bound is."""
        try:
            await self.instance.transport.oneway(address, command, seconds)
        except (ConnectError, SendError, ConnectionLost) as error:
            log.info("one-way message to %s lost: %s", address, error)

    async def _find_address(self, broker: str, topic: str) -> str:
        """The master of a broker that no route seen so far has one for."""
        self._asking += 1
        try:
            await self.instance.routes.refresh(topic)
        finally:
            self._asking -= 1
        address = self.instance.topology.publish_address(broker)
        if address is None:
            raise ClientError(
                f"broker {broker!r} of topic {topic!r} has no master address in the routes",
                code=ErrorCode.BROKER_NOT_EXIST,
                broker=broker,
                retryable=True,
            )
        return address

    def _command(self, envelope: Envelope, queue: MessageQueue, broker: str) -> Command:
        short = self.config.smart_send or envelope.is_batch
        try:
            fields = self._fields(envelope, queue, broker) if short and envelope.max_reconsume_times is None else None
            header = fields or self._header(envelope, queue, broker, short=short)
        except MessageError as error:
            raise UnsendableError(f"this message cannot be sent: {error}", code=ResponseCode.MESSAGE_ILLEGAL) from error
        if envelope.is_reply:
            code = RequestCode.SEND_REPLY_MESSAGE_V2 if short else RequestCode.SEND_REPLY_MESSAGE
        elif envelope.is_batch:
            code = RequestCode.SEND_BATCH_MESSAGE
        else:
            code = RequestCode.SEND_MESSAGE_V2 if short else RequestCode.SEND_MESSAGE
        return Command(code, fields=header, body=envelope.body)

    def _fields(self, envelope: Envelope, queue: MessageQueue, broker: str) -> str | None:
        """The header as text, without the object in between; None when that is of no use."""
        config = self.config
        return send_fields(
            send_head(self.group, envelope.topic, config.create_topic_key, config.default_topic_queues),
            queue.queue_id,
            envelope.sys_flag,
            self._clock.millis(),
            envelope.flag,
            envelope.properties,
            envelope.reconsume_times,
            send_tail(config.unit_mode, envelope.is_batch, broker),
        )

    def _header(self, envelope: Envelope, queue: MessageQueue, broker: str, *, short: bool) -> SendMessageHeader:
        config = self.config
        return (SendMessageV2Header if short else SendMessageHeader)(
            producer_group=self.group,
            topic=envelope.topic,
            default_topic=config.create_topic_key,
            default_topic_queue_nums=config.default_topic_queues,
            queue_id=queue.queue_id,
            sys_flag=envelope.sys_flag,
            born_timestamp=self._clock.millis(),
            flag=envelope.flag,
            properties=encode_properties(envelope.properties).decode(),
            reconsume_times=envelope.reconsume_times,
            unit_mode=config.unit_mode,
            max_reconsume_times=envelope.max_reconsume_times,
            batch=envelope.is_batch,
            bname=broker,
        )

    def _before(self, envelope: Envelope, queue: MessageQueue, mode: SendMode, address: str) -> SendContext:
        context = SendContext(
            group=self.group,
            message=envelope.message,
            queue=queue,
            broker_address=address,
            mode=mode,
            message_type=MessageType.of(envelope.first),
            namespace=self.config.namespace,
            born_host=self.instance.client_id.partition("@")[0],
            body_size=len(envelope.body),
        )
        run_hooks(self.send_hooks, lambda hook: hook.before(context), "send")
        return context

    def _check_forbidden(self, envelope: Envelope, queue: MessageQueue, mode: SendMode, address: str) -> None:
        context = ForbiddenCheck(
            namesrv=";".join(self.instance.name_servers.addresses),
            group=self.group,
            mode=mode,
            broker_address=address,
            message=envelope.message,
            queue=queue,
            unit_mode=self.config.unit_mode,
        )
        for hook in self.forbidden_hooks:
            try:
                hook.check(context)
            except Exception as error:
                raise SendForbiddenError(f"hook {hook.name!r} forbids this send: {error}") from error
