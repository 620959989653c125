"""What parts declare, put together: requests, topics, metrics."""

import operator
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest

from pyromq.broker.admin.info import runtime_info
from pyromq.broker.admin.metrics import BrokerMetrics
from pyromq.broker.admin.stats import OTHER
from pyromq.broker.config import BrokerConfig
from pyromq.broker.part import Figure, Part, all_followers, all_handlers, counter, gauge, limit
from pyromq.broker.parts import make_parts
from pyromq.remoting.endpoint import Handler
from pyromq.store.arrival import Arrival
from pyromq.store.messagestore import MessageStore
from tests.unit.broker.clock import FakeClock
from tests.unit.broker.cores import make_core


class Declared(Part):
    """Declares what it is given."""

    def __init__(self, *codes: int, topics: Iterable[str] = (), figures: Iterable[Figure] = ()) -> None:
        self._codes = codes
        self._topics = topics
        self._figures = figures

    def handlers(self) -> Mapping[int, Handler]:
        return dict.fromkeys(self._codes, lambda request, _: request.reply())

    def follows(self) -> Mapping[str, Callable[[Arrival], None]]:
        return dict.fromkeys(self._topics, lambda _message: None)

    def metrics(self) -> Iterable[Figure]:
        return self._figures


def page(tmp_path: Path, *parts: Part, most: int = 50_000) -> str:
    config = BrokerConfig(store_path_root_dir=tmp_path, broker_name="b", metrics_otel_cardinality_limit=most)
    return BrokerMetrics(make_core(config, FakeClock()), parts).page().decode()


def test_a_part_that_declares_nothing_has_nothing() -> None:
    part = Part()
    assert not any([part.handlers(), part.follows(), part.parks(), part.every(), part.runtime(), part.metrics()])


def test_requests_of_all_parts_are_served_together() -> None:
    assert set(all_handlers([Declared(1, 2), Declared(3), Part()])) == {1, 2, 3}


def test_two_parts_cannot_serve_one_request() -> None:
    with pytest.raises(ValueError, match="Declared claims 2"):
        all_handlers([Declared(1, 2), Declared(2, 3)])


def test_two_parts_cannot_follow_one_topic() -> None:
    assert set(all_followers([Declared(topics=["a"]), Declared(topics=["b"])])) == {"a", "b"}
    with pytest.raises(ValueError, match="Declared claims 'a'"):
        all_followers([Declared(topics=["a"]), Declared(topics=["a"])])


def test_figures_of_one_name_are_one_metric(tmp_path: Path) -> None:
    text = page(tmp_path, Declared(figures=[limit("topics", 3)]), Declared(figures=[limit("groups", 4)]))
    assert text.count("# TYPE pyromq_limits_total counter") == 1
    assert [line.rpartition(" ")[2] for line in text.splitlines() if line.startswith("pyromq_limits_total{")] == [
        "3.0",
        "4.0",
    ]


def test_gauges_and_counters_are_told_apart(tmp_path: Path) -> None:
    text = page(tmp_path, Declared(figures=[gauge("x_now", "Now.", 1), counter("x_ever", "Ever.", 2)]))
    assert "# TYPE x_now gauge" in text
    assert "# TYPE x_ever_total counter" in text


@pytest.mark.parametrize(("merge", "rest"), [(operator.add, 23.0), (max, 12.0)])
def test_values_beyond_the_limit_are_one(tmp_path: Path, merge: Callable[[float, float], float], rest: float) -> None:
    values = [((name,), number) for number, name in enumerate("abcdefghijkl", 1)]
    figure = Figure("x", "X.", values, ("topic",), others=(OTHER,), merge=merge)
    lines = [line for line in page(tmp_path, Declared(figures=[figure]), most=10).splitlines() if line.startswith("x{")]
    assert [float(line.rpartition(" ")[2]) for line in lines] == [*range(1, 11), rest]
    assert OTHER in lines[-1]


def test_what_has_no_rest_is_shown_whole(tmp_path: Path) -> None:
    figure = Figure("x", "X.", [((name,), 1) for name in "abcdefghijkl"], ("kind",))
    assert page(tmp_path, Declared(figures=[figure]), most=10).count("x{") == 12


@pytest.mark.parametrize("role", ["ASYNC_MASTER", "SYNC_MASTER", "SLAVE"])
@pytest.mark.parametrize("acting", [False, True])
async def test_the_parts_of_every_role_agree(tmp_path: Path, role: str, acting: bool) -> None:
    """They can be made, claim nothing twice, and tell their figures before they are started."""
    settings = {
        "store_path_root_dir": str(tmp_path),
        "broker_role": role,
        "broker_id": "1" if role == "SLAVE" else "0",
        "enable_slave_acting_master": str(acting).lower(),
        "mapped_file_size_commit_log": str(1 << 20),
    }
    config, clock = BrokerConfig.load(flags=settings), FakeClock()
    with MessageStore(config.store_config(), clock=clock) as store:
        core = make_core(config, clock, store)
        core.tables.load()
        core.ports.replicas._store = store  # what listening gives it
        parts = make_parts(core)
        assert all_handlers(parts)
        assert all_followers(parts)
        assert runtime_info(core, parts)
        assert b"pyromq_limits_total{" in BrokerMetrics(core, parts).page()
        for part in reversed(parts):
            await part.stop()
