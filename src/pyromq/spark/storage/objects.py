"""An object store, through fsspec: no folders and no renames, but whole objects and, where it has that, the condition.

S3 has it (`If-None-Match: *`), Google's (`ifGenerationMatch=0`) and Azure's (`overwrite=False`), each sent by its
library; others only look and then write, which two can do at once. A move is a copy within the store and a delete, in
this order, so that an object is always under one of its names.
"""

import contextlib
import errno
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, Self

import fsspec  # type: ignore[import-untyped]  # has no annotations

from pyromq.spark.storage.store import Entry, StorageAwayError, StorageError

CONDITIONAL = ("s3", "gs", "abfs", "hdfs", "memory")
_TIMES = ("LastModified", "last_modified", "mtime", "updated", "created", "modificationTime")
_NO_BUCKET = re.compile(r"\b(bucket|container) does not exist", re.IGNORECASE)
_DENIED = ("NoCredentialsError", "PartialCredentialsError", "ClientAuthenticationError", "RefreshError")
"""Errors of libraries about keys that are no PermissionError."""
_BUSY_TRIES = 8
_COPIES = 8
"""At once."""


class ObjectStore:
    """What stands under a prefix."""

    def __init__(self, system: Any, root: str, url: str, scheme: str) -> None:
        self._system = system
        self._root = root.rstrip("/")
        self.url = url.rstrip("/")
        self._scheme = scheme

    @classmethod
    def open(cls, url: str, scheme: str, options: Mapping[str, Any]) -> Self:
        """Raises ImportError without the library of the scheme, else StorageError."""
        try:
            # Listings must be of now: others write here, too.
            system, root = fsspec.core.url_to_fs(url, **{"use_listings_cache": False, **options})
        except ImportError:
            raise
        except Exception as error:  # each library has its own errors
            raise StorageError(f"{url} cannot be opened: {error}") from error
        return cls(system, root, url, scheme)

    def check(self) -> None:
        """Raises StorageError when this store cannot tell two who create the same name apart."""
        if self._scheme not in CONDITIONAL:
            raise StorageError(
                f"{self.url}: {self._scheme} has no conditional writes here, so two attempts at a batch could both "
                "count; use a delta or iceberg sink there, whose own commits decide, or s3, gs or abfs"
            )
        name = f"_probe-{uuid.uuid4().hex}"
        self.create(name, b"")
        try:
            self.create(name, b"")
        except FileExistsError:
            return
        finally:
            self.delete([name])
        raise StorageError(
            f"{self.url} takes conditional writes and ignores the condition, so two attempts at a batch could both "
            "count; use a delta or iceberg sink there, whose own commits decide, or a newer version of the store"
        )

    def read(self, name: str) -> bytes:
        with self._errors(name, missing=True):
            data: bytes = self._system.cat_file(self._path(name))
            return data

    def read_all(self, names: Sequence[str]) -> dict[str, bytes]:
        if not names:
            return {}
        paths = {self._path(name): name for name in names}
        with self._errors(names[0]):
            found = self._system.cat(list(paths), on_error="return")
        made: dict[str, bytes] = {}
        for path, data in found.items():
            name = paths[path]
            if isinstance(data, FileNotFoundError):
                continue
            with self._errors(name):
                if isinstance(data, BaseException):
                    raise data
            made[name] = data
        return made

    def write(self, name: str, data: bytes) -> None:
        with self._errors(name):
            self._system.pipe_file(self._path(name), data)

    def create(self, name: str, data: bytes) -> None:
        for attempt in range(_BUSY_TRIES):
            try:
                with self._errors(name):
                    self._system.pipe_file(self._path(name), data, mode="create")
                return
            except StorageAwayError as error:
                # S3 says so to one of two who create at the same moment; it may come again.
                if "ConditionalRequestConflict" not in repr(error.__cause__) or attempt == _BUSY_TRIES - 1:
                    raise
                time.sleep(0.05 * 2**attempt)

    def exists(self, name: str) -> bool:
        with self._errors(name):
            try:
                self._system.info(self._path(name))
            except FileNotFoundError:
                return False
            return True

    def list(self, folder: str = "") -> list[Entry]:
        with self._errors(folder):
            try:
                found = self._system.find(self._path(folder), detail=True)
            except FileNotFoundError:
                return []
        made = []
        for path, facts in sorted(found.items()):
            if path.endswith("/") or path.rpartition("/")[2].startswith("."):  # a mark of a folder, a draft
                continue
            when = _modified(facts)
            made.append(Entry(self._name(path), int(facts.get("size") or 0), when, when))
        return made

    def delete(self, names: Iterable[str]) -> None:
        paths = [self._path(name) for name in names]
        if not paths:
            return
        with self._errors(paths[0]):
            try:
                self._system.rm(paths)
            except FileNotFoundError:
                for path in paths:
                    with contextlib.suppress(FileNotFoundError):
                        self._system.rm_file(path)

    def move(self, names: Iterable[tuple[str, str]]) -> None:
        with ThreadPoolExecutor(_COPIES) as pool:  # each copy is a request that waits for the store
            done = list(pool.map(lambda pair: pair[0] if self._copy(*pair) else None, names))
        self.delete([source for source in done if source is not None])

    def _copy(self, source: str, target: str) -> bool:
        with self._errors(source):
            try:
                self._system.cp_file(self._path(source), self._path(target))
            except FileNotFoundError:
                return False
        return True

    def output(self, name: str) -> "ObjectOutput":
        with self._errors(name):
            return ObjectOutput(self, name, self._system.open(self._path(name), "wb"))

    @contextlib.contextmanager
    def input(self, name: str) -> Iterator[Any]:
        with self._errors(name, missing=True), self._system.open(self._path(name), "rb") as file:
            yield file

    def within(self, folder: str) -> Self:
        return type(self)(self._system, self._path(folder), f"{self.url}/{folder}", self._scheme)

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def _name(self, path: str) -> str:
        return path.removeprefix("/" if path.startswith("/") and not self._root.startswith("/") else "")[
            len(self._root) + 1 :
        ]

    @contextlib.contextmanager
    def _errors(self, name: str, *, missing: bool = False) -> Iterator[None]:
        """The errors of all libraries as ours; a file that is missing is one for those who read it."""
        where = f"{self.url}/{name}" if name else self.url
        try:
            yield
        except FileExistsError:
            raise
        except FileNotFoundError as error:
            # Both look alike: an object that is not there, and a bucket.
            if missing and not _NO_BUCKET.search(str(error)):
                raise
            raise StorageError(f"{where} cannot be written: {error}; does the bucket exist?") from error
        except StorageError:
            raise
        except Exception as error:  # each library has its own errors
            if isinstance(error, PermissionError) or type(error).__name__ in _DENIED:
                raise StorageError(f"{where}: access is denied ({error}); check keys and policy") from error
            if isinstance(error, OSError) and error.errno == errno.EINVAL:
                raise StorageError(f"{where}: the store refuses this: {error}") from error
            raise StorageAwayError(f"{where}: the store does not answer as it should: {error}") from error


class ObjectOutput:
    """An upload, in parts where it is large; nothing has its name before the end."""

    def __init__(self, store: ObjectStore, name: str, file: Any) -> None:
        self.target = file
        self._store = store
        self._name = name

    def close(self) -> int:
        with self._store._errors(self._name):
            size = int(self.target.tell())
            self.target.close()
            return size

    def abort(self) -> None:
        with contextlib.suppress(Exception):
            self.target.discard()
            self.target.closed = True
        with contextlib.suppress(Exception):
            self._store.delete([self._name])


def _modified(facts: Mapping[str, Any]) -> float:
    for key in _TIMES:
        when = facts.get(key)
        if isinstance(when, datetime):
            return when.timestamp()
        if isinstance(when, int | float):
            return float(when) / 1000 if key == "modificationTime" else float(when)
        if isinstance(when, str):
            return datetime.fromisoformat(when).timestamp()
    return 0.0
