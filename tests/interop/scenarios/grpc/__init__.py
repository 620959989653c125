"""The scenarios of gRPC clients, by the names that rows of the matrix have; one set for all libraries and servers."""

import time
import traceback
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.interop.drivers import Outcome
from tests.interop.grpcdrivers import GrpcDriver
from tests.interop.grpcservers import Gateway
from tests.interop.scenarios.grpc import delivery, messaging, operations
from tests.interop.scenarios.grpc.operations import BY_CREDENTIALS, Scenario
from tests.interop.scenarios.grpc.stage import stage

BY_NAME: dict[str, Scenario] = {
    "normal": messaging.normal,
    "push": messaging.push,
    "simple": messaging.simple,
    "pushRetry": messaging.retry,
    "pushDeadLetter": messaging.dead_letter,
    "leaving": messaging.sharing,
    "tagFilter": messaging.tags,
    "sqlFilter": messaging.sql92,
    "fifo": delivery.fifo,
    "fifoDeadLetter": delivery.fifo_dead_letter,
    "delay": delivery.delay,
    "recall": delivery.recall,
    "transactionEnd": delivery.transaction,
    "checkBack": delivery.check_back,
    "typeConflict": messaging.type_conflict,
    "unknownTopic": messaging.unknown_topic,
    "restartBroker": operations.restart_broker,
    "restartProxy": operations.restart_proxy,
}

DISTURBING = ("restartBroker", "restartProxy")
"""They restart servers, which no other scenario should have to live with."""


def play(
    gateway: Gateway, driver: GrpcDriver, names: Iterable[str], scenarios: Mapping[str, Scenario] = BY_NAME
) -> dict[str, Outcome]:
    """How scenarios went; those that only wait most of the time run beside each other."""

    def outcome(name: str) -> Outcome:
        began = time.monotonic()
        fault = ""
        try:
            with stage(gateway, driver, name) as here:
                scenarios[name](here)
        except (Exception, pytest.fail.Exception) as raised:  # noqa: BLE001 - whatever it is, it is the outcome
            fault = f"{type(raised).__name__}: {raised} at {traceback.extract_tb(raised.__traceback__)[-1].line}"
        return Outcome(not fault, fault, time.monotonic() - began)

    wanted = list(names)
    calm = [name for name in wanted if name not in DISTURBING]
    with ThreadPoolExecutor(max(1, len(calm))) as pool:
        outcomes = dict(zip(calm, pool.map(outcome, calm), strict=True))
    return outcomes | {name: outcome(name) for name in wanted if name in DISTURBING}


__all__ = ["BY_CREDENTIALS", "BY_NAME", "play"]
