"""HDFS, through its HTTP interface: it renames, so nothing is copied, and a rename onto a name that is taken fails.

That is the condition here. What is written gets its name when it is complete; until then it has one that begins with a
dot, which listings leave out.
"""

import contextlib
import posixpath
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Self
from urllib.parse import urlsplit

import fsspec  # type: ignore[import-untyped]  # has no annotations

from pyromq.spark.storage.objects import ObjectStore
from pyromq.spark.storage.store import StorageError

HTTP_PORT = 9870
"""Of a name server, unless the option `port` says otherwise; the one of URLs is for Hadoop's own protocol."""


class HadoopStore(ObjectStore):
    """A folder of HDFS."""

    @classmethod
    def open(cls, url: str, scheme: str, options: Mapping[str, Any]) -> Self:
        host = options.get("host") or urlsplit(url).hostname
        if host is None:
            raise StorageError(f"{url} names no host; write hdfs://HOST/PATH or set storage.hdfs.host")
        system = fsspec.filesystem("webhdfs", **{"port": HTTP_PORT, **options, "host": host})
        return cls(system, urlsplit(url).path, url, scheme)

    def write(self, name: str, data: bytes) -> None:
        with self._errors(name):
            self._rename(self._draft(name, data), self._path(name), renameoptions="OVERWRITE")

    def create(self, name: str, data: bytes) -> None:
        with self._errors(name):
            draft = self._draft(name, data)
            if not self._rename(draft, self._path(name)):
                self._system.rm_file(draft)
                raise FileExistsError(f"{self.url}/{name}")

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            with self._errors(name), contextlib.suppress(FileNotFoundError):
                self._system.rm_file(self._path(name))

    def move(self, names: Iterable[tuple[str, str]]) -> None:
        for source, target in names:
            with self._errors(source), contextlib.suppress(FileNotFoundError):
                self._system.makedirs(posixpath.dirname(self._path(target)), exist_ok=True)
                self._rename(self._path(source), self._path(target))

    def _draft(self, name: str, data: bytes) -> str:
        folder, _, last = self._path(name).rpartition("/")
        draft = f"{folder}/.{last}.{uuid.uuid4().hex}"
        self._system.pipe_file(draft, data)
        return draft

    def _rename(self, source: str, target: str, **options: str) -> bool:
        """Whether it was done; without options a name that is taken is left alone."""
        done = self._system._call("RENAME", method="put", path=source, destination=target, **options)
        return bool(options) or bool(done.json()["boolean"])
