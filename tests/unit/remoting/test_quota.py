"""Who may still connect when many are."""

import pytest

from pyromq.remoting.accept.quota import TRUST, ConnectionQuota
from pyromq.remoting.limits import Limits
from pyromq.remoting.stats import Stats

LIMITS = Limits(connections=100, connections_per_peer=60)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def fill(quota: ConnectionQuota, host: str) -> int:
    """How many connections an address gets."""
    count = 0
    while quota.enter(host):
        count += 1
    return count


def test_strangers_leave_room_for_who_is_known() -> None:
    stats = Stats()
    quota = ConnectionQuota(LIMITS, stats, Clock(), strangers=True)
    quota.introduce("10.0.0.9")
    assert fill(quota, "10.0.0.1") + fill(quota, "10.0.0.2") + fill(quota, "127.0.0.1") == 90
    assert stats.connections_refused > 0
    assert fill(quota, "10.0.0.9") == 10


def test_who_was_known_long_ago_is_a_stranger_again() -> None:
    clock = Clock()
    quota = ConnectionQuota(LIMITS, Stats(), clock, strangers=True)
    quota.introduce("10.0.0.9")
    clock.now = TRUST + 1
    fill(quota, "10.0.0.1")
    fill(quota, "10.0.0.2")
    assert fill(quota, "10.0.0.9") == 0


def test_where_nobody_is_asked_who_they_are_the_room_is_for_this_machine() -> None:
    quota = ConnectionQuota(LIMITS, Stats(), Clock())
    assert fill(quota, "10.0.0.1") + fill(quota, "10.0.0.2") == 90
    assert fill(quota, "127.0.0.1") == 10


@pytest.mark.parametrize("connections", [1, 5])
def test_a_small_bound_reserves_nothing(connections: int) -> None:
    quota = ConnectionQuota(Limits(connections=connections), Stats(), Clock(), strangers=True)
    assert fill(quota, "10.0.0.1") == connections


def test_the_addresses_that_are_remembered_are_bounded() -> None:
    quota = ConnectionQuota(LIMITS, Stats(), Clock(), strangers=True)
    for number in range(30_000):
        quota.introduce(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert quota.known <= 20_000
