"""Manifests under rivals: of attempts at a batch one counts, and folding never hides, repeats or revives a row."""

import os
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import fsspec  # type: ignore[import-untyped]  # has no annotations
import msgspec
import pytest

from pyromq.spark.sink.table import fold as folding
from pyromq.spark.sink.table.compaction import compact
from pyromq.spark.sink.table.fold import fold
from pyromq.spark.sink.table.manifest import Base, Manifests
from pyromq.spark.sink.table.parquet import FOLD_EVERY, ParquetSink
from pyromq.spark.storage.folder import FolderStore
from pyromq.spark.storage.objects import ObjectStore
from tests.unit.spark.parquettables import QUERY, ids, stage


class CrashError(Exception):
    """Stands for a killed process."""


@pytest.fixture(params=["folder", "objects"])
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ParquetSink]:
    """A table on a disk, and in an object store (of fsspec's own, in memory)."""
    if request.param == "folder":
        yield ParquetSink(name="lake", path=str(tmp_path))
        return
    name = uuid.uuid4().hex
    yield ParquetSink(name="lake", path=f"memory://{name}/lake")
    memory = fsspec.filesystem("memory")
    for path in memory.find(f"/{name}"):
        memory.rm_file(path)


def fill(sink: ParquetSink, batches: int) -> Counter[int]:
    for number in range(batches):
        sink.commit(QUERY, number, stage(sink, number))
    return Counter(range(10 * batches))


def by_manifest(sink: ParquetSink) -> Counter[int]:
    return ids(sink.store(), Manifests(sink.store()).names())


def by_listing(sink: ParquetSink) -> Counter[int]:
    store = sink.store()
    return ids(store, [entry.name for entry in store.list() if not entry.name.startswith("_")])


def once(patch: pytest.MonkeyPatch, owner: type, name: str, act: Callable[[], object], *, after: bool = False) -> None:
    """Let something happen before, or after, the first call of a method."""
    original = getattr(owner, name)

    def wrapped(*args: object, **kwargs: object) -> object:
        patch.setattr(owner, name, original)
        if not after:
            act()
        result = original(*args, **kwargs)
        if after:
            act()
        return result

    patch.setattr(owner, name, wrapped)


def store_kind(sink: ParquetSink) -> type:
    return type(sink.store())


