"""Questions to servers: asked again as often and as slowly as configured, and only where that can help."""

import pytest

from pyromq.client.errors import BrokerError
from pyromq.protocol.codes import ResponseCode
from pyromq.remoting.errors import ConnectionLost
from pyromq.spark.errors import RouteError
from pyromq.spark.net.patience import patiently


class Question:
    """Fails with each of the errors, then answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.pauses: list[float] = []

    def ask(self, retries: int = 6) -> str:
        return patiently(self._answer, retries=retries, sleep=self.pauses.append)

    def _answer(self) -> str:
        if self.errors:
            raise self.errors.pop(0)
        return "answer"


def test_what_passes_is_waited_for_with_growing_pauses() -> None:
    busy = BrokerError(ResponseCode.SYSTEM_BUSY, "busy", broker="broker-a", request="open")
    question = Question(ConnectionLost("gone"), RouteError("no route"), busy, ConnectionLost("gone"))
    assert question.ask() == "answer"
    assert question.pauses == pytest.approx([0.1, 0.2, 0.4, 0.8])


def test_the_last_try_tells_why() -> None:
    question = Question(*(ConnectionLost(f"gone {number}") for number in range(5)))
    with pytest.raises(ConnectionLost, match="gone 2"):
        question.ask(retries=2)
    assert len(question.pauses) == 2


def test_pauses_stop_growing() -> None:
    question = Question(*(ConnectionLost("gone") for _ in range(10)))
    assert question.ask(retries=100) == "answer"
    assert question.pauses[-1] == question.pauses[-2] == 5.0


def test_what_no_try_can_change_is_said_at_once() -> None:
    question = Question(BrokerError(ResponseCode.NO_PERMISSION, "fenced off", broker="broker-a", request="open"))
    with pytest.raises(BrokerError, match="fenced off"):
        question.ask()
    assert question.pauses == []


def test_there_are_more_tries_while_they_fit_the_time() -> None:
    now = 0.0
    tries = 0

    def ask() -> str:
        nonlocal tries
        tries += 1
        raise ConnectionLost(f"gone {tries}")

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    with pytest.raises(ConnectionLost, match="gone 5"):
        patiently(ask, retries=1, first=1.0, until=13.0, clock=lambda: now, sleep=sleep)
    assert now == 1 + 2 + 4 + 5  # the next pause would end behind it
