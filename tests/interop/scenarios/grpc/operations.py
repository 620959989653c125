"""Servers that go away and come back, and servers that ask who is there."""

import time
from collections.abc import Callable
from typing import TypeVar

from tests.interop.grpcdrivers import GrpcMessage, RefusedError
from tests.interop.scenarios.grpc.stage import Stage, bodies, refusal
from tests.interop.scenarios.stage import BOUND, eventually
from tests.interop.secured import ALICE, CAROL

T = TypeVar("T")
Scenario = Callable[[Stage], None]

UNAUTHORIZED = 40100


def _survives(stage: Stage, restart: Callable[[], None]) -> None:
    topic, group = stage.topic(), stage.group()
    producer = _patiently(lambda: stage.producer(topic))
    told = _patiently(lambda: stage.push(group, topic))
    _patiently(lambda: stage.send(producer, topic, "before"))
    told.wait(1)
    restart()
    wanted = {"before"}
    for number in range(5):
        body = f"after{number}"
        _patiently(lambda body=body: stage.send(producer, topic, body))  # type: ignore[misc]
        wanted.add(body)
    eventually("all messages", lambda: set(bodies(told.messages)) == wanted)


def _patiently(attempt: Callable[[], T]) -> T:
    """Try until it works: a client that has just lost its server may say so."""
    end = time.monotonic() + BOUND
    while True:
        try:
            return attempt()
        except RefusedError:
            if time.monotonic() > end:
                raise
        time.sleep(0.5)


def restart_broker(stage: Stage) -> None:
    _survives(stage, stage.gateway.restart_broker)


def restart_proxy(stage: Stage) -> None:
    _survives(stage, stage.gateway.restart_proxy)


def flow(stage: Stage, credentials: tuple[str, str] | None = None) -> None:
    """Messages get in and out."""
    topic = stage.topic()
    told = stage.push(stage.group(), topic, credentials=credentials)
    producer = stage.producer(topic, credentials=credentials)
    for number in range(3):
        stage.send(producer, topic, f"m{number}")
    told.wait(3)
    assert sorted(bodies(told.messages)) == ["m0", "m1", "m2"]
    consumer = stage.simple(stage.group(), topic, credentials=credentials)
    got: list[GrpcMessage] = stage.collect(consumer, 3)
    assert sorted(bodies(got)) == ["m0", "m1", "m2"]


def refused(stage: Stage, credentials: tuple[str, str] | None = None) -> None:
    """Neither a producer nor a consumer gets anywhere."""
    topic, group = stage.topic(), stage.group()
    with refusal(UNAUTHORIZED):
        stage.send(stage.producer(topic, credentials=credentials), topic, "forged")
    with refusal(UNAUTHORIZED):
        stage.receive(stage.simple(group, topic, credentials=credentials))


BY_CREDENTIALS: dict[str, Scenario] = {
    "rightCredentials": lambda stage: flow(stage, ALICE),
    "wrongCredentials": lambda stage: refused(stage, (ALICE[0], "wrong-secret-1")),
    "unknownUser": lambda stage: refused(stage, ("mallory", ALICE[1])),
    "disabledUser": lambda stage: refused(stage, CAROL),
    "missingCredentials": refused,
}
"""With servers that know their users."""
