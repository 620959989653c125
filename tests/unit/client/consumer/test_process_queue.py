"""What a consumer holds of one queue, and the decisions about it."""

import random

from hypothesis import given
from hypothesis import strategies as st

from pyromq.client.consumer.process_queue import MIB, ProcessQueue, QueueLimits, TopicLimits
from tests.unit.client.consumer.messages import received
from tests.unit.client.fakes import ManualClock, asyncio_test


def held(*offsets: int, body: bytes = b"body") -> ProcessQueue:
    queue = ProcessQueue(ManualClock())
    queue.put([received(offset, body) for offset in offsets])
    return queue


def test_put_counts_new_offsets_once() -> None:  # C-08
    queue = held(5, 6, 7)
    assert queue.put([received(7), received(8)]) == 1
    assert (len(queue), queue.size, queue.max_offset, queue.span) == (4, 16, 8, 3)


def test_offset_to_commit_is_the_smallest_that_is_left() -> None:  # C-08 C-11
    queue = held(5, 6, 7)
    assert queue.remove([received(6)]) == 5
    assert queue.remove([received(5)]) == 7
    assert queue.remove([received(7)]) == 8
    assert queue.remove([received(7)]) == -1
    assert (len(queue), queue.size) == (0, 0)


@given(st.lists(st.integers(0, 500), unique=True, min_size=1), st.randoms(use_true_random=False))
def test_no_unfinished_offset_is_ever_passed(offsets: list[int], rng: random.Random) -> None:  # C-11
    queue = held(*sorted(offsets))
    left = set(offsets)
    while left:
        done = rng.sample(sorted(left), min(len(left), rng.randint(1, 5)))
        left -= set(done)
        assert queue.remove([received(offset) for offset in done]) == (min(left) if left else max(offsets) + 1)


def test_ordered_batches_stay_in_flight_until_they_are_committed() -> None:  # C-08
    queue = held(5, 6, 7, 8)
    assert [message.queue_offset for message in queue.take(2)] == [5, 6]
    assert (len(queue), queue.in_flight_count, queue.in_flight_bounds, queue.bounds) == (4, 2, (5, 6), (7, 8))
    assert queue.commit() == 7
    assert queue.commit() == -1
    assert (len(queue), queue.size) == (2, 8)


def test_messages_put_back_come_first_again() -> None:  # C-08
    queue = held(5, 6, 7)
    batch = queue.take(2)
    queue.again(batch)
    assert [message.queue_offset for message in queue.take(3)] == [5, 6, 7]
    queue.rollback()
    assert [message.queue_offset for message in queue.take(1)] == [5]
    assert queue.take(0) == []


def test_backlog_is_what_the_broker_still_has() -> None:
    queue = ProcessQueue(ManualClock())
    queue.put([received(5, MAX_OFFSET="105")])
    assert queue.backlog == 100
    queue.put([received(6, MAX_OFFSET="many")])
    assert queue.backlog == 100


def test_clear_forgets_everything() -> None:
    queue = held(1, 2)
    queue.take(1)
    queue.clear()
    assert (len(queue), queue.size, queue.first, queue.bounds, queue.in_flight_bounds) == (0, 0, None, (0, 0), (0, 0))


@asyncio_test
async def test_locks_and_pulls_expire() -> None:
    clock = ManualClock()
    queue = ProcessQueue(clock)
    assert not queue.holds_lock
    queue.lock()
    await clock.advance(30)
    assert queue.holds_lock
    await clock.advance(1)
    assert not queue.holds_lock
    assert queue.lock_age == 31
    queue.pulled()
    await clock.advance(120)
    assert not queue.pull_expired
    await clock.advance(1)
    assert queue.pull_expired


def test_limits_are_passed_not_reached() -> None:
    limits = QueueLimits(count=3, size=2 * MIB, span=100)
    assert limits.exceeded(held(1, 2, 3)) is None
    assert "4 messages" in (limits.exceeded(held(1, 2, 3, 4)) or "")
    assert limits.exceeded(held(1, body=bytes(3 * MIB - 1))) is None
    assert "3 MiB" in (limits.exceeded(held(1, body=bytes(3 * MIB))) or "")
    assert limits.exceeded(held(1, 101)) is None
    assert "span 101" in (limits.exceeded(held(1, 102)) or "")
    assert limits.exceeded(held(1, 102), ordered=True) is None


def test_limits_of_a_topic_are_shared_out() -> None:
    base = QueueLimits()
    assert TopicLimits().per_queue(base, 4) == base
    assert TopicLimits(count=10).per_queue(base, 4).count == 2
    assert TopicLimits(count=3).per_queue(base, 4).count == 1
    assert TopicLimits(size=40 * MIB).per_queue(base, 4).size == 10 * MIB
    assert TopicLimits(count=10).per_queue(base, 0) == base
