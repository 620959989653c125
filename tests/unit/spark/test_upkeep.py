"""Small files that are merged by themselves: only where it is asked for, and no file again and again."""

import os
from collections import Counter
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
import pytest

from pyromq.spark import table_files
from pyromq.spark.pipeline.definition.yamlfile import loads
from pyromq.spark.pipeline.run.upkeep import LEAST, Upkeep
from pyromq.spark.sink.sink import Attempt
from pyromq.spark.sink.table.manifest import Manifests
from pyromq.spark.sink.table.parquet import ParquetSink

PIPELINE = """
name: orders
source: {{nameServer: "127.0.0.1:9876", topic: orders}}
sinks:
  - parquet: {{path: {path}, {more}}}
checkpoint: state
"""
LATER = 4e9


def upkeep(path: Path, more: str = "compact: auto") -> Upkeep:
    return Upkeep(loads(PIPELINE.format(path=path, more=more)), clock=lambda: LATER)


def add(path: Path, batches: range) -> None:
    sink = ParquetSink(name="lake", path=str(path))
    for batch in batches:
        numbers = list(range(batch * 100, batch * 100 + 100))
        rows = pa.RecordBatch.from_pydict({"id": numbers, "body": [os.urandom(200) for _ in numbers]})
        task = sink.open(Attempt("query", batch, 0), rows.schema)
        task.write(rows)
        sink.commit("query", batch, [task.close()])


def ids(path: Path) -> Counter[int]:
    import pyarrow.parquet as pq  # type: ignore[import-untyped]  # noqa: PLC0415 - slow to load

    return Counter(
        number for file in table_files(str(path)) for number in pq.ParquetFile(file).read().column("id").to_pylist()
    )


def test_enough_small_files_are_merged(tmp_path: Path) -> None:
    add(tmp_path, range(LEAST - 1))
    assert upkeep(tmp_path).round() == 0
    add(tmp_path, range(LEAST - 1, LEAST))
    assert upkeep(tmp_path).round() == LEAST
    assert ids(tmp_path) == Counter(range(LEAST * 100))
    assert len(table_files(str(tmp_path))) == 1


def test_a_merged_file_is_written_again_only_with_as_much_that_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyromq.spark.pipeline.run.upkeep.LEAST", 3)
    written, batches = 0, 40
    for batch in range(batches):
        add(tmp_path, range(batch, batch + 1))
        before = {file.final for file in Manifests(tmp_path).files()}
        upkeep(tmp_path).round()
        after = Manifests(tmp_path).files()
        written += sum(file.size for file in after if file.final not in before)
    assert ids(tmp_path) == Counter(range(batches * 100))
    assert len(after) < 10
    # Merged each time with all that is there, it would be more with every round.
    assert written < 4 * sum(file.size for file in after)


@pytest.mark.parametrize("more", ["compact: manual", "compact: auto, compact_after: 100000000000 s"])
def test_what_is_not_asked_for_is_left_alone(tmp_path: Path, more: str) -> None:
    add(tmp_path, range(LEAST))
    assert upkeep(tmp_path, more).round() == 0


def test_what_fails_is_left_for_the_next_round(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert upkeep(tmp_path).round() == 0  # nothing is written yet
    add(tmp_path, range(LEAST))
    (damaged,) = sorted((tmp_path / "_manifests").glob("query-*.json"))[:1]
    kept = damaged.read_bytes()
    damaged.write_bytes(b"{")
    assert upkeep(tmp_path).round() == 0
    assert damaged.name in caplog.text
    damaged.write_bytes(kept)
    assert upkeep(tmp_path).round() == LEAST
