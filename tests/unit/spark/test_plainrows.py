"""Rows that are sent together make the messages, frames and errors that they make one by one."""

from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.protocol.bodies.offsets import WriterQueues
from pyromq.protocol.command import Command
from pyromq.protocol.handles.writer import PLACE, PLACE_FIELD
from pyromq.protocol.headers.send import OpenWriterResponseHeader, SendMessageV2Header
from pyromq.protocol.message import MessageQueue
from pyromq.protocol.names import MAX_BODY
from pyromq.protocol.properties import decode_properties
from pyromq.protocol.records.batch import iter_batch
from pyromq.spark.errors import RowError
from pyromq.spark.options import read_options
from pyromq.spark.sink import topic as topicmodule
from pyromq.spark.sink.lanes import Run
from pyromq.spark.sink.options import TopicSinkOptions
from pyromq.spark.sink.plainrows import are_plain
from pyromq.spark.sink.sink import Attempt
from pyromq.spark.sink.topic import Prepared, Sent, TopicSink
from pyromq.spark.sink.writabletopic import WritableTopic

QUEUES = [MessageQueue("t", "broker-a", number) for number in range(4)]


class Answering:
    """A wire whose broker stores everything."""

    def __init__(self, options: TopicSinkOptions) -> None:
        self.options = options
        self.sent: list[Command] = []
        self.heard = 0

    def send(self, _address: str, command: Command, _timeout: float) -> int:
        self.sent.append(command)
        return len(self.sent)

    def receive(self, _address: str, _timeout: float) -> Command:
        self.heard += 1
        return Command(code=0, opaque=self.heard)

    def call(self, _address: str, request: Command, _timeout: float) -> Command:
        """Opens lanes to queues that are empty."""
        header = OpenWriterResponseHeader(run=5)
        return request.reply(header=header, body=WriterQueues(ends=dict.fromkeys(range(4), 0)).encode())

    def close(self) -> None:
        pass


def frames(rows: list[pa.RecordBatch], *, together: bool, **options: str) -> tuple[list[Any], Sent]:
    """What is sent: for each frame its queue, and bodies and properties of its messages, without their ids."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topicmodule, "Wire", Answering)
        if not together:
            patch.setattr(topicmodule, "are_plain", lambda _schema: False)
        sink = TopicSink(read_options(TopicSinkOptions, {"nameServer": "a:1", "topic": "t", **options}))
        sink.prepared = Prepared(WritableTopic("t", QUEUES, {"broker-a": "a:2"}), run=Run({"broker-a": 5}))
        task: Any = sink.open(Attempt("query", 7, 2), rows[0].schema)
        for each in rows:
            task.write(each)
        done = Sent.decode(task.close())
    made, ids = [], []
    for command in task._wire.sent:
        messages = []
        for item in iter_batch(command.body):
            properties = decode_properties(item.properties)
            ids.append(properties["UNIQ_KEY"] if sink.once else properties.pop("UNIQ_KEY"))
            messages.append((item.flag, bytes(item.body), list(properties.items())))
        made.append((command.header(SendMessageV2Header).queue_id, command.ext.get(PLACE_FIELD), messages))
    assert len({len(each) for each in ids}) <= 1
    assert len(set(ids)) == len(ids) == done.rows
    return made, done


WORDS = st.none() | st.text(st.sampled_from("aß \x01"), max_size=4)


@given(
    st.lists(
        st.lists(st.tuples(st.binary(max_size=3) | st.binary(min_size=300, max_size=600), WORDS, WORDS), max_size=8),
        min_size=1,
        max_size=4,
    )
)
def test_frames_and_messages_are_the_same(batches: list[list[tuple[bytes, str | None, str | None]]]) -> None:
    schema = pa.schema([("keys", pa.string()), ("body", pa.binary()), ("tags", pa.string())])
    rows = [
        pa.record_batch([[row[1] for row in batch], [row[0] for row in batch], [row[2] for row in batch]], schema)
        for batch in batches
    ]
    for delivery in ("at-least-once", "exactly-once"):
        options = {"sendBatchBytes": "1024", "delivery": delivery}
        assert frames(rows, together=True, **options) == frames(rows, together=False, **options)


def test_rows_that_say_where_they_belong_are_sent_together_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topicmodule.TopicTask, "_send", lambda *_: pytest.fail("one by one"))
    rows = [pa.record_batch({"body": pa.array([b"a", b"b"], pa.binary())})] * 2
    made, done = frames(rows, together=True, delivery="exactly-once")
    assert done.rows == 4
    ((_, place, messages),) = made
    assert place == "5.2.0.2.0"
    assert [dict(properties)["PYROMQ_SEQ"] for _, _, properties in messages] == ["7.2.0", "7.2.1", "7.2.2", "7.2.3"]
    assert [dict(properties)[PLACE] for _, _, properties in messages] == [f"5.2.0.2.{row}" for row in range(4)]


@pytest.mark.parametrize("bad", [None, b"x" * (MAX_BODY + 1)], ids=["no body", "too large"])
def test_a_row_that_cannot_be_a_message_is_named(bad: bytes | None) -> None:
    rows = pa.record_batch({"body": pa.array([b"good", bad], pa.binary())})
    with pytest.raises(RowError) as together:
        frames([rows], together=True)
    with pytest.raises(RowError) as one_by_one:
        frames([rows], together=False)
    assert str(together.value) == str(one_by_one.value)


@pytest.mark.parametrize(
    ("columns", "plain"),
    [
        ({"body": pa.binary()}, True),
        ({"body": pa.string(), "tags": pa.string(), "keys": pa.string()}, True),
        ({"body": pa.large_binary()}, False),
        ({"body": pa.binary(), "keys": pa.list_(pa.string())}, False),
        ({"body": pa.binary(), "queueId": pa.int32()}, False),
        ({"tags": pa.string()}, False),
    ],
)
def test_which_columns_may_be_plain(columns: dict[str, pa.DataType], plain: bool) -> None:
    assert are_plain(pa.schema(list(columns.items()))) is plain