def test_of_two_attempts_that_commit_at_once_one_counts(sink: ParquetSink, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, rival = stage(sink, 0), stage(sink, 0)
    once(monkeypatch, store_kind(sink), "create", lambda: sink.commit(QUERY, 0, rival))
    assert sink.commit(QUERY, 0, mine) == 10
    assert by_listing(sink) == by_manifest(sink) == Counter(range(10))
    assert not sink.store().list("_staging")


def test_an_attempt_that_comes_after_its_batch_was_folded_counts_for_nothing(
    sink: ParquetSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    zombie = stage(sink, 1)

    def others() -> None:
        fill(sink, 3)
        fold(Manifests(sink.store()))

    once(monkeypatch, store_kind(sink), "create", others)
    sink.commit(QUERY, 1, zombie)
    assert by_listing(sink) == by_manifest(sink) == Counter(range(30))
    assert not sink.store().list("_staging")


def test_a_late_manifest_whose_writer_died_is_passed_over_and_swept(
    sink: ParquetSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    zombie = stage(sink, 1)

    def others() -> None:
        fill(sink, 3)
        fold(Manifests(sink.store()))
        once(monkeypatch, store_kind(sink), "delete", dies)

    def dies() -> None:
        raise CrashError

    once(monkeypatch, store_kind(sink), "create", others)
    with pytest.raises(CrashError):
        sink.commit(QUERY, 1, zombie)
    assert by_listing(sink) == by_manifest(sink) == Counter(range(30))
    sink.commit(QUERY, 1, stage(sink, 1))
    sink.commit(QUERY, 3, stage(sink, 3))
    assert fold(Manifests(sink.store())) == 1
    assert by_listing(sink) == by_manifest(sink) == Counter(range(40))
    assert not Manifests(sink.store()).listing().manifests


def test_an_answer_that_was_lost_is_no_rival(sink: ParquetSink, monkeypatch: pytest.MonkeyPatch) -> None:
    def again() -> None:
        raise FileExistsError

    once(monkeypatch, store_kind(sink), "create", again, after=True)
    fill(sink, 1)
    assert by_listing(sink) == by_manifest(sink) == Counter(range(10))


def test_a_store_that_goes_away_in_a_commit_neither_loses_nor_repeats(
    sink: ParquetSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> None:
        raise CrashError

    for name in ("create", "move"):
        for after in (False, True):
            once(monkeypatch, store_kind(sink), name, away, after=after)
            with pytest.raises(CrashError):
                sink.commit(QUERY, 0, stage(sink, 0))
            assert max(by_listing(sink).values(), default=0) <= 1
    sink.commit(QUERY, 0, stage(sink, 0))
    assert by_listing(sink) == by_manifest(sink) == Counter(range(10))


def test_a_reader_beside_a_fold_sees_every_row(sink: ParquetSink, monkeypatch: pytest.MonkeyPatch) -> None:
    every = fill(sink, 3)
    once(monkeypatch, store_kind(sink), "list", lambda: fold(Manifests(sink.store())), after=True)
    assert by_manifest(sink) == every


@pytest.mark.parametrize("step", range(6))
def test_a_fold_cut_short_anywhere_changes_nothing(
    sink: ParquetSink, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    every = fill(sink, 4)
    left = step

    def cut(patch: pytest.MonkeyPatch, name: str) -> None:
        original = getattr(store_kind(sink), name)

        def wrapped(*args: object) -> object:
            nonlocal left
            if left == 0:
                raise CrashError
            left -= 1
            return original(*args)

        patch.setattr(store_kind(sink), name, wrapped)

    with monkeypatch.context() as patch:
        for name in ("create", "delete", "read_all"):
            cut(patch, name)
        try:
            fold(Manifests(sink.store()))
        except CrashError:
            pass
        else:
            assert step >= 4, "every step was to be cut"
    assert by_manifest(sink) == by_listing(sink) == every
    fold(Manifests(sink.store()))
    sink.commit(QUERY, 2, stage(sink, 2))
    assert by_manifest(sink) == by_listing(sink) == every


def test_of_two_folds_at_once_one_counts(sink: ParquetSink, monkeypatch: pytest.MonkeyPatch) -> None:
    every = fill(sink, 3)

    def rival() -> None:
        once(monkeypatch, store_kind(sink), "create", quicker)

    def quicker() -> None:
        sink.commit(QUERY, 3, stage(sink, 3))
        assert fold(Manifests(sink.store())) == 4

    once(monkeypatch, store_kind(sink), "create", rival)  # the first is its part, the second its base
    assert fold(Manifests(sink.store())) == 0
    every.update(range(30, 40))
    assert by_manifest(sink) == by_listing(sink) == every


def test_manifests_of_a_long_run_stay_few(sink: ParquetSink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "PART_FILES", 40)
    every = fill(sink, 3 * FOLD_EVERY)
    manifests = Manifests(sink.store())
    assert not manifests.listing().manifests
    base = manifests.base()
    assert sum(part.files for part in base.parts) == 3 * FOLD_EVERY
    assert len(base.parts) == 3
    assert sum(part.rows for part in base.parts) == sum(every.values())
    assert by_manifest(sink) == every


def test_a_fold_that_fails_fails_no_batch(sink: ParquetSink, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(_: object) -> int:
        raise OSError("the store is away")

    monkeypatch.setattr("pyromq.spark.sink.table.parquet.fold", away)
    assert by_manifest(sink) != (every := fill(sink, FOLD_EVERY))
    assert by_manifest(sink) == every


def test_of_two_compactions_at_once_one_counts(sink: ParquetSink, monkeypatch: pytest.MonkeyPatch) -> None:
    every = fill(sink, 3)

    def run() -> int:
        return compact(sink.store(), target=1 << 20, older_than=0, grace=3600, clock=lambda: 4e9).merged

    once(monkeypatch, Manifests, "commit", run)
    assert run() == 0
    assert by_manifest(sink) == by_listing(sink) == every
    assert len(Manifests(sink.store()).files()) == 1


def test_commits_beside_a_compaction_and_a_fold_are_kept(sink: ParquetSink, monkeypatch: pytest.MonkeyPatch) -> None:
    every = fill(sink, 3)
    once(monkeypatch, Manifests, "commit", lambda: sink.commit(QUERY, 3, stage(sink, 3)), after=True)
    done = compact(sink.store(), target=1 << 20, older_than=0, grace=3600, clock=lambda: 4e9)
    every.update(range(30, 40))
    assert (done.merged, done.after) == (3, 2)
    assert by_manifest(sink) == by_listing(sink) == every


def test_a_compaction_ends_once_it_has_merged_enough(sink: ParquetSink) -> None:
    every = fill(sink, 8)
    size = Manifests(sink.store()).files()[0].size
    done = compact(sink.store(), target=2 * size, older_than=0, grace=3600, clock=lambda: 4e9, most=3 * size)
    assert (done.merged, done.after) == (4, 6)
    assert by_manifest(sink) == by_listing(sink) == every


def test_a_replaced_file_whose_manifest_was_not_folded_yet_does_not_come_back(sink: ParquetSink) -> None:
    every = fill(sink, 3)
    manifests = Manifests(sink.store())
    compact(sink.store(), target=1 << 20, older_than=0, grace=3600, clock=lambda: 4e9)
    late = manifests.base()
    store = sink.store()
    # As a fold leaves it whose listing had the compaction, but not yet the batch that it merged.
    late.batches[QUERY], late.replaced = 2, ["late.parquet"]
    store.create("_manifests/base-000000000009.json", msgspec.json.encode(late))
    rows = msgspec.json.decode(stage(sink, 3)[0])
    rows["files"][0]["final"] = "late.parquet"
    sink.commit(QUERY, 3, [msgspec.json.encode(rows)])
    assert by_manifest(sink) == every
    fold(manifests)
    assert by_manifest(sink) == every


def test_a_base_of_the_first_form_is_read_and_folded_on(tmp_path: Path) -> None:
    sink = ParquetSink(name="lake", path=str(tmp_path))
    every = fill(sink, 2)
    manifests = Manifests(sink.store())
    first = {"version": 1, "batches": {QUERY: 1}, "files": manifests.files(), "columns": {"id": "int64"}}
    for path in (tmp_path / "_manifests").glob("*.json"):
        path.unlink()
    (tmp_path / "_manifests" / "base.json").write_bytes(msgspec.json.encode(first))
    assert by_manifest(sink) == every
    sink.commit(QUERY, 1, stage(sink, 1))
    sink.commit(QUERY, 2, stage(sink, 2))
    assert fold(manifests) == 1
    every.update(range(20, 30))
    assert by_manifest(sink) == by_listing(sink) == every
    assert manifests.base().files == Base().files


def test_old_bases_and_parts_go_and_what_counts_stays(tmp_path: Path) -> None:
    sink = ParquetSink(name="lake", path=str(tmp_path))
    manifests = Manifests(sink.store())
    for number in range(4):
        sink.commit(QUERY, number, stage(sink, number))
        assert fold(manifests) == 1
    left = sorted(path.name for path in (tmp_path / "_manifests").rglob("*.json"))
    assert len(left) == 8, "four bases with a part each, all of them young"
    for path in (tmp_path / "_manifests").rglob("*.json"):
        os.utime(path, (0, 0))
    sink.commit(QUERY, 4, stage(sink, 4))
    assert fold(manifests) == 1
    bases = sorted(path.name for path in (tmp_path / "_manifests").glob("*.json"))
    assert bases == ["base-000000000003.json", "base-000000000004.json"]
    assert len(list((tmp_path / "_manifests" / "parts").iterdir())) == 2
    assert by_manifest(sink) == by_listing(sink) == Counter(range(50))


def test_the_stores_are_those_of_the_places(sink: ParquetSink) -> None:
    assert store_kind(sink) is (ObjectStore if "://" in sink.path else FolderStore)
