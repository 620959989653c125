"""Stores of files: the same promises on a disk and in an object store, and which of them may hold a table."""

import errno
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec  # type: ignore[import-untyped]  # has no annotations
import pytest
from fsspec.implementations.memory import MemoryFileSystem  # type: ignore[import-untyped]

from pyromq import durable
from pyromq.spark.errors import OptionError
from pyromq.spark.pipeline.run.faults import is_transient
from pyromq.spark.storage.folder import FolderStore
from pyromq.spark.storage.hadoop import HadoopStore
from pyromq.spark.storage.objects import ObjectStore
from pyromq.spark.storage.place import known_options, local_path, open_store, scheme_of, spark_url
from pyromq.spark.storage.store import StorageAwayError, StorageError, Store


class Renaming(MemoryFileSystem):  # type: ignore[misc]  # has no annotations
    """Renames as HDFS does over HTTP: onto a name that is taken only if told so."""

    def _call(self, op: str, *, method: str, path: str, destination: str, renameoptions: str = "") -> "Renaming":
        assert (op, method) == ("RENAME", "put")
        self.done = path in self.store and (destination not in self.store or renameoptions == "OVERWRITE")
        if self.done:
            self.store[destination] = self.store.pop(path)
        return self

    def json(self) -> dict[str, bool]:
        return {"boolean": self.done}


