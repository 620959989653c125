"""The attempts of one send: how many, on which brokers, and what each outcome means for the next.

Synchronous default sends try again on other brokers after transport faults and some answers; asynchronous ones after
transport faults only; sends to a chosen queue and one-way sends make a single attempt (asynchronous ones stay on their
broker). The whole call shares one time budget.
"""

import asyncio
import logging
import random

from pyromq.client.config import ProducerConfig
from pyromq.client.errors import (
    BrokerError,
    ClientError,
    ErrorCode,
    SendFailedError,
    TooManyRequestsError,
    TransportError,
    UnsendableError,
)
from pyromq.client.hooks import SendMode
from pyromq.client.instance.routes import PublishInfo
from pyromq.client.producer.attempt import Attempts
from pyromq.client.producer.faults import FaultTable
from pyromq.client.producer.outgoing import Outgoing
from pyromq.client.producer.results import SendResult, SendStatus
from pyromq.client.producer.selection import choose_queue
from pyromq.errors import PyroMQError
from pyromq.protocol.errors import ProtocolError
from pyromq.protocol.message import MessageQueue
from pyromq.remoting.errors import CallTimeout, ConnectError, RemotingError, TooManyRequests

log = logging.getLogger(__name__)


class Sending:
    """Retry rules of one producer."""

    def __init__(self, attempts: Attempts, config: ProducerConfig, faults: FaultTable | None) -> None:
        self.attempts = attempts
        self.config = config
        self.faults = faults
        self._clock = attempts.instance.clock

    def choose(self, info: PublishInfo) -> MessageQueue:
        """The queue for the first attempt."""
        return choose_queue(info, None, self.faults)

    async def default_sync(self, outgoing: Outgoing, info: PublishInfo, seconds: float, started: float) -> SendResult:
        """Rounds over the queues of a topic until one broker stored the message.

        A result that says "not stored safely" is kept and returned in preference to a later error. Raises
        SendFailedError, BrokerError for answers no retry can help, TooManyRequestsError when the time is over.
        """
        rounds = _Rounds(self.config.retries + 1)
        for number in range(rounds.total):
            queue = choose_queue(info, rounds.last_broker, self.faults)
            rounds.brokers.append(queue.broker_name)
            began = self._clock.monotonic()
            left = seconds - (began - started)
            if left < 0:
                rounds.brokers.pop()
                rounds.out_of_time = True
                break
            try:
                result = await self._attempt(outgoing, queue, self._share(left, number, rounds.total), began)
            except UnsendableError:
                raise
            except (RemotingError, ClientError) as error:
                rounds.failed(error, outgoing.topic)
                if isinstance(error, BrokerError) and error.code not in self.config.retryable_codes:
                    if rounds.earlier is not None:
                        return rounds.earlier
                    raise
                continue
            if result.status is SendStatus.SEND_OK or not self.config.retry_when_not_stored:
                return result
            rounds.earlier = result
        if rounds.earlier is not None:
            return rounds.earlier
        elapsed_ms = round((self._clock.monotonic() - started) * 1000)
        raise rounds.final_error(outgoing.topic, seconds, elapsed_ms) from rounds.error

    async def single(
        self, outgoing: Outgoing, queue: MessageQueue, mode: SendMode, seconds: float
    ) -> SendResult | None:
        """One attempt, for chosen queues and one-way sends. Raises ClientError."""
        began = self._clock.monotonic()
        try:
            result = await self.attempts.make(outgoing, queue, mode, seconds)
        except RemotingError as error:
            self._book(queue, began, isolate=True, reachable=not self.config.detector)
            raise transport_error(error, queue.broker_name) from error
        except BrokerError:
            self._book(queue, began, isolate=True, reachable=False)
            raise
        self._book(queue, began, isolate=False, reachable=True)
        return result

    async def asynchronous(
        self, outgoing: Outgoing, queue: MessageQueue, info: PublishInfo | None, seconds: float, started: float
    ) -> SendResult:
        """Attempts of an asynchronous send; without publish info all on the broker of the queue.

        A retry on another broker goes to a queue which that broker owns. Raises ClientError.
        """
        failures = 0
        while True:
            began = self._clock.monotonic()
            left = seconds - (began - started)
            if left <= 0:
                raise TooManyRequestsError(f"the {seconds:g} s for this send were over before it was tried")
            try:
                result = await self.attempts.make(outgoing, queue, SendMode.ASYNC, left)
            except TooManyRequests as error:
                self._book(queue, began, isolate=True, reachable=True)
                raise transport_error(error, queue.broker_name) from error
            except (BrokerError, ProtocolError):
                self._book(queue, began, isolate=True, reachable=True)
                raise
            except RemotingError as error:
                # A connection that could not be made says more about the broker than an answer that did not come.
                self._book(queue, began, isolate=True, reachable=not isinstance(error, ConnectError))
                failures += 1
                over = self._clock.monotonic() - started >= seconds
                if failures > self.config.async_retries or over:
                    raise transport_error(error, queue.broker_name) from error
                log.info("asynchronous send to %s failed (%d), trying again: %s", queue.broker_name, failures, error)
                if info is not None and info.usable:
                    queue = choose_queue(info, queue.broker_name, self.faults)
                continue
            self._book(queue, began, isolate=False, reachable=True)
            assert result is not None  # noqa: S101 - only one-way attempts have no receipt
            return result

    async def _attempt(self, outgoing: Outgoing, queue: MessageQueue, seconds: float, began: float) -> SendResult:
        """One synchronous round, booked by its outcome."""
        try:
            result = await self.attempts.make(outgoing, queue, SendMode.SYNC, seconds)
        except RemotingError:
            self._book(queue, began, isolate=True, reachable=not self.config.detector)
            raise
        except BrokerError:
            self._book(queue, began, isolate=True, reachable=False)
            raise
        except (ClientError, asyncio.CancelledError):
            self._book(queue, began, isolate=False, reachable=True)
            raise
        self._book(queue, began, isolate=False, reachable=True)
        assert result is not None  # noqa: S101 - only one-way attempts have no receipt
        return result

    def _share(self, left: float, number: int, total: int) -> float:
        """The time of one round: what is left, or less when a bound per request is set and more rounds can follow."""
        bound = self.config.max_timeout_per_request
        return bound if bound is not None and number + 1 < total and bound < left else left

    def _book(self, queue: MessageQueue, began: float, *, isolate: bool, reachable: bool) -> None:
        if self.faults is not None:
            latency_ms = (self._clock.monotonic() - began) * 1000
            self.faults.update(queue.broker_name, latency_ms, isolate=isolate, reachable=reachable)


