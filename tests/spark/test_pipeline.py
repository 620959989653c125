"""Whole pipelines: messages in, files, tables, topics and dead letters out."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from deltalake import DeltaTable, Schema
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from pyromq import Admin, Message, Producer
from pyromq.protocol.message import ReceivedMessage
from pyromq.spark.net.wire import Wire
from pyromq.spark.options import ConnectionOptions, read_options
from pyromq.spark.pipeline.builder import Pipeline
from pyromq.spark.pipeline.definition.definition import DefinitionError
from pyromq.spark.pipeline.run.progress import Progress
from pyromq.spark.pipeline.run.runner import PipelineFailedError
from pyromq.spark.sink.table.iceberg.sink import IcebergSink
from pyromq.spark.sink.table.manifest import Manifests
from pyromq.spark.sink.writabletopic import find_topic, max_offsets, messages_between
from tests.integration.client.clusters import standalone_beside

SCHEMA = "id bigint, shop string, amount double"


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone_beside(tmp_path_factory.mktemp("pipeline")) as server:
        yield server.namesrv_address


def produce(namesrv: str, topic: str, bodies: Sequence[bytes]) -> None:
    with Admin(namesrv=namesrv) as admin:
        admin.create_topic(topic, queues=4)
        admin.wait_for_topic(topic)
    with Producer("shop", namesrv=namesrv) as producer:
        for start in range(0, len(bodies), 100):
            producer.send([Message(topic, body, keys=[f"k{start}"]) for body in bodies[start : start + 100]])


def order(number: int, shop: str = "Berlin", amount: float = 1.0) -> bytes:
    return json.dumps({"id": number, "shop": shop, "amount": amount}).encode()


def stored(namesrv: str, topic: str) -> list[ReceivedMessage]:
    with Wire(read_options(ConnectionOptions, {"nameServer": namesrv})) as wire:
        target = find_topic(wire, topic)
        return [
            message
            for queue, end in max_offsets(wire, target).items()
            for message in messages_between(wire, target, queue, 0, end, "readers")
        ]


def ids(path: Path) -> Counter[int]:
    return Counter(
        number for file in Manifests(path).paths() for number in pq.ParquetFile(file).read().column("id").to_pylist()
    )


# SP-15, SP-13
def test_orders_to_files_topic_and_dead_letters(spark: SparkSession, namesrv: str, tmp_path: Path) -> None:
    good = [order(number) for number in range(200)]
    bad = [b"{", b'{"id": "x"}', b'{"id": 9223372036854775808}', b'{"id": 1, "shop": "\xff\xfe"}']
    produce(namesrv, "orders", [*good, *bad, *good[:50], order(1000, amount=-1.0)])
    seen: list[Progress] = []
    pipeline = (
        Pipeline("orders", checkpoint=str(tmp_path / "state"))
        .source(nameServer=namesrv, topic="orders", maxRows=100)
        .parse(SCHEMA)
        .dedup("id")
        .sql("SELECT *, upper(shop) AS place FROM input WHERE amount > 0")
        .to_parquet(str(tmp_path / "lake"), partition_by=["shop"])
        .to_topic("orders-clean", keys="id", tags="place")
        .dlq("orders-dlq")
    )
    totals = pipeline.run(once=True, on_progress=seen.append, spark=spark)

    assert ids(tmp_path / "lake") == Counter(range(200))
    assert spark.read.parquet(str(tmp_path / "lake")).count() == 200  # another reader, which lists the folder
    clean = stored(namesrv, "orders-clean")
    assert Counter(json.loads(message.body)["id"] for message in clean) == Counter(range(200))
    assert {message.tags for message in clean} == {"BERLIN"}

    letters = stored(namesrv, "orders-dlq")
    assert Counter(message.body for message in letters) == Counter(bad)
    for letter in letters:
        assert letter.properties["DLQ_TOPIC"] == "orders"
        assert letter.properties["DLQ_PIPELINE"] == "orders"
        assert letter.properties["DLQ_STAGE"] == "parse"
        assert letter.properties["DLQ_ERROR"]
        assert {"DLQ_BROKER", "DLQ_QUEUE", "DLQ_OFFSET", "DLQ_MSG_ID", "DLQ_STORE_TIME"} <= letter.properties.keys()

    assert (totals.messages, totals.bad, totals.duplicates) == (255, 4, 50)
    assert totals.rows == {"parquet-0": 200, "topic-1": 200, "dlq": 4}
    assert [each.batch for each in seen] == list(range(len(seen)))
    assert seen[-1].lag == 0

    # Nothing new: a second run adds nothing; something new: only that.
    assert pipeline.run(once=True, spark=spark).messages == 0
    produce(namesrv, "orders", [order(number) for number in range(200, 210)])
    pipeline.run(once=True, spark=spark)
    assert ids(tmp_path / "lake") == Counter(range(210))
    assert len(stored(namesrv, "orders-clean")) == 210


def test_the_fast_lane_writes_files_while_reading(spark: SparkSession, namesrv: str, tmp_path: Path) -> None:
    produce(namesrv, "fast", [*(order(number) for number in range(300)), b"broken"])
    totals = (
        Pipeline("fast", checkpoint=str(tmp_path / "state"))
        .source(nameServer=namesrv, topic="fast", columns="queueOffset,storeTimestamp")
        .parse(SCHEMA)
        .to_parquet(str(tmp_path / "lake"))
        .to_delta(str(tmp_path / "delta"))
        .to_iceberg("shop.fast", str(tmp_path / "ice"), partition_by=["day(storeTimestamp)"])
        .dlq("fast-dlq")
        .run(once=True, spark=spark)
    )
    assert ids(tmp_path / "lake") == Counter(range(300))
    assert totals.rows == {"parquet-0": 300, "delta-1": 300, "iceberg-2": 300, "dlq": 1}
    delta = DeltaTable(str(tmp_path / "delta")).to_pyarrow_table()
    assert Counter(delta.column("id").to_pylist()) == Counter(range(300))
    ice = IcebergSink(name="ice", table="shop.fast", warehouse=str(tmp_path / "ice"))
    with ice.open_catalog("cannot be read") as catalog:
        found = catalog.load_table("shop.fast").scan().to_arrow().column("id").to_pylist()
    assert Counter(found) == Counter(range(300))
    assert [message.body for message in stored(namesrv, "fast-dlq")] == [b"broken"]
    files = Manifests(tmp_path / "lake").files()
    assert all(file.offsets is not None and file.times is not None for file in files)


def test_a_rule_of_a_table_ends_the_query_with_a_sentence(spark: SparkSession, namesrv: str, tmp_path: Path) -> None:
    produce(namesrv, "ruled", [order(number) for number in range(20)])
    table = DeltaTable.create(str(tmp_path / "delta"), Schema.from_arrow(pa.schema([("id", pa.int32())])))
    table.alter.add_constraint({"small": "id < 15"})
    pipeline = (
        Pipeline("ruled", checkpoint=str(tmp_path / "state"))
        .source(nameServer=namesrv, topic="ruled")
        .parse(SCHEMA, on_error="drop")
        .sql("SELECT id FROM input")
        .to_delta(str(tmp_path / "delta"))
    )
    with pytest.raises(PipelineFailedError, match=r"CHECK small \(id < 15\): id=1\d") as caught:
        pipeline.run(once=True, spark=spark)
    assert "Traceback" not in str(caught.value)
    assert DeltaTable(str(tmp_path / "delta")).version() == 1


def test_windows_update_a_topic_and_a_foreign_format(spark: SparkSession, namesrv: str, tmp_path: Path) -> None:
    produce(namesrv, "sales", [order(number, shop, 2.0) for number in range(50) for shop in ("Berlin", "Lisbon")])

    def revenue(rows: DataFrame) -> DataFrame:
        grouped = rows.groupBy(F.window("storeTimestamp", "1 day"), "shop").agg(F.sum("amount").alias("revenue"))
        return grouped.select("shop", F.col("window.start").alias("day"), "revenue")

    (
        Pipeline("sales", checkpoint=str(tmp_path / "state"))
        .source(nameServer=namesrv, topic="sales", columns="storeTimestamp")
        .parse(SCHEMA, on_error="drop")
        .watermark("storeTimestamp", "1 hour")
        .apply(revenue)
        .to_topic("revenue", id=["shop", "day"], keys="shop")
        .to_format("json", options={"path": str(tmp_path / "json")})
        .trigger("available-now", mode="update")
        .run(spark=spark)
    )
    found = [json.loads(message.body) for message in stored(namesrv, "revenue")]
    assert {row["shop"]: row["revenue"] for row in found} == {"Berlin": 100.0, "Lisbon": 100.0}
    assert spark.read.json(str(tmp_path / "json")).count() == len(found)


def test_unknown_fields_can_be_kept(spark: SparkSession, namesrv: str, tmp_path: Path) -> None:
    produce(namesrv, "extra", [b'{"id": 1, "colour": "red", "size": {"w": 2}}', b'{"id": 2}'])
    (
        Pipeline("extra", checkpoint=str(tmp_path / "state"))
        .source(nameServer=namesrv, topic="extra")
        .parse("id bigint", on_error="fail", extra="keep")
        .to_parquet(str(tmp_path / "lake"))
        .run(once=True, spark=spark)
    )
    rows = {row["id"]: row["_extra"] for row in spark.read.parquet(str(tmp_path / "lake")).collect()}
    assert rows == {1: {"colour": "red", "size": '{"w": 2}'}, 2: {}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p.sql("SELECT nothing FROM input"), r"transform\[0\]: .*nothing"),
        (lambda p: p.sql("SELECT shop, count(*) AS n FROM input GROUP BY shop"), "rows come out of a shuffle"),
        (lambda p: p.sql("SELECT a.id FROM input a JOIN input b ON a.id = b.id"), "reads `input` 2 times"),
        (lambda p: p.dedup("colour"), r"dedup.keys: there is no column colour; there are"),
        (lambda p: p.to_parquet("lake", partition_by=["day"]), r"sinks\[1\].parquet: there is no column day"),
    ],
)
def test_mistakes_are_found_before_the_query_starts(
    spark: SparkSession, namesrv: str, tmp_path: Path, change: object, message: str
) -> None:
    pipeline = (
        Pipeline("wrong", checkpoint=str(tmp_path / "state"))
        .source(nameServer=namesrv, topic="orders", waitForTopic=True)
        .parse(SCHEMA, on_error="drop")
        .to_topic("wrong-out")
    )
    assert callable(change)
    change(pipeline)
    with pytest.raises(DefinitionError, match=message):
        pipeline.run(once=True, spark=spark)
