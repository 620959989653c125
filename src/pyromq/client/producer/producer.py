"""The producer, for asyncio. `pyromq.Producer` is the same one for threads.

Here are its life and its calls; how a message gets to a broker is `sends.py`.
"""

import asyncio
import functools
import logging
from collections.abc import Collection
from typing import Any, Unpack

from pyromq.client.callbacks import Callback, deliver, deliver_outcome
from pyromq.client.clock import Clock, within
from pyromq.client.config import ProducerConfig
from pyromq.client.errors import ClientError, ServiceStateError, TooManyRequestsError
from pyromq.client.hooks import EndTransactionHook, ForbiddenHook, SendHook
from pyromq.client.instance import registry
from pyromq.client.instance.identity import INNER_PRODUCER_GROUP
from pyromq.client.instance.instance import ClientInstance
from pyromq.client.instance.routes import PublishInfo
from pyromq.client.instance.schedule import Schedule
from pyromq.client.instance.transport import Transport
from pyromq.client.options import ProducerOptions
from pyromq.client.producer.detector import DETECTOR_PERIOD, Detector
from pyromq.client.producer.promise import FirstRound, Promise, Promises, Taker, Told
from pyromq.client.producer.publish_table import Choice, Payload, choice_of
from pyromq.client.producer.recall import recall
from pyromq.client.producer.results import SendResult, TransactionSendResult
from pyromq.client.producer.sends import Sends
from pyromq.client.queries import Queries, QueryMethods
from pyromq.client.request.reply import Requests
from pyromq.client.state import ServiceState, require
from pyromq.client.trace.dispatcher import SendTracer, TraceDispatcher, trace_config, trace_group
from pyromq.protocol import namespace as namespaces
from pyromq.protocol.errors import ValidationError
from pyromq.protocol.headers.callbacks import CheckTransactionStateHeader
from pyromq.protocol.message import Message, MessageQueue, ReceivedMessage
from pyromq.protocol.names import check_producer_group
from pyromq.selectors import Selector

log = logging.getLogger(__name__)

# Asked for each message, and a look-up in an enum's class is a call into Python.
_RUNNING = ServiceState.RUNNING