class _Rounds:
    """What the rounds of one synchronous send leave behind."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.brokers: list[str] = []
        self.error: PyroMQError | None = None
        self.earlier: SendResult | None = None
        self.out_of_time = False
        self._invoke_id: int | None = None

    @property
    def last_broker(self) -> str | None:
        return self.brokers[-1] if self.brokers else None

    def failed(self, error: PyroMQError, topic: str) -> None:
        """One id ties the log lines of a call together; it is only drawn once something failed."""
        if self._invoke_id is None:
            self._invoke_id = random.getrandbits(64)
        self.error = error
        log.warning("send %016x of topic %s to %s failed: %s", self._invoke_id, topic, self.last_broker, error)

    def final_error(self, topic: str, seconds: float, elapsed_ms: int) -> ClientError:
        if self.out_of_time:
            return TooManyRequestsError(
                f"send to topic {topic!r} ran out of its {seconds:g} s after {len(self.brokers)} attempt(s), "
                f"brokers tried: {', '.join(self.brokers) or 'none'}",
                broker=self.last_broker,
            )
        return SendFailedError(
            topic=topic,
            attempts=len(self.brokers),
            elapsed_ms=elapsed_ms,
            brokers=self.brokers,
            cause=self.error,
            code=_final_code(self.error),
        )


def _final_code(error: PyroMQError | None) -> int | None:
    if isinstance(error, BrokerError):
        return error.code
    if isinstance(error, ConnectError):
        return ErrorCode.CONNECT_BROKER
    if isinstance(error, CallTimeout):
        return ErrorCode.ACCESS_BROKER_TIMEOUT
    return ErrorCode.BROKER_NOT_EXIST if isinstance(error, ClientError) else None


def transport_error(error: RemotingError, broker: str | None) -> ClientError:
    """A transport fault as an error of the client's family."""
    if isinstance(error, TooManyRequests):
        return TooManyRequestsError(str(error), broker=broker)
    return TransportError(str(error), code=_final_code(error), broker=broker, retryable=error.retryable)
