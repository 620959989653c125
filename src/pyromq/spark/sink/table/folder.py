"""Names and places inside a folder of Parquet files.

Folders that begin with `_` are not data: readers that list the folder, Spark and pyarrow among them, pass them over.
"""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from pyromq import durable
from pyromq.spark.storage.place import SHARED_FOLDER

STAGING = "_staging"
MANIFESTS = "_manifests"
REPLACED = "_replaced"
NULL = "__HIVE_DEFAULT_PARTITION__"


def partition_path(values: Mapping[str, str | None]) -> str:
    """`day=2026-01-01/shop=Berlin`, empty without partition columns."""
    return "/".join(
        f"{quote(name)}={NULL if value is None else quote(value, safe=' ')}" for name, value in values.items()
    )


def make_folder(path: Path) -> None:
    """A local folder of a table, durable. Raises OSError."""
    durable.make_folder(path, mode=SHARED_FOLDER)
