"""Looking after pipelines: rewind, replay, status, schema additions; and the sink used without a pipeline."""

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import SparkSession

from pyromq.spark.errors import SinkError
from pyromq.spark.pipeline.builder import Pipeline
from pyromq.spark.pipeline.run.progress import Progress
from pyromq.spark.pipeline.run.replay import replay
from pyromq.spark.pipeline.state.checkpoint import SparkCheckpoint
from pyromq.spark.pipeline.state.folder import State, StateError
from pyromq.spark.pipeline.state.history import read_history
from pyromq.spark.pipeline.state.position import lag, rewind
from pyromq.spark.pipeline.state.status import read_status
from pyromq.spark.sink.table.compaction import compact
from pyromq.spark.sink.table.manifest import Manifests
from pyromq.spark.source.formats import RocketMQSource
from tests.integration.client.clusters import standalone_beside
from tests.spark.test_pipeline import ids, order, produce, stored


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone_beside(tmp_path_factory.mktemp("operations")) as server:
        yield server.namesrv_address


# SP-14
def test_rewind_replay_and_a_new_column(spark: SparkSession, namesrv: str, tmp_path: Path) -> None:
    produce(namesrv, "kept", [order(number) for number in range(100)])
    lake = tmp_path / "lake"

    def pipeline(schema: str) -> Pipeline:
        return (
            Pipeline("kept", checkpoint=str(tmp_path / "state"))
            .source(nameServer=namesrv, topic="kept", maxRows=60)
            .parse(schema, on_error="drop")
            .sql("SELECT * FROM input WHERE id >= 0")
            .to_parquet(str(lake))
        )

    definition = pipeline("id bigint").definition()
    assert all(each.lag is None for each in lag(definition))
    pipeline("id bigint").run(once=True, spark=spark)
    assert ids(lake) == Counter(range(100))
    assert sum(each.lag or 0 for each in lag(definition)) == 0
    status = read_status(definition)
    assert (status.running, status.unfinished, status.tables["parquet-0"].rows) == (False, False, 100)
    assert sum(each.messages for each in read_history(definition, 10)) == 100

    # A column more, from now on; the rest is null.
    produce(namesrv, "kept", [order(number, shop="Lisbon") for number in range(100, 110)])
    pipeline("id bigint, shop string").run(once=True, spark=spark)
    rows = {row.id: row.shop for row in spark.read.option("mergeSchema", "true").parquet(str(lake)).collect()}
    assert rows == {number: "Lisbon" if number >= 100 else None for number in range(110)}
    with pytest.raises(SinkError, match="id \\(int64, now string\\)"):
        pipeline("id string").run(once=True, spark=spark)

    # A stretch of time into a table of its own; the pipeline's is not touched.
    rows = replay(
        definition, start="0", end=str(int(time.time() * 1000) + 60_000), into=str(tmp_path / "all"), spark=spark
    )
    assert rows == {"replay": 110}
    assert ids(tmp_path / "all") == Counter(range(110))
    assert sum(ids(lake).values()) == 110

    # From the start again: batch numbers go on, so nothing is taken for a repetition.
    with State(definition.checkpoint).locked(), pytest.raises(StateError, match="in use"):
        rewind(definition, "earliest")
    rewind(definition, "earliest")
    assert sum(each.lag or 0 for each in lag(definition)) == 110
    pipeline("id bigint, shop string").run(once=True, spark=spark)
    assert ids(lake) == Counter([*range(110), *range(110)])

    compact(lake, target=1 << 20, older_than=0, grace=0, clock=lambda: time.time() + 10)
    assert len(Manifests(lake).files()) == 1
    assert ids(lake) == Counter([*range(110), *range(110)])


