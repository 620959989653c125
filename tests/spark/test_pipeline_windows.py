"""Windows in a pipeline's YAML: their sums are exact in files and topics, whatever is killed."""

import json
import random
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq  # type: ignore[import-untyped]  # has no annotations
import pytest
from pyspark.sql import SparkSession

from pyromq import Admin, Message, MessageQueue, Producer
from pyromq.spark.pipeline.definition.yamlfile import load
from pyromq.spark.pipeline.run.runner import PipelineRun
from pyromq.spark.pipeline.state.checkpoint import SparkCheckpoint
from pyromq.spark.sink.table.manifest import Manifests
from tests.integration.client.clusters import standalone_process
from tests.spark.test_pipeline import stored
from tests.spark.test_pipeline_kill import run

QUEUES = 4
ROUND = 120
HOUR = 3_600_000
NOON = 1_767_268_800_000
PIPELINE = """
name: windows
source: {{nameServer: "{namesrv}", topic: in, maxRows: 50}}
parse: {{schema: "shop string, amount bigint, ts timestamp", on_error: drop}}
watermark: {{time: ts, delay: 1 hour}}
mode: {mode}
transform:
  - sql: >
      SELECT unix_millis(window.start) AS minute, shop, count(*) AS n, sum(amount) AS total
      FROM input GROUP BY window(ts, '1 minute'), shop
sinks:
  - parquet: {{path: lake}}
  - topic: {{topic: out, id: [minute, shop]}}
checkpoint: state
spark: {{spark.driver.memory: 768m, spark.master: "local[2]"}}
"""
Sales = Counter[tuple[int, str]]
"""By minute and shop."""


@pytest.fixture
def namesrv(tmp_path: Path) -> Iterator[str]:
    with standalone_process(tmp_path / "server") as address:
        with Admin(namesrv=address) as admin:
            admin.create_topic("in", queues=QUEUES)
            admin.wait_for_topic("in")
        yield address


def produce(namesrv: str, number: int, count: int = ROUND) -> Sales:
    """A round of sales, three hours after the one before, in all queues."""
    made: Sales = Counter()
    with Producer("shop", namesrv=namesrv) as producer:
        for place in range(count):
            time, shop = NOON + 3 * number * HOUR + place * 1000, f"shop-{place % 3}"
            body = json.dumps({"shop": shop, "amount": 2, "ts": time}).encode()
            producer.send(Message("in", body), queue=MessageQueue("in", "broker-a", place % QUEUES))
            made[time // 60_000 * 60_000, shop] += 1
    return made


def check(namesrv: str, folder: Path, wanted: Sales, mode: str) -> None:
    rows = [row for path in Manifests(folder / "lake").paths() for row in pq.ParquetFile(path).read().to_pylist()]
    messages = [json.loads(message.body) for message in stored(namesrv, "out")]
    names = ("minute", "shop", "n", "total")
    files, topic = (sorted(tuple(each[name] for name in names) for each in found) for found in (rows, messages))
    assert files == topic
    if mode == "update":  # each change of a sum is a row, and the last one is the sum
        assert len(set(files)) == len(files)
        files = sorted({window[:2]: window for window in files}.values())
    assert files == sorted((minute, shop, n, 2 * n) for (minute, shop), n in wanted.items())


@pytest.mark.parametrize("mode", ["append", "update"])
def test_windows_are_exact_when_a_batch_is_repeated(
    spark: SparkSession, namesrv: str, tmp_path: Path, mode: str
) -> None:
    (tmp_path / "pipeline.yaml").write_text(PIPELINE.format(namesrv=namesrv, mode=mode))
    wanted = produce(namesrv, 0)
    PipelineRun(load(tmp_path / "pipeline.yaml"), spark=spark).run(once=True)
    last = SparkCheckpoint(tmp_path / "state").last_committed()
    (tmp_path / "state" / "commits" / str(last)).unlink()  # as if killed before Spark noted the end of the batch
    (tmp_path / "state" / "commits" / f".{last}.crc").unlink(missing_ok=True)
    closing = produce(namesrv, 1, QUEUES)  # lets the watermark pass the round before
    PipelineRun(load(tmp_path / "pipeline.yaml"), spark=spark).run(once=True)
    check(namesrv, tmp_path, wanted if mode == "append" else wanted + closing, mode)


@pytest.mark.parametrize("mode", ["append", "update"])
def test_windows_are_exact_whatever_is_killed(namesrv: str, tmp_path: Path, mode: str, long_run: bool) -> None:
    if not long_run:
        pytest.skip("only with --long")
    chance = random.Random(mode)
    (tmp_path / "pipeline.yaml").write_text(PIPELINE.format(namesrv=namesrv, mode=mode))
    instants = ["offset-logged", "mid-read", "mid-sink", "manifest", "between-sinks", "sinks-committed"]
    chance.shuffle(instants)
    wanted: Sales = Counter()
    for number, instant in enumerate(instants):
        wanted += produce(namesrv, number)
        code, said = run(tmp_path, f"{instant}:1")
        assert code == -signal.SIGKILL, said
    closing = produce(namesrv, len(instants), QUEUES)
    code, said = run(tmp_path, None)
    assert code == 0, said
    check(namesrv, tmp_path, wanted if mode == "append" else wanted + closing, mode)
