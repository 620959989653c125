"""A task that reads what nobody serves any more, against brokers that are a few answers."""

from typing import cast

import pytest

from pyromq.arrow.errors import ReadError
from pyromq.protocol.bodies.route import BrokerData, TopicRouteData
from pyromq.protocol.command import Command
from pyromq.protocol.headers.consume import PullMessageHeader, PullMessageResponseHeader
from pyromq.protocol.message import MessageQueue
from pyromq.protocol.requests import pull_messages
from pyromq.spark.errors import DataLossError, LostRange, RouteError
from pyromq.spark.options import read_options
from pyromq.spark.source.brokers.cluster import Cluster
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


class Answering:
    """Stands for a cluster whose brokers send one message of every pull; notes what was asked of whom."""

    def __init__(self) -> None:
        self.wire = self
        self.asked: list[tuple[str, int]] = []
        self._pending: dict[str, list[Command]] = {}

    def address(self, queue: MessageQueue, *, or_slave: bool) -> str:
        assert or_slave
        return queue.broker_name

    def filtered_pull(self, queue: MessageQueue, offset: int, count: int, _most: int) -> Command:
        return pull_messages("g", queue.topic, queue.queue_id, offset, count)

    def send(self, address: str, command: Command, _timeout: float) -> int:
        command.opaque = len(self.asked) + 1
        offset = command.header(PullMessageHeader).queue_offset
        self.asked.append((address, offset))
        header = PullMessageResponseHeader(
            next_begin_offset=offset + 1, min_offset=0, max_offset=99, suggest_which_broker_id=0
        )
        answer = command.reply(header=header, body=b"%d" % offset)
        self._pending.setdefault(address, []).append(answer)
        return command.opaque

    def receive(self, address: str, _timeout: float) -> Command:
        return self._pending[address].pop(0)

    def disconnect(self, _address: str) -> None: ...


def test_brokers_are_asked_in_turn_and_what_is_held_is_bounded() -> None:
    options = read_options(
        SourceOptions, {"nameServer": "n:1", "topic": "t", "pullBatchSize": "3", "pullInFlight": "4"}, {}
    )
    cluster = Answering()
    found = Puller(options, cast("Cluster", cluster)).responses([Range("t", "a", 0, 0, 6), Range("t", "b", 1, 0, 6)])
    first = next(found)
    assert (first[0].broker, bytes(first[1])) == ("a", b"0")
    assert cluster.asked == [("a", 0), ("b", 0), ("a", 3), ("b", 3)]
    rest = [(wanted.broker, int(bytes(body))) for wanted, body, _ in found]
    assert [offset for broker, offset in rest if broker == "a"] == [1, 2, 3, 4, 5]
    assert [offset for broker, offset in rest if broker == "b"] == [0, 1, 2, 3, 4, 5]
    # The second message of a slice is asked for when the slice is the first one.
    assert cluster.asked.index(("b", 4)) > cluster.asked.index(("a", 5))
