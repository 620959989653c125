"""The sends of one producer: the message prepared, its queue chosen, and attempts made until one counts.

Synchronous default sends try again on other brokers after transport faults and some answers; asynchronous ones after
transport faults only; sends to a chosen queue and one-way sends make a single attempt (asynchronous ones stay on their
broker). The whole call shares one time budget. A single attempt is `attempt.py`.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from pyromq.client.config import ProducerConfig
from pyromq.client.errors import BrokerError, ClientError, TooManyRequestsError, transport_error
from pyromq.client.hooks import SendMode
from pyromq.client.instance.instance import ClientInstance
from pyromq.client.instance.routes import PublishInfo
from pyromq.client.instance.unique_ids import unique_ids
from pyromq.client.producer.accumulator import Accumulator
from pyromq.client.producer.attempt import Attempts
from pyromq.client.producer.backpressure import BackPressure
from pyromq.client.producer.departure import GoingAwayError
from pyromq.client.producer.envelope import Envelope, prepare, prepare_batch
from pyromq.client.producer.faults import Books, FaultTable, choose_queue
from pyromq.client.producer.promise import Fault, Line, Promise, Turn, returned
from pyromq.client.producer.publish_table import Choice, Payload, PublishTable
from pyromq.client.producer.results import SendResult, SendStatus
from pyromq.client.producer.rounds import Rounds
from pyromq.client.trace import context as tracecontext
from pyromq.protocol.errors import ProtocolError
from pyromq.protocol.message import Message, MessageQueue
from pyromq.protocol.names import is_retry_topic
from pyromq.remoting.errors import ConnectError, InFlightLimitReached, RemotingError

log = logging.getLogger(__name__)

P = TypeVar("P", bound=Promise)
First = tuple[MessageQueue, SendResult | Fault]


class Sends:
    """All methods raise ClientError or one of its children, nothing else."""

    def __init__(self, instance: ClientInstance, config: ProducerConfig, group: str) -> None:
        clock = instance.clock
        self.faults = FaultTable(config.avoidance, lambda: clock.monotonic() * 1000) if config.latency_faults else None
        self._books = Books(self.faults, clock, detector=config.detector)
        self.topics = PublishTable(instance, config)
        self.attempts = Attempts(instance, config, group)
        self.backpressure = BackPressure(clock, config.backpressure_count, config.backpressure_bytes)
        self.accumulator = Accumulator(clock, config, self._send_batch) if config.auto_batch else None
        self._config = config
        self._clock = clock
        self._next_id = unique_ids(instance)
        self._line = Line()

    async def sync(self, payload: Payload, seconds: float | None, choice: Choice) -> SendResult:
        """Wait for the receipt: rounds over the queues of a topic until one broker stored the message.

        `seconds` None means the configured time, and that the message may be batched. A result that says "not stored
        safely" is returned in preference to a later error. Raises SendFailedError, BrokerError for answers no retry can
        help, TooManyRequestsError when the time is over.
        """
        tracecontext.carry(payload)
        if seconds is None:
            if self.accumulator is not None and self.accumulator.accepts(payload):
                return await self._batched(self.accumulator, payload, choice, SendMode.SYNC)
            seconds = self._config.send_timeout
        started = self._clock.monotonic()
        try:
            envelope = self._prepare(payload, choice)
            try:
                if not choice.is_default:
                    return await self._to_chosen(envelope, choice, seconds, started)
                info = self.topics.known(envelope.topic) or await self.topics.find(envelope.topic)
                return await self._rounds(envelope, info, seconds, started)
            finally:
                envelope.finish()
        except (RemotingError, ProtocolError) as error:
            raise _as_client_error(error) from error

    async def _rounds(
        self, envelope: Envelope, info: PublishInfo, seconds: float, started: float, first: "First | None" = None
    ) -> SendResult:
        """One round after the other. `first` is the queue of the first one and how it ended, if it was made."""
        rounds = Rounds(envelope.topic, self._config)
        for _ in range(rounds.total):
            began = self._clock.monotonic() if first is None else started
            left = seconds - (began - started)
            if left < 0:
                rounds.out_of_time = True
                break
            queue = choose_queue(info, rounds.last_broker, self.faults) if first is None else first[0]
            rounds.brokers.append(queue.broker_name)
            try:
                if first is None:
                    result = await self.attempts.make(envelope, queue, SendMode.SYNC, rounds.share(left))
                else:
                    outcome, first = first[1], None
                    result = returned(outcome)
            except BaseException as error:
                self._books.failure(queue, began, error)
                if rounds.may_retry(error):
                    continue
                if rounds.earlier is not None and isinstance(error, BrokerError):
                    break
                raise
            self._books.success(queue, began)
            assert result is not None  # noqa: S101 - only one-way attempts have no receipt
            if result.status is SendStatus.SEND_OK or not self._config.retry_when_not_stored:
                return result
            rounds.earlier = result
        if rounds.earlier is not None:
            return rounds.earlier
        elapsed_ms = round((self._clock.monotonic() - started) * 1000)
        raise rounds.final_error(seconds, elapsed_ms) from rounds.error

    def depart(self, kind: type[P], payload: Payload, seconds: float | None, choice: Choice) -> P | None:
        """A send whose first attempt leaves at once. None when it has to wait, or there is more to do around it.

        Raises ClientError.
        """
        attempts, config = self.attempts, self._config
        if self._line.behind or self.topics.asking or not isinstance(payload, Message):
            return None
        if attempts.send_hooks or attempts.forbidden_hooks or (seconds is None and self.accumulator is not None):
            return None
        seconds = config.send_timeout if seconds is None else seconds
        tracecontext.carry(payload)
        began = self._clock.monotonic()
        try:
            envelope = self._prepare(payload, choice)
            topic = envelope.topic
            info = self.topics.known(topic) if choice.queue is None else None
            if seconds <= 0 or is_retry_topic(topic) or (info is None and choice.queue is None):
                return None
            if info is not None and choice.selector is None:
                queue = choose_queue(info, None, self.faults)
            else:
                queue = self._chosen(envelope, choice, info)
                info = None
            promise = attempts.depart(kind, envelope, queue, seconds)
        except ProtocolError as error:
            raise _as_client_error(error) from error
        if promise is not None:
            promise.origin = self
            promise.info = info
            promise.began = began
        return promise

    def begin(
        self, payload: Payload, seconds: float | None, choice: Choice, held: int | None = None
    ) -> "asyncio.Task[SendResult]":
        """An asynchronous send, under back-pressure where that is switched on.

        `held` is what `acquire` returned, if the caller did that.
        """
        turn = Turn(self._line)
        if self._config.backpressure:
            work = self._with_permits(payload, seconds, choice, held, turn)
        else:
            work = self.asynchronous(payload, seconds, choice, turn)
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(turn.over)
        return task

    async def asynchronous(
        self, payload: Payload, seconds: float | None, choice: Choice, turn: "Turn | None" = None
    ) -> SendResult:
        """Wait for the receipt by the rules of asynchronous sends.

        With a chosen queue all attempts are made on its broker. A retry on another broker goes to a queue which that
        broker owns.
        """
        tracecontext.carry(payload)
        if seconds is None:
            if self.accumulator is not None and self.accumulator.accepts(payload):
                return await self._batched(self.accumulator, payload, choice, SendMode.ASYNC)
            seconds = self._config.send_timeout
        started = self._clock.monotonic()
        try:
            envelope = self._prepare(payload, choice)
            try:
                queue, info = await self._target(envelope, choice)
                if turn is not None:
                    turn.over()
                return await self._attempts(envelope, queue, info, seconds, started)
            finally:
                envelope.finish()
        except (RemotingError, ProtocolError) as error:
            raise _as_client_error(error) from error

    def book(self, promise: Promise) -> None:
        """Its receipt is there."""
        self._books.success(promise.queue, promise.began)

    async def resume(self, promise: Promise, error: Fault) -> SendResult:
        """What follows the first attempt of an asynchronous send, which failed."""
        queue = promise.queue
        failed = None if isinstance(error, GoingAwayError) else error
        self._doubt(queue, failed)
        try:
            return await self._attempts(promise.envelope, queue, promise.info, promise.timeout, promise.began, failed)
        except (RemotingError, ProtocolError) as raised:
            raise _as_client_error(raised) from raised

    async def next_rounds(self, promise: Promise, outcome: SendResult | Fault) -> SendResult:
        """What follows the first round of a synchronous send, which failed or did not store the message safely."""
        envelope, queue, seconds, began = promise.envelope, promise.queue, promise.timeout, promise.began
        try:
            made = None if isinstance(outcome, GoingAwayError) else outcome
            self._doubt(queue, made)
            if promise.info is None:
                return await self._to_queue(envelope, queue, seconds, began, made)
            first = None if made is None else (queue, made)
            return await self._rounds(envelope, promise.info, seconds, began, first)
        except (RemotingError, ProtocolError) as raised:
            raise _as_client_error(raised) from raised

    def _doubt(self, queue: MessageQueue, outcome: object) -> None:
        if isinstance(outcome, RemotingError):
            self.attempts.instance.routes.doubt(queue.topic)

    async def _attempts(
        self,
        envelope: Envelope,
        queue: MessageQueue,
        info: PublishInfo | None,
        seconds: float,
        started: float,
        failed: Fault | None = None,
    ) -> SendResult:
        """One attempt after the other. `failed` is how the first one ended, if it was made."""
        failures, began = 0, started
        while True:
            if failed is None:
                began = self._clock.monotonic()
                left = seconds - (began - started)
                if left <= 0:
                    raise TooManyRequestsError(f"the {seconds:g} s for this send were over before it was tried")
                try:
                    result = await self.attempts.make(envelope, queue, SendMode.ASYNC, left)
                except (RemotingError, BrokerError, ProtocolError) as error:
                    failed = error
                else:
                    self._books.success(queue, began)
                    assert result is not None  # noqa: S101 - only one-way attempts have no receipt
                    return result
            # A connection that could not be made says more about the broker than an answer that is missing.
            self._books.enter(queue, began, isolate=True, reachable=not isinstance(failed, ConnectError))
            failures += 1
            self._check_retry(failed, failures, queue, over=self._clock.monotonic() - started >= seconds)
            failed = None
            if info is not None and info.usable:
                queue = choose_queue(info, queue.broker_name, self.faults)

    async def oneway(self, message: Message, choice: Choice) -> None:
        """One attempt without a receipt."""
        if not isinstance(message, Message):
            raise ClientError("a batch cannot be sent one-way; send it, or its messages one by one")
        tracecontext.carry(message)
        try:
            envelope = self._prepare(message, choice)
            queue, _ = await self._target(envelope, choice, check=False)
            await self._once(envelope, queue, SendMode.ONEWAY, self._config.send_timeout)
            envelope.finish()
        except (RemotingError, ProtocolError) as error:
            raise _as_client_error(error) from error

    async def acquire(self, payload: Payload, seconds: float | None) -> int:
        """Back-pressure permits for a payload; give the result to `backpressure.release`."""
        size = len(payload.body) if isinstance(payload, Message) else sum(len(item.body) for item in payload)
        return await self.backpressure.acquire(size, self._config.send_timeout if seconds is None else seconds)

    async def close(self) -> None:
        """Send what waits for company."""
        if self.accumulator is not None:
            await self.accumulator.close()

    async def _to_chosen(self, envelope: Envelope, choice: Choice, seconds: float, started: float) -> SendResult:
        queue, _ = await self._target(envelope, choice)
        return await self._to_queue(envelope, queue, seconds, started)

    async def _to_queue(
        self,
        envelope: Envelope,
        queue: MessageQueue,
        seconds: float,
        started: float,
        made: SendResult | Fault | None = None,
    ) -> SendResult:
        """The only attempt. `made` is how it ended, if it was made."""
        left = seconds - (self._clock.monotonic() - started)
        if left < 0 and made is None:
            raise TooManyRequestsError(f"the {seconds:g} s for this send were over before it was tried")
        result = await self._once(envelope, queue, SendMode.SYNC, left, made)
        assert result is not None  # noqa: S101 - only one-way attempts have no receipt
        return result

    async def _once(
        self,
        envelope: Envelope,
        queue: MessageQueue,
        mode: SendMode,
        seconds: float,
        made: SendResult | Fault | None = None,
    ) -> SendResult | None:
        began = self._clock.monotonic()
        try:
            if made is None:
                result = await self.attempts.make(envelope, queue, mode, seconds)
            else:
                result = returned(made)
        except (RemotingError, BrokerError) as error:
            self._books.failure(queue, began, error)
            if isinstance(error, RemotingError):
                raise transport_error(error, queue.broker_name) from error
            raise
        self._books.success(queue, began)
        return result

    async def _with_permits(
        self, payload: Payload, seconds: float | None, choice: Choice, held: int | None, turn: "Turn"
    ) -> SendResult:
        if held is None:
            held = await self.acquire(payload, seconds)
        try:
            return await self.asynchronous(payload, seconds, choice, turn)
        finally:
            self.backpressure.release(held)

    def _check_retry(self, error: Fault, failures: int, queue: MessageQueue, *, over: bool) -> None:
        """Raise unless another attempt may help: after a broker's answer, a bound of this client, the last fault."""
        if not isinstance(error, RemotingError):
            raise error
        if isinstance(error, InFlightLimitReached) or failures > self._config.async_retries or over:
            raise transport_error(error, queue.broker_name) from error
        log.info("asynchronous send to %s failed (%d), trying again: %s", queue.broker_name, failures, error)

    async def _batched(self, accumulator: Accumulator, message: Message, choice: Choice, mode: SendMode) -> SendResult:
        """Through the accumulator, which takes the message."""
        envelope = self._prepare(message, choice)  # what is wrong with it must not hit the others
        queue = choice.queue
        if not choice.is_default:
            queue = self.topics.to_user((await self._target(envelope, choice))[0])
        return await accumulator.add(message, queue, mode)

    def _send_batch(
        self, messages: list[Message], queue: MessageQueue | None, mode: SendMode
    ) -> Coroutine[Any, Any, SendResult]:
        payload: Payload = messages if len(messages) > 1 else messages[0]
        send = self.sync if mode is SendMode.SYNC else self.asynchronous
        return send(payload, self._config.send_timeout, Choice(queue))

    def _prepare(self, payload: Payload, choice: Choice) -> Envelope:
        if isinstance(payload, Message):
            return prepare(payload, self._config, self._next_id)
        if payload is None:
            raise ClientError("the message is None", code=13)
        if choice.selector is not None:
            raise ClientError("a batch goes to one queue; choose it with queue=, not with a selector")
        return prepare_batch(payload, self._config, self._next_id)

    async def _target(
        self, envelope: Envelope, choice: Choice, *, check: bool = True
    ) -> tuple[MessageQueue, PublishInfo | None]:
        """The queue, by its name on the wire, and for a default send the others that it may move to."""
        if choice.is_default:
            info = self.topics.known(envelope.topic) or await self.topics.find(envelope.topic)
            return choose_queue(info, None, self.faults), info
        among = None
        if choice.queue is None:
            among = self.topics.known(envelope.topic) or await self.topics.find(envelope.topic)
        return self._chosen(envelope, choice, among, check=check), None

    def _chosen(
        self, envelope: Envelope, choice: Choice, info: PublishInfo | None, *, check: bool = True
    ) -> MessageQueue:
        """The queue that the caller named, or among those of `info` the one that his selector takes."""
        if choice.selector is None:
            assert choice.queue is not None  # noqa: S101 - not a default choice
            return self.topics.to_wire(choice.queue, envelope.first, envelope.topic, check=check)
        if choice.queue is not None or info is None:
            raise ClientError("give a queue or a selector, not both")
        return self.topics.select(info, envelope.topic, envelope.first, choice.selector, choice.arg)


def _as_client_error(error: RemotingError | ProtocolError) -> ClientError:
    if isinstance(error, RemotingError):
        return transport_error(error, None)
    return ClientError(f"the broker's answer cannot be read: {error}")
