"""The Parquet sink: a batch is visible once, whatever was cut short, for readers of manifests and of the folder."""

import os
from collections import Counter
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from pyromq.spark.errors import SinkError
from pyromq.spark.sink.sink import Attempt
from pyromq.spark.sink.table.compaction import compact
from pyromq.spark.sink.table.manifest import Manifests
from pyromq.spark.sink.table.parquet import ParquetSink, check_columns
from pyromq.spark.storage.folder import FolderStore

QUERY = "0b6c3d3e-query"


class CrashError(Exception):
    """Stands for a killed process."""


def rows(first: int, count: int, day: str | None = "mon") -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": list(range(first, first + count)), "day": [day] * count})


def stage(sink: ParquetSink, number: int, *batches: pa.RecordBatch) -> list[bytes]:
    messages = []
    for partition, batch in enumerate(batches):
        task = sink.open(Attempt(QUERY, number, partition), batch.schema)
        task.write(batch)
        messages.append(task.close())
    return messages


def by_manifest(path: Path) -> Counter[int]:
    return Counter(
        value for file in Manifests(path).paths() for value in pq.ParquetFile(file).read().column("id").to_pylist()
    )


def by_listing(path: Path) -> Counter[int]:
    files = [file for file in path.rglob("*.parquet") if not file.relative_to(path).parts[0].startswith("_")]
    return Counter(value for file in files for value in pq.ParquetFile(file).read().column("id").to_pylist())


def test_nothing_is_visible_before_the_commit_and_all_after(tmp_path: Path) -> None:
    sink = ParquetSink(name="lake", path=str(tmp_path), partition_by=["day"])
    messages = stage(sink, 0, rows(0, 10), rows(10, 5, "tue"))
    assert not by_listing(tmp_path)
    assert not by_manifest(tmp_path)
    assert sink.commit(QUERY, 0, messages) == 15
    assert by_listing(tmp_path) == by_manifest(tmp_path) == Counter(range(15))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["_manifests", "_staging", "day=mon", "day=tue"]
    assert [file.partition for file in Manifests(tmp_path).files()] == [{"day": "mon"}, {"day": "tue"}]


def test_a_repeated_batch_changes_nothing(tmp_path: Path) -> None:
    sink = ParquetSink(name="lake", path=str(tmp_path))
    sink.commit(QUERY, 0, stage(sink, 0, rows(0, 10)))
    before = sorted(tmp_path.rglob("*"))
    assert sink.commit(QUERY, 0, stage(sink, 0, rows(0, 10))) == 10
    assert sorted(tmp_path.rglob("*")) == before


def test_a_new_checkpoint_into_the_same_folder_is_not_taken_for_a_repetition(tmp_path: Path) -> None:
    sink = ParquetSink(name="lake", path=str(tmp_path))
    sink.commit(QUERY, 0, stage(sink, 0, rows(0, 10)))
    sink.commit("another", 0, stage(sink, 0, rows(10, 10)))
    assert by_listing(tmp_path) == Counter(range(20))


# SP-05, between manifest and renames
def test_renames_that_were_cut_short_are_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = ParquetSink(name="lake", path=str(tmp_path))
    messages = stage(sink, 0, *(rows(10 * n, 10) for n in range(3)))
    done = 0

    move_one = FolderStore._move

    def move(store: FolderStore, source: str, target: str) -> bool:
        nonlocal done
        if done == 1:
            raise CrashError
        done += 1
        return move_one(store, source, target)

    with monkeypatch.context() as patch:
        patch.setattr(FolderStore, "_move", move)
        with pytest.raises(CrashError):
            sink.commit(QUERY, 0, messages)
    assert by_listing(tmp_path) == Counter(range(10))
    assert by_manifest(tmp_path) == Counter(range(30))
    sink.commit(QUERY, 0, stage(sink, 0, rows(0, 30)))
    assert by_listing(tmp_path) == by_manifest(tmp_path) == Counter(range(30))
    assert not list((tmp_path / "_staging").iterdir())


def test_values_of_partitions_become_safe_names(tmp_path: Path) -> None:
    sink = ParquetSink(name="lake", path=str(tmp_path), partition_by=["day"])
    sink.commit(QUERY, 0, stage(sink, 0, rows(0, 2, "../../etc"), rows(2, 1, None)))
    assert sorted(path.name for path in tmp_path.glob("day=*")) == [
        "day=..%2F..%2Fetc",
        "day=__HIVE_DEFAULT_PARTITION__",
    ]


def test_a_partition_column_that_is_not_there_is_named(tmp_path: Path) -> None:
    sink = ParquetSink(name="lake", path=str(tmp_path), partition_by=["month"])
    with pytest.raises(SinkError, match=r"month.*the rows have id, day"):
        stage(sink, 0, rows(0, 1))