class Producer(QueryMethods):
    """Sends messages of one producer group.

        async with Producer("orders-service", namesrv="127.0.0.1:9876") as producer:
            result = await producer.send(Message("orders", b"...", tags="paid", keys=["o-17"]))

    Options are the fields of `ProducerConfig`, given by name or as `config`. Every call raises `ClientError` or one of
    its children. A producer belongs to the event loop it is started on and does not survive a fork.
    """

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | None = None,
        config: ProducerConfig | None = None,
        clock: Clock | None = None,
        transport: Transport | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        base = ProducerConfig.told(config, namesrv, options)
        if base.namespace is None and base.namesrv:
            base = base.with_options(namespace=namespaces.namespace_of_endpoint(base.namesrv) or None)
        self.config = base
        self.group = group
        self.send_hooks: list[SendHook] = []
        self.forbidden_hooks: list[ForbiddenHook] = []
        self.end_transaction_hooks: list[EndTransactionHook] = []
        self._wire_group = namespaces.wrap(base.namespace or "", group)
        self._clock = clock
        self._transport = transport
        self._async_sends: set[asyncio.Task[SendResult]] = set()
        self._promises = Promises()
        self._dispatcher: TraceDispatcher | None = None
        self._tracer: SendTracer | None = None

    async def start(self) -> None:
        """Join the client instance and begin. Raises ServiceStateError unless it was just made, ClientError else."""
        await self._start(None)

    @classmethod
    async def inside(cls, instance: ClientInstance) -> "Producer":
        """The producer that a client instance uses for itself, made on first use; it goes with the instance."""
        member = instance.producers.get(INNER_PRODUCER_GROUP)
        if isinstance(member, Producer):
            return member
        producer = cls(INNER_PRODUCER_GROUP, config=ProducerConfig.out_of(instance.config), enable_trace=False)
        await producer._start(instance)
        return producer

    async def close(self) -> None:
        """Finish what is under way, within `close_timeout`, leave the brokers and the client instance."""
        if self.state is not ServiceState.RUNNING:
            return
        self.state = ServiceState.SHUTDOWN_ALREADY
        await self._schedule.stop()
        try:
            await within(self._instance.clock, self.config.close_timeout, self._drain())
        except TimeoutError:
            log.warning("producer %s closed with %d sends under way", self.group, self._under_way)
            self._promises.break_all()
            for task in self._async_sends:
                task.cancel()
            await asyncio.gather(*self._async_sends, return_exceptions=True)
        if self._dispatcher is not None:
            await self._dispatcher.close()
        await self._instance.unregister_producer(self._wire_group)
        await self._instance.release()

    @property
    def client_id(self) -> str:
        """What brokers know this client as. Raises ServiceStateError before it was started."""
        if self.state is ServiceState.CREATE_JUST:
            raise ServiceStateError(f"producer {self.group!r} has no client id before it is started")
        return self._instance.client_id

    async def send(
        self,
        payload: Payload,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - shared by all attempts, not a bound on this coroutine
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
    ) -> SendResult:
        """Send a message, or several of one topic as a batch, and wait for the broker's receipt.

        Without `queue` and `selector` the next queue is taken and failures are retried on other brokers; `timeout`
        (default `send_timeout`) covers all attempts. With them there is one attempt.
        """
        self.check_running()
        choice = choice_of(queue, selector, arg)
        future: asyncio.Future[SendResult] = self._loop.create_future()
        first = self.first_round(payload, timeout, choice, future)
        if first is None:
            return await self._sends.sync(payload, timeout, choice)
        try:
            return await future
        finally:
            first.call_off()

    def first_round(self, payload: Payload, seconds: float | None, choice: Choice, taker: Taker) -> FirstRound | None:
        """Begin to send if that can be done at once; the receipt goes to the taker. None when it cannot."""
        if self.config.max_timeout_per_request is not None:
            return None
        first = self._sends.depart(FirstRound, payload, seconds, choice)
        if first is not None:
            first.keep(None, taker, None)
        return first

    def send_async(
        self,
        payload: Payload,
        callback: "Callback[SendResult] | None" = None,
        *,
        timeout: float | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
    ) -> "asyncio.Future[SendResult]":
        """Begin to send and return at once; the outcome is the future's, and goes to `callback(result, error)`.

        Transport faults are retried, on another broker unless `queue` or `selector` is given; a broker's refusal is
        not. A plain callback runs on the callback pool, a coroutine function on the event loop.
        """
        return self.begin_send(payload, callback, timeout, choice_of(queue, selector, arg), None)

    def begin_send(
        self,
        payload: Payload,
        callback: "Callback[SendResult] | None",
        seconds: float | None,
        choice: Choice,
        held: int | None,
    ) -> "asyncio.Future[SendResult]":
        """`send_async` with its arguments put together; `held` is what `reserve` returned, if that was called."""
        self.check_running()
        future: asyncio.Future[SendResult] | None = None
        if held is None:
            future = self._loop.create_future()
            if not self.promise(payload, seconds, choice, future, None):
                future = None
        if future is None:
            if self._under_way >= self.config.async_queue:
                task = self._loop.create_task(self._refuse())
            else:
                task = self._sends.begin(payload, seconds, choice, held)
            future = task
            self._async_sends.add(task)
            task.add_done_callback(self._async_sends.discard)
        if callback is not None:
            future.add_done_callback(lambda done: deliver_outcome(self._instance.callbacks, callback, done))
        return future

    def promise(
        self,
        payload: Payload,
        seconds: float | None,
        choice: Choice,
        taker: Taker,
        callback: "Callback[SendResult] | None",
    ) -> bool:
        """Begin to send if it can leave at once; its outcome goes to the taker, and to a callback.

        False when it cannot, and nothing was done: `begin_send` waits for what it must.
        """
        if self.config.backpressure or self._under_way >= self.config.async_queue:
            return False
        told: Told | None = None
        if callback is not None:
            told = functools.partial(deliver, self._instance.callbacks, callback)
        try:
            promise = self._sends.depart(Promise, payload, seconds, choice)
        except ClientError as error:
            taker.set_exception(error)
            if told is not None:
                told(None, error)
            return True
        if promise is None:
            return False
        promise.keep(self._promises, taker, told)
        return True

    @property
    def _under_way(self) -> int:
        return len(self._async_sends) + len(self._promises)

    def report(self, callback: "Callback[SendResult]", error: Exception) -> None:
        """Tell a callback of a send that did not begin."""
        deliver(self._instance.callbacks, callback, None, error)

    async def reserve(self, payload: Payload, seconds: float | None) -> int:
        """Wait for back-pressure permits ahead of `begin_send`. Raises TooManyRequestsError."""
        self.check_running()
        return await self._sends.acquire(payload, seconds)

    async def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
    ) -> None:
        """Hand a message to the network and do not ask what became of it."""
        self.check_running()
        await self._sends.oneway(message, choice_of(queue, selector, arg))

    async def send_in_transaction(self, message: Message, arg: Any = None) -> TransactionSendResult:
        """Only a `TransactionProducer` can do this."""
        raise ClientError(f"{message!r} (argument {arg!r}) not sent: only a TransactionProducer sends in transactions")

    async def publish_queues(self, topic: str) -> list[MessageQueue]:
        """The queues that messages of a topic can go to. Raises NoRouteError."""
        self.check_running()
        topics = self._sends.topics
        info = await topics.find(self._wire(topic))
        return [topics.to_user(queue) for queue in info.queues]

    def resize_backpressure(self, *, count: int | None = None, size: int | None = None) -> None:
        """Change the bounds on asynchronous sends while the producer runs."""
        self.check_running()
        self._sends.backpressure.resize(count=count, size=size)

    async def request(
        self,
        message: Message,
        timeout: float,  # noqa: ASYNC109 - part of the message: the replier sees it
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
    ) -> ReceivedMessage:
        """Send a message and wait for the message that a consumer replies with.

        Raises RequestTimeout when it was sent but not answered in time, ClientError when it could not be sent.
        """
        self.check_running()
        return await self._requests.call(message, timeout, choice_of(queue, selector, arg))

    def request_async(
        self,
        message: Message,
        timeout: float,
        callback: "Callback[ReceivedMessage] | None" = None,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
    ) -> "asyncio.Future[ReceivedMessage]":
        """`request` that returns at once; the reply is the future's, and goes to `callback(reply, error)`."""
        self.check_running()
        return self._requests.begin(message, timeout, callback, choice_of(queue, selector, arg))

    async def recall(self, topic: str, handle: str) -> str:
        """Take back a delayed message by the handle of its send result; returns its message id.

        Raises BrokerError when the broker refuses, for example because it was delivered.
        """
        self.check_running()
        tracer = self._tracer if self.config.recall_trace else None
        return await recall(self._instance, self._wire_group, topic, handle, self.config.send_timeout, tracer)

    def _query(self) -> Queries:
        self.check_running()
        return self._queries

    def published_topics(self) -> Collection[str]:
        return self._sends.topics.topics()

    def needs_route(self, topic: str) -> bool:
        return self._sends.topics.needs_route(topic)

    def route_changed(self, topic: str, info: PublishInfo) -> None:
        self._sends.topics.route_changed(topic, info)

    def check_transaction(self, address: str, message: ReceivedMessage, header: CheckTransactionStateHeader) -> None:
        log.warning("transaction check from %s for %s ignored: not transactional", address, header.msg_id or message)

    async def _start(self, instance: ClientInstance | None) -> None:
        require(self.state, ServiceState.CREATE_JUST, f"producer {self.group!r}")
        self._check_group()
        self.state = ServiceState.START_FAILED
        running = instance or registry.obtain(self.config, self.group, clock=self._clock, transport=self._transport)
        self._instance = running
        self._loop = asyncio.get_running_loop()
        self._sends = Sends(running, self.config, self._wire_group)
        self._sends.attempts.send_hooks = self.send_hooks
        self._sends.attempts.forbidden_hooks = self.forbidden_hooks
        self._queries = Queries(running)
        self._requests = Requests(running, self._sends)
        self._schedule = Schedule(running.clock)
        try:
            running.register_producer(self._wire_group, self)
        except ClientError:
            self.state = ServiceState.CREATE_JUST
            raise
        try:
            if instance is None:
                await running.start()
            await self._begin()
        except BaseException:
            self.state = ServiceState.START_FAILED
            await self._schedule.stop()
            await running.unregister_producer(self._wire_group)
            await running.release()
            raise

    async def _begin(self) -> None:
        faults = self._sends.faults
        if faults is not None and self.config.detector:
            detector = Detector(self._instance, faults, self._sends.topics.any_topic)
            self._schedule.every("detector", DETECTOR_PERIOD, DETECTOR_PERIOD, detector.run)
        self.state = ServiceState.RUNNING
        await self._instance.heart.beat_all()
        if self.config.enable_trace:
            await self._start_trace()
        wanted = [self._wire(topic) for topic in self.config.topics]
        for missing in await self._sends.topics.warm(wanted):
            log.warning("%s", missing)

    async def _start_trace(self) -> None:
        group = trace_group(self.group, "PRODUCE")
        inner = Producer(group, config=trace_config(self.config), clock=self._clock, transport=self._transport)
        dispatcher = TraceDispatcher(inner, self.config, self._instance.clock)
        try:
            await dispatcher.start()
        except ClientError as error:
            log.warning("sends of group %s are not traced: %s", self.group, error)
            return
        self._dispatcher = dispatcher
        self._tracer = SendTracer(dispatcher, self._instance.clock, self.config.namespace)
        self.send_hooks.append(self._tracer)
        self.end_transaction_hooks.append(self._tracer)

    async def _drain(self) -> None:
        await self._sends.close()
        while self._under_way:
            await self._promises.quiet()
            await asyncio.gather(*self._async_sends, return_exceptions=True)

    async def _refuse(self) -> SendResult:
        raise TooManyRequestsError(f"{self.config.async_queue} asynchronous sends are under way already")

    def _check_group(self) -> None:
        if self.group == INNER_PRODUCER_GROUP:
            return
        try:
            check_producer_group(self.group)
        except ValidationError as error:
            raise ClientError(str(error)) from error

    def check_running(self) -> None:
        """Raises ServiceStateError or ForkedError."""
        if self.state is not _RUNNING:
            require(self.state, ServiceState.RUNNING, f"producer {self.group!r}")
        self._instance.check_process()

    def _wire(self, topic: str) -> str:
        """A topic's name on the wire."""
        return namespaces.wrap(self.config.namespace or "", topic)
