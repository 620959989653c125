"""The user's end of a pull consumer: messages taken from the lanes, given out one by one, and done when he comes back.

Giving out is plain work on memory, so that a thread of the user's can do it without a trip to the event loop.
"""

from collections import deque

from pyromq.client.clock import within
from pyromq.client.consumer.config import PullConfig
from pyromq.client.consumer.member import Member
from pyromq.client.consumer.pull.prefetch import Lane, Leased, Prefetch
from pyromq.client.consumer.retry import restore_topic
from pyromq.protocol.message import ReceivedMessage
from pyromq.protocol.names import RETRY_PREFIX


class Inbox:
    """Of one consumer."""

    def __init__(self, member: Member[PullConfig], prefetch: Prefetch) -> None:
        self._member = member
        self._prefetch = prefetch
        self._clock = member.clock
        self._buffer: deque[Leased] = deque()
        self._given: set[Lane] = set()
        self._commit_due = member.clock.monotonic() + member.config.auto_commit_interval

    async def fill(self, seconds: float, count: int) -> None:
        """The user came back: commit what is due and get messages into the buffer, waiting for some if need be."""
        self.finish()
        self._auto_commit()
        self._buffer = deque(leased for leased in self._buffer if leased.valid)
        if self._buffer:
            return
        deadline = self._clock.monotonic() + seconds
        while self._member.running:
            self._buffer.extend(self._prefetch.take(count))
            left = deadline - self._clock.monotonic()
            if self._buffer or left <= 0:
                return
            try:
                await within(self._clock, left, self._prefetch.arrived.wait())
            except TimeoutError:
                return

    def give(self) -> ReceivedMessage | None:
        """The next message that waits."""
        while self._buffer:
            leased = self._buffer.popleft()
            if leased.valid:
                message = leased.message
                leased.lane.give(message)
                self._given.add(leased.lane)
                if self._member.namespace or message.topic.startswith(RETRY_PREFIX):
                    restore_topic(message, self._member.group, self._member.namespace)
                return message
        return None

    def finish(self) -> None:
        """What was given out is done."""
        for lane in self._given:
            lane.finish()
        self._given.clear()

    def commit_done(self) -> None:
        """Remember as consumed what is done."""
        for queue, offset in self._prefetch.positions(self._prefetch.lanes, lambda lane: lane.done).items():
            self._member.offsets.update(queue, offset)

    def _auto_commit(self) -> None:
        now = self._clock.monotonic()
        if self._member.config.auto_commit and now >= self._commit_due:
            self._commit_due = now + self._member.config.auto_commit_interval
            self.commit_done()
