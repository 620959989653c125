"""Formats made known to a session, each with the Python that Spark is to run for it.

Spark keeps the interpreter and its environment with each format that is registered: for the lookup of its schema, for
the driver side of streams, and for tasks. So a session that was started with another Python, or none that has PyroMQ,
can still use them, and what users run in Python besides is left as it is.
"""

import enum
import os
import site
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyromq.spark.errors import OptionError
from pyromq.spark.launch.holder import nursery
from pyromq.spark.launch.launcher import NURSERY, PACKAGES, PYTHON
from pyromq.sparkpython import VARIABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

SWITCH = "PYROMQ_SPARK_LAUNCHER"
"""The user's word, before that of any caller."""
LAUNCHER = Path(__file__).with_name("python")


class Launch(enum.StrEnum):
    """How Spark starts the Python processes of a format."""

    NONE = "none"
    """By itself."""
    INSTALLED = "installed"
    """Through the launcher, from installed modules."""
    FORK = "fork"
    """Through the launcher, by a nursery."""


def chosen_launch(default: Launch) -> Launch:
    """What the environment says, else the default. Raises OptionError."""
    given = os.environ.get(SWITCH, default)
    try:
        chosen = Launch(given)
    except ValueError:
        raise OptionError(f"{SWITCH} is {', '.join(Launch)}, not {given!r}") from None
    if sys.platform == "win32" or packages_folder() is None or not os.access(LAUNCHER, os.X_OK):
        return Launch.NONE
    # Elsewhere libraries of the system do not bear a fork.
    return Launch.INSTALLED if chosen is Launch.FORK and sys.platform != "linux" else chosen


def prepare(master: str) -> None:
    """Load modules while a session with such a master starts, for formats that it is to register with `fork`."""
    told = [os.environ.get(name) for name in VARIABLES]
    if _is_ours_to_say(master, told) and chosen_launch(Launch.FORK) is Launch.FORK:
        nursery()


def register_formats(spark: "SparkSession", *formats: "type[DataSource]", fork: bool = False) -> None:
    """Tell a session about formats. On a local master they run with this Python, unless Spark was told another.

    With `fork` their processes are forked from one that has all modules loaded. Raises OptionError.
    """
    with _interpreter(spark, fork=fork):
        for each in formats:
            spark.dataSource.register(each)


@contextmanager
def _interpreter(spark: "SparkSession", *, fork: bool) -> Iterator[None]:
    """Spark takes the interpreter of what is registered from the context. There is none under Spark Connect."""
    context: Any = getattr(spark, "_sc", None)
    told = [os.environ.get(name) for name in VARIABLES]
    if context is None or not _is_ours_to_say(context.master, [*told, context.getConf().get("spark.pyspark.python")]):
        yield
        return
    launch = chosen_launch(Launch.FORK if fork else Launch.INSTALLED)
    before = context.pythonExec, dict(context.environment)
    context.pythonExec = sys.executable if launch is Launch.NONE else str(LAUNCHER)
    if launch is not Launch.NONE:
        context.environment |= {PYTHON: sys.executable, PACKAGES: packages_folder() or ""}
    if launch is Launch.FORK:
        context.environment[NURSERY] = nursery()
    try:
        yield
    finally:
        context.pythonExec, context.environment = before


def _is_ours_to_say(master: str, told: Iterable[str | None]) -> bool:
    """Not where workers on other machines may have their Python in another place, nor where Spark was told another."""
    return master.startswith("local") and all(each in (None, sys.executable) for each in told)


def packages_folder() -> str | None:
    """The folder that PySpark is installed in, if it is one of those that every start of this Python looks into."""
    import pyspark  # noqa: PLC0415 - loaded wherever there is a session

    folder = str(Path(pyspark.__file__).parent.parent)
    return folder if folder in (*site.getsitepackages(), site.getusersitepackages()) else None
