"""One attempt to send one message to one queue: address, hooks, header, request, receipt.

Whether there is another attempt is decided elsewhere (`sending.py`).
"""

import logging

from pyromq.client.config import ProducerConfig
from pyromq.client.errors import ClientError, ErrorCode, SendForbiddenError, TooManyRequestsError, UnsendableError
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
from pyromq.client.producer.outgoing import Outgoing
from pyromq.client.producer.receipts import send_result
from pyromq.client.producer.results import SendResult
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.errors import MessageError
from pyromq.protocol.headers.send import SendMessageHeader, SendMessageV2Header
from pyromq.protocol.message import MessageQueue
from pyromq.protocol.properties import encode_properties
from pyromq.remoting.errors import ConnectError, ConnectionLost, RemotingError, SendError

log = logging.getLogger(__name__)


class Attempts:
    """Makes attempts for one producer."""

    def __init__(self, instance: ClientInstance, config: ProducerConfig, group: str) -> None:
        self.instance = instance
        self.config = config
        self.group = group
        self.send_hooks: list[SendHook] = []
        self.forbidden_hooks: list[ForbiddenHook] = []
        self._clock = instance.clock

    async def make(self, outgoing: Outgoing, queue: MessageQueue, mode: SendMode, seconds: float) -> SendResult | None:
        """The receipt, None for one-way. `queue` has the topic's name on the wire.

        Raises RemotingError, BrokerError, ClientError; TooManyRequestsError when the time is over before sending.
        """
        began = self._clock.monotonic()
        broker = self.instance.topology.broker_of(queue)
        address = self.instance.vip(await self._address(broker, queue.topic))
        if self.forbidden_hooks:
            self._check_forbidden(outgoing, queue, mode, address)
        if not self.send_hooks:
            return await self._exchange(outgoing, queue, broker, address, mode, began, seconds)
        context = self._context(outgoing, queue, mode, address)
        run_hooks(self.send_hooks, lambda hook: hook.before(context), "send")
        try:
            context.result = await self._exchange(outgoing, queue, broker, address, mode, began, seconds)
        except BaseException as error:
            context.error = error
            raise
        finally:
            run_hooks(self.send_hooks, lambda hook: hook.after(context), "send")
        return context.result

    async def _exchange(
        self,
        outgoing: Outgoing,
        queue: MessageQueue,
        broker: str,
        address: str,
        mode: SendMode,
        began: float,
        seconds: float,
    ) -> SendResult | None:
        command = self._command(outgoing, queue, broker)
        left = seconds - (self._clock.monotonic() - began)
        if left < 0:
            raise TooManyRequestsError(
                f"the {seconds:g} s for this attempt were over before the request was sent", broker=queue.broker_name
            )
        if mode is SendMode.ONEWAY:
            await self._oneway(address, command, left)
            return None
        try:
            response = await self.instance.call(address, command, left)
        except RemotingError:
            self.instance.routes.doubt(queue.topic)
            raise
        return send_result(outgoing, queue, response, self.config.retryable_codes)

    async def _oneway(self, address: str, command: Command, seconds: float) -> None:
        """What goes wrong on the connection is nobody's business; being over a bound is."""
        try:
            await self.instance.oneway(address, command, seconds)
        except (ConnectError, SendError, ConnectionLost) as error:
            log.info("one-way message to %s lost: %s", address, error)

    async def _address(self, broker: str, topic: str) -> str:
        address = self.instance.topology.publish_address(broker)
        if address is None:
            await self.instance.refresh_route(topic)
            address = self.instance.topology.publish_address(broker)
        if address is None:
            raise ClientError(
                f"broker {broker!r} of topic {topic!r} has no master address in the routes",
                code=ErrorCode.BROKER_NOT_EXIST,
                broker=broker,
                retryable=True,
            )
        return address

    def _command(self, outgoing: Outgoing, queue: MessageQueue, broker: str) -> Command:
        config = self.config
        try:
            properties = encode_properties(outgoing.properties).decode()
        except MessageError as error:
            raise UnsendableError(f"this message cannot be sent: {error}", code=ResponseCode.MESSAGE_ILLEGAL) from error
        short = config.smart_send or outgoing.is_batch
        header = (SendMessageV2Header if short else SendMessageHeader)(
            producer_group=self.group,
            topic=outgoing.topic,
            default_topic=config.create_topic_key,
            default_topic_queue_nums=config.default_topic_queues,
            queue_id=queue.queue_id,
            sys_flag=outgoing.sys_flag,
            born_timestamp=self._clock.millis(),
            flag=outgoing.flag,
            properties=properties,
            reconsume_times=outgoing.reconsume_times,
            unit_mode=config.unit_mode,
            max_reconsume_times=outgoing.max_reconsume_times,
            batch=outgoing.is_batch,
            bname=broker,
        )
        if outgoing.is_reply:
            code = RequestCode.SEND_REPLY_MESSAGE_V2 if short else RequestCode.SEND_REPLY_MESSAGE
        elif outgoing.is_batch:
            code = RequestCode.SEND_BATCH_MESSAGE
        else:
            code = RequestCode.SEND_MESSAGE_V2 if short else RequestCode.SEND_MESSAGE
        return Command.request(code, header, body=outgoing.body)

    def _context(self, outgoing: Outgoing, queue: MessageQueue, mode: SendMode, address: str) -> SendContext:
        return SendContext(
            group=self.group,
            message=outgoing.message,
            queue=queue,
            broker_address=address,
            mode=mode,
            message_type=MessageType.of(outgoing.first),
            namespace=self.config.namespace,
            born_host=self.instance.client_id.partition("@")[0],
            body_size=len(outgoing.body),
        )

    def _check_forbidden(self, outgoing: Outgoing, queue: MessageQueue, mode: SendMode, address: str) -> None:
        context = ForbiddenCheck(
            namesrv=";".join(self.instance.name_servers.addresses),
            group=self.group,
            mode=mode,
            broker_address=address,
            message=outgoing.message,
            queue=queue,
            unit_mode=self.config.unit_mode,
        )
        for hook in self.forbidden_hooks:
            try:
                hook.check(context)
            except Exception as error:
                raise SendForbiddenError(f"hook {hook.name!r} forbids this send: {error}") from error
