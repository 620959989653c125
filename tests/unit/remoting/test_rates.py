"""Token buckets: bursts, refill, independence of keys, and the bound on how many there are."""

from pyromq.remoting.accept.quota import ConnectionQuota
from pyromq.remoting.accept.rates import TokenBuckets
from pyromq.remoting.limits import Limits
from pyromq.remoting.stats import Stats


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_then_the_rate() -> None:
    clock = Clock()
    buckets = TokenBuckets(10, 3, clock=clock)
    assert [buckets.take("a") for _ in range(4)] == [True, True, True, False]
    assert not buckets.has("a")
    assert buckets.has("b")
    clock.now = 0.1
    assert [buckets.take("a") for _ in range(2)] == [True, False]
    clock.now = 100
    assert [buckets.take("a") for _ in range(4)] == [True, True, True, False]
    assert buckets.refused == 3


def test_there_is_a_bound_on_keys() -> None:
    clock = Clock()
    buckets = TokenBuckets(1, 2, clock=clock, capacity=10)
    for number in range(1000):
        assert buckets.take(str(number))
        assert len(buckets) <= 10
    clock.now = 100
    buckets.take("new")
    assert len(buckets) == 1


def test_connections_of_one_address_are_admitted_at_a_rate() -> None:
    clock, stats = Clock(), Stats()
    quota = ConnectionQuota(Limits(connection_rate=2), stats, clock)
    assert [quota.enter("a") for _ in range(5)] == [True] * 4 + [False]
    assert quota.enter("b")
    assert quota.enter("a", shared=True)
    assert stats.connections_refused_rate == 1
    clock.now = 0.5
    assert quota.enter("a")
