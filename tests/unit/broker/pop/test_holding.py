"""Held pops and questions: who is woken by what, when waiting is over, and the bounds."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.pop import (
    NotificationHeader,
    NotificationResponseHeader,
    PollingInfoHeader,
    PollingInfoResponseHeader,
)
from tests.unit.broker.clock import FakeClock
from tests.unit.broker.pop.speaking import messages_of, pop_header
from tests.unit.broker.pop.world import FakeConnection, PopWorld


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1_700_000_000_123)


@pytest.fixture
def world(tmp_path: Path, clock: FakeClock) -> Iterator[PopWorld]:
    world = PopWorld(tmp_path / "store", clock, queues=2)
    yield world
    world.close()


def got(connection: FakeConnection) -> list[bytes]:
    """Bodies of the answer, if there is one."""
    assert len(connection.sent) <= 1
    return [each.body for answer in connection.sent for each in messages_of(answer)]


def held(world: PopWorld, queue: int = -1) -> int:
    header = PollingInfoHeader(consumer_group="g", topic="orders", queue_id=queue)
    return world.answer(RequestCode.POLLING_INFO, header).header(PollingInfoResponseHeader).polling_num


def test_an_arrival_wakes_one_pop(world: PopWorld) -> None:
    first, second = world.hold(), world.hold()
    assert held(world) == 2
    world.send("a")
    world.settle()
    assert (got(first), second.sent) == ([b"a"], [])
    world.send("b")
    world.settle()
    assert got(second) == [b"b"]
    assert held(world) == 0


def test_what_one_pop_leaves_wakes_the_next(world: PopWorld) -> None:
    connections = [world.hold(count=1) for _ in range(3)]
    world.send("a", "b", "c")
    world.settle()
    assert sorted(body for connection in connections for body in got(connection)) == [b"a", b"b", b"c"]


def test_pops_of_one_queue_and_of_all(world: PopWorld) -> None:
    every, zero, one = world.hold(), world.hold(queue=0), world.hold(queue=1)
    assert (held(world), held(world, 0), held(world, 1)) == (1, 1, 1)
    world.send("a", queue=1)
    world.settle()
    assert sorted(got(every) + got(one)) == [b"a"]
    assert zero.sent == []


def test_each_group_is_woken(world: PopWorld) -> None:
    mine, theirs = world.hold(), world.hold(group="other")
    world.send("a")
    world.settle()
    assert (got(mine), got(theirs)) == ([b"a"], [b"a"])


def test_only_what_matches_wakes(world: PopWorld) -> None:
    connection = world.hold(tags="y")
    world.send("a", TAGS="x")
    world.settle()
    assert connection.sent == []
    world.send("b", TAGS="y")
    world.settle()
    assert got(connection) == [b"b"]


def test_members_that_want_different_things(world: PopWorld) -> None:
    first, second = world.hold(tags="x"), world.hold(tags="y")
    world.send("b", TAGS="y")
    world.settle()
    assert (first.sent, got(second)) == ([], [b"b"])


def test_a_long_run_of_others_is_passed_while_waiting(world: PopWorld) -> None:
    world.send(*("x" * 2_000), TAGS="x")
    world.send("y", TAGS="y")
    connection = world.hold(tags="y")
    world.settle()
    assert got(connection) == [b"y"]


def test_every_eight_hundredth_message_wakes_regardless(world: PopWorld) -> None:
    connection = world.hold(tags="y")
    world.send(*("x" * 799), TAGS="x")
    world.settle()
    assert world.offset() in (None, 0)
    world.send("x", TAGS="x")
    world.settle()
    assert (world.offset(), connection.sent) == (800, []), "its offset moved on"


def test_a_retry_wakes(world: PopWorld) -> None:
    world.send("a")
    world.pop(invisible=1_000)
    connection = world.hold(hold=20_000)
    world.run(2_500)
    assert connection.sent == []
    world.run(2_500)
    assert got(connection) == [b"a"]


def test_waiting_ends_shortly_before_its_time(world: PopWorld) -> None:
    connection = world.hold(hold=5_000)
    world.run(4_900)
    assert connection.sent == []
    world.run(100)
    assert [answer.code for answer in connection.sent] == [ResponseCode.POLLING_TIMEOUT]
    assert held(world) == 0


@pytest.mark.parametrize("hold", [0, -5, 50])
def test_who_does_not_want_to_wait_is_answered_at_once(world: PopWorld, hold: int) -> None:
    header = pop_header(born=world.clock.now, hold=hold)
    assert world.answer(RequestCode.POP_MESSAGE, header).code == ResponseCode.POLLING_TIMEOUT


def test_nobody_is_held_for_ever(world: PopWorld, clock: FakeClock) -> None:
    connection = FakeConnection()
    header = pop_header(born=clock.now + 10**12, hold=10**12)
    assert world.call(RequestCode.POP_MESSAGE, header, connection) is None
    clock.forward(120_000)
    world.park.step()
    clock.forward(120_000)
    world.park.step()
    assert len(connection.sent) <= 1
    assert len(world.park) <= 1


def test_bounds(world: PopWorld, clock: FakeClock) -> None:
    for _ in range(3):
        world.hold()
    answer = world.answer(RequestCode.POP_MESSAGE, pop_header(born=clock.now, hold=5_000))
    assert (answer.code, "popPollingSize" in str(answer.remark)) == (ResponseCode.POLLING_FULL, True)
    assert world.park.refused == 1
    world.hold(queue=0)
    answer = world.answer(RequestCode.POP_MESSAGE, pop_header(born=clock.now, hold=5_000, queue=1))
    assert answer.code == ResponseCode.POLLING_FULL, "one address leaves places for others"
    world.hold(queue=0, host="10.0.0.2")
    answer = world.answer(RequestCode.POP_MESSAGE, pop_header(born=clock.now, hold=5_000, queue=1))
    assert answer.code == ResponseCode.POLLING_FULL


def test_a_pop_whose_client_is_gone_takes_nothing(world: PopWorld) -> None:
    gone, alive = world.hold(), world.hold()
    gone.is_open = False
    world.send("a")
    world.settle()
    assert (gone.sent, got(alive)) == ([], [b"a"])


def ask(world: PopWorld, hold: int = 0, **changes: object) -> tuple[FakeConnection, Command | None]:
    fields = {"consumer_group": "g", "topic": "orders", "queue_id": -1, "poll_time": hold, "born_time": world.clock.now}
    connection = FakeConnection()
    header = NotificationHeader(**(fields | changes))  # type: ignore[arg-type]  # fields of the struct
    return connection, world.call(RequestCode.NOTIFICATION, header, connection)


def has_messages(answer: Command | None) -> bool:
    assert answer is not None
    return answer.header(NotificationResponseHeader).has_msg


def test_questions_whether_there_is_something(world: PopWorld) -> None:
    assert not has_messages(ask(world)[1])
    connection, answer = ask(world, hold=5_000)
    assert answer is None
    world.send("a", queue=1)
    world.settle()
    assert has_messages(connection.sent[0])
    assert has_messages(ask(world)[1])
    assert not has_messages(ask(world, queue_id=0)[1])
    world.pop()
    assert not has_messages(ask(world)[1]), "what was popped is not there for others"


def test_questions_run_out_and_have_bounds(world: PopWorld) -> None:
    connection, _ = ask(world, hold=3_000)
    for _ in range(2):
        ask(world, hold=3_000)
    full = ask(world, hold=3_000)[1]
    assert full is not None
    assert full.header(NotificationResponseHeader).polling_full
    world.run(3_000)
    assert not has_messages(connection.sent[0])


def test_questions_about_retries_and_blocked_queues(world: PopWorld) -> None:
    world.send("a")
    world.pop(invisible=1_000)
    connection, _ = ask(world, hold=20_000)
    world.run(5_000)
    assert has_messages(connection.sent[0])
    world.pop()
    world.send("b", "c", queue=1)
    world.pop(order=True, count=1, invisible=2_000)
    assert not has_messages(ask(world, order=True)[1])
    waiting, _ = ask(world, order=True, hold=10_000)
    world.run(2_100)
    assert has_messages(waiting.sent[0])


def test_nothing_to_roll_back(world: PopWorld) -> None:
    assert world.answer(RequestCode.POP_ROLLBACK).code == ResponseCode.SUCCESS
