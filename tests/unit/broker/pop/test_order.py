"""Ordered pops: one batch of a queue at a time, the same one again when it was not dealt with."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.headers.pop import PopMessageResponseHeader
from pyromq.protocol.names import TIMER_TOPIC
from tests.unit.broker.clock import FakeClock
from tests.unit.broker.pop.speaking import ack_header, messages_of, pop_header
from tests.unit.broker.pop.world import PopWorld


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1_700_000_000_123)


@pytest.fixture
def world(tmp_path: Path, clock: FakeClock) -> Iterator[PopWorld]:
    world = PopWorld(tmp_path / "store", clock)
    world.send("a", "b", "c", "d")
    yield world
    world.close()


def taken(world: PopWorld, count: int = 2, **options: Any) -> list[bytes]:
    return [each.body for each in world.pop(order=True, count=count, **options)]


def test_a_queue_is_blocked_until_its_batch_is_dealt_with(world: PopWorld) -> None:
    first, second = world.pop(order=True, count=2)
    assert first.handle.ordered
    assert world.offset() == 0
    assert world.pop(order=True) == []
    world.ack(second)
    assert (world.offset(), world.pop(order=True)) == (0, [])
    world.ack(first)
    assert world.offset() == 2
    assert taken(world) == [b"c", b"d"]
    assert world.messages(TIMER_TOPIC) == [], "no records are written"


def test_an_unacknowledged_batch_comes_again_in_order(world: PopWorld, clock: FakeClock) -> None:
    first, _ = world.pop(order=True, count=2, invisible=5_000)
    clock.forward(4_999)
    assert world.pop(order=True) == []
    clock.forward(1)
    again = world.pop(order=True, count=2, invisible=5_000)
    assert [each.body for each in again] == [b"a", b"b"]
    world.ack(first)
    assert world.offset() == 0, "a handle of the first time is outdated"
    world.ack(again[0])
    assert world.offset() == 1
    clock.forward(5_000)
    assert taken(world) == [b"b", b"c"]


def test_how_often_messages_were_given_out(world: PopWorld, clock: FakeClock) -> None:
    def counts(count: int) -> str | None:
        clock.forward(60_000)
        header = pop_header(order=True, count=count, born=clock.now)
        return world.answer(RequestCode.POP_MESSAGE, header).header(PopMessageResponseHeader).order_count_info

    assert counts(2) == "0 0 0"
    assert counts(2) == "0 qo0%0 1;0 qo0%1 1;0 0 1"
    assert counts(3) == "0 qo0%0 2;0 qo0%1 2;0 0 0"


def test_the_same_attempt_gets_the_same_batch(world: PopWorld, clock: FakeClock) -> None:
    assert taken(world, attempt="one") == [b"a", b"b"]
    assert taken(world, attempt="two") == []
    assert taken(world, attempt="one") == [b"a", b"b"]
    header = pop_header(order=True, count=2, attempt="one", born=clock.now)
    answer = world.answer(RequestCode.POP_MESSAGE, header)
    assert answer.header(PopMessageResponseHeader).order_count_info == "0 0 0", "asking again is no new delivery"


def test_renewing_holds_the_queue_longer(world: PopWorld, clock: FakeClock) -> None:
    first, second = world.pop(order=True, count=2, invisible=5_000)
    clock.forward(3_000)
    renewed = world.renew(first, 10_000)
    assert (renewed.handle.pop_time, renewed.handle.invisible_time) == (first.handle.pop_time, 13_000)
    world.ack(second)
    clock.forward(9_999)
    assert world.pop(order=True) == []
    clock.forward(1)
    assert taken(world) == [b"a", b"b"]


def test_a_shorter_time_frees_the_queue(world: PopWorld, clock: FakeClock) -> None:
    for popped in world.pop(order=True, count=2, invisible=60_000):
        world.renew(popped, 1_000)
    clock.forward(1_000)
    assert taken(world) == [b"a", b"b"]


def test_acknowledgements_that_do_not_fit(world: PopWorld, clock: FakeClock) -> None:
    first, second = world.pop(order=True, count=2, invisible=1_000)
    header = ack_header(first)
    header.offset = 3
    assert world.answer(RequestCode.ACK_MESSAGE, header).code == ResponseCode.MESSAGE_ILLEGAL
    world.ack(first, second)
    world.ack(first)
    assert world.offset() == 2, "acknowledging again changes nothing"


def test_batches_survive_a_crash(world: PopWorld, clock: FakeClock, tmp_path: Path) -> None:
    popped = world.pop(order=True, count=2, invisible=30_000)
    world.ack(popped[0])
    world.save()
    again = world.crash(tmp_path / "second")
    assert again.pop(order=True) == []
    again.ack(popped[1])
    assert [each.body for each in again.pop(order=True)] == [b"c", b"d"]
    again.close()


def test_a_reset_frees_the_queue(world: PopWorld) -> None:
    world.pop(order=True, count=3)
    world.offsets.reset("g", "orders", 0, 1)
    assert taken(world) == [b"b", b"c"]


def test_batches_that_nobody_touches_for_a_day_are_dropped(world: PopWorld, clock: FakeClock) -> None:
    world.pop(order=True, count=2, invisible=3 * 24 * 3_600_000)
    world.batches.persist()
    assert world.batches.blocked_until("orders", "g", 0) is not None
    clock.forward(24 * 3_600_000 + 1)
    world.pop(order=True, group="other")
    world.batches.persist()
    assert world.batches.blocked_until("orders", "g", 0) is None


def test_messages_that_do_not_match_are_passed(tmp_path: Path, clock: FakeClock) -> None:
    world = PopWorld(tmp_path / "filtered", clock)
    for body, tag in (("a", "x"), ("b", "y"), ("c", "x"), ("d", "y")):
        world.send(body, TAGS=tag)
    first, second = world.pop(order=True, tags="y")
    world.ack(first)
    assert world.offset() == 3
    world.ack(second)
    assert world.offset() == 4
    world.send("e", TAGS="x")
    assert world.pop(order=True, tags="y") == []
    assert world.offset() == 5
    world.close()


def test_a_held_ordered_pop_wakes_when_the_batch_is_acknowledged_or_visible(world: PopWorld, clock: FakeClock) -> None:
    popped = world.pop(order=True, count=2, invisible=3_000)
    held = world.hold(order=True, count=1, invisible=3_000)
    world.run(500)
    assert held.sent == []
    world.ack(*popped)
    world.settle()
    assert [each.body for each in messages_of(held.sent[0])] == [b"c"]
    waiting = world.hold(order=True, count=1)
    world.run(2_900)
    assert waiting.sent == []
    world.run(200)
    assert [each.body for each in messages_of(waiting.sent[0])] == [b"c"]
