"""Pipelines into an object store: exactly once through kills, rivals, folds, merges and a server that goes away."""

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyromq.spark import table_files
from pyromq.spark.pipeline.builder import Pipeline
from pyromq.spark.pipeline.definition.yamlfile import load
from pyromq.spark.pipeline.run.runner import PipelineRun
from pyromq.spark.pipeline.state.folder import State, StateError
from pyromq.spark.pipeline.state.status import read_status
from pyromq.spark.sink.table.compaction import compact
from pyromq.spark.sink.table.manifest import Manifests
from pyromq.spark.sink.table.parquet import FOLD_EVERY, ParquetSink
from pyromq.spark.storage.store import StorageAwayError, StorageError, Store
from tests.integration.client.clusters import standalone_beside
from tests.spark.objectstore import BUCKET, ObjectServer, object_server
from tests.spark.test_pipeline import order, produce
from tests.spark.test_pipeline_kill import run
from tests.unit.spark.parquettables import QUERY, ids, stage


@pytest.fixture(scope="module")
def objects() -> Iterator[ObjectServer]:
    with object_server() as server:
        yield server


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone_beside(tmp_path_factory.mktemp("objects")) as server:
        yield server.namesrv_address


def sink_of(objects: ObjectServer, name: str) -> ParquetSink:
    return ParquetSink(name="lake", path=f"s3://{BUCKET}/{name}", storage={"s3": dict(objects.storage["s3"])})


def by_manifest(store: Store) -> Counter[int]:
    return ids(store, Manifests(store).names())


def by_listing(store: Store) -> Counter[int]:
    return ids(store, [entry.name for entry in store.list() if not entry.name.startswith("_")])


def test_of_attempts_that_race_for_a_batch_one_counts(objects: ObjectServer) -> None:
    sink = sink_of(objects, "raced")
    for number in range(3):
        staged = [stage(sink, number) for _ in range(6)]
        ready = threading.Barrier(len(staged))

        def commit(messages: list[bytes], number: int = number, ready: threading.Barrier = ready) -> None:
            ready.wait(60)
            sink.commit(QUERY, number, messages)

        rivals = [threading.Thread(target=commit, args=(messages,)) for messages in staged]
        for rival in rivals:
            rival.start()
        for rival in rivals:
            rival.join()
    assert by_listing(sink.store()) == by_manifest(sink.store()) == Counter(range(30))
    assert not sink.store().list("_staging")


def test_folds_and_merges_beside_commits(objects: ObjectServer) -> None:
    sink, done, merged = sink_of(objects, "merged"), threading.Event(), []

    def merge() -> None:
        while not done.is_set():
            if sink.store().list("_manifests"):
                found = compact(sink.store(), target=1 << 20, older_than=0, grace=3600, clock=lambda: 4e9, least=4)
                merged.append(found.merged)
            done.wait(0.2)

    compactions = [threading.Thread(target=merge) for _ in range(2)]
    for compaction in compactions:
        compaction.start()
    batches = FOLD_EVERY + 8
    for number in range(batches):
        sink.commit(QUERY, number, stage(sink, number))
        if number % 16 == 0:
            assert by_manifest_patiently(sink.store()) == Counter(range(10 * number + 10))
    done.set()
    for compaction in compactions:
        compaction.join()
    assert by_listing(sink.store()) == by_manifest(sink.store()) == Counter(range(10 * batches))
    assert sum(merged) > 0
    compact(sink.store(), target=1 << 20, older_than=0, grace=0, clock=lambda: 4e9)
    assert len(Manifests(sink.store()).listing().manifests) == 0
    assert len(table_files(sink.path, objects.storage)) == 1


def by_manifest_patiently(store: Store) -> Counter[int]:
    """As readers are told to: a file that is gone was merged, so ask again."""
    while True:
        try:
            return by_manifest(store)
        except FileNotFoundError:
            continue


def test_a_server_that_goes_away_in_a_commit(objects: ObjectServer) -> None:
    sink = sink_of(objects, "away")
    sink.commit(QUERY, 0, stage(sink, 0))
    staged = stage(sink, 1)
    objects.stop()
    try:
        with pytest.raises(StorageAwayError, match=rf"s3://{BUCKET}/away/.*does not answer.*{objects.port}"):
            sink.commit(QUERY, 1, staged)
    finally:
        objects.start()
    sink.commit(QUERY, 1, stage(sink, 1))
    assert by_listing(sink.store()) == by_manifest(sink.store()) == Counter(range(20))


def test_a_bucket_that_does_not_exist_is_named_before_anything_starts(objects: ObjectServer, tmp_path: Path) -> None:
    definition = (
        Pipeline("lost", checkpoint=str(tmp_path / "state"))
        .source(nameServer="127.0.0.1:1", topic="in")
        .to_parquet("s3://nowhere/orders")
        .storage("s3", **objects.storage["s3"])
        .definition()
    )
    with pytest.raises(StorageError, match=r"s3://nowhere/orders.*does the bucket exist"):
        PipelineRun(definition).run(once=True)


def test_keys_that_are_refused_are_said_to_be(objects: ObjectServer) -> None:
    sink = sink_of(objects, "refused")
    objects.ask_for_keys(True)
    try:
        with pytest.raises(StorageError, match=r"s3://lake/refused/.*access is denied.*check keys") as caught:
            sink.commit(QUERY, 0, stage(sink, 0))
        assert not caught.value.retryable
    finally:
        objects.ask_for_keys(False)
    sink.commit(QUERY, 0, stage(sink, 0))
    assert by_manifest(sink.store()) == Counter(range(10))


