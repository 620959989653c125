"""Which queues of a topic belong to which member of a group.

A strategy is a pure function of the sorted queues, the sorted members and the name of one of them. Every member
computes it for itself; that the results are disjoint and cover all queues rests on all of them using the same strategy
on the same lists.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from pyromq.client.errors import ClientError
from pyromq.protocol.message import MessageQueue


class AllocationStrategy(Protocol):
    """`name` is what heartbeats, assignments by the broker and tools call it."""

    @property
    def name(self) -> str: ...

    def allocate(self, me: str, queues: Sequence[MessageQueue], members: Sequence[str]) -> list[MessageQueue]:
        """My queues; none when I am not among the members. Raises ClientError for empty arguments."""


def check_arguments(me: str, queues: Sequence[MessageQueue], members: Sequence[str]) -> bool:
    """Whether there is something to divide for `me`. Raises ClientError when an argument is empty."""
    for value, what in ((me, "the client id"), (queues, "the list of queues"), (members, "the list of members")):
        if not value:
            raise ClientError(f"queues cannot be divided: {what} is empty")
    return me in members


class Average:
    """Neighbouring queues; the first members get one more when the numbers do not divide evenly."""

    name = "AVG"

    def allocate(self, me: str, queues: Sequence[MessageQueue], members: Sequence[str]) -> list[MessageQueue]:
        if not check_arguments(me, queues, members):
            return []
        base, extra = divmod(len(queues), len(members))
        index = members.index(me)
        start = index * base + min(index, extra)
        return list(queues[start : start + base + (1 if index < extra else 0)])


class AverageByCircle:
    """Every n-th queue for n members, so that the queues of one broker are spread."""

    name = "AVG_BY_CIRCLE"

    def allocate(self, me: str, queues: Sequence[MessageQueue], members: Sequence[str]) -> list[MessageQueue]:
        if not check_arguments(me, queues, members):
            return []
        return list(queues[members.index(me) :: len(members)])


class ByConfig:
    """The given queues, whoever else is there."""

    name = "CONFIG"

    def __init__(self, queues: Iterable[MessageQueue]) -> None:
        self.queues = list(queues)

    def allocate(self, me: str, queues: Sequence[MessageQueue], members: Sequence[str]) -> list[MessageQueue]:  # noqa: ARG002 - as all strategies
        return list(self.queues)


class ByMachineRoom:
    """Queues of brokers named `room@name` in the given rooms only, divided evenly; leftovers go one to each member."""

    name = "MACHINE_ROOM"

    def __init__(self, rooms: Iterable[str]) -> None:
        self.rooms = frozenset(rooms)

    def allocate(self, me: str, queues: Sequence[MessageQueue], members: Sequence[str]) -> list[MessageQueue]:
        if not check_arguments(me, queues, members):
            return []
        near = [queue for queue in queues if self._room(queue) in self.rooms]
        share, left_over = divmod(len(near), len(members))
        index = members.index(me)
        mine = near[index * share : (index + 1) * share]
        if index < left_over:
            mine.append(near[index + share * len(members)])
        return mine

    @staticmethod
    def _room(queue: MessageQueue) -> str | None:
        room, at, _ = queue.broker_name.partition("@")
        return room if at else None


def md5_point(key: str) -> int:
    """The place of a key on the ring of all Java clients: the first four bytes of its MD5."""
    return int.from_bytes(hashlib.md5(key.encode(), usedforsecurity=False).digest()[:4])


class ConsistentHash:
    """A ring of virtual nodes: few queues move when a member comes or goes."""

    name = "CONSISTENT_HASH"

    def __init__(self, virtual_nodes: int = 10, hash_function: Callable[[str], int] = md5_point) -> None:
        if virtual_nodes < 1:
            raise ClientError(f"virtual_nodes is {virtual_nodes}, but must be at least 1")
        self.virtual_nodes = virtual_nodes
        self.hash_function = hash_function

    def allocate(self, me: str, queues: Sequence[MessageQueue], members: Sequence[str]) -> list[MessageQueue]:
        if not check_arguments(me, queues, members):
            return []
        hashed = self.hash_function
        # On the rare meeting of two nodes the later member wins, as in a map that is filled in order.
        owners = {hashed(f"{member}-{node}"): member for member in members for node in range(self.virtual_nodes)}
        ring = sorted(owners)

        def owner(queue: MessageQueue) -> str:
            text = f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"
            return owners[ring[bisect_left(ring, hashed(text)) % len(ring)]]

        return [queue for queue in queues if owner(queue) == me]


class RoomResolver(Protocol):
    """Where brokers and members are; every answer must be a name."""

    def broker_room(self, queue: MessageQueue) -> str: ...

    def member_room(self, client_id: str) -> str: ...


class NearbyRoom:
    """Queues go to members of their own room, by the inner strategy; those of rooms without a member to everybody."""

    def __init__(self, inner: AllocationStrategy, rooms: RoomResolver) -> None:
        self.inner = inner
        self.rooms = rooms

    @property
    def name(self) -> str:
        return f"MACHINE_ROOM_NEARBY-{self.inner.name}"

    def allocate(self, me: str, queues: Sequence[MessageQueue], members: Sequence[str]) -> list[MessageQueue]:
        if not check_arguments(me, queues, members):
            return []
        by_room: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            by_room.setdefault(self._named(self.rooms.broker_room(queue), queue.broker_name), []).append(queue)
        neighbours: dict[str, list[str]] = {}
        for member in members:
            neighbours.setdefault(self._named(self.rooms.member_room(member), member), []).append(member)
        here = self.rooms.member_room(me)
        mine: list[MessageQueue] = []
        if near := by_room.get(here):
            mine += self.inner.allocate(me, near, neighbours[here])
        for room in sorted(by_room.keys() - neighbours.keys()):
            mine += self.inner.allocate(me, by_room[room], members)
        return mine

    @staticmethod
    def _named(room: str, what: str) -> str:
        if not room:
            raise ClientError(f"the machine room of {what!r} is not known")
        return room
