"""The topic sink against a real broker, driven as Spark drives it: prepare, tasks, commit, and repetitions of them."""

import itertools
import json
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
import pytest

from pyromq import Admin, Message, Producer
from pyromq.arrow.errors import ColumnError
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.message import ReceivedMessage
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.compression import decompress
from pyromq.remoting.errors import ConnectionLost
from pyromq.spark.errors import OptionError, RowError
from pyromq.spark.net.wire import Wire
from pyromq.spark.options import read_options
from pyromq.spark.sink import marks as marksmodule
from pyromq.spark.sink.marks import SEQUENCE, SOURCE, groups
from pyromq.spark.sink.messages import MessageShape
from pyromq.spark.sink.options import TopicSinkOptions
from pyromq.spark.sink.sender import RefusedError
from pyromq.spark.sink.sink import Attempt
from pyromq.spark.sink.topic import Sent, TopicSink
from pyromq.spark.sink.writabletopic import commit, committed, find_topic, max_offsets, messages_between
from tests.integration.client.clusters import standalone_beside

QUERY = "5d1c7a52-0000-4000-8000-000000000001"
Batch = list[list[str]]
_tasks = itertools.count(1)
"""Spark's tasks have numbers that ascend."""


def attempt_at(batch: int, partition: int, number: int = 0) -> Attempt:
    return Attempt(QUERY, batch, partition, number, next(_tasks))


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone_beside(tmp_path_factory.mktemp("sink")) as server:
        yield server.namesrv_address


@pytest.fixture
def topic(namesrv: str, request: pytest.FixtureRequest) -> str:
    name = str(request.node.name).replace("[", "_").replace("]", "")[:100]
    with Admin(namesrv=namesrv) as admin:
        admin.create_topic(name, queues=4)
        admin.wait_for_topic(name)
    return name


def options(namesrv: str, **more: str) -> TopicSinkOptions:
    return read_options(TopicSinkOptions, {"nameServer": namesrv, **more})


def once(namesrv: str, topic: str, **more: str) -> TopicSink:
    return TopicSink(options(namesrv, topic=topic, delivery="effectively-once", **more))


def arrow(bodies: list[str], **columns: list[object]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"body": pa.array(bodies, pa.string()), **columns})


def run(sink: TopicSink, number: int, partitions: Batch, *, finish: int | None = None, attempt: int = 0) -> list[bytes]:
    """The tasks of a batch; with `finish`, all after so many die with everything sent but nothing said."""
    messages = []
    for partition, bodies in enumerate(partitions):
        task = sink.open(attempt_at(number, partition, attempt), arrow(bodies).schema)
        task.write(arrow(bodies))
        message = task.close()
        if finish is None or partition < finish:
            messages.append(message)
    return messages


def stored(namesrv: str, topic: str) -> list[ReceivedMessage]:
    with Wire(options(namesrv)) as wire:
        target = find_topic(wire, topic)
        return [
            message
            for queue, end in max_offsets(wire, target).items()
            for message in messages_between(wire, target, queue, 0, end, "readers")
        ]


def bodies(namesrv: str, topic: str) -> Counter[str]:
    return Counter(inflated(message).decode() for message in stored(namesrv, topic))


def inflated(message: ReceivedMessage) -> bytes:
    """Bodies come as they are stored, because a sink looks at properties only."""
    compressed = message.sys_flag & sysflag.COMPRESSED
    return decompress(message.body, message.sys_flag) if compressed else message.body


def texts(batch: int, partition: int, count: int = 50) -> list[str]:
    return [f"{batch}.{partition}.{number}" for number in range(count)]


def test_columns_become_messages(namesrv: str, topic: str) -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "body": pa.array([b"one", b"two"], pa.binary()),
            "tags": ["paid", None],
            "keys": [["a", "b"], None],
            "properties": pa.array([[("shop", "x"), ("UNIQ_KEY", "stolen")], None], pa.map_(pa.string(), pa.string())),
            "queueId": pa.array([2, 3], pa.int32()),
            "flag": pa.array([7, None], pa.int32()),
        }
    )
    sink = TopicSink(options(namesrv, topic=topic))
    sink.prepare(QUERY)
    task = sink.open(attempt_at(0, 0), batch.schema)
    task.write(batch)
    assert Sent.decode(task.close()).rows == 2
    one, two = stored(namesrv, topic)
    assert (one.body, one.tags, list(one.keys), one.queue_id, one.flag) == (b"one", "paid", ["a", "b"], 2, 7)
    assert one.properties["shop"] == "x"
    assert one.properties["UNIQ_KEY"] != "stolen"
    assert (two.body, two.tags, two.queue_id) == (b"two", None, 3)


