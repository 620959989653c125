"""The allocation strategies: the worked numbers all clients agree on, and what must hold for any numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.client.consumer.rebalance.allocation import (
    AllocationStrategy,
    Average,
    AverageByCircle,
    ByConfig,
    ByMachineRoom,
    ConsistentHash,
    NearbyRoom,
    md5_point,
)
from pyromq.client.errors import ClientError
from pyromq.protocol.message import MessageQueue


def queues(count: int, broker: str = "broker-a") -> list[MessageQueue]:
    return [MessageQueue("TopicTest", broker, number) for number in range(count)]


def members(count: int) -> list[str]:
    return [f"c{number:03}" for number in range(count)]


def shares(strategy: AllocationStrategy, queue_count: int, member_count: int) -> list[list[int]]:
    ids = members(member_count)
    return [[queue.queue_id for queue in strategy.allocate(me, queues(queue_count), ids)] for me in ids]


@pytest.mark.parametrize(
    ("queue_count", "member_count", "average", "circle"),
    [
        (8, 3, [[0, 1, 2], [3, 4, 5], [6, 7]], [[0, 3, 6], [1, 4, 7], [2, 5]]),
        (10, 4, [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9]], [[0, 4, 8], [1, 5, 9], [2, 6], [3, 7]]),
        (7, 2, [[0, 1, 2, 3], [4, 5, 6]], [[0, 2, 4, 6], [1, 3, 5]]),
        (6, 3, [[0, 1], [2, 3], [4, 5]], [[0, 3], [1, 4], [2, 5]]),
        (4, 6, [[0], [1], [2], [3], [], []], [[0], [1], [2], [3], [], []]),
    ],
)
def test_worked_numbers_of_average_and_circle(
    queue_count: int, member_count: int, average: list[list[int]], circle: list[list[int]]
) -> None:  # C-05
    assert shares(Average(), queue_count, member_count) == average
    assert shares(AverageByCircle(), queue_count, member_count) == circle


def test_config_gives_its_list_whoever_is_there() -> None:  # C-05
    mine = queues(3)
    assert ByConfig(mine).allocate("me", queues(8), ["somebody"]) == mine


def test_machine_room_worked_numbers() -> None:  # C-05
    both = queues(4, "hz@broker-a") + queues(4, "sh@broker-b")

    def named(rooms: set[str]) -> list[list[str]]:
        strategy = ByMachineRoom(rooms)
        ids = members(3)
        return [[f"{q.broker_name[-1]}{q.queue_id}" for q in strategy.allocate(me, both, ids)] for me in ids]

    assert named({"hz"}) == [["a0", "a3"], ["a1"], ["a2"]]
    assert named({"hz", "sh"}) == [["a0", "a1", "b2"], ["a2", "a3", "b3"], ["b0", "b1"]]


def test_machine_room_passes_over_brokers_without_a_room() -> None:  # C-05
    assert ByMachineRoom({"hz"}).allocate("me", queues(4, "hz"), ["me"]) == []


def test_consistent_hash_worked_numbers() -> None:  # C-05
    ids = ["192.168.0.1@1", "192.168.0.2@2", "192.168.0.3@3"]
    strategy = ConsistentHash()
    assert [[q.queue_id for q in strategy.allocate(me, queues(8), ids)] for me in ids] == [
        [0, 2, 5],
        [6],
        [1, 3, 4, 7],
    ]


def test_points_on_the_ring_are_those_of_java_clients() -> None:  # C-05
    assert md5_point("MessageQueue [topic=TopicTest, brokerName=broker-a, queueId=0]") == 1987926524
    assert md5_point("MessageQueue [topic=TopicTest, brokerName=broker-a, queueId=1]") == 4291349817
    assert md5_point("192.168.0.1@1-0") == 2325484510


class Rooms:
    """`room-name` for members, `room` for brokers."""

    def broker_room(self, queue: MessageQueue) -> str:
        return queue.broker_name

    def member_room(self, client_id: str) -> str:
        return client_id.partition("-")[0] if "-" in client_id else ""


def test_nearby_room_worked_numbers() -> None:  # C-05
    every = [queue for room in ("hz", "sh", "sz") for queue in queues(4, room)]
    ids = ["hz-c0", "hz-c1", "sh-c2"]
    strategy = NearbyRoom(Average(), Rooms())
    assert strategy.name == "MACHINE_ROOM_NEARBY-AVG"
    assert [[f"{q.broker_name}{q.queue_id}" for q in strategy.allocate(me, every, ids)] for me in ids] == [
        ["hz0", "hz1", "sz0", "sz1"],
        ["hz2", "hz3", "sz2"],
        ["sh0", "sh1", "sh2", "sh3", "sz3"],
    ]


def test_nearby_room_refuses_what_has_no_room() -> None:
    with pytest.raises(ClientError, match="machine room of 'nowhere'"):
        NearbyRoom(Average(), Rooms()).allocate("hz-c0", queues(2, "hz"), ["hz-c0", "nowhere"])


DIVIDING: list[AllocationStrategy] = [
    Average(),
    AverageByCircle(),
    ConsistentHash(),
    ByMachineRoom({"hz"}),
    NearbyRoom(AverageByCircle(), Rooms()),
]


@pytest.mark.parametrize("strategy", DIVIDING, ids=lambda strategy: strategy.name)
@given(queue_count=st.integers(1, 64), member_count=st.integers(1, 40))
def test_every_queue_has_one_owner(strategy: AllocationStrategy, queue_count: int, member_count: int) -> None:  # C-06
    every = queues(queue_count, "hz@a")
    ids = [f"hz-{number:03}" for number in range(member_count)]
    given_out = [queue for me in ids for queue in strategy.allocate(me, every, ids)]
    assert sorted(given_out) == every


@pytest.mark.parametrize("strategy", DIVIDING[:3], ids=lambda strategy: strategy.name)
def test_empty_arguments_are_errors_and_strangers_get_nothing(strategy: AllocationStrategy) -> None:  # C-05
    assert strategy.allocate("stranger", queues(4), members(2)) == []
    for me, every, ids, what in (
        ("", queues(1), members(1), "client id"),
        ("c000", [], members(1), "list of queues"),
        ("c000", queues(1), [], "list of members"),
    ):
        with pytest.raises(ClientError, match=what):
            strategy.allocate(me, every, ids)


def test_consistent_hash_moves_few_queues_when_a_member_leaves() -> None:  # C-05
    every, ids = queues(64), members(8)
    strategy = ConsistentHash()
    before = {queue: me for me in ids for queue in strategy.allocate(me, every, ids)}
    after = {queue: me for me in ids[:-1] for queue in strategy.allocate(me, every, ids[:-1])}
    assert all(after[queue] == owner for queue, owner in before.items() if owner != ids[-1])


def test_a_ring_needs_nodes() -> None:
    with pytest.raises(ClientError, match="virtual_nodes"):
        ConsistentHash(virtual_nodes=0)