def test_a_lease_keeps_a_second_runner_out(objects: ObjectServer) -> None:
    place = f"s3a://{BUCKET}/leased"
    with State(place, objects.storage).locked():
        assert State(place, objects.storage).is_locked()
        assert [entry.name for entry in objects.store("leased/pyromq").list()] == ["lease-000000000"]
    assert not State(place, objects.storage).is_locked()
    with State(place, objects.storage).locked():
        pass


def test_a_pipeline_into_an_object_store(
    spark: SparkSession, namesrv: str, objects: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyromq.spark.pipeline.run.upkeep.LEAST", 2)
    produce(namesrv, "shipped", [order(number) for number in range(200)])
    pipeline = (
        Pipeline("shipped", checkpoint=str(tmp_path / "state"))
        .source(nameServer=namesrv, topic="shipped", maxRows=60)
        .parse("id bigint", on_error="drop")
        .sql("SELECT *, id % 2 AS half FROM input")
        .to_parquet(f"s3://{BUCKET}/shipped", partition_by=["half"], compact="auto", compact_after="0 s")
        .storage("s3", **objects.storage["s3"])
    )
    totals = pipeline.run(once=True, spark=spark)
    store = objects.store("shipped")
    assert totals.rows == {"parquet-0": 200}
    assert by_listing(store) == by_manifest(store) == Counter(range(200))
    assert store.list("_replaced"), "the run ends with a merge"
    status = read_status(pipeline.definition())
    assert (status.tables["parquet-0"].rows, status.tables["parquet-0"].path) == (200, f"s3://{BUCKET}/shipped")


KILLED = """
name: killed
source: {{nameServer: "{namesrv}", topic: cut, maxRows: 60}}
parse: {{schema: "id bigint", on_error: drop}}
{transform}
sinks:
  - parquet: {{path: s3://{bucket}/{name}}}
storage:
  s3: {{endpoint_url: "{url}", key: "${{LAKE_KEY}}", secret: "${{LAKE_SECRET}}"}}
checkpoint: state
spark: {{spark.driver.memory: 768m, spark.master: "local[2]"}}
"""


@pytest.mark.parametrize("instant", ["manifest:2", "mid-read:2", "sinks-committed:1"])
def test_a_killed_driver_loses_and_repeats_nothing(
    namesrv: str,
    objects: ObjectServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    instant: str,
    long_run: bool,
) -> None:
    if not instant.startswith("manifest") and not long_run:
        pytest.skip("only with --long")
    monkeypatch.setenv("LAKE_KEY", "key")
    monkeypatch.setenv("LAKE_SECRET", "secret")
    name = f"killed-{instant.partition(':')[0]}"
    transform = "transform: [{sql: SELECT * FROM input WHERE id >= 0}]" if instant.startswith("mid") else ""
    text = KILLED.format(namesrv=namesrv, bucket=BUCKET, name=name, url=objects.url, transform=transform)
    (tmp_path / "pipeline.yaml").write_text(text)
    produce(namesrv, "cut", [order(number) for number in range(150)])
    code, said = run(tmp_path, instant)
    assert code == -signal.SIGKILL, said
    code, said = run(tmp_path, None)
    assert code == 0, said
    store = objects.store(name)
    found = by_listing(store)
    assert found == by_manifest(store)
    assert set(found) == set(range(150))
    assert len(set(found.values())) == 1, "every message was sent as often as the topic was filled"


JARS = "PYROMQ_TEST_HADOOP_AWS"
"""Environment: hadoop-aws of the version of Spark's Hadoop and what it needs, as files with commas between."""


def test_a_checkpoint_in_an_object_store(namesrv: str, objects: ObjectServer, tmp_path: Path) -> None:
    """Killed and started again, with nothing on the disk of the driver."""
    if not os.environ.get(JARS):
        pytest.skip(f"needs Hadoop's S3 client from Maven, named in {JARS}")
    text = KILLED.format(namesrv=namesrv, bucket=BUCKET, name="far", url=objects.url, transform="")
    text = text.replace("checkpoint: state", f"checkpoint: s3a://{BUCKET}/state/far").replace(
        "topic: cut", "topic: far"
    )
    text = text.replace('"${LAKE_KEY}"', "key").replace('"${LAKE_SECRET}"', "secret")
    text = text.replace("spark: {", f'spark: {{spark.jars: "{os.environ[JARS]}", ')
    (tmp_path / "pipeline.yaml").write_text(text)
    produce(namesrv, "far", [order(number) for number in range(150)])
    code, said = run(tmp_path, "manifest:2")
    assert code == -signal.SIGKILL, said
    code, said = run(tmp_path, None)
    assert code == 0, said
    assert by_listing(objects.store("far")) == by_manifest(objects.store("far")) == Counter(range(150))
    names = [entry.name for entry in objects.store("state/far").list()]
    assert {"metadata", "offsets/2", "commits/2", "pyromq/identity.json", "pyromq/status.json"} <= set(names)
    assert "pyromq/plan.json" not in names, "it has secrets, and stays on the driver's machine"
    assert not (tmp_path / "state").exists()
    status = read_status(load(tmp_path / "pipeline.yaml"))
    assert (status.batch, status.running, status.unfinished) == (2, False, False)


def test_two_states_of_one_checkpoint(objects: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyromq.spark.pipeline.state.lease.LOOK", 0.1)
    monkeypatch.setattr("pyromq.spark.pipeline.state.lease.RENEWAL", 0.05)
    place = f"s3://{BUCKET}/shared"
    with (
        State(place, objects.storage).locked(),
        pytest.raises(StateError, match=f"in use by another process \\(pid {os.getpid()}"),
        State(place, objects.storage).locked(),
    ):
        pass
