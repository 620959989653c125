"""The sources in a real Spark against a real broker."""

import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession

from pyromq import Admin
from tests.processes import Server, broker, name_server, port_of, standalone
from tests.spark.topics import batch, create, drained, eventually, fill, landed, new_name, running, source

GROUP = "spark-readers"


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone(tmp_path_factory.mktemp("server") / "data") as server:
        yield server["namesrv"]


@pytest.fixture(scope="module")
def orders(namesrv: str) -> str:
    """A topic of 4 queues with 1000 messages: `{"id": n, "half": n/2}`, tags a and b in turn."""
    topic = "orders"
    create(namesrv, topic)
    fill(
        namesrv,
        topic,
        range(1000),
        body=lambda number: json.dumps({"id": number, "half": number / 2}).encode(),
        tag=lambda number: "ab"[number // 4 % 2],
    )
    return topic


def test_batch_with_every_column(spark: SparkSession, namesrv: str, orders: str) -> None:
    from pyromq.arrow.columns import COLUMNS  # noqa: PLC0415 - needs pyarrow, which Spark's tests have anyway

    rows = batch(spark, namesrv, orders, columns=",".join(COLUMNS)).collect()
    assert len(rows) == 1000
    by_number = {int(row.properties["n"]): row for row in rows}
    assert by_number.keys() == set(range(1000))
    for number, row in by_number.items():
        assert (row.topic, row.brokerName, row.queueId, row.queueOffset) == (
            orders,
            "broker-a",
            number % 4,
            number // 4,
        )
        assert json.loads(row.body)["id"] == number
        assert (row["tags"], row["keys"]) == ("ab"[number // 4 % 2], f"k{number}")
        assert row.msgId == row.properties["UNIQ_KEY"]
        assert row.bornTimestamp <= row.storeTimestamp
        assert row.storeHost.startswith("127.0.0.1:")
    assert sorted(row.commitLogOffset for row in rows) == sorted({row.commitLogOffset for row in rows})


def test_sql_finds_the_format_by_itself(spark: SparkSession, namesrv: str, orders: str) -> None:  # SP-01
    spark.sql(
        f"CREATE TEMPORARY VIEW sql_orders USING rocketmq OPTIONS (nameServer '{namesrv}', topic '{orders}', "
        "bodyFormat 'json', bodySchema 'id bigint, half double', columns 'queueId')"
    )
    (row,) = spark.sql("SELECT count(*) AS n, sum(id) AS ids, sum(half) AS halves FROM sql_orders").collect()
    assert (row.n, row.ids, row.halves) == (1000, 499_500, 249_750.0)


def test_projection_by_schema(spark: SparkSession, namesrv: str, orders: str) -> None:  # SP-07
    reader = spark.read.format("rocketmq").options(nameServer=namesrv, topic=orders)
    frame = reader.schema("queueOffset bigint, queueId int").load()
    assert frame.columns == ["queueOffset", "queueId"]
    assert frame.distinct().count() == 1000
    with pytest.raises(PySparkException, match="there is no column 'size'"):
        reader.schema("size int").load().collect()
    with pytest.raises(PySparkException, match="column queueId is int"):
        reader.schema("queueId string").load().collect()


def test_batch_ends(spark: SparkSession, namesrv: str, orders: str) -> None:
    start = json.dumps({orders: {"broker-a": {"0": 10, "1": -1, "2": 240}}})
    end = json.dumps({orders: {"broker-a": {"0": 20, "3": 5}}})
    rows = batch(
        spark, namesrv, orders, startingOffsets=start, endingOffsets=end, columns="queueId,queueOffset"
    ).collect()
    found = sorted((row.queueId, row.queueOffset) for row in rows)
    assert found == [(0, n) for n in range(10, 20)] + [(2, n) for n in range(240, 250)] + [(3, n) for n in range(5)]
    assert batch(spark, namesrv, orders, startingTimestamp="2100-01-01").count() == 0
    assert batch(spark, namesrv, orders, startingTimestamp="0", endingTimestamp="2100-01-01T00:00Z").count() == 1000
    with pytest.raises(PySparkException, match="leaves nothing"):
        batch(spark, namesrv, orders, startingOffsets="latest").count()
    with pytest.raises(PySparkException, match="did you mean startingOffsets"):
        batch(spark, namesrv, orders, startingOfsets="latest")


def test_filters_leave_gaps(spark: SparkSession, namesrv: str, orders: str, tmp_path: Path) -> None:  # SP-08
    frame = source(
        spark, namesrv, orders, startingOffsets="earliest", subExpression="b || c", maxOffsetsPerTrigger="300"
    )
    rows, progress = drained(spark, frame, tmp_path / "tags")
    assert len(rows) == 500
    assert {row["tags"] for row in rows} == {"b"}
    assert sum(each["numInputRows"] for each in progress) == 500
    assert batch(spark, namesrv, orders, subExpression="n > 989", filterType="SQL92").count() == 10


def test_limits_group_and_tasks(spark: SparkSession, namesrv: str, tmp_path: Path) -> None:  # SP-06 SP-08
    topic = new_name("wide")
    create(namesrv, topic, 64)
    fill(namesrv, topic, range(640), queues=60)  # four queues stay empty
    options = {"startingOffsets": "earliest", "group": GROUP, "maxOffsetsPerTrigger": "320", "minPartitions": "2"}
    frame = source(spark, namesrv, topic, maxPartitions="2", **options)
    rows, progress = drained(spark, frame, tmp_path / "wide")
    assert sorted(int(row.body) for row in rows) == list(range(640))
    assert [each["numInputRows"] for each in progress if each["numInputRows"]] == [320, 320]
    with Admin(namesrv=namesrv) as admin:
        stats = admin.consume_stats(GROUP, topic=topic)
    table = {queue.queue_id: offsets for queue, offsets in stats.offset_table.items()}
    assert all(table[number].consumer_offset == table[number].broker_offset for number in range(60))
    more, _ = drained(spark, source(spark, namesrv, topic, group=GROUP), tmp_path / "after")
    assert more == []  # begins where the group is


def test_nothing_is_lost_when_batch_0_is_repeated(spark: SparkSession, namesrv: str, tmp_path: Path) -> None:  # SP-04
    topic = new_name("first")
    create(namesrv, topic)
    fill(namesrv, topic, range(100))
    frame = source(spark, namesrv, topic, startingOffsets="latest")
    offsets, commits = tmp_path / "checkpoint" / "offsets", tmp_path / "checkpoint" / "commits"
    with running(frame, tmp_path) as query:
        eventually("batch 0", (commits / "0").exists, query)
        fill(namesrv, topic, range(100, 150))
        eventually("batch 1", (commits / "1").exists, query)
    # As if it had died while batch 1 was planned and batch 0 not yet done.
    for log, kept in ((offsets, {"0"}), (commits, set[str]())):
        for entry in log.iterdir():
            if entry.name not in kept:
                entry.unlink()
    shutil.rmtree(tmp_path / "rows")
    fill(namesrv, topic, range(150, 200))
    rows, _ = drained(spark, frame, tmp_path)
    assert sorted(int(row.body) for row in rows) == list(range(100, 200))


def test_bad_bodies(spark: SparkSession, namesrv: str, orders: str) -> None:
    schema = {"bodyFormat": "json", "bodySchema": "id bigint, half int", "columns": "queueId"}
    with pytest.raises(PySparkException, match="bodySchema"):
        batch(spark, namesrv, orders, **schema).collect()
    kept = batch(spark, namesrv, orders, **schema, badRecords="keep").where("_error IS NULL OR _body IS NULL")
    dropped = batch(spark, namesrv, orders, **schema, badRecords="drop")
    assert kept.columns == ["queueId", "id", "half", "_error", "_body"]
    assert dropped.count() == kept.count() < 1000


def test_a_topic_made_anew_is_a_loss(spark: SparkSession, namesrv: str, tmp_path: Path) -> None:  # SP-09
    topic = new_name("again")
    create(namesrv, topic)
    fill(namesrv, topic, range(100))
    frame = source(spark, namesrv, topic, startingOffsets="earliest")
    for policy in ("true", "false"):
        drained(spark, frame, tmp_path / policy)
    with Admin(namesrv=namesrv) as admin:
        admin.delete_topic(topic, cluster="DefaultCluster")
    create(namesrv, topic)
    fill(namesrv, topic, range(1000, 1020))
    with pytest.raises(StreamingQueryException, match="truncated"):
        drained(spark, frame, tmp_path / "true")
    lenient = source(spark, namesrv, topic, startingOffsets="earliest", failOnDataLoss="false")
    rows, _ = drained(spark, lenient, tmp_path / "false")
    assert sorted(int(row.body) for row in rows) == [*range(100), *range(1000, 1020)]


def test_a_broker_that_comes_back(spark: SparkSession, tmp_path: Path) -> None:  # SP-10
    with name_server(tmp_path) as names, broker(tmp_path / "a", name_servers=names["namesrv"]) as store:
        address = names["namesrv"]
        create(address, "steady")
        fill(address, "steady", range(50))
        frame = source(spark, address, "steady", startingOffsets="earliest", maxOffsetsPerTrigger="40")
        with running(frame, tmp_path) as query:
            for number in (1, 2):
                eventually("some rows", lambda: len(landed(spark, tmp_path)) >= 40, query)
                _restart(store, signal.SIGKILL)
                fill(address, "steady", range(number * 50, number * 50 + 50))
            eventually("all rows", lambda: len(landed(spark, tmp_path)) >= 150, query)
            assert sorted(int(row.body) for row in landed(spark, tmp_path)) == list(range(150))


def _restart(store: Server, number: signal.Signals) -> None:
    port = port_of(store["broker"])
    store.kill() if number is signal.SIGKILL else store.terminate(number)
    store.arguments[store.arguments.index("--listen-port") + 1] = str(port)
    store.start()


def test_queues_can_be_assigned(spark: SparkSession, namesrv: str, orders: str) -> None:
    frame = spark.read.format("rocketmq").options(
        nameServer=namesrv, assign=json.dumps({orders: {"broker-a": [1, 3]}}), columns="queueId"
    )
    assert {row.queueId for row in frame.load().collect()} == {1, 3}
    pattern = spark.read.format("rocketmq").options(nameServer=namesrv, topicsPattern="ord.*", columns="topic")
    assert {row.topic for row in pattern.load().collect()} == {orders}
