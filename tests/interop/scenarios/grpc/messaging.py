"""Messages get in and out: by each kind of consumer, filtered, and refused where they do not belong."""

import time

from pyromq.protocol.names import dlq_topic
from tests.interop.scenarios.grpc.stage import Stage, bodies, refusal
from tests.interop.scenarios.stage import eventually

MEGABYTE = bytes(range(256)) * 4096
MESSAGE_PROPERTY_CONFLICT_WITH_TYPE = 40014
TOPIC_NOT_FOUND = 40402


def normal(stage: Stage) -> None:
    topic = stage.topic()
    producer = stage.producer(topic)
    properties = {"a": "1", "unicode": "äöü中文😀"}
    sent = stage.send(producer, topic, MEGABYTE, tag="tag", keys=["k1", "k2"], properties=properties)
    (received,) = stage.collect(stage.simple(stage.group(), topic), 1)
    assert received.id == sent["id"]
    assert received.topic == topic
    assert received.body == MEGABYTE
    assert received.tag == "tag"
    assert sorted(received.keys) == ["k1", "k2"]
    assert properties.items() <= received.properties.items()
    assert received.attempt == 1


def push(stage: Stage) -> None:
    topic = stage.topic()
    told = stage.push(stage.group(), topic)
    producer = stage.producer(topic)
    sent = {stage.send(producer, topic, f"m{number}")["id"] for number in range(40)}
    got = told.wait(40)
    assert {each.id for each in got} == sent
    assert sorted(bodies(got)) == sorted(f"m{number}" for number in range(40))


def simple(stage: Stage) -> None:
    topic = stage.topic()
    producer = stage.producer(topic)
    consumer = stage.simple(stage.group(), topic)
    for body in ("acked", "hidden"):
        stage.send(producer, topic, body)
    first = {each.body.decode(): each for each in stage.receive(consumer, 2)}
    assert {each.attempt for each in first.values()} == {1}
    stage.driver.ask("ack", client=consumer, message=first["acked"].id)
    began = time.monotonic()
    stage.driver.ask("hide", client=consumer, message=first["hidden"].id, seconds=2)
    (again,) = stage.collect(consumer, 1)
    assert time.monotonic() - began >= 1, "not before its time"
    assert (again.id, again.attempt) == (first["hidden"].id, 2)


def retry(stage: Stage) -> None:
    topic = stage.topic()
    told = stage.push(stage.group(), topic)
    stage.send(stage.producer(topic), topic, "fails once", properties={"failures": "1"})
    first, second = told.wait(2)
    assert first.id == second.id
    assert (first.attempt, second.attempt) == (1, 2)


def dead_letter(stage: Stage) -> None:
    topic, group = stage.topic(), stage.group(retries=1)
    told = stage.push(group, topic)
    stage.send(stage.producer(topic), topic, "poison", properties={"failures": "99"})
    assert letters(stage, group, 1) == ["poison"]
    assert len(told.messages) == 2


def letters(stage: Stage, group: str, count: int) -> list[str]:
    """The bodies of the dead letters of a group, once there are so many."""

    def found() -> list[str]:
        try:
            return [each.body.decode() for each in stage.admin.messages(dlq_topic(group))]
        except Exception:  # noqa: BLE001 - nobody died yet
            return []

    return eventually("dead letters", lambda: found() if len(found()) >= count else None)


def sharing(stage: Stage) -> None:
    topic, group = stage.topic(), stage.group()
    leaving = stage.pusher(group, topic)
    producer = stage.producer(topic)
    stage.send(producer, topic, "before")
    stage.driver.told(leaving).wait(1)
    stage.driver.ask("close", client=leaving)
    staying = stage.push(group, topic)
    stage.send(producer, topic, "after")
    assert bodies(staying.wait(1)) == ["after"]
    stage.driver.ask("close", client=producer)


def tags(stage: Stage) -> None:
    topic = stage.topic()
    producer = stage.producer(topic)
    told = stage.push(stage.group(), topic, tag="red || blue")
    for tag in ("red", "green", "blue", None, "red"):
        stage.send(producer, topic, str(tag), tag=tag)
    assert sorted(bodies(told.wait(3))) == ["blue", "red", "red"]


def sql92(stage: Stage) -> None:
    topic = stage.topic()
    producer = stage.producer(topic)
    told = stage.push(stage.group(), topic, sql="price > 10 AND TAGS = 'book'")
    for price, tag in ((5, "book"), (20, "book"), (20, "pen"), (11, "book")):
        stage.send(producer, topic, f"{tag} {price}", tag=tag, properties={"price": str(price)})
    assert sorted(bodies(told.wait(2))) == ["book 11", "book 20"]


def type_conflict(stage: Stage) -> None:
    topic = stage.topic("FIFO")
    producer = stage.producer(topic)
    with refusal(MESSAGE_PROPERTY_CONFLICT_WITH_TYPE):
        stage.send(producer, topic, "of no group")
    assert stage.send(producer, topic, "of a group", group="g")["id"]


def unknown_topic(stage: Stage) -> None:
    producer = stage.producer(stage.topic())
    with refusal(TOPIC_NOT_FOUND):
        stage.send(producer, stage.unique("T"), "to nowhere")
