"""Where groups stand after a crash: the log knows what they popped since offsets were saved, and what is void."""

from pathlib import Path

import pytest

from tests.unit.broker.clock import FakeClock
from tests.unit.broker.pop.speaking import Popped
from tests.unit.broker.pop.world import PopWorld


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1_700_000_000_123)


def begun(folder: Path, clock: FakeClock, *bodies: str) -> PopWorld:
    """Messages that were sent before the last save."""
    world = PopWorld(folder, clock)
    world.send(*bodies)
    world.settle()
    world.save()
    return world


def bodies(popped: list[Popped]) -> list[bytes]:
    return [each.body for each in popped]


def test_what_was_acknowledged_since_the_save_is_not_given_out_again(tmp_path: Path, clock: FakeClock) -> None:
    world = begun(tmp_path / "0", clock, *"abcdefghij")
    given = []
    for life in range(1, 5):
        popped = world.pop(count=2)
        given += bodies(popped)
        world.ack(*popped)
        world = world.crash(tmp_path / str(life))
    assert given == [b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h"]
    world.run(20_000)
    assert bodies(world.pop()) == [b"i", b"j"], "and none of them came back"
    world.close()


def test_what_was_not_acknowledged_comes_back_when_it_is_due(tmp_path: Path, clock: FakeClock) -> None:
    world = begun(tmp_path / "0", clock, "a", "b", "c")
    first, second = world.pop(count=2, invisible=5_000)
    world.ack(first)
    world = world.crash(tmp_path / "1")
    assert bodies(world.pop()) == [b"c"]
    world.run(10_000)
    (again,) = world.pop()
    assert (again.body, again.message.reconsume_times) == (second.body, 1)
    world.close()


def test_a_group_that_was_set_back_stays_there(tmp_path: Path, clock: FakeClock) -> None:
    world = begun(tmp_path / "0", clock, "a", "b", "c")
    world.ack(*world.pop(count=3))
    world.settle()
    world.offsets.commit("g", "orders", 0, 1)
    world.offsets.persist()
    world = world.crash(tmp_path / "1")
    assert bodies(world.pop()) == [b"b", b"c"]
    world.close()


def test_what_is_popped_after_that_counts_again(tmp_path: Path, clock: FakeClock) -> None:
    world = begun(tmp_path / "0", clock, "a", "b", "c")
    world.ack(*world.pop(count=3))
    world.settle()
    world.offsets.commit("g", "orders", 0, 0)
    world.buffer.forget(("orders", "g", 0))
    world.offsets.persist()
    clock.now += 1
    world.ack(*world.pop(count=2))
    world = world.crash(tmp_path / "1")
    assert bodies(world.pop()) == [b"c"]
    world.close()


@pytest.mark.parametrize("what", ["topic", "group"])
def test_a_group_that_was_forgotten_begins_anew(tmp_path: Path, clock: FakeClock, what: str) -> None:
    world = begun(tmp_path / "0", clock, "a", "b", "c")
    world.ack(*world.pop(count=3))
    world.settle()
    if what == "topic":
        world.offsets.forget_topic("orders")
    else:
        world.offsets.forget_group("g")
    world = world.crash(tmp_path / "1")
    assert bodies(world.pop()) == [b"a", b"b", b"c"]
    world.close()


def test_only_who_popped_is_noted(tmp_path: Path, clock: FakeClock) -> None:
    world = begun(tmp_path / "0", clock, "a", "b", "c")
    end = world.store.max_physical_offset
    for offset in (3, 1, 2, 0):
        world.offsets.commit("another", "orders", 0, offset)
    world.offsets.forget_group("another")
    assert world.store.max_physical_offset == end
    world.close()


def test_a_position_is_never_beyond_its_queue(tmp_path: Path, clock: FakeClock) -> None:
    world = begun(tmp_path / "0", clock, "a", "b")
    world.log.reached("orders", "g", 0, 99)
    world = world.crash(tmp_path / "1")
    assert world.offset() == 2
    world.close()


def test_an_ordered_group_resumes_behind_what_it_acknowledged(tmp_path: Path, clock: FakeClock) -> None:
    world = begun(tmp_path / "0", clock, *"abcd")
    first, second = world.pop(queue=0, count=2, order=True)
    world.ack(first)
    world = world.crash(tmp_path / "1")
    assert world.offset() == 1
    clock.now += 60_000
    assert bodies(world.pop(queue=0, count=2, order=True)) == [second.body, b"c"]
    world.close()


def test_after_a_stop_in_order_the_saved_offsets_hold(tmp_path: Path, clock: FakeClock) -> None:
    # Another broker may have had the store meanwhile, and set a group back there.
    world = begun(tmp_path / "0", clock, "a", "b", "c")
    world.ack(*world.pop(count=3))
    world.settle()
    world.offsets.listeners.clear()
    world.offsets.commit("g", "orders", 0, 1)
    world.offsets.persist()
    world.close()
    again = PopWorld(world.root, clock)
    assert bodies(again.pop()) == [b"b", b"c"]
    again.close()
