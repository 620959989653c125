"""Topics that change under a stream between its runs: more queues, another broker, more topics, a topic made again."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyromq import Admin
from pyromq.spark import ProgressListener, QueryProgress
from pyromq.spark.pipeline.builder import Pipeline
from pyromq.spark.pipeline.run.runner import PipelineFailedError
from pyromq.spark.pipeline.state.folder import State
from pyromq.spark.pipeline.state.losses import read_losses
from tests.processes import broker, name_server
from tests.spark.test_pipeline import ids, order
from tests.spark.topics import create, drained, eventually, fill


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("growth")
    with name_server(folder) as names, broker(folder / "a", name_servers=names["namesrv"]):
        yield names["namesrv"]


def test_every_queue_that_was_added_is_read(spark: SparkSession, namesrv: str, tmp_path: Path) -> None:
    def numbers(**options: str) -> list[int]:
        reader = spark.readStream.format("rocketmq").options(nameServer=namesrv, startingOffsets="earliest", **options)
        rows, _ = drained(spark, reader.load(), tmp_path / next(iter(options)))
        return sorted(int(row.body) for row in rows)

    def lake(**options: str) -> list[int]:
        pipeline = (
            Pipeline("growth", checkpoint=str(tmp_path / "state"))
            .source(nameServer=namesrv, start="earliest", **options)
            .parse("id bigint", on_error="drop")
            .to_parquet(str(tmp_path / "lake"))
        )
        pipeline.run(once=True, spark=spark)
        return sorted(ids(tmp_path / "lake").elements())

    def grow(end: str, queues: int, more: range, at: str = "broker-a") -> None:
        for topic, body in ((f"plain-{end}", lambda number: str(number).encode()), (f"grown-{end}", order)):
            create(namesrv, topic, queues)
            fill(namesrv, topic, more, queues=queues, broker=at, body=body)

    seen: list[QueryProgress] = []
    listener = ProgressListener(seen.append)
    grow("a", 2, range(50))
    assert numbers(topics="plain-a") == numbers(topicsPattern="plain-.*") == lake(topics="grown-a") == list(range(50))
    grow("a", 8, range(50, 150))
    grow("b", 2, range(150, 200))
    with broker(tmp_path / "b", name="broker-b", name_servers=namesrv):
        grow("a", 8, range(200, 240), "broker-b")
        everything = list(range(240))
        spark.streams.addListener(listener)
        try:
            assert numbers(topics="plain-a,plain-b", maxOffsetsPerTrigger="100") == everything
            eventually("the progress", lambda: sum(each.messages for each in seen) == 190)
        finally:
            spark.streams.removeListener(listener)
        assert [each.messages_behind for each in seen if each.messages] == [90, 0]
        assert [(each.seconds_behind or 0) > 0 for each in seen if each.messages] == [True, False]
        assert seen[-1] == listener.last[seen[-1].query]
        assert numbers(topicsPattern="plain-.*") == lake(topics="grown-a,grown-b") == everything


# SP-09
def test_a_topic_that_was_made_again_is_in_the_table_of_losses(
    spark: SparkSession, namesrv: str, tmp_path: Path
) -> None:
    def run(policy: str) -> None:
        (
            Pipeline("again", checkpoint=str(tmp_path / "state"))
            .source(nameServer=namesrv, topic="again", start="earliest", failOnDataLoss=policy)
            .parse("id bigint", on_error="drop")
            .to_parquet(str(tmp_path / "lake"))
            .run(once=True, spark=spark)
        )

    create(namesrv, "again", 2)
    fill(namesrv, "again", range(40), queues=2, body=order)
    run("true")
    with Admin(namesrv=namesrv) as admin:
        admin.delete_topic("again", cluster="DefaultCluster")
    create(namesrv, "again", 2)
    fill(namesrv, "again", range(100, 160), queues=2, body=order)
    with pytest.raises(PipelineFailedError, match="recreated"):
        run("true")
    run("record")
    assert sorted(ids(tmp_path / "lake").elements()) == [*range(40), *range(100, 160)]
    lost = read_losses(State(str(tmp_path / "state")))
    assert [(row.queue, row.first, row.end, row.reason) for row in lost] == [(n, 20, 20, "recreated") for n in (0, 1)]
