"""For whoever reads a table of Parquet files: which files hold its rows, each of them once."""

from pyromq.spark.sink.table.manifest import Manifests
from pyromq.spark.storage.place import Options, open_store


def table_files(table: str, storage: Options | None = None) -> list[str]:
    """Paths or URLs of the files that make up a table at this moment, by its manifests.

    A file that is gone when it is opened was merged into another: ask again.
    Raises SinkError, StorageError or OptionError.

    >>> spark.read.option("basePath", "lake/orders").parquet(*table_files("lake/orders"))
    """
    return Manifests(open_store(table, storage, shared=True)).paths()
