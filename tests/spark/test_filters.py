"""Filters of Spark that narrow a batch, for DataFrames that ask for it."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from tests.processes import standalone
from tests.spark.topics import batch, create, fill

SETTING = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone(tmp_path_factory.mktemp("server") / "data") as server:
        create(server["namesrv"], "F")
        fill(server["namesrv"], "F", range(800), tag=lambda number: "abcd"[number // 4 % 4])
        yield server["namesrv"]


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(SETTING, "true")
    yield
    spark.conf.unset(SETTING)


@pytest.mark.usefixtures("pushing")
def test_filters_narrow_and_lose_nothing(spark: SparkSession, namesrv: str) -> None:
    times = sorted(row.storeTimestamp for row in batch(spark, namesrv, "F", columns="storeTimestamp").collect())
    middle = times[400]
    for condition, wanted in (
        (F.col("queueId") == 1, 200),
        (F.col("queueId").isin(1, 3) & (F.col("queueOffset") >= 150), 100),
        (F.col("tags").isin("a", "b"), 400),
        ((F.col("tags") == "c") & (F.col("queueOffset") < 100) & (F.col("queueId") == 0), 25),
        (F.col("storeTimestamp") >= middle, sum(time >= middle for time in times)),
        (F.col("storeTimestamp") < middle, sum(time < middle for time in times)),
        (F.col("storeTimestamp") > times[-1] + timedelta(seconds=1), 0),
        ((F.col("topic") == "F") & (F.col("brokerName") != "broker-z"), 800),
        (F.col("topic") == "G", 0),
        ((F.col("tags") == "a") & (F.col("tags") == "b"), 0),
    ):
        pushed = batch(spark, namesrv, "F", pushDownFilters="true").filter(condition)
        assert pushed.count() == wanted, condition


@pytest.mark.usefixtures("pushing")
def test_less_is_read(spark: SparkSession, namesrv: str) -> None:
    """One queue of four, in tasks of at most 100 messages: two tasks, not eight."""
    options = {"pushDownFilters": "true", "maxRecordsPerPartition": "100"}
    assert batch(spark, namesrv, "F", **options).filter("queueId = 2").rdd.getNumPartitions() == 2
    assert batch(spark, namesrv, "F", maxRecordsPerPartition="100").filter("queueId = 2").rdd.getNumPartitions() == 8


@pytest.mark.usefixtures("pushing")
def test_without_the_option_a_frame_may_have_many_filters(spark: SparkSession, namesrv: str) -> None:
    frame = batch(spark, namesrv, "F")
    assert frame.filter("queueId = 1").count() == 200
    assert frame.count() == 800
    assert frame.filter("queueId = 1").union(frame.filter("queueId = 2")).count() == 400


def test_the_option_needs_sparks_setting(spark: SparkSession, namesrv: str) -> None:
    with pytest.raises(PySparkException, match=SETTING.replace(".", r"\.")):
        batch(spark, namesrv, "F", pushDownFilters="true").count()


@pytest.mark.usefixtures("pushing")
def test_spark_keeps_one_plan_for_all_uses_of_a_frame(spark: SparkSession, namesrv: str) -> None:
    """Why this is an option: a fault of Spark's. When this test fails, it is mended, and filters may go down always."""
    frame = batch(spark, namesrv, "F", pushDownFilters="true")
    assert frame.filter("queueId = 1").count() == 200
    assert frame.count() == 200
