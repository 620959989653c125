"""Topics as Arrow columns without Spark: bounds, filters, JSON bodies, several brokers, for threads and for asyncio."""

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
import pytest

from pyromq import ClientError, Message, MessageQueue, Producer, PullConsumer, aio
from pyromq.client.consumer.scan.ranges import QueueRange, slices
from tests.integration.client.clusters import asyncio_test, cluster, standalone_beside

COUNT = 3000
Q0 = MessageQueue("T", "broker-a", 0)
BODY = pa.schema([("id", pa.int64()), ("name", pa.string())])


def message(number: int) -> Message:
    body = json.dumps({"id": number, "name": f"n{number}"}).encode()
    return Message("T", body, tags="even" if number % 2 == 0 else "odd", keys=[f"k{number}"])


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone_beside(tmp_path_factory.mktemp("arrow")) as server:
        address = server.namesrv_address
        with Producer("PG", namesrv=address, default_topic_queues=2) as producer:
            for first in range(0, COUNT, 500):
                producer.send([message(number) for number in range(first, first + 500)])
            producer.send(Message("U", b"no JSON"))
        yield address


@pytest.fixture(scope="module")
def consumer(namesrv: str) -> Iterator[PullConsumer]:
    with PullConsumer("CG", namesrv=namesrv) as found:
        yield found


def ids(table: Any) -> list[int]:
    return sorted(json.loads(body)["id"] for body in table["body"].to_pylist())


def test_all_of_a_topic(consumer: PullConsumer) -> None:
    reader = consumer.arrow("T")
    assert isinstance(reader, pa.RecordBatchReader)
    table = reader.read_all()
    assert ids(table) == list(range(COUNT))
    assert set(table["topic"].to_pylist()) == {"T"}
    rows = list(zip(table["queueId"].to_pylist(), table["queueOffset"].to_pylist(), strict=True))
    for queue in (0, 1):
        offsets = [offset for each, offset in rows if each == queue]
        assert offsets == list(range(len(offsets)))
    assert consumer.assignment() == set()
    assert not consumer.committed(Q0)  # a broker says 0 of a young queue


def test_batches_come_in_the_wanted_size(consumer: PullConsumer) -> None:
    batches = list(consumer.arrow("T", columns=["queueOffset"], batch_rows=500, in_flight=2))
    assert sum(map(len, batches)) == COUNT
    assert len(batches) > 2
    assert all(batch.schema == pa.schema([("queueOffset", pa.int64())]) for batch in batches)


def test_offsets_times_and_queues(consumer: PullConsumer) -> None:
    def count(**options: Any) -> int:
        return len(consumer.arrow("T", columns=["queueOffset"], **options).read_all())

    high = consumer.queries.max_offset(Q0)
    assert count(queues=[Q0]) == high
    assert count(queues=[Q0], start={Q0: 100}, end={Q0: 130}) == 30
    assert count(start={Q0: high - 5}, queues=[Q0], end={Q0: high + 50}) == 5
    assert count(start=datetime(2000, 1, 1, tzinfo=UTC)) == COUNT
    assert count(end=datetime(2000, 1, 1)) == 0  # noqa: DTZ001 - without a zone it is UTC
    (stored,) = consumer.arrow("T", columns=["storeTimestamp"], queues=[Q0], start={Q0: 7}, end={Q0: 8})
    assert count(queues=[Q0], start=stored["storeTimestamp"][0].as_py()) >= high - 7


def test_filters(consumer: PullConsumer) -> None:
    even = consumer.arrow("T", tags="even").read_all()
    assert ids(even) == list(range(0, COUNT, 2))
    assert ids(consumer.arrow("T", sql="TAGS = 'odd'").read_all()) == list(range(1, COUNT, 2))


def test_fields_of_bodies(consumer: PullConsumer) -> None:
    table = consumer.arrow("T", columns=["keys"], body_schema=BODY).read_all()
    assert table.schema == pa.schema([("keys", pa.string()), *BODY])
    assert sorted(table["id"].to_pylist()) == list(range(COUNT))
    assert all(row["name"] == f"n{row['id']}" for row in table.to_pylist())
    with pytest.raises(ClientError, match="is not what bodySchema says"):
        consumer.arrow("U", body_schema=BODY).read_all()
    kept = consumer.arrow("U", columns=[], body_schema=BODY, bad_records="keep").read_all()
    assert kept["_body"].to_pylist() == [b"no JSON"]
    assert consumer.arrow("U", body_schema=BODY, bad_records="drop").read_all().num_rows == 0


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"columns": ["colour"]}, "there is no column 'colour'"),
        ({"body_schema": pa.schema([("queueId", pa.int32())])}, "leave it out of"),
        ({"bad_records": "forget"}, "forget"),
        ({"batch_rows": 0}, "at least one row"),
        ({"queues": [MessageQueue("T", "broker-a", 77)]}, "no queue broker-a 77"),
        ({"start": {MessageQueue("T", "broker-z", 0): 1}}, "none of the queues"),
        ({"start": {Q0: -1}}, "is gone"),
        ({"tags": "a", "sql": "b = 1"}, "tags"),
    ],
)
def test_what_cannot_be_is_said(consumer: PullConsumer, options: Any, reason: str) -> None:
    with pytest.raises(ClientError, match=reason):
        consumer.arrow("T", **options).read_all()


def test_without_pyarrow_the_extra_is_named(consumer: PullConsumer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "pyromq.client.consumer.scan.scan")
    with pytest.raises(ClientError, match=r"need pyarrow: pip install 'pyromq\[arrow\]'"):
        consumer.arrow("T")


def test_a_read_that_is_left_leaves_the_consumer_usable(consumer: PullConsumer) -> None:
    reader = consumer.arrow("T", columns=["queueOffset"], batch_rows=100)
    assert len(next(iter(reader))) > 0
    del reader
    assert consumer.arrow("T", columns=["queueOffset"]).read_all().num_rows == COUNT


@asyncio_test
async def test_several_brokers_for_asyncio(tmp_path: Path) -> None:
    async with cluster(tmp_path) as brokers:
        async with aio.Producer("PG", namesrv=brokers.namesrv) as producer:
            await producer.create_topic("TBW102", "T", 2)
            await brokers.routed("T", 2)
            queues = await producer.publish_queues("T")
            for number, queue in enumerate(queues * 5):
                await producer.send(message(number), queue=queue)
        async with aio.PullConsumer("CG", namesrv=brokers.namesrv) as consumer:
            scan = consumer.arrow("T")
            table = await scan.read_all()
            assert ids(table) == list(range(20))
            assert set(table["brokerName"].to_pylist()) == {"broker-a", "broker-b"}
            assert [batch.schema async for batch in scan] == [scan.schema]


def test_pieces_of_several_brokers_come_in_turn() -> None:
    one, other, third = (MessageQueue("T", name, 0) for name in ("a", "b", "c"))
    ranges = [QueueRange(one, 0, 25), QueueRange(other, 5, 10), QueueRange(third, 3, 3)]
    assert slices(ranges, 10) == [(one, 0, 10), (other, 5, 10), (one, 10, 20), (one, 20, 25)]
    assert slices([], 10) == []
