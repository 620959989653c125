"""Pulls of ranges, several under way at a time, their answers in order. Nothing is decoded here.

At most so many answers are held as pulls may be under way: what is left of a piece after one answer is asked for when
the piece is the first one.
"""

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from typing import NamedTuple

from pyromq.client.clock import Clock, sleep
from pyromq.client.consumer.fetch import Fetcher, PullRequest, PullStatus
from pyromq.client.consumer.scan.ranges import QueueRange, slices
from pyromq.client.errors import BrokerError, ClientError, transport_error
from pyromq.clock import pause_after
from pyromq.protocol.bodies.clients import SubscriptionData
from pyromq.protocol.errors import ProtocolError
from pyromq.protocol.headers.consume import PullMessageResponseHeader
from pyromq.protocol.requests import PASSING
from pyromq.remoting.errors import RemotingError

PIECE = 1024
"""Offsets that one pull asks for."""
MAX_RESPONSE = 4 << 20
TRIES = 8
"""Of one pull, about ten seconds in all."""


class Answer(NamedTuple):
    """Records of a piece; `delta` is added to the offsets that they carry. `rest` is left of the piece, if anything."""

    piece: QueueRange
    body: bytes | memoryview
    delta: int
    rest: QueueRange | None


class Answers:
    """Pulls for one read."""

    def __init__(self, fetcher: Fetcher, clock: Clock, subscription: SubscriptionData, timeout: float) -> None:
        self._fetcher = fetcher
        self._clock = clock
        self._subscription = subscription
        self._timeout = timeout

    async def of(self, ranges: Sequence[QueueRange], in_flight: int) -> AsyncGenerator[Answer]:
        """All answers, those of one queue in order. Raises ClientError."""
        waiting = iter(slices(ranges, PIECE))
        window = deque(asyncio.ensure_future(self._pull(each)) for each in itertools.islice(waiting, in_flight))
        try:
            while window:
                answer = await window[0]
                _ = window.popleft()
                if answer.rest is not None:
                    window.appendleft(asyncio.ensure_future(self._pull(answer.rest)))
                else:
                    window.extend(asyncio.ensure_future(self._pull(each)) for each in itertools.islice(waiting, 1))
                yield answer
        finally:
            for task in window:
                task.cancel()
            await asyncio.gather(*window, return_exceptions=True)

    async def _pull(self, piece: QueueRange) -> Answer:
        for tries in itertools.count(1):
            try:
                return await self._once(piece)
            except ClientError as error:
                passing = error.code in PASSING if isinstance(error, BrokerError) else error.retryable
                if not passing or tries == TRIES:
                    raise
            await sleep(self._clock, pause_after(tries))
        raise AssertionError("there is no end to counting")

    async def _once(self, piece: QueueRange) -> Answer:
        queue, offset, end = piece
        request = PullRequest(
            queue=queue,
            offset=offset,
            max_messages=end - offset,
            max_bytes=MAX_RESPONSE,
            subscription=self._subscription,
            version=self._subscription.sub_version,
            timeout=self._timeout,
            with_subscription=True,
            stream=True,
        )
        try:
            status, response = await self._fetcher.answer(request)
            header = response.header(PullMessageResponseHeader)
        except RemotingError as error:
            raise transport_error(error, queue.broker_name) from error
        except ProtocolError as error:
            raise ClientError(f"answer of broker {queue.broker_name} cannot be read: {error}") from error
        if status is PullStatus.OFFSET_ILLEGAL:
            raise ClientError(
                f"messages from {offset} on of {queue} are gone, it begins at {header.min_offset}: read from there",
                broker=queue.broker_name,
            )
        if header.next_begin_offset <= offset:
            raise ClientError(f"{queue.broker_name} has nothing at {offset} of {queue} yet", retryable=True)
        if lost := header.left_out():
            raise ClientError(f"{queue.broker_name} cannot read its records of messages {lost} of {queue}")
        rest = piece._replace(start=header.next_begin_offset) if header.next_begin_offset < end else None
        body = memoryview(response.body) if status is PullStatus.FOUND else b""
        return Answer(piece, body, header.offset_delta or 0, rest)
