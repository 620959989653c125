"""A task that reads what nobody serves any more, against brokers that are a few answers."""

from typing import cast

import pytest

from pyromq.protocol.bodies.route import BrokerData, TopicRouteData
from pyromq.protocol.message import MessageQueue
from pyromq.spark.errors import DataLossError, LostRange, ReadError, RouteError
from pyromq.spark.options import read_options
from pyromq.spark.source.cluster import Cluster
from pyromq.spark.source.offsets import Range
from pyromq.spark.source.options import SourceOptions
from pyromq.spark.task.pull import Puller

WANTED = Range("t", "a", 0, 10, 30)


class Vanished:
    """Stands for a cluster, and for its connections: no route leads to the queue."""

    def __init__(self) -> None:
        self.wire = self
        self.now = 0.0
        self.living = {"a"}
        self.serving: list[str] = []
        self.is_silent = False

    def address(self, _queue: MessageQueue, *, or_slave: bool) -> str:
        assert or_slave
        raise RouteError("no name server knows it")

    def refresh(self, _topic: str) -> None: ...

    def route(self, _topic: str, _timeout: float) -> TopicRouteData | None:
        if self.is_silent:
            raise RouteError("no name server answered")
        return TopicRouteData(broker_datas=[BrokerData(broker_name=name) for name in self.serving])

    def living_brokers(self) -> set[str]:
        return self.living

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def read(cluster: Vanished, policy: str) -> list[LostRange]:
    options = read_options(
        SourceOptions, {"nameServer": "n:1", "topic": "t", "pullBatchSize": "10", "failOnDataLoss": policy}, {}
    )
    lost: list[LostRange] = []
    puller = Puller(options, cast("Cluster", cluster), on_loss=lost.append, clock=cluster.clock, sleep=cluster.sleep)
    assert list(puller.responses([WANTED])) == []
    return lost


# SP-09
def test_a_planned_batch_ends_though_its_topic_is_deleted() -> None:
    for policy in ("record", "false"):
        cluster = Vanished()
        assert read(cluster, policy) == [
            LostRange("t", "a", 0, 10, 20, "deleted"),
            LostRange("t", "a", 0, 20, 30, "deleted"),
        ]
        assert cluster.now > 1  # a route that flickers is no loss
    with pytest.raises(DataLossError, match="deleted"):
        read(Vanished(), "true")


# SP-10
@pytest.mark.parametrize(
    "away",
    [{"living": set()}, {"living": {"b"}}, {"serving": ["a"]}, {"is_silent": True}],
    ids=["nobody lives", "another lives", "without a master", "no answer"],
)
def test_a_broker_that_is_away_has_not_lost_anything(away: dict[str, object]) -> None:
    cluster = Vanished()
    for name, value in away.items():
        setattr(cluster, name, value)
    with pytest.raises(ReadError, match="cannot be read after 13 attempts"):
        read(cluster, "record")
