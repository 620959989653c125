"""What tables and pipelines need of the place where they keep files: names, whole files, and one condition.

`create` is that condition: of all who create a name, one succeeds. Commits, bases and leases rest on it alone, so that
no lock is needed that an object store does not have.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from pyromq.spark.errors import SparkError


class StorageError(SparkError):
    """A place for files refuses what is asked of it: it does not exist, or access is denied."""


class StorageAwayError(StorageError):
    """A place for files does not answer, or not in time; another try may help."""

    retryable = True


class Entry(NamedTuple):
    """A file in a listing."""

    name: str
    """Relative to the store."""
    size: int
    modified: float
    """When its content came, Unix seconds."""
    named: float
    """When it got this name: later than its content if it was moved here."""


class Output(Protocol):
    """A data file that is being written."""

    @property
    def target(self) -> Any:
        """What pyarrow writes to: a path or an open file."""

    def close(self) -> int:
        """Make it durable under its name; returns its size. Raises OSError or StorageError."""

    def abort(self) -> None:
        """Leave nothing behind as far as that is possible; never raises."""


class Store(Protocol):
    """A folder, or what stands under a prefix of an object store. Names are relative to it, with `/` between parts.

    Every method raises StorageError for what the place refuses and StorageAwayError where it does not answer; a local
    folder raises OSError. What is written is durable when the method returns.
    """

    @property
    def url(self) -> str:
        """For people, and for whoever opens it again."""

    def check(self) -> None:
        """Raises StorageError when `create` cannot tell two who create the same name apart."""

    def read(self, name: str) -> bytes:
        """Raises FileNotFoundError."""

    def read_all(self, names: Sequence[str]) -> dict[str, bytes]:
        """Those of the names that exist."""

    def write(self, name: str, data: bytes) -> None:
        """Make or replace a file: all of it or nothing."""

    def create(self, name: str, data: bytes) -> None:
        """The same for a name that must be free. Raises FileExistsError."""

    def exists(self, name: str) -> bool: ...

    def list(self, folder: str = "") -> "list[Entry]":
        """All files below a folder, by name; none if it does not exist."""

    def delete(self, names: Iterable[str]) -> None:
        """Those that exist."""

    def move(self, names: "Iterable[tuple[str, str]]") -> None:
        """Give files other names, those for which it was not done before."""

    def output(self, name: str) -> Output:
        """Begin a data file."""

    def input(self, name: str) -> AbstractContextManager[Any]:
        """A data file as pyarrow reads it, a path or an open file. Raises FileNotFoundError."""

    def within(self, folder: str) -> "Store":
        """The store of a folder in this one."""
