"""Messages that are not delivered as they come: in the order of their group, later, or when a transaction says so."""

import time

from pyromq.protocol.bodies.enums import RetryPolicyType
from pyromq.protocol.bodies.groups import ExponentialRetryPolicy, GroupRetryPolicy
from tests.interop.grpcdrivers import GrpcMessage, Told
from tests.interop.scenarios.grpc.messaging import letters
from tests.interop.scenarios.grpc.stage import Stage, bodies, refusal
from tests.interop.scenarios.stage import eventually

PRECISION = 1.0
"""Apache's timer rounds down to it."""
COUNT = 8
EXPONENTIAL = GroupRetryPolicy(
    type=RetryPolicyType.EXPONENTIAL, exponential_retry_policy=ExponentialRetryPolicy(initial=1000)
)
"""The only policy with which the client for Node.js tries again; that for Python has one of its own instead."""


def fifo(stage: Stage) -> None:
    topic = stage.topic("FIFO")
    told = stage.push(stage.group(orderly=True, policy=EXPONENTIAL), topic)
    producer = stage.producer(topic)
    for number in range(COUNT):
        for group in ("g1", "g2", "g3"):
            failures = {"failures": "1"} if (group, number) == ("g2", 3) else {}
            stage.send(producer, topic, f"{group}-{number}", group=group, properties=failures)
            if failures:
                _arrival(told, f"{group}-{number}")
    got = told.wait(3 * COUNT + 1)
    assert {each.group for each in got} == {"g1", "g2", "g3"}
    for group in ("g1", "g2", "g3"):
        assert [each for each in got if each.group == group] == sorted(
            (each for each in got if each.group == group), key=_number
        ), f"{group} is not in order: {bodies(got)}"
    assert bodies(got).count("g2-3") == 2


def _arrival(told: Told, body: str) -> None:
    """Wait for what will fail: the client for Go goes on within a batch, so only servers can hold it back."""
    eventually(f"{body} for the first time", lambda: body in bodies(told.messages))


def _number(message: GrpcMessage) -> int:
    return int(message.body.decode().rpartition("-")[2])


def fifo_dead_letter(stage: Stage) -> None:
    topic, group = stage.topic("FIFO", queues=1), stage.group(orderly=True, retries=1)
    told = stage.push(group, topic)
    producer = stage.producer(topic)
    stage.send(producer, topic, "poison", group="g", properties={"failures": "99"})
    _arrival(told, "poison")
    stage.send(producer, topic, "next", group="g")
    got = bodies(told.wait(3))
    assert got == ["poison", "poison", "next"], got
    assert letters(stage, group, 1) == ["poison"]


def delay(stage: Stage) -> None:
    topic = stage.topic("DELAY")
    told = stage.push(stage.group(), topic)
    due = time.time() + 4
    stage.send(stage.producer(topic), topic, "later", deliver_at=int(due * 1000))
    assert bodies(told.wait(1)) == ["later"]
    assert time.time() >= due - PRECISION


def recall(stage: Stage) -> None:
    topic = stage.topic("DELAY")
    producer = stage.producer(topic)
    told = stage.push(stage.group(), topic)
    due = int((time.time() + 6) * 1000)
    sent = stage.send(producer, topic, "recalled", deliver_at=due)
    stage.send(producer, topic, "kept", deliver_at=due + 2000)
    recalled = stage.driver.ask("recall", client=producer, topic=topic, handle=sent["recall"])
    assert recalled["id"] == sent["id"]
    with refusal():
        stage.driver.ask("recall", client=producer, topic=topic, handle="bm90IGEgaGFuZGxl")
    assert bodies(told.wait(1)) == ["kept"]


def transaction(stage: Stage) -> None:
    topic = stage.topic("TRANSACTION")
    producer = stage.producer(topic)
    told = stage.push(stage.group(), topic)
    for number in range(2):
        for outcome in ("rollback", "commit"):
            body = f"{outcome}{number}"
            stage.transact(producer, topic, body, outcome, tag="tag", properties={"outcome": outcome})
    # One may come twice: Apache's broker may ask before it has noted the end it was told.
    eventually("the committed messages", lambda: set(bodies(told.messages)) == {"commit0", "commit1"})


def check_back(stage: Stage) -> None:
    topic = stage.topic("TRANSACTION")
    producer = stage.producer(topic)
    told = stage.push(stage.group(), topic)
    for outcome in ("rollback", "commit"):
        stage.transact(producer, topic, outcome, "unknown", keys=["k"], properties={"outcome": outcome})
    checks = stage.driver.told(producer, "check")
    eventually("both check-backs", lambda: set(bodies(checks.messages)) == {"commit", "rollback"})
    assert {each.topic for each in checks.messages} == {topic}
    assert {tuple(each.keys) for each in checks.messages} == {("k",)}
    eventually("the committed message", lambda: "commit" in bodies(told.messages))
    assert set(bodies(told.messages)) == {"commit"}
