"""The ways of sending."""

from pyromq import SendResult, SendStatus
from pyromq.protocol.records.compression import CompressionType
from tests.interop.scenarios.stage import BOUND, Stage, names


def sync(stage: Stage) -> None:
    producer = stage.producer()
    sent = [producer.send(stage.message(body)) for body in names("m", 50)]
    assert {result.status for result in sent} == {SendStatus.SEND_OK}
    assert len({result.offset_message_id for result in sent}) == 50
    inbox = stage.collect()
    got = inbox.wait(50)
    assert inbox.bodies == names("m", 50)
    assert {message.message_id for message in got} == {result.message_id for result in sent}


def asynchronous(stage: Stage) -> None:
    producer = stage.producer()
    producer.send(stage.message("m000"))
    told: list[SendResult | None] = []
    futures = [
        producer.send_async(stage.message(body), lambda result, _error: told.append(result))
        for body in names("m", 100)[1:]
    ]
    assert {future.result(BOUND).status for future in futures} == {SendStatus.SEND_OK}
    inbox = stage.collect()
    inbox.wait(100)
    assert inbox.bodies == names("m", 100)
    assert len(told) == 99
    assert None not in told


def oneway(stage: Stage) -> None:
    producer = stage.producer()
    producer.send(stage.message("m000"))
    for body in names("m", 20)[1:]:
        producer.send_oneway(stage.message(body))
    inbox = stage.collect()
    inbox.wait(20)
    assert inbox.bodies == names("m", 20)


def batch(stage: Stage) -> None:
    producer = stage.producer()
    result = producer.send([stage.message(body, tags="tag", keys=f"k-{body.decode()}") for body in names("m", 30)])
    assert result.status is SendStatus.SEND_OK
    assert len(result.offset_message_id.split(",")) == 30
    inbox = stage.collect(tags="tag")
    got = inbox.wait(30)
    assert inbox.bodies == names("m", 30)
    assert len({message.message_id for message in got}) == 30
    assert all(message.keys == (f"k-{message.body.decode()}",) for message in got)


def selector(stage: Stage) -> None:
    producer = stage.producer()
    for number in range(40):
        result = producer.send(
            stage.message(f"m{number}"), selector=lambda queues, _message, arg: queues[arg], arg=number % 3
        )
        assert result.queue.queue_id == number % 3
    stage.collect().wait(40)


def queue(stage: Stage) -> None:
    producer = stage.producer()
    first = producer.send(stage.message("m000"))
    for number, body in enumerate(names("m", 10)[1:], start=1):
        assert producer.send(stage.message(body), queue=first.queue).queue_offset == first.queue_offset + number


def compression(stage: Stage) -> None:
    body = b"compress me " * 1000
    for kind in (CompressionType.ZLIB, CompressionType.LZ4, CompressionType.ZSTD):
        stage.producer(compress_type=kind).send(stage.message(body))
    for message in stage.collect().wait(3):
        assert message.body == body
        assert message.store_size < len(body)


def properties(stage: Stage) -> None:
    message = stage.message("m", flag=42, keys=["k1", "k2"], properties={"a": "1", "unicode": "äöü中文😀"})
    stage.producer().send(message)
    (received,) = stage.collect().wait(1)
    assert received.get_property("a") == "1"
    assert received.get_property("unicode") == "äöü中文😀"
    assert (received.flag, received.keys) == (42, ("k1", "k2"))


def large(stage: Stage) -> None:
    body = bytes(number * 31 & 0xFF for number in range(4 << 20))
    stage.producer(compress_over=1 << 30, send_timeout=30.0).send(stage.message(body))
    (received,) = stage.collect().wait(1)
    assert received.body == body


def namespace(stage: Stage) -> None:
    stage.producer(namespace="NS").send(stage.message("m000"))
    (received,) = stage.collect(f"NS%{stage.topic}").wait(1)
    assert received.instance_id == "NS"
