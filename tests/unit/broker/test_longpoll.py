"""Parked pulls: what wakes them, what does not, and what happens to them in time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pyromq.broker.consume.longpoll import SWEEP_INTERVAL_MS, ParkedPull, PullPark
from pyromq.store.arrival import Arrival
from pyromq.store.queue.consumequeue import ConsumeQueue
from pyromq.store.queue.files import Descriptors
from tests.unit.broker.clock import FakeClock

KEY = ("orders", 0)


@dataclass
class Together:
    """Messages that arrive as one: where, behind which offset, and with which tags."""

    end: int
    tags: Sequence[int] = (0,)
    key: tuple[str, int] = KEY
    taken_apart: int = 0
    topics = ("orders",)

    def ends(self) -> list[tuple[tuple[str, int], int]]:
        return [(self.key, self.end)]

    def arrivals(self) -> list[Arrival]:
        self.taken_apart += 1
        first, queue = self.end - len(self.tags), ConsumeQueue(*self.key, "", 20, Descriptors(1))
        return [Arrival(*self.key, first + at, at, 1, tag, 0, 0, {}, queue) for at, tag in enumerate(self.tags)]


class Desk:
    """A park with one queue whose end the test sets, and a record of what was resumed."""

    def __init__(self, capacity: int = 100) -> None:
        self.clock = FakeClock()
        self.end = 0
        self.resumed: list[str] = []
        self.park = PullPark(self.clock, lambda _topic, _queue: self.end, capacity=capacity)
        self.park.tick()

    def wait(
        self,
        name: str,
        *,
        offset: int = 0,
        hold: int = 15_000,
        tag: int | None = None,
        owner: str = "c",
        party: str = "",
    ) -> bool:
        def matches(tags_code: int, _properties: Mapping[str, str]) -> bool:
            return tags_code == tag

        wanted, resume = None if tag is None else matches, partial(self.resumed.append, name)
        return self.park.park(ParkedPull(KEY, offset, self.clock() + hold, wanted, resume, owner, party))


def test_one_address_leaves_places_for_others() -> None:
    desk = Desk(capacity=8)
    assert [desk.wait(str(number), party="10.0.0.1") for number in range(7)] == [True] * 6 + [False]
    assert desk.wait("other", party="10.0.0.2")
    assert desk.park.refused == 1
    desk.park.resume_all()
    assert desk.wait("again", party="10.0.0.1")


def test_an_arrival_resumes_the_pulls_that_wait_below_it() -> None:
    desk = Desk()
    desk.wait("at 0", offset=0)
    desk.wait("at 5", offset=5)
    assert list(desk.park.topics) == ["orders"]
    desk.park.heard(Together(5))
    assert desk.resumed == ["at 0"]
    assert list(desk.park.topics) == ["orders"]
    desk.park.heard(Together(6))
    assert desk.resumed == ["at 0", "at 5"]
    assert len(desk.park) == 0
    assert not desk.park.topics


def test_an_arrival_elsewhere_or_with_another_tag_resumes_nobody() -> None:
    desk = Desk()
    desk.wait("tagged", tag=7)
    desk.park.heard(Together(1, [7], ("orders", 1)))
    desk.park.heard(Together(1, [8]))
    assert desk.resumed == []
    desk.park.heard(Together(2, [7]))
    assert desk.resumed == ["tagged"]


def test_what_arrives_together_is_taken_apart_only_for_a_filter() -> None:
    desk = Desk()
    desk.wait("all", offset=2)
    without = Together(5, [1, 2, 3, 4, 5])
    desk.park.heard(without)
    assert (desk.resumed, without.taken_apart) == (["all"], 0)
    desk.wait("seven", tag=7, offset=3)
    desk.wait("four", tag=4, offset=3)
    desk.wait("two, which came before", tag=2, offset=3)
    filtered = Together(5, [1, 2, 3, 4, 5])
    desk.park.heard(filtered)
    assert (desk.resumed, filtered.taken_apart) == (["all", "four"], 1)
    assert len(desk.park) == 2


def test_a_pull_is_resumed_when_its_time_is_over() -> None:
    desk = Desk()
    desk.wait("short", hold=1_000)
    desk.wait("long", hold=2_000)
    desk.clock.forward(999)
    desk.park.tick()
    assert desk.resumed == []
    desk.clock.forward(1)
    desk.park.tick()
    assert desk.resumed == ["short"]
    desk.clock.forward(1_000)
    desk.park.tick()
    assert desk.resumed == ["short", "long"]


def test_the_sweep_moves_selective_consumers_forward() -> None:
    desk = Desk()
    desk.wait("selective", tag=7, hold=60_000)
    desk.end = 10
    desk.clock.forward(SWEEP_INTERVAL_MS)
    desk.park.tick()
    assert desk.resumed == ["selective"]


def test_the_pulls_of_a_connection_that_ended_are_never_resumed() -> None:
    desk = Desk()
    desk.wait("gone", hold=10, owner="a")
    desk.wait("gone too", hold=10, owner="a")
    desk.wait("there", hold=10, owner="b")
    desk.park.forget("a")
    desk.park.forget("a")
    assert len(desk.park) == 1
    desk.clock.forward(10)
    desk.park.tick()
    desk.park.heard(Together(1))
    assert desk.resumed == ["there"]
    assert len(desk.park) == 0
    assert not desk.park._by_owner


def test_a_resumed_pull_may_park_again_at_once() -> None:
    desk = Desk()

    def again() -> None:
        desk.resumed.append("first")
        desk.wait("second", offset=1)

    desk.park.park(ParkedPull(KEY, 0, desk.clock() + 1_000, None, again))
    desk.park.heard(Together(1))
    assert desk.resumed == ["first"]
    assert len(desk.park) == 1


def test_the_park_is_bounded() -> None:
    desk = Desk(capacity=2)
    assert desk.wait("a")
    assert desk.wait("b")
    assert not desk.wait("c")
    assert (len(desk.park), desk.park.refused) == (2, 1)


def test_everything_is_resumed_for_a_stop() -> None:
    desk = Desk()
    desk.wait("a")
    desk.wait("b", offset=9)
    desk.park.resume_all()
    assert sorted(desk.resumed) == ["a", "b"]


def test_pulls_that_come_and_go_leave_nothing_behind() -> None:
    desk = Desk()
    for _ in range(10_000):
        desk.wait("x", hold=600_000)
        desk.park.heard(Together(1))
    assert len(desk.park._by_deadline) < 3_000
