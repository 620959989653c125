"""Looks that wait: woken by what they wait for, within a bound."""

from array import array
from typing import cast

from pyromq.broker.consume.queuelooks import HeldLook, HeldRun, LookPark
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.remoting.connection import Connection
from pyromq.store.arrival import Arrived


class Line:
    """Stands for a connection."""

    def __init__(self) -> None:
        self.is_open = True
        self.answers: list[int] = []

    def send(self, answer: Command) -> None:
        self.answers.append(answer.code)


class News:
    """Stands for messages that arrived."""

    def __init__(self, topic: str, queue: int, end: int) -> None:
        self.topics = (topic,)
        self._ends = (((topic, queue), end),)

    def ends(self) -> tuple[tuple[tuple[str, int], int], ...]:
        return self._ends


def held(line: Line, *ends: int, first: int = 0, deadline: int = 100) -> HeldLook:
    runs = {"t": [HeldRun(first, array("q", ends))]}
    return HeldLook(Command.request(RequestCode.LOOK_AT_QUEUES), cast("Connection", line), deadline, runs)


def test_only_what_is_new_and_waited_for_wakes() -> None:
    park, line = LookPark(lambda: 0), Line()
    assert park.hold(held(line, 5, 7, first=2))
    for topic, queue, end in (("t", 2, 5), ("t", 3, 7), ("t", 1, 9), ("t", 4, 9), ("u", 2, 9)):
        park.heard(cast("Arrived", News(topic, queue, end)))
    assert line.answers == []
    park.heard(cast("Arrived", News("t", 3, 8)))
    assert (line.answers, len(park), list(park.topics)) == ([ResponseCode.SUCCESS], 0, [])


def test_time_runs_out() -> None:
    now = 0
    park, line = LookPark(lambda: now), Line()
    park.hold(held(line, 0, deadline=10))
    park.tick()
    assert len(park) == 1
    now = 10
    park.tick()
    assert line.answers == [ResponseCode.PULL_NOT_FOUND]


def test_all_of_them_wait_for_so_many_queues_at_most() -> None:
    park, line = LookPark(lambda: 0, capacity=5), Line()
    assert park.hold(held(line, 0, 0, 0))
    assert not park.hold(held(line, 0, 0, 0))
    assert park.refused == 1
    park.forget(cast("Connection", line))
    assert park.hold(held(line, 0, 0, 0, 0, 0))