@pytest.mark.parametrize("compress", ["none", "lz4", "zstd", "zlib"])
def test_bodies_may_be_compressed(namesrv: str, topic: str, compress: str) -> None:
    sink = TopicSink(options(namesrv, topic=topic, compress=compress, sendBatchBytes="2048"))
    sink.prepare(QUERY)
    sent = [f"{number} " + "x" * 300 for number in range(100)]
    run(sink, 0, [sent])
    assert bodies(namesrv, topic) == Counter(sent)


def test_the_topic_may_be_a_column(namesrv: str, topic: str) -> None:
    sink = TopicSink(options(namesrv))
    batch = arrow(["a", "b"], topic=[topic, topic])
    sink.prepare(QUERY)
    task = sink.open(attempt_at(0, 0), batch.schema)
    task.write(batch)
    task.close()
    assert bodies(namesrv, topic) == Counter(["a", "b"])


def test_delayed_rows_are_sent_one_by_one(namesrv: str, topic: str) -> None:
    sink = TopicSink(options(namesrv, topic=topic))
    batch = arrow(["later"], delayLevel=[18])
    sink.prepare(QUERY)
    task = sink.open(attempt_at(0, 0), batch.schema)
    task.write(batch)
    task.close()
    assert not stored(namesrv, topic)


# SP-11
@pytest.mark.parametrize("finished", [0, 1])
def test_a_batch_that_was_cut_short_is_completed_not_repeated(namesrv: str, topic: str, finished: int) -> None:
    first = [texts(0, 0), texts(0, 1)]
    sink = once(namesrv, topic)
    sink.prepare(QUERY)
    run(sink, 0, first[: 1 + finished], finish=finished)  # and then the driver is gone

    again = once(namesrv, topic)
    again.prepare(QUERY)
    again.commit(QUERY, 0, run(again, 0, first))
    assert bodies(namesrv, topic) == Counter([text for part in first for text in part])
    assert {message.properties[SOURCE] for message in stored(namesrv, topic)} == {f"{QUERY}/topic"}
    assert len({message.properties["UNIQ_KEY"] for message in stored(namesrv, topic)}) == 100


# SP-11, SP-05: after the sink's commit, before Spark's
def test_a_committed_batch_that_runs_again_sends_nothing(namesrv: str, topic: str) -> None:
    for number in range(5):
        sink = once(namesrv, topic)
        sink.prepare(QUERY)
        sink.commit(QUERY, number, run(sink, number, [texts(number, 0), texts(number, 1)]))
        again = once(namesrv, topic)
        again.prepare(QUERY)
        messages = run(again, number, [texts(number, 0), texts(number, 1)])
        assert [Sent.decode(message).repeated for message in messages] == [50, 50]
        again.commit(QUERY, number, messages)
    assert bodies(namesrv, topic) == Counter(text for n in range(5) for p in range(2) for text in texts(n, p))


# SP-11
def test_a_second_attempt_finds_the_sends_of_the_first(namesrv: str, topic: str) -> None:
    sink = once(namesrv, topic)
    sink.prepare(QUERY)
    half = sink.open(attempt_at(0, 0), arrow([]).schema)
    half.write(arrow(texts(0, 0)[:25]))
    half.close()
    sink.commit(QUERY, 0, run(sink, 0, [texts(0, 0)], attempt=1))
    assert bodies(namesrv, topic) == Counter(texts(0, 0))


# SP-11
def test_a_task_that_was_given_up_is_fenced_off(namesrv: str, topic: str) -> None:
    sink = once(namesrv, topic, sendBatchBytes="1024")
    sink.prepare(QUERY)
    zombie = sink.open(attempt_at(0, 0), arrow([]).schema)
    zombie.write(arrow(texts(0, 0)[:25]))
    successor = sink.open(attempt_at(0, 0, 1), arrow([]).schema)
    successor.write(arrow(texts(0, 0)))
    message = successor.close()
    zombie.write(arrow(texts(0, 0)[25:]))
    with pytest.raises(RefusedError, match="fenced off"):
        zombie.close()
    zombie.abort()
    sink.commit(QUERY, 0, [message])
    assert bodies(namesrv, topic) == Counter(texts(0, 0))


# SP-11
def test_tasks_of_a_driver_that_was_replaced_are_fenced_off(namesrv: str, topic: str) -> None:
    old = once(namesrv, topic)
    old.prepare(QUERY)
    zombie = old.open(attempt_at(0, 0), arrow([]).schema)
    zombie.write(arrow(texts(0, 0)))
    new = once(namesrv, topic)
    new.prepare(QUERY)
    new.prepare(QUERY)  # Spark may plan a batch more than once
    with pytest.raises(RefusedError, match="fenced off"):
        zombie.close()
    zombie.abort()
    new.commit(QUERY, 0, run(new, 0, [texts(0, 0)]))
    assert bodies(namesrv, topic) == Counter(texts(0, 0))


