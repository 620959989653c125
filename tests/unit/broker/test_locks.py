"""Queue locks: one owner at a time, renewal, expiry."""

from pyromq.broker.consume.locks import CLIENT_LOCK_LIFE_MS, LOCK_MAX_AGE_MS, QueueLocks
from pyromq.protocol.message import MessageQueue
from tests.unit.broker.clock import FakeClock

QUEUE = MessageQueue("orders", "broker-a", 0)
OTHER = MessageQueue("orders", "broker-a", 1)


def test_a_queue_has_one_owner() -> None:
    locks = QueueLocks(FakeClock())
    assert locks.lock("g", "one", [QUEUE, OTHER]) == {QUEUE, OTHER}
    assert locks.lock("g", "two", [QUEUE]) == set()
    assert locks.lock("g", "one", [QUEUE]) == {QUEUE}


def test_groups_do_not_disturb_each_other() -> None:
    locks = QueueLocks(FakeClock())
    locks.lock("g", "one", [QUEUE])
    assert locks.lock("h", "two", [QUEUE]) == {QUEUE}


def test_a_lock_that_is_not_renewed_is_free_after_its_time() -> None:
    clock = FakeClock()
    locks = QueueLocks(clock)
    locks.lock("g", "one", [QUEUE])
    clock.forward(LOCK_MAX_AGE_MS)
    assert locks.lock("g", "two", [QUEUE]) == set()
    clock.forward(1)
    assert locks.lock("g", "two", [QUEUE]) == {QUEUE}
    assert locks.lock("g", "one", [QUEUE]) == set()


def test_renewal_keeps_a_lock() -> None:
    clock = FakeClock()
    locks = QueueLocks(clock)
    for _ in range(5):
        locks.lock("g", "one", [QUEUE])
        clock.forward(LOCK_MAX_AGE_MS // 2)
    assert locks.lock("g", "two", [QUEUE]) == set()


def test_only_the_owner_unlocks() -> None:
    locks = QueueLocks(FakeClock())
    locks.lock("g", "one", [QUEUE])
    locks.unlock("g", "two", [QUEUE])
    assert locks.lock("g", "two", [QUEUE]) == set()
    locks.unlock("g", "one", [QUEUE])
    assert locks.lock("g", "two", [QUEUE]) == {QUEUE}


def test_a_client_without_a_name_unlocks_nothing_of_others() -> None:
    locks = QueueLocks(FakeClock())
    locks.lock("g", "one", [QUEUE])
    locks.unlock("g", "", [QUEUE, OTHER])
    assert locks.lock("g", "two", [QUEUE, OTHER]) == {OTHER}


def test_unexpired_locks_tell_that_a_group_consumes_in_order() -> None:
    clock = FakeClock()
    locks = QueueLocks(clock)
    assert not locks.group_holds_locks("g")
    locks.lock("g", "one", [QUEUE])
    assert locks.group_holds_locks("g")
    clock.forward(LOCK_MAX_AGE_MS + 1)
    assert not locks.group_holds_locks("g")
    locks.drop_expired()
    locks.unlock("g", "one", [QUEUE])
    assert locks.lock("g", "two", [QUEUE]) == {QUEUE}


GRACE = 3000


def test_a_lock_that_ends_with_its_connection_is_free_soon_after() -> None:
    clock, connection = FakeClock(), object()
    locks = QueueLocks(clock, grace=lambda: GRACE)
    locks.lock("g", "one", [QUEUE], connection, tied=True)
    clock.forward(10_000)
    locks.connection_closed(connection)
    clock.forward(GRACE)
    assert locks.lock("g", "two", [QUEUE]) == set()
    clock.forward(1)
    assert locks.lock("g", "two", [QUEUE]) == {QUEUE}


def test_other_clients_trust_a_lock_for_half_a_minute_without_a_connection() -> None:
    clock, connection = FakeClock(), object()
    locks = QueueLocks(clock, grace=lambda: GRACE)
    locks.lock("g", "one", [QUEUE], connection)
    clock.forward(10_000)
    locks.connection_closed(connection)
    clock.forward(CLIENT_LOCK_LIFE_MS - 10_000)
    assert locks.lock("g", "two", [QUEUE]) == set()
    clock.forward(1)
    assert locks.lock("g", "two", [QUEUE]) == {QUEUE}


def test_who_comes_back_in_time_keeps_the_lock() -> None:
    clock, old, new = FakeClock(), object(), object()
    locks = QueueLocks(clock, grace=lambda: GRACE)
    locks.lock("g", "one", [QUEUE], old, tied=True)
    locks.connection_closed(old)
    clock.forward(GRACE - 1)
    assert locks.lock("g", "one", [QUEUE], new, tied=True) == {QUEUE}
    clock.forward(GRACE + 1)
    assert locks.lock("g", "two", [QUEUE]) == set()


def test_a_connection_that_was_replaced_takes_nothing_with_it() -> None:
    clock, old, new = FakeClock(), object(), object()
    locks = QueueLocks(clock, grace=lambda: GRACE)
    locks.lock("g", "one", [QUEUE], old, tied=True)
    locks.lock("g", "one", [QUEUE], new, tied=True)
    locks.connection_closed(old)
    clock.forward(GRACE + 1)
    assert locks.lock("g", "two", [QUEUE]) == set()
    locks.connection_closed(new)
    clock.forward(GRACE + 1)
    assert locks.lock("g", "two", [QUEUE]) == {QUEUE}


def test_what_was_unlocked_or_taken_is_not_ended_with_the_old_connection() -> None:
    clock, one, two = FakeClock(), object(), object()
    locks = QueueLocks(clock, grace=lambda: GRACE)
    locks.lock("g", "one", [QUEUE, OTHER], one, tied=True)
    locks.unlock("g", "one", [QUEUE, OTHER])
    locks.lock("g", "two", [QUEUE], two, tied=True)
    locks.connection_closed(one)
    clock.forward(GRACE + 1)
    assert locks.lock("g", "three", [QUEUE, OTHER]) == {OTHER}
    assert len(locks) == 2
