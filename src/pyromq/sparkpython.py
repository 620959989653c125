"""The Python that Spark runs: that of the script, unless Spark was told otherwise. Nothing is imported for it.

Spark asks the `python3` of the path for formats, which is another Python than that of `.venv/bin/python job.py` while
the environment is not activated, and knows nothing of PyroMQ. It reads `PYSPARK_PYTHON` when the first session starts.
"""

import os
import sys
from collections.abc import Mapping, MutableMapping
from importlib.util import find_spec

VARIABLES = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
"""Where users say which Python they want; of formats that it finds by itself Spark looks at the second first."""
_INSIDE = "SPARK_ENV_LOADED"
"""Set in whatever Spark's own scripts start: below them a Java machine runs already, or it is somebody else's job."""


def tell_spark(environ: MutableMapping[str, str], executable: str = sys.executable) -> None:
    """Name this Python to sessions that start from here on, where `python3` would be another one.

    Where it is this one, nothing is set: workers of a cluster may have theirs in another place.
    """
    if not executable or _INSIDE in environ or any(name in environ for name in VARIABLES) or not _has_spark():
        return
    if os.path.dirname(executable) != _folder_of_python3(environ):  # noqa: PTH120 - pathlib would be the largest import
        environ[VARIABLES[0]] = executable


def _has_spark() -> bool:
    try:
        return find_spec("pyspark") is not None
    except ValueError:  # somebody's stand-in for the module
        return False


def _folder_of_python3(environ: Mapping[str, str]) -> str | None:
    for folder in environ.get("PATH", os.defpath).split(os.pathsep):
        if os.access(os.path.join(folder, "python3"), os.X_OK):  # noqa: PTH118 - see above
            return folder.rstrip("/")
    return None
