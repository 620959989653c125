"""The ways of consuming."""

import time

import pytest

from pyromq import ClientError, ConsumeFromWhere, MessageModel, PullConsumer, ReceivedMessage
from pyromq.protocol.bodies.enums import MessageRequestMode
from tests.interop.scenarios.stage import BOUND, Inbox, Stage, eventually, names


def tags(stage: Stage) -> None:
    producer = stage.producer()
    for tag in ("a", "b", "c", "a", "", "b"):
        producer.send(stage.message(tag or "none", tags=tag))
    some = stage.collect(tags="a || b", group=stage.unique("G"))
    every = stage.collect(group=stage.unique("G"))
    some.wait(4)
    every.wait(6)
    assert some.bodies == [b"a", b"a", b"b", b"b"]
    assert every.bodies == [b"a", b"a", b"b", b"b", b"c", b"none"]


def sql92(stage: Stage) -> None:
    producer = stage.producer()
    for number in range(10):
        extra = {"region": "hang'zhou"} if number > 7 else {}
        tag = "odd" if number % 2 else "even"
        producer.send(stage.message(f"m{number:03}", tags=tag, properties={"n": str(number)} | extra))
    inbox = stage.collect(sql="(n BETWEEN 2 AND 5 AND TAGS = 'even') OR region = 'hang''zhou' AND n IS NOT NULL")
    inbox.wait(4)
    assert inbox.bodies == [b"m002", b"m004", b"m008", b"m009"]
    broken = stage.consumer(stage.unique("G"))
    broken.subscribe(stage.topic, sql="n > > 3")
    broken.listen(lambda _message: None)
    with pytest.raises(ClientError):
        broken.start()
    broken.close()


def concurrent(stage: Stage) -> None:
    producer = stage.producer()
    for body in names("m", 200):
        producer.send(stage.message(body))
    inbox = stage.collect()
    inbox.wait(200)
    assert inbox.bodies == names("m", 200)


def orderly(stage: Stage) -> None:
    producer = stage.producer()
    for number in range(60):
        producer.send(
            stage.message(f"m{number:03}"), selector=lambda queues, _message, arg: queues[arg], arg=number % 3
        )
    inbox = Inbox()
    attempts = 0
    consumer = stage.consumer(suspend_time=0.1)
    consumer.subscribe(stage.topic)

    @consumer.listen(orderly=True)
    def handle(message: ReceivedMessage) -> bool:
        nonlocal attempts
        if message.body == b"m010":
            attempts += 1
            if attempts < 3:
                return False
        inbox.put(message)
        return True

    stage.enter(consumer)
    got = inbox.wait(60)
    for queue_id in range(3):
        mine = [message.body for message in got if message.queue_id == queue_id]
        assert mine == sorted(mine)
        assert len(mine) == 20
    assert attempts == 3


def broadcast(stage: Stage) -> None:
    producer = stage.producer()
    producer.send(stage.message("m000"))
    inboxes = (Inbox(), Inbox())
    for inbox in inboxes:
        consumer = stage.consumer(model=MessageModel.BROADCASTING)
        consumer.subscribe(stage.topic)
        consumer.listen(inbox.put)
        stage.enter(consumer)
    for body in names("m", 20)[1:]:
        producer.send(stage.message(body))
    for inbox in inboxes:
        inbox.wait(20)
        assert inbox.bodies == names("m", 20)


def lite_pull(stage: Stage) -> None:
    producer = stage.producer()
    for body in names("m", 50):
        producer.send(stage.message(body))
    first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    consumer: PullConsumer = stage.enter(PullConsumer(stage.group, consume_from=first, **stage.options()))
    consumer.subscribe(stage.topic)
    got = poll(consumer, 50)
    assert sorted(message.body for message in got) == names("m", 50)
    consumer.commit()
    assert sum(consumer.committed(queue) or 0 for queue in consumer.assignment()) == 50


def lite_pull_assign(stage: Stage) -> None:
    producer = stage.producer()
    target = producer.send(stage.message("m000")).queue
    for body in names("m", 20)[1:]:
        producer.send(stage.message(body), queue=target)
    consumer: PullConsumer = stage.enter(PullConsumer(stage.group, auto_commit=False, **stage.options()))
    consumer.assign([target])
    consumer.seek(target, 15)
    assert [message.body for message in poll(consumer, 5)] == names("m", 20)[15:]
    assert consumer.queries.search_offset(target, 0) == 0


def poll(consumer: PullConsumer, count: int) -> list[ReceivedMessage]:
    """Poll until there are so many, or nothing comes any more."""
    got: list[ReceivedMessage] = []
    end = time.monotonic() + BOUND
    while len(got) < count and time.monotonic() < end:
        got += consumer.poll(1.0)
    return got


def sharing(stage: Stage) -> None:
    """Two members share the queues, and one takes over all of them when the other leaves."""
    producer = stage.producer()
    producer.send(stage.message("m000"))
    inboxes = (Inbox(), Inbox())
    members = []
    for inbox in inboxes:
        consumer = stage.consumer()
        consumer.subscribe(stage.topic)
        consumer.listen(inbox.put)
        members.append(stage.enter(consumer))
    eventually(
        "both members to own queues",
        lambda: all(len([one for one in member.assignment() if one.topic == stage.topic]) == 2 for member in members),
    )
    for body in names("m", 41)[1:]:
        producer.send(stage.message(body))
    eventually("all messages", lambda: sum(len(inbox.messages) for inbox in inboxes) >= 41)
    assert all(len(inbox.messages) > 5 for inbox in inboxes)
    members[0].close()
    before = len(inboxes[1].messages)
    for body in names("n", 20):
        producer.send(stage.message(body))
    inboxes[1].wait(before + 20)


def pop(stage: Stage) -> None:
    """Two members to whom the broker hands out messages instead of queues; one that fails comes again."""
    producer = stage.producer()
    for body in names("m", 60):
        producer.send(stage.message(body, tags="tag"))
    admin = stage.admin()
    admin.create_group(stage.group)
    admin.set_request_mode(stage.group, stage.topic, MessageRequestMode.POP, share_queues=-1)
    inbox, failed = Inbox(), Inbox()

    def listener(message: ReceivedMessage) -> bool:
        works = message.body != b"m007" or message.reconsume_times > 0
        (inbox if works else failed).put(message)
        return works

    for _ in range(2):
        consumer = stage.consumer(client_rebalance=False)
        consumer.subscribe(stage.topic, "tag || other")
        consumer.listen(listener)
        stage.enter(consumer)
    inbox.wait(59)
    producer.send(stage.message("late", tags="other"))
    inbox.wait(61)
    assert inbox.bodies == [b"late", *names("m", 60)]
    assert all("POP_CK" in message.properties for message in inbox.messages)
    assert len(failed.messages) == 1
    (again,) = (message for message in inbox.messages if message.body == b"m007")
    assert (again.reconsume_times, again.topic) == (1, stage.topic)
