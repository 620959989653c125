"""Kills a pipeline with -9 at a named instant; loaded by every Python process of Spark through `sitecustomize`.

The instants are functions of the package, wrapped here, so that the package itself knows nothing of this. Who reaches
the wanted occurrence first kills the JVM that it works for, the driver, and then itself.
"""

import contextlib
import functools
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

INSTANT = "PYROMQ_TEST_INSTANT"
"""Environment: which of INSTANTS, and after how many occurrences, as `manifest:2`."""
GROUP = "PYROMQ_TEST_GROUP"
"""Environment: the process group to kill."""
COUNTER = "PYROMQ_TEST_COUNTER"
"""Environment: a file with one byte for each occurrence."""


def reached() -> None:
    """An occurrence of the instant."""
    wanted = int(os.environ[INSTANT].partition(":")[2])
    with Path(os.environ[COUNTER]).open("ab") as file:
        file.write(b".")
        count = file.tell()
    if count >= wanted:
        die()


def die() -> NoReturn:
    os.kill(_jvm(), signal.SIGKILL)
    os.killpg(int(os.environ[GROUP]), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("survived")


def _jvm() -> int:
    """The Java that the driver started: a session of its own keeps it out of the driver's process group."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # gone meanwhile
            name, _, rest = path.read_text().partition("(")[2].rpartition(")")
            if name == "java" and os.getpgid(int(rest.split()[1])) == int(os.environ[GROUP]):
                return int(path.parent.name)
    raise AssertionError("no process of Spark's")


def before(owner: Any, name: str) -> None:
    _wrap(owner, name, first=reached, last=None)


def after(owner: Any, name: str) -> None:
    _wrap(owner, name, first=None, last=reached)


def _wrap(owner: Any, name: str, *, first: Callable[[], None] | None, last: Callable[[], None] | None) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if first is not None:
            first()
        result = original(*args, **kwargs)
        if last is not None:
            last()
        return result

    setattr(owner, name, wrapped)


def offset_logged() -> None:
    from pyromq.spark.pipeline.run.rowsource import PipelineStreamReader  # noqa: PLC0415 - patched when it is armed

    before(PipelineStreamReader, "partitions")


def mid_read() -> None:
    from pyromq.spark.pipeline.run import rowsource  # noqa: PLC0415 - patched when it is armed

    original = rowsource._rows

    def rows(*args: Any) -> Iterator[Any]:
        for batch in original(*args):
            yield batch
            reached()

    rowsource._rows = rows  # type: ignore[assignment]  # takes the same arguments


def mid_sink() -> None:
    """One task has sent everything; others have not, and nothing is committed."""
    from pyromq.spark.sink.topic import TopicTask  # noqa: PLC0415 - patched when it is armed

    after(TopicTask, "close")


def dead_letters_sent() -> None:
    from pyromq.spark.pipeline.run.deadletter import Diverter  # noqa: PLC0415 - patched when it is armed

    after(Diverter, "close")


def manifest() -> None:
    """Between the manifest and the renames."""
    from pyromq.spark.sink.table.manifest import Manifests  # noqa: PLC0415 - patched when it is armed

    before(Manifests, "settle_files")


def delta_committed() -> None:
    """The version of the Delta table is there; the other sinks have not committed."""
    from pyromq.spark.sink.table.delta.commit import Commit  # noqa: PLC0415 - patched when it is armed

    after(Commit, "run")


def iceberg_committed() -> None:
    from pyromq.spark.sink.table.iceberg import sink  # noqa: PLC0415 - patched when it is armed

    after(sink, "commit_batch")


def between_sinks() -> None:
    """The files are committed, the topic's marks are not."""
    from pyromq.spark.sink.topic import TopicSink  # noqa: PLC0415 - patched when it is armed

    before(TopicSink, "commit")


def sinks_committed() -> None:
    """All sinks have committed; Spark has not noted it."""
    from pyromq.spark.pipeline.state.folder import State  # noqa: PLC0415 - patched when it is armed

    after(State, "report")


INSTANTS: dict[str, Callable[[], None]] = {
    "offset-logged": offset_logged,
    "mid-read": mid_read,
    "mid-sink": mid_sink,
    "dead-letters-sent": dead_letters_sent,
    "manifest": manifest,
    "delta-committed": delta_committed,
    "iceberg-committed": iceberg_committed,
    "between-sinks": between_sinks,
    "sinks-committed": sinks_committed,
}


def install() -> None:
    """Arm the instant of the environment, in Spark's own processes only, and in the one that they are forked from."""
    if INSTANT in os.environ and any("pyspark" in word or word.endswith(".nursery") for word in sys.orig_argv):
        INSTANTS[os.environ[INSTANT].partition(":")[0]]()
