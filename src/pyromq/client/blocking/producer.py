"""Producers for threads. Every method is that of the asyncio producer, with a wait around it."""

import contextvars
import functools
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack

from pyromq.client.blocking import loop as background
from pyromq.client.blocking.client import GroupClient, on_loop, waiting
from pyromq.client.callbacks import Callback
from pyromq.client.config import ProducerConfig
from pyromq.client.errors import ClientError, TooManyRequestsError
from pyromq.client.hooks import EndTransactionHook, ForbiddenHook, SendHook
from pyromq.client.options import ProducerOptions
from pyromq.client.producer.producer import Producer as AsyncProducer
from pyromq.client.producer.promise import Taker
from pyromq.client.producer.publish_table import Choice, Payload, choice_of
from pyromq.client.producer.results import LocalTransactionState, SendResult, SendStatus, TransactionSendResult
from pyromq.client.producer.transaction import Outcome, TransactionListener, judge
from pyromq.client.producer.transaction import TransactionProducer as AsyncTransactionProducer
from pyromq.client.queries import QueryMethods
from pyromq.client.trace import context as tracecontext
from pyromq.protocol.message import Message, MessageQueue, ReceivedMessage
from pyromq.selectors import Selector

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


def _in_context(
    method: Callable[Concatenate[AsyncProducer, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate["Producer", P], T]:
    """As `waiting`, in the context of the calling thread: what is sent there belongs to the span there."""

    @functools.wraps(method)
    def call(self: "Producer", /, *args: P.args, **kwargs: P.kwargs) -> T:
        context = contextvars.copy_context()
        return self._running().call(lambda: method(self._client, *args, **kwargs), context)

    return call


class Producer(GroupClient[AsyncProducer]):
    """Sends messages of one producer group; threads may share it.

        with Producer("orders-service", namesrv="127.0.0.1:9876") as producer:
            result = producer.send(Message("orders", b"...", tags="paid", keys=["o-17"]), timeout=3.0)

    Options are the fields of `ProducerConfig`, given by name or as `config`. Every call raises `ClientError` or one of
    its children. After a fork, make a new one in the child.
    """

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | None = None,
        config: ProducerConfig | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        self._stand_before(AsyncProducer(group, namesrv=namesrv, config=config, **options))

    def _stand_before(self, producer: AsyncProducer) -> None:
        super().__init__(producer, f"producer {producer.group!r}")
        self._under_way = 0
        self._counting = threading.Lock()

    @property
    def config(self) -> ProducerConfig:
        return self._client.config

    create_topic = waiting(QueryMethods.create_topic)
    search_offset = waiting(QueryMethods.search_offset)
    max_offset = waiting(QueryMethods.max_offset)
    min_offset = waiting(QueryMethods.min_offset)
    earliest_store_time = waiting(QueryMethods.earliest_store_time)
    view_message = waiting(QueryMethods.view_message)
    query_message = waiting(QueryMethods.query_message)

    @property
    def send_hooks(self) -> list[SendHook]:
        """Append hooks before `start`."""
        return self._client.send_hooks

    @property
    def forbidden_hooks(self) -> list[ForbiddenHook]:
        """Append hooks before `start`."""
        return self._client.forbidden_hooks

    @property
    def end_transaction_hooks(self) -> list[EndTransactionHook]:
        """Append hooks before `start`."""
        return self._client.end_transaction_hooks

    def send(
        self,
        payload: Payload,
        *,
        timeout: float | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
    ) -> SendResult:
        """Send a message, or several of one topic as a batch, and wait for the broker's receipt.

        Without `queue` and `selector` the next queue is taken and failures are retried on other brokers; `timeout`
        (default `send_timeout`) covers all attempts. With them there is one attempt.
        """
        client, choice = self._client, choice_of(queue, selector, arg)
        return self._running().call(
            lambda: client.send(payload, timeout=timeout, queue=queue, selector=selector, arg=arg),
            contextvars.copy_context(),
            lambda visit: self._first_round(payload, timeout, choice, visit),
        )

    def _first_round(
        self, payload: Payload, seconds: float | None, choice: Choice, taker: Taker
    ) -> background.Cancellable | None:
        """On the loop."""
        self._client.check_running()
        return self._client.first_round(payload, seconds, choice, taker)

    def send_async(
        self,
        payload: Payload,
        callback: "Callback[SendResult] | None" = None,
        *,
        timeout: float | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
    ) -> "Future[SendResult]":
        """Begin to send and return at once; the outcome is the future's, and goes to `callback(result, error)`.

        The callback runs on a pool of threads. With back-pressure the call waits until there is room.
        """
        loop = self._running()
        tracecontext.carry(payload)
        bound = self.config.async_queue
        with self._counting:
            if self._under_way >= bound:
                raise TooManyRequestsError(f"{bound} asynchronous sends are under way already; wait for some of them")
            self._under_way += 1
        outcome: Future[SendResult] = Future()
        outcome.add_done_callback(self._ended)
        try:
            held = loop.call(lambda: self._client.reserve(payload, timeout)) if self.config.backpressure else None
        except ClientError as error:
            outcome.set_exception(error)
            if callback is not None:
                refusal, told = error, callback
                loop.submit(lambda: self._client.report(told, refusal))
            return outcome
        choice = choice_of(queue, selector, arg)
        loop.submit(lambda: self._begin(payload, callback, timeout, choice, held, outcome))
        return outcome

    def _begin(
        self,
        payload: Payload,
        callback: "Callback[SendResult] | None",
        seconds: float | None,
        choice: Choice,
        held: int | None,
        outcome: "Future[SendResult]",
    ) -> None:
        """On the loop."""
        if not outcome.set_running_or_notify_cancel():
            return
        client = self._client
        try:
            if held is None:
                client.check_running()
                if client.promise(payload, seconds, choice, outcome, callback):
                    return
            background.copy_to(client.begin_send(payload, callback, seconds, choice, held), outcome)
        except Exception as error:  # noqa: BLE001 - it belongs to the thread that waits
            outcome.set_exception(error)

    def _ended(self, _: "Future[SendResult]") -> None:
        with self._counting:
            self._under_way -= 1

    send_oneway = _in_context(AsyncProducer.send_oneway)
    send_in_transaction = waiting(AsyncProducer.send_in_transaction)
    publish_queues = waiting(AsyncProducer.publish_queues)

    resize_backpressure = on_loop(AsyncProducer.resize_backpressure)
    request = _in_context(AsyncProducer.request)

    def request_async(
        self,
        message: Message,
        timeout: float,
        callback: "Callback[ReceivedMessage] | None" = None,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        arg: Any = None,
    ) -> "Future[ReceivedMessage]":
        """`request` that returns at once; the reply is the future's, and goes to `callback(reply, error)`."""
        tracecontext.carry(message)

        async def ask() -> ReceivedMessage:
            return await self._client.request_async(message, timeout, callback, queue=queue, selector=selector, arg=arg)

        return self._running().begin(ask)

    recall = waiting(AsyncProducer.recall)


class TransactionProducer(Producer):
    """A producer whose messages become visible only when a local transaction commits.

    `listener.execute` runs in the thread that sends, `listener.check` on a pool of its own. See
    `pyromq.aio.TransactionProducer`.
    """

    _client: AsyncTransactionProducer

    def __init__(
        self,
        group: str,
        listener: TransactionListener | None,
        *,
        namesrv: str | None = None,
        config: ProducerConfig | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        self._stand_before(AsyncTransactionProducer(group, listener, namesrv=namesrv, config=config, **options))

    def send_in_transaction(self, message: Message, arg: Any = None) -> TransactionSendResult:
        """Store a half message, run the local transaction, tell the broker how it ended.

        When the half message is not stored safely the transaction is rolled back without being run. Raises
        ClientError when the half message could not be sent; a lost end is not an error, the broker will ask.
        """
        tracecontext.carry(message)
        half = self._run(lambda: self._client.send_half(message))
        outcome = Outcome(LocalTransactionState.ROLLBACK)
        if half.status is SendStatus.SEND_OK:
            outcome = self._execute(message, arg)
        return self._run(lambda: self._client.end(message, half, outcome))

    def _execute(self, message: Message, arg: Any) -> Outcome:
        """In this thread, where the application keeps what belongs to the transaction."""
        listener = self._client.listener
        assert listener is not None  # noqa: S101 - send_half asked for it
        try:
            state = listener.execute(message, arg)
            if state is not None and not isinstance(state, LocalTransactionState):
                pending = state

                async def finish() -> LocalTransactionState | None:
                    return await pending

                state = self._run(finish)
        except Exception as error:
            log.exception("local transaction of message %s failed", message.unique_id)
            return judge(None, error)
        return judge(state)
