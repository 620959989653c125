"""Acknowledgements that arrive together on a connection: fewer records, the same effect and an answer each."""

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.frame import FrameReader
from pyromq.remoting.connection import Connection
from pyromq.remoting.handler import Grouped
from tests.unit.broker.clock import FakeClock
from tests.unit.broker.pop.speaking import INVISIBLE, Popped, ack_header
from tests.unit.broker.pop.world import FakeConnection, PopWorld


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PopWorld]:
    world = PopWorld(tmp_path / "store", FakeClock(), queues=2)
    yield world
    world.close()


def together(world: PopWorld, popped: list[Popped], *, oneway: int = -1) -> list[Command] | None:
    """The answers to all of them; None when they must be served one by one."""
    handler = world._handlers[RequestCode.ACK_MESSAGE]
    assert isinstance(handler, Grouped)
    assert handler.many is not None
    requests = [
        Command.request(RequestCode.ACK_MESSAGE, ack_header(each), opaque=number, oneway=number == oneway)
        for number, each in enumerate(popped)
    ]
    answers = handler.many(requests, cast("Connection", FakeConnection()))
    if answers is None:
        return None
    assert isinstance(answers, bytes)
    return FrameReader().feed(answers)


def test_acks_of_one_pop_become_one_record(world: PopWorld) -> None:
    world.send("a", "b", "c", "d")
    world.send("e", "f", queue=1)
    popped = world.pop(queue=0) + world.pop(queue=1)
    before = world.store.stats.put_count
    answers = together(world, popped[1:])
    assert answers is not None
    assert [(answer.opaque, answer.code) for answer in answers] == [(number, 0) for number in range(5)]
    assert world.store.stats.put_count - before == 2
    world.run(INVISIBLE + 3_000)
    assert [each.body for each in world.pop()] == [b"a"]


def test_an_ack_twice_is_one(world: PopWorld) -> None:
    world.send("a", "b")
    popped = world.pop()
    answers = together(world, [popped[0], popped[0], popped[0]], oneway=1)
    assert answers is not None
    assert [answer.opaque for answer in answers] == [0, 2]
    world.run(INVISIBLE + 3_000)
    assert [each.body for each in world.pop()] == [b"b"]


def test_one_that_is_refused_leaves_all_to_be_served_one_by_one(world: PopWorld) -> None:
    world.send("a")
    (popped,) = world.pop()
    before = world.store.stats.put_count
    wrong = Popped(popped.message, popped.group, popped.handle)
    wrong.message.queue_offset = 99
    assert together(world, [popped, wrong]) is None
    assert world.store.stats.put_count == before


def test_what_cannot_be_stored_is_said_to_each(world: PopWorld) -> None:
    world.send("a", "b")
    popped = world.pop()
    world.store._appender.stop()
    answers = together(world, popped)
    assert answers is not None
    world.store._appender.start()
    assert [answer.code for answer in answers] == [ResponseCode.SERVICE_NOT_AVAILABLE] * 2