# SP-11
def test_exactly_once_over_runs_and_attempts(namesrv: str, topic: str) -> None:
    for _ in range(2):  # the second is that of another driver, after a crash before the commit
        sink = TopicSink(options(namesrv, topic=topic, delivery="exactly-once", sendBatchBytes="1024"))
        sink.prepare(QUERY)
        run(sink, 0, [texts(0, 0)[:25], texts(0, 1)])
        messages = run(sink, 0, [texts(0, 0), texts(0, 1)], attempt=1)
    sink.commit(QUERY, 0, messages)
    assert [Sent.decode(message).repeated for message in messages] == [50, 50]
    assert bodies(namesrv, topic) == Counter(texts(0, 0) + texts(0, 1))


def test_marks_behind_the_end_of_a_queue_are_not_believed(namesrv: str, topic: str) -> None:
    # The queue was made anew, or lost its end in a power cut: the marks speak of offsets that come again.
    with Wire(options(namesrv)) as wire:
        target = find_topic(wire, topic)
        for group in groups(wire, QUERY, "topic"):
            commit(wire, target, group, dict.fromkeys(target.queues, 1000))
    for attempt in range(2):
        sink = once(namesrv, topic)
        sink.prepare(QUERY)
        messages = run(sink, 0, [texts(0, 0)], attempt=attempt)
    sink.commit(QUERY, 0, messages)
    assert bodies(namesrv, topic) == Counter(texts(0, 0))


# SP-11
def test_a_bounded_job_ends_its_run(namesrv: str, topic: str) -> None:
    sink = TopicSink(options(namesrv, topic=topic, delivery="exactly-once"), bounded=True)
    sink.prepare(QUERY)
    zombie = sink.open(attempt_at(0, 1), arrow([]).schema)
    zombie.write(arrow(texts(0, 1)))
    run(sink, 0, [texts(0, 0)[:25]])
    messages = run(sink, 0, [texts(0, 0)], attempt=1)
    sink.commit(QUERY, 0, messages)
    with pytest.raises(RefusedError, match="must begin a run first"):
        zombie.close()
    zombie.abort()
    assert bodies(namesrv, topic) == Counter(texts(0, 0))


def test_rows_with_a_key_are_known_wherever_they_come(namesrv: str, topic: str) -> None:
    sink = once(namesrv, topic)
    rows = arrow(["a", "b", "c"], idKey=["1", "2", "3"])
    for _ in range(2):
        sink.prepare(QUERY)
        task = sink.open(attempt_at(0, 0), rows.schema)
        task.write(rows.slice(0, 2))
        task.close()
    sink.prepare(QUERY)
    other = sink.open(attempt_at(0, 1), rows.schema)
    other.write(rows.take(pa.array([2, 1, 0])))
    other.close()
    assert bodies(namesrv, topic) == Counter(["a", "b", "c"])


def test_messages_of_others_on_the_topic_do_not_matter(namesrv: str, topic: str) -> None:
    with Producer("others", namesrv=namesrv) as producer:
        for number in range(20):
            producer.send(Message(topic, b"other", properties={SEQUENCE: f"0.0.{number}"}))
    sink = once(namesrv, topic)
    sink.prepare(QUERY)
    with Producer("others", namesrv=namesrv) as producer:
        producer.send(Message(topic, b"other"))
    run(sink, 0, [texts(0, 0)])
    again = once(namesrv, topic)
    again.prepare(QUERY)
    run(again, 0, [texts(0, 0)])
    assert bodies(namesrv, topic) == Counter(texts(0, 0)) + Counter({"other": 21})