def test_an_aborted_attempt_leaves_nothing(tmp_path: Path) -> None:
    sink = ParquetSink(name="lake", path=str(tmp_path))
    task = sink.open(Attempt(QUERY, 0, 0), rows(0, 1).schema)
    task.write(rows(0, 1))
    task.abort()
    assert not list(tmp_path.rglob("*.parquet"))


def test_old_leftovers_are_swept_but_not_what_is_committed(tmp_path: Path) -> None:
    sink = ParquetSink(name="lake", path=str(tmp_path))
    stage(sink, 0, rows(0, 1))
    (left,) = (tmp_path / "_staging").iterdir()
    sink.prepare(QUERY)
    assert left.exists()
    os.utime(left, (0, 0))
    sink.prepare(QUERY)
    assert not left.exists()


# SP-14
def test_columns_can_be_added_but_not_change_their_type(tmp_path: Path) -> None:
    sink = ParquetSink(name="lake", path=str(tmp_path))
    sink.commit(QUERY, 0, stage(sink, 0, rows(0, 2)))
    wider = pa.RecordBatch.from_pydict({"id": [2], "day": ["mon"], "shop": ["Berlin"]})
    check_columns(sink, wider.schema)
    sink.commit(QUERY, 1, stage(sink, 1, wider))
    with pytest.raises(SinkError, match="id \\(int64, now string\\)"):
        check_columns(sink, pa.schema([("id", pa.string())]))
    compact(tmp_path, target=1 << 20, older_than=-1, grace=60, clock=lambda: 2e9)
    (only,) = Manifests(tmp_path).paths()
    assert pq.ParquetFile(only).read().column("shop").to_pylist() == [None, None, "Berlin"]


def fill(path: Path, batches: int) -> ParquetSink:
    sink = ParquetSink(name="lake", path=str(path), partition_by=["day"])
    for number in range(batches):
        sink.commit(QUERY, number, stage(sink, number, rows(10 * number, 5, "mon"), rows(10 * number + 5, 5, "tue")))
    return sink


def test_compaction_merges_within_partitions_and_deletes_after_the_grace_period(tmp_path: Path) -> None:
    sink = fill(tmp_path, 6)
    done = compact(tmp_path, target=1 << 20, older_than=0, grace=3600, clock=lambda: 2e9)
    assert (done.before, done.after, done.merged) == (12, 2, 12)
    assert by_listing(tmp_path) == by_manifest(tmp_path) == Counter(range(60))
    assert len(list((tmp_path / "_replaced").rglob("*.parquet"))) == 12
    assert compact(tmp_path, target=1 << 20, older_than=0, grace=3600, clock=lambda: 4e9).deleted == 12
    assert not list((tmp_path / "_replaced").rglob("*.parquet"))
    # The manifests were folded into one, which still knows what was committed.
    assert {path.name[:4] for path in (tmp_path / "_manifests").glob("*.json")} == {"base"}
    sink.commit(QUERY, 5, stage(sink, 5, rows(50, 10)))
    sink.commit(QUERY, 6, stage(sink, 6, rows(60, 10)))
    assert by_listing(tmp_path) == by_manifest(tmp_path) == Counter(range(70))


def test_young_files_are_left_alone(tmp_path: Path) -> None:
    fill(tmp_path, 3)
    assert compact(tmp_path, target=1 << 20, older_than=60, grace=0, clock=lambda: 0.0).merged == 0


# SP-05, during compaction
@pytest.mark.parametrize("step", range(8))
def test_compaction_cut_short_anywhere_never_shows_a_row_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    fill(tmp_path, 3)
    left = step
    move_one = FolderStore._move

    def move(store: FolderStore, source: str, target: str) -> bool:
        if source.startswith("_staging/compact") or target.startswith("_replaced"):
            nonlocal left
            if left == 0:
                raise CrashError
            left -= 1
        return move_one(store, source, target)

    with monkeypatch.context() as patch:
        patch.setattr(FolderStore, "_move", move)
        with pytest.raises(CrashError):
            compact(tmp_path, target=1 << 20, older_than=0, grace=3600, clock=lambda: 2e9)
    assert by_manifest(tmp_path) == Counter(range(30))
    assert max(by_listing(tmp_path).values(), default=1) == 1
    compact(tmp_path, target=1 << 20, older_than=0, grace=3600, clock=lambda: 2e9)
    assert by_listing(tmp_path) == by_manifest(tmp_path) == Counter(range(30))


def test_a_folder_that_no_pipeline_wrote_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="no manifests"):
        compact(tmp_path, target=1, older_than=0, grace=0, clock=lambda: 0.0)


def test_a_damaged_manifest_is_named(tmp_path: Path) -> None:
    fill(tmp_path, 1)
    (path,) = (tmp_path / "_manifests").glob("*.json")
    path.write_text("{")
    with pytest.raises(SinkError, match=path.name):
        Manifests(tmp_path).files()
