"""Parked pulls: what wakes them, what does not, and what happens to them in time."""

from collections.abc import Mapping
from functools import partial

from pyromq.broker.consume.longpoll import SWEEP_INTERVAL_MS, ParkedPull, PullPark
from tests.unit.broker.clock import FakeClock

KEY = ("orders", 0)


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
            return tag is None or tags_code == tag

        resume = partial(self.resumed.append, name)
        return self.park.park(ParkedPull(KEY, offset, self.clock() + hold, matches, resume, owner, party))


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
    desk.park.arrived(KEY, 5, 0, {})
    assert desk.resumed == ["at 0"]
    assert list(desk.park.topics) == ["orders"]
    desk.park.arrived(KEY, 6, 0, {})
    assert desk.resumed == ["at 0", "at 5"]
    assert len(desk.park) == 0
    assert not desk.park.topics


def test_an_arrival_elsewhere_or_with_another_tag_resumes_nobody() -> None:
    desk = Desk()
    desk.wait("tagged", tag=7)
    desk.park.arrived(("orders", 1), 1, 7, {})
    desk.park.arrived(KEY, 1, 8, {})
    assert desk.resumed == []
    desk.park.arrived(KEY, 2, 7, {})
    assert desk.resumed == ["tagged"]


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
    desk.park.arrived(KEY, 1, 0, {})
    assert desk.resumed == ["there"]
    assert len(desk.park) == 0
    assert not desk.park._by_owner


def test_a_resumed_pull_may_park_again_at_once() -> None:
    desk = Desk()

    def again() -> None:
        desk.resumed.append("first")
        desk.wait("second", offset=1)

    desk.park.park(ParkedPull(KEY, 0, desk.clock() + 1_000, lambda _code, _properties: True, again))
    desk.park.arrived(KEY, 1, 0, {})
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
        desk.park.arrived(KEY, 1, 0, {})
    assert len(desk.park._by_deadline) < 3_000
