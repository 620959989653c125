"""Names and places inside a folder of Parquet files, and how a file gets there so that it survives a power cut.

Folders that begin with `_` are not data: readers that list the folder, Spark and pyarrow among them, pass them over.
"""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from pyromq import durable

FILE_MODE = 0o666
FOLDER_MODE = 0o777
"""A table is for all who may read the folder it was put into: whoever runs the query decides, by the umask."""
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
    """A folder of a table, durable. Raises OSError."""
    durable.make_folder(path, mode=FOLDER_MODE)


def write_file(path: Path, data: bytes) -> None:
    """A file of a table, whole or not at all. Raises OSError."""
    durable.write_file(path, data, mode=FILE_MODE, folder_mode=FOLDER_MODE)


def move(source: Path, target: Path) -> bool:
    """Rename unless it was done before; returns whether there was something to do."""
    if not source.exists():
        return False
    make_folder(target.parent)
    source.replace(target)
    return True