@pytest.fixture(params=["folder", "objects", "hadoop"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    name = uuid.uuid4().hex
    if request.param == "folder":
        yield open_store(tmp_path / "lake")
        return
    if request.param == "hadoop":
        yield HadoopStore(Renaming(), f"/{name}/lake", "hdfs://name/lake", "hdfs")
    else:
        yield open_store(f"memory://{name}/lake")
    memory = fsspec.filesystem("memory")
    for path in memory.find(f"/{name}"):
        memory.rm_file(path)


def names(store: Store, folder: str = "") -> list[str]:
    return [entry.name for entry in store.list(folder)]


def test_files_are_written_read_listed_and_deleted(store: Store) -> None:
    store.write("a/one", b"1")
    store.write("a/one", b"2")
    store.write("a b/day=..%2F", b"3")
    assert store.read("a/one") == b"2"
    assert names(store) == ["a b/day=..%2F", "a/one"]
    assert names(store, "a") == ["a/one"]
    assert names(store, "none") == []
    assert store.read_all(["a/one", "none"]) == {"a/one": b"2"}
    assert (store.exists("a/one"), store.exists("none")) == (True, False)
    assert store.within("a").read("one") == b"2"
    (one,) = store.list("a")
    assert one.size == 1
    assert one.modified > 1.6e9
    store.delete(["a/one", "none"])
    assert names(store) == ["a b/day=..%2F"]
    with pytest.raises(FileNotFoundError):
        store.read("a/one")


def test_a_name_is_created_once(store: Store) -> None:
    store.create("a/one", b"1")
    with pytest.raises(FileExistsError):
        store.create("a/one", b"2")
    assert store.read("a/one") == b"1"
    assert names(store) == ["a/one"]


def test_of_many_who_create_a_name_on_a_disk_one_succeeds(tmp_path: Path) -> None:
    store, winners = FolderStore(tmp_path), []

    def create(number: int) -> None:
        try:
            store.create("one", b"%d" % number)
            winners.append(number)
        except FileExistsError:
            pass

    rivals = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for rival in rivals:
        rival.start()
    for rival in rivals:
        rival.join()
    assert store.read("one") == b"%d" % winners[0]
    assert len(winners) == 1


def test_moves_that_were_done_are_passed_over(store: Store) -> None:
    store.write("a/one", b"1")
    for _ in range(2):
        store.move([("a/one", "b/one"), ("a/none", "b/none")])
        assert names(store) == ["b/one"]


def test_an_output_is_there_when_it_is_closed_and_gone_when_it_is_aborted(store: Store) -> None:
    import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415 - slow to load
    import pyarrow.parquet as pq  # type: ignore[import-untyped]  # noqa: PLC0415

    table = pa.table({"id": [1, 2]})
    output = store.output("a/one.parquet")
    pq.write_table(table, output.target)
    assert output.close() == store.list()[0].size
    with store.input("a/one.parquet") as source:
        assert pq.ParquetFile(source).read() == table
    output = store.output("a/two.parquet")
    pq.write_table(table, output.target)
    output.abort()
    assert names(store) == ["a/one.parquet"]


def test_a_disk_without_hard_links_still_refuses_a_name_that_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(durable, "create_file", refuse)
    store = FolderStore(tmp_path)
    store.create("one", b"1")
    with pytest.raises(FileExistsError):
        store.create("one", b"2")


def test_marks_of_folders_are_no_files() -> None:
    class Marked(MemoryFileSystem):  # type: ignore[misc]  # has no annotations
        cachable = False

        def find(self, *_: object, **__: object) -> dict[str, dict[str, object]]:
            return {"/lake/a/": {"size": 0}, "/lake/a/one": {"size": 1, "updated": "2026-01-02T03:04:05Z"}}

    (one,) = ObjectStore(Marked(), "/lake", "s3://lake", "s3").list()
    assert one == ("a/one", 1, 1767323045.0, 1767323045.0)


@pytest.mark.parametrize(
    ("place", "scheme", "spark"),
    [
        ("lake/orders", None, "lake/orders"),
        ("/lake/orders", None, "/lake/orders"),
        ("file:///lake/a%20b", None, "file:///lake/a%20b"),
        ("s3://lake/orders", "s3", "s3a://lake/orders"),
        ("s3a://lake/orders", "s3", "s3a://lake/orders"),
        ("gs://lake/orders", "gs", "gs://lake/orders"),
        ("abfss://lake@shop.dfs.core.windows.net/o", "abfs", "abfss://lake@shop.dfs.core.windows.net/o"),
        ("hdfs://name/lake", "hdfs", "hdfs://name/lake"),
    ],
)
def test_places(place: str, scheme: str | None, spark: str) -> None:
    assert (scheme_of(place), spark_url(place)) == (scheme, spark)


def test_a_local_url_is_a_folder(tmp_path: Path) -> None:
    assert local_path("file:///lake/a%20b") == Path("/lake/a b")
    assert isinstance(open_store(tmp_path.as_uri()), FolderStore)


def test_options_are_those_of_the_scheme_and_may_stand_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"s3a": {"key": "me", "secret": "${LAKE_SECRET}"}, "gs": {"token": "anon"}}
    monkeypatch.setenv("LAKE_SECRET", "hidden")
    assert known_options("s3", options) == {"key": "me", "secret": "hidden"}
    assert known_options("abfs", options) == {}
    monkeypatch.delenv("LAKE_SECRET")
    with pytest.raises(OptionError, match=r"storage\.s3\.secret .*LAKE_SECRET.*spark\.executorEnv\.LAKE_SECRET"):
        known_options("s3", options)


def test_hdfs_is_asked_over_http_where_the_options_say() -> None:
    store = open_store("hdfs://name:8020/lake/orders", {"hdfs": {"port": 14000, "user": "me"}})
    assert isinstance(store, HadoopStore)
    assert store._system.url == "http://name:14000/webhdfs/v1"
    assert store.within("a").url == "hdfs://name:8020/lake/orders/a"
    with pytest.raises(StorageError, match=r"names no host.*storage\.hdfs\.host"):
        open_store("hdfs:///lake")


def test_a_scheme_without_its_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise ImportError("Install gcsfs to access Google Storage")

    monkeypatch.setattr(fsspec.core, "url_to_fs", missing)
    with pytest.raises(OptionError, match=r"pip install 'pyromq\[gcs\]'"):
        open_store("gs://lake/orders")


class Careless(MemoryFileSystem):  # type: ignore[misc]  # has no annotations
    """Takes the condition and ignores it."""

    cachable = False

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:  # noqa: ARG002
        super().pipe_file(path, value, **kwargs)


class Away(MemoryFileSystem):  # type: ignore[misc]  # has no annotations
    """Answers as a store does that is not there, or lets nobody in."""

    cachable = False
    error: Exception

    def pipe_file(self, *_: object, **__: object) -> None:
        raise self.error

    cat_file = pipe_file


def test_stores_without_conditional_writes_are_refused() -> None:
    with pytest.raises(StorageError, match=r"sftp has no conditional writes.*delta or iceberg"):
        ObjectStore(MemoryFileSystem(), "/x", "sftp://name/x", "sftp").check()
    with pytest.raises(StorageError, match=r"ignores the condition.*delta or iceberg"):
        ObjectStore(Careless(), "/careless", "s3://careless", "s3").check()
    honest = ObjectStore(MemoryFileSystem(), f"/{uuid.uuid4().hex}", "s3://honest", "s3")
    honest.check()
    assert honest.list() == []


class NoCredentialsError(Exception):
    """As of the library of S3, which has no common kind for it."""


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (NoCredentialsError("Unable to locate credentials"), StorageError, "access is denied.*credentials"),
        (FileNotFoundError("The specified bucket does not exist"), StorageError, "does the bucket exist"),
        (PermissionError("Access Denied"), StorageError, "access is denied.*check keys"),
        (OSError(errno.EINVAL, "InvalidRequest"), StorageError, "refuses this"),
        (RuntimeError("Could not connect"), StorageAwayError, "does not answer.*Could not connect"),
    ],
)
def test_errors_of_libraries_become_sentences(error: Exception, kind: type[StorageError], words: str) -> None:
    system = Away()
    system.error = error
    store = ObjectStore(system, "/x", "s3://lake/x", "s3")
    for act in (lambda: store.write("a", b""), lambda: store.create("a", b""), lambda: store.read("a")):
        with pytest.raises(StorageError, match=f"s3://lake/x/a.*{words}") as caught:
            act()
        assert type(caught.value) is kind
        assert caught.value.retryable is (kind is StorageAwayError)


def test_an_object_that_is_missing_in_a_bucket_of_that_name_is_only_missing() -> None:
    system = Away()
    system.error = FileNotFoundError("my-bucket/container/one")
    with pytest.raises(FileNotFoundError, match="container/one"):
        ObjectStore(system, "/my-bucket", "s3://my-bucket", "s3").read("container/one")


def test_a_run_tries_again_after_a_store_that_was_away_but_not_after_one_that_refuses() -> None:
    said = "Traceback (most recent call last):\n  File ...\npyromq.spark.storage.store.{}: s3://lake/x: no\n"
    assert is_transient(said.format("StorageAwayError"))
    assert not is_transient(said.format("StorageError"))
