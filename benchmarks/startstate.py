"""How Python processes of a session are started, and from what: it decides what the start of a stream costs."""

import os
from dataclasses import dataclass
from importlib.util import cache_from_source, find_spec
from pathlib import Path

from pyspark.sql import SparkSession

from pyromq.spark import register
from pyromq.spark.launch.registration import Launch


@dataclass(frozen=True, slots=True)
class StartState:
    """What a stream's processes found when the session began."""

    launcher: str
    pyspark: str
    """Where its modules come from."""
    bytecode: dict[str, bool]
    """By package, whether a module that every process loads was compiled; never so in an archive."""
    writes_bytecode: bool
    """Whether Python may keep what it compiles."""

    def __str__(self) -> str:
        compiled = [name for name, found in self.bytecode.items() if found]
        kept = "kept" if self.writes_bytecode else "not kept (PYTHONDONTWRITEBYTECODE)"
        there = ", ".join(compiled) or "nothing"
        return (
            f"launcher `{self.launcher}`, PySpark from {self.pyspark}, bytecode of {there} there, new bytecode {kept}"
        )


def start_state(launch: Launch) -> StartState:
    """As it is now, before a session."""
    archive = launch is Launch.NONE
    return StartState(
        str(launch),
        "pyspark.zip" if archive else "site-packages",
        {
            "pyspark": not archive and _is_compiled("pyspark.sql.types"),
            "pyarrow": _is_compiled("pyarrow.types"),
            "pyromq": _is_compiled("pyromq.spark.source.tracker"),
        },
        not os.environ.get("PYTHONDONTWRITEBYTECODE"),
    )


def apply(spark: SparkSession, launch: Launch) -> None:
    """Start the processes of our formats so; without a launcher Spark is left to find the formats itself."""
    if launch is not Launch.NONE:
        register(spark, fork=launch is Launch.FORK)


def _is_compiled(module: str) -> bool:
    spec = find_spec(module)
    return spec is not None and spec.origin is not None and Path(cache_from_source(spec.origin)).exists()
