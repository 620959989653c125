"""Servers that ask who is there, and wires that nobody reads."""

from collections.abc import Callable
from typing import Any

import pytest

from pyromq import ClientError, ConsumeFromWhere, Producer, PushConsumer
from pyromq.remoting.errors import RemotingError
from tests.interop.scenarios.stage import Inbox, Stage, names
from tests.interop.secured import ALICE, CAROL

Scenario = Callable[[Stage], None]


def flow(**options: Any) -> Scenario:
    """Messages get in and out with these options."""

    def run(stage: Stage) -> None:
        producer: Producer = stage.enter(Producer(stage.unique("P"), send_timeout=30.0, **stage.options(), **options))
        for body in names("m", 10):
            producer.send(stage.message(body))
        inbox = Inbox()
        first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
        consumer = PushConsumer(stage.group, consume_from=first, **stage.options(), **options)
        consumer.subscribe(stage.topic)
        consumer.listen(inbox.put)
        stage.enter(consumer)
        inbox.wait(10)
        assert inbox.bodies == names("m", 10)

    return run


def refused(**options: Any) -> Scenario:
    """Nothing gets in with these options."""

    def run(stage: Stage) -> None:
        with (
            pytest.raises((ClientError, RemotingError)),
            Producer(stage.unique("P"), **stage.options(), retries=0, **options) as producer,
        ):
            producer.send(stage.message("forged"))

    return run


def credentials(access_key: str, secret_key: str) -> dict[str, Any]:
    return {"access_key": access_key, "secret_key": secret_key}


BY_CREDENTIALS: dict[str, Scenario] = {
    "rightCredentials": flow(**credentials(*ALICE)),
    "wrongCredentials": refused(**credentials(ALICE[0], "wrong-secret-1")),
    "unknownUser": refused(**credentials("mallory", ALICE[1])),
    "disabledUser": refused(**credentials(*CAROL)),
    "missingCredentials": refused(),
}
