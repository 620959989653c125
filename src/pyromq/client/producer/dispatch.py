"""From a payload and a way to choose its queue to a receipt: preparing, finding queues, batching, back-pressure.

The retry rules are `sending.py`; this module only decides which of them applies.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from pyromq.client.config import ProducerConfig
from pyromq.client.errors import ClientError, TooManyRequestsError
from pyromq.client.hooks import SendMode
from pyromq.client.instance.instance import ClientInstance
from pyromq.client.instance.routes import PublishInfo
from pyromq.client.instance.unique_ids import unique_ids
from pyromq.client.producer.accumulator import Accumulator
from pyromq.client.producer.attempt import Attempts
from pyromq.client.producer.backpressure import BackPressure
from pyromq.client.producer.faults import FaultTable
from pyromq.client.producer.outgoing import Outgoing, prepare, prepare_batch
from pyromq.client.producer.publishinfo import Publishing
from pyromq.client.producer.results import SendResult
from pyromq.client.producer.selectors import Selector
from pyromq.client.producer.sends import Sending, transport_error
from pyromq.client.trace import context as tracecontext
from pyromq.protocol import namespace as namespaces
from pyromq.protocol.errors import ProtocolError
from pyromq.protocol.message import Message, MessageQueue
from pyromq.remoting.errors import RemotingError

Payload = Message | Sequence[Message]


class Choice(NamedTuple):
    """How the caller chose the queue: not at all, by naming it, or through a selector and its argument."""

    queue: MessageQueue | None = None
    selector: Selector | None = None
    arg: Any = None

    @property
    def is_default(self) -> bool:
        return self.queue is None and self.selector is None


class Dispatch:
    """The sends of one producer. All methods raise ClientError or one of its children, nothing else."""

    def __init__(self, instance: ClientInstance, config: ProducerConfig, group: str) -> None:
        clock = instance.clock
        self.faults = FaultTable(config.avoidance, lambda: clock.monotonic() * 1000) if config.latency_faults else None
        self.publishing = Publishing(instance, config)
        self.attempts = Attempts(instance, config, group)
        self.backpressure = BackPressure(clock, config.backpressure_count, config.backpressure_bytes)
        self._accumulator = (
            Accumulator(clock, config, self._batch_sync, self._batch_async) if config.auto_batch else None
        )
        self._sending = Sending(self.attempts, config, self.faults)
        self._config = config
        self._clock = clock
        self._next_id = unique_ids(instance)

    async def sync(self, payload: Payload, seconds: float | None, choice: Choice) -> SendResult:
        """Wait for the receipt. `seconds` None means the configured time, and that the message may be batched."""
        tracecontext.carry(payload)
        try:
            if seconds is None and self._accumulator is not None and isinstance(payload, Message):
                return await self._batched(self._accumulator, payload, choice, asynchronous=False)
            return await self._sync(payload, self._seconds(seconds), choice)
        except (RemotingError, ProtocolError) as error:
            raise _as_client_error(error) from error

    async def asynchronous(
        self, payload: Payload, seconds: float | None, choice: Choice, held: int | None = None
    ) -> SendResult:
        """The same by the rules of asynchronous sends. `held` is what `acquire` returned, if the caller did that."""
        tracecontext.carry(payload)
        try:
            if not self._config.backpressure:
                return await self._async(payload, seconds, choice)
            if held is None:
                held = await self.acquire(payload, seconds)
            try:
                return await self._async(payload, seconds, choice)
            finally:
                self.backpressure.release(held)
        except (RemotingError, ProtocolError) as error:
            raise _as_client_error(error) from error

    async def oneway(self, message: Message, choice: Choice) -> None:
        """One attempt without a receipt."""
        if not isinstance(message, Message):
            raise ClientError("a batch cannot be sent one-way; send it, or its messages one by one")
        tracecontext.carry(message)
        try:
            outgoing = self._prepare(message, choice)
            target, _ = await self._target(outgoing, choice, check=False)
            await self._sending.single(outgoing, target, SendMode.ONEWAY, self._config.send_timeout)
            outgoing.finish()
        except (RemotingError, ProtocolError) as error:
            raise _as_client_error(error) from error

    async def acquire(self, payload: Payload, seconds: float | None) -> int:
        """Back-pressure permits for a payload; give the result to `backpressure.release`."""
        size = len(payload.body) if isinstance(payload, Message) else sum(len(item.body) for item in payload)
        return await self.backpressure.acquire(size, self._seconds(seconds))

    async def close(self) -> None:
        """Send what waits for company."""
        if self._accumulator is not None:
            await self._accumulator.close()

    def wire(self, topic: str) -> str:
        """A topic's name on the wire."""
        return namespaces.wrap(self._config.namespace or "", topic)

    async def _sync(self, payload: Payload, seconds: float, choice: Choice) -> SendResult:
        started = self._clock.monotonic()
        outgoing = self._prepare(payload, choice)
        try:
            if choice.is_default:
                info = self.publishing.known(outgoing.topic) or await self.publishing.find(outgoing.topic)
                return await self._sending.default_sync(outgoing, info, seconds, started)
            target, _ = await self._target(outgoing, choice)
            left = seconds - (self._clock.monotonic() - started)
            if left < 0:
                raise TooManyRequestsError(f"the {seconds:g} s for this send were over before it was tried")
            result = await self._sending.single(outgoing, target, SendMode.SYNC, left)
            assert result is not None  # noqa: S101 - only one-way attempts have no receipt
            return result
        finally:
            outgoing.finish()

    async def _async(self, payload: Payload, seconds: float | None, choice: Choice) -> SendResult:
        if seconds is None and self._accumulator is not None and isinstance(payload, Message):
            return await self._batched(self._accumulator, payload, choice, asynchronous=True)
        return await self._async_direct(payload, self._seconds(seconds), choice)

    async def _async_direct(self, payload: Payload, seconds: float, choice: Choice) -> SendResult:
        started = self._clock.monotonic()
        outgoing = self._prepare(payload, choice)
        try:
            target, info = await self._target(outgoing, choice)
            return await self._sending.asynchronous(outgoing, target, info, seconds, started)
        finally:
            outgoing.finish()

    async def _batched(
        self, accumulator: Accumulator, message: Message, choice: Choice, *, asynchronous: bool
    ) -> SendResult:
        """Through the accumulator, if it takes the message."""
        if accumulator.accepts(message):
            outgoing = self._prepare(message, choice)  # what is wrong with it must not hit the others
            queue = choice.queue
            if not choice.is_default:
                queue = self.publishing.to_user((await self._target(outgoing, choice))[0])
            return await accumulator.add(message, queue, asynchronous=asynchronous)
        send = self._async_direct if asynchronous else self._sync
        return await send(message, self._config.send_timeout, choice)

    async def _batch_sync(self, messages: list[Message], queue: MessageQueue | None) -> SendResult:
        payload: Payload = messages if len(messages) > 1 else messages[0]
        return await self._sync(payload, self._config.send_timeout, Choice(queue))

    async def _batch_async(self, messages: list[Message], queue: MessageQueue | None) -> SendResult:
        payload: Payload = messages if len(messages) > 1 else messages[0]
        return await self._async_direct(payload, self._config.send_timeout, Choice(queue))

    def _prepare(self, payload: Payload, choice: Choice) -> Outgoing:
        if isinstance(payload, Message):
            return prepare(payload, self._config, self._next_id)
        if payload is None:
            raise ClientError("the message is None", code=13)
        if choice.selector is not None:
            raise ClientError("a batch goes to one queue; choose it with queue=, not with a selector")
        return prepare_batch(payload, self._config, self._next_id)

    async def _target(
        self, outgoing: Outgoing, choice: Choice, *, check: bool = True
    ) -> tuple[MessageQueue, PublishInfo | None]:
        """The queue, by its name on the wire, and for a default send the others that it may move to."""
        if choice.is_default:
            info = self.publishing.known(outgoing.topic) or await self.publishing.find(outgoing.topic)
            return self._sending.choose(info), info
        if choice.selector is None:
            assert choice.queue is not None  # noqa: S101 - not a default choice
            return self.publishing.to_wire(choice.queue, outgoing.first, outgoing.topic, check=check), None
        if choice.queue is not None:
            raise ClientError("give a queue or a selector, not both")
        return await self.publishing.select(outgoing.topic, outgoing.first, choice.selector, choice.arg), None

    def _seconds(self, seconds: float | None) -> float:
        return self._config.send_timeout if seconds is None else seconds


def _as_client_error(error: RemotingError | ProtocolError) -> ClientError:
    if isinstance(error, RemotingError):
        return transport_error(error, None)
    return ClientError(f"the broker's answer cannot be read: {error}")