def test_nothing_is_looked_at_on_a_topic_of_its_own(namesrv: str, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def looked(*_: object, **__: object) -> Iterator[ReceivedMessage]:
        raise AssertionError("pulled messages in the steady state")

    monkeypatch.setattr(marksmodule, "messages_between", looked)
    for number in range(6):
        sink = once(namesrv, topic)
        sink.prepare(QUERY)
        sink.commit(QUERY, number, run(sink, number, [texts(number, 0, 3), texts(number, 1, 3)]))


def test_marks_end_where_the_messages_end(namesrv: str, topic: str) -> None:
    for number in range(2):
        sink = once(namesrv, topic)
        sink.prepare(QUERY)
        sink.commit(QUERY, number, run(sink, number, [texts(number, 0, 3)]))
    with Wire(options(namesrv)) as wire:
        target = find_topic(wire, topic)
        even, odd = (committed(wire, target, name) for name in groups(wire, QUERY, "topic"))
    assert [even[target.queues[0]], odd[target.queues[0]]] == [3, 6]


@pytest.mark.parametrize("answered", [True, False])
def test_a_frame_whose_fate_is_unknown_is_looked_for(
    namesrv: str, topic: str, monkeypatch: pytest.MonkeyPatch, answered: bool
) -> None:
    sink = once(namesrv, topic, sendBatchBytes="1024")
    sink.prepare(QUERY)
    lost = 0
    send, receive = Wire.send, Wire.receive

    def broken_send(self: Wire, address: str, command: Command, timeout: float) -> int:
        nonlocal lost
        if command.code == 320 and lost == 0 and not answered:
            lost += 1
            self.disconnect(address)
            raise ConnectionLost("before it was sent")
        return send(self, address, command, timeout)

    def broken_receive(self: Wire, address: str, timeout: float) -> Command:
        nonlocal lost
        answer = receive(self, address, timeout)
        if lost == 0 and answer.code == ResponseCode.SUCCESS and answered and "queueOffset" in answer.ext:
            lost += 1
            self.disconnect(address)
            raise ConnectionLost("after it was stored")
        return answer

    monkeypatch.setattr(Wire, "send", broken_send)
    monkeypatch.setattr(Wire, "receive", broken_receive)
    run(sink, 0, [texts(0, 0, 200)])
    assert lost == 1
    assert bodies(namesrv, topic) == Counter(texts(0, 0, 200))


def test_rows_of_a_pipeline_become_json(namesrv: str, topic: str) -> None:
    sink = TopicSink(
        options(namesrv, topic=topic),
        name="clean",
        shape=MessageShape(keys=["id"], tags="shop", id=["id"], shard=["shop"]),
    )
    batch = pa.RecordBatch.from_pydict({"id": [1, 2], "shop": ["Berlin", None], "amount": [1.5, None]})
    sink.prepare(QUERY)
    task = sink.open(attempt_at(0, 0), batch.schema)
    task.write(batch)
    task.close()
    found = {tuple(message.keys): message for message in stored(namesrv, topic)}
    assert json.loads(found["1",].body) == {"id": 1, "shop": "Berlin", "amount": 1.5}
    assert found["1",].tags == "Berlin"
    assert found["2",].tags is None


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"tags": ["x"]}, "no column body"),
        ({"body": [1]}, "body must be string or binary"),
        ({"body": ["x"], "colour": ["red"]}, "'colour' means nothing"),
        ({"body": ["x"], "queueId": [1], "shardingKey": ["k"]}, "exclude each other"),
    ],
)
def test_columns_that_do_not_fit_are_named(columns: dict[str, list[object]], message: str) -> None:
    batch = pa.RecordBatch.from_pydict(columns)
    with pytest.raises(ColumnError, match=message):
        TopicSink(options("127.0.0.1:9876", topic="t")).open(attempt_at(0, 0), batch.schema)


def test_a_row_without_a_body_is_named(namesrv: str, topic: str) -> None:
    sink = TopicSink(options(namesrv, topic=topic))
    sink.prepare(QUERY)
    batch = pa.RecordBatch.from_pydict({"body": pa.array(["x", None], pa.string())})
    task = sink.open(Attempt(QUERY, 3, 1), batch.schema)
    with pytest.raises(RowError, match="batch 3, partition 1: row 1 has no body"):
        task.write(batch)
    task.abort()


def test_a_body_that_no_broker_takes_is_named(namesrv: str, topic: str) -> None:
    sink = TopicSink(options(namesrv, topic=topic))
    sink.prepare(QUERY)
    task = sink.open(attempt_at(0, 0), arrow([]).schema)
    with pytest.raises(RowError, match="row 0 has a body of 5242880 bytes"):
        task.write(arrow(["x" * (5 << 20)]))
    task.abort()


def test_what_a_broker_refuses_ends_the_task(namesrv: str, topic: str) -> None:
    sink = TopicSink(options(namesrv, topic=topic))
    sink.prepare(QUERY)
    with Admin(namesrv=namesrv) as admin:
        admin.create_topic(topic, queues=2)
    task = sink.open(attempt_at(0, 3), arrow([]).schema)
    task.write(arrow(["x"]))
    with pytest.raises(RefusedError, match="did not take 1 messages"):
        task.close()
    task.abort()


def test_effectively_once_needs_one_topic() -> None:
    with pytest.raises(OptionError, match="set the option topic"):
        options("127.0.0.1:9876", delivery="effectively-once")