def test_the_first_batch_after_a_crash_knows_its_lag(spark: SparkSession, namesrv: str, tmp_path: Path) -> None:
    produce(namesrv, "behind", [order(number) for number in range(100)])
    told: list[Progress] = []
    pipeline = (
        Pipeline("behind", checkpoint=str(tmp_path / "state"))
        .source(nameServer=namesrv, topic="behind", maxRows=60)
        .parse("id bigint", on_error="drop")
        .to_parquet(str(tmp_path / "lake"))
    )
    pipeline.run(once=True, spark=spark, on_progress=told.append)
    last = SparkCheckpoint(tmp_path / "state").last_committed()
    (tmp_path / "state" / "commits" / str(last)).unlink()  # as if killed before Spark noted the end of the batch
    (tmp_path / "state" / "commits" / f".{last}.crc").unlink(missing_ok=True)
    produce(namesrv, "behind", [order(number) for number in range(100, 130)])
    again: list[Progress] = []
    pipeline.run(once=True, spark=spark, on_progress=again.append)
    assert (told[-1].batch, told[-1].lag) == (last, 0)
    assert (again[0].batch, again[0].lag, sum(again[0].lag_by_queue.values())) == (last, 30, 30)
    assert (again[-1].lag, ids(tmp_path / "lake")) == (0, Counter(range(130)))


# SP-11
def test_a_stream_into_a_topic_effectively_once(spark: SparkSession, namesrv: str, tmp_path: Path) -> None:
    produce(namesrv, "copied", [order(number) for number in range(120)])
    produce(namesrv, "copy", [])
    spark.dataSource.register(RocketMQSource)
    checkpoint = tmp_path / "state"

    def run() -> None:
        rows = (
            spark.readStream.format("rocketmq")
            .options(nameServer=namesrv, topic="copied", startingOffsets="earliest", maxOffsetsPerTrigger="50")
            .load()
        )
        query = (
            rows.select("body", "tags", "keys", "properties")
            .writeStream.format("rocketmq")
            .options(nameServer=namesrv, topic="copy", delivery="effectively-once")
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    run()
    wanted = Counter(order(number) for number in range(120))
    assert Counter(bytes(message.body) for message in stored(namesrv, "copy")) == wanted
    # As after a crash between the sink's commit and Spark's: the last batch runs again.
    last = SparkCheckpoint(checkpoint).last_committed()
    (checkpoint / "commits" / str(last)).unlink()
    (checkpoint / "commits" / f".{last}.crc").unlink(missing_ok=True)
    run()
    assert SparkCheckpoint(checkpoint).last_committed() >= last
    assert Counter(bytes(message.body) for message in stored(namesrv, "copy")) == wanted


def test_modes_that_a_topic_has_not_are_refused_in_a_few_lines(
    spark: SparkSession, namesrv: str, tmp_path: Path
) -> None:
    produce(namesrv, "moded", [])
    spark.dataSource.register(RocketMQSource)
    options = {"nameServer": namesrv, "topic": "moded"}
    with pytest.raises(AnalysisException, match=r'only added to: say .mode\("append"\)') as refused:
        spark.sql("SELECT 'x' AS body").write.format("rocketmq").options(**options).mode("overwrite").save()
    assert str(refused.value).count("File ") == 1  # where it was said, not the way there
    with pytest.raises(AnalysisException, match="ErrorIfExists"):  # Spark's own words: docs/spark.md has them
        spark.sql("SELECT 'x' AS body").write.format("rocketmq").options(**options).save()
    counts = spark.readStream.format("rocketmq").options(**options, startingOffsets="earliest").load().groupBy().count()
    query = (
        counts.selectExpr("CAST(count AS STRING) AS body")
        .writeStream.format("rocketmq")
        .options(**options, checkpointLocation=str(tmp_path))
        .outputMode("complete")
        .start()
    )
    with pytest.raises(StreamingQueryException, match=r'say .outputMode\("append"\) with a watermark'):
        query.awaitTermination()


def test_a_batch_into_a_topic(spark: SparkSession, namesrv: str) -> None:
    produce(namesrv, "batched", [])
    spark.dataSource.register(RocketMQSource)
    rows = spark.range(500).selectExpr("CAST(id AS STRING) AS body", "CAST(id AS STRING) AS shardingKey")
    rows.write.format("rocketmq").options(nameServer=namesrv, topic="batched").mode("append").save()
    messages = stored(namesrv, "batched")
    assert Counter(message.body for message in messages) == Counter(b"%d" % number for number in range(500))
    assert len({message.queue_id for message in messages}) == 4
