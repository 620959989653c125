"""Catalogs of Iceberg tables: any that the library knows, by options, and by the environment or `.pyiceberg.yaml`.

Whatever goes wrong there is one sentence: libraries of catalogs have no common kind of error.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    ServerError,
    ServiceUnavailableError,
    TooManyRequestsError,
)
from sqlalchemy.exc import OperationalError

from pyromq.errors import PyroMQError
from pyromq.spark.errors import CatalogUnavailableError, SinkError
from pyromq.spark.sink.table.folder import make_folder

_PASSING = (
    requests.ConnectionError,
    requests.Timeout,
    ServiceUnavailableError,
    ServerError,
    TooManyRequestsError,
    CommitStateUnknownException,  # the number of the batch tells the next try
    OperationalError,  # of SQL: a database that is away, or locked
)
NAME = "pyromq"
"""Of a catalog without a name: it stands in the rows of SQL catalogs."""


def open_catalog(options: dict[str, str], warehouse: str) -> Catalog:
    """The catalog described; without a description an SQLite file in the warehouse, which is a folder then."""
    given = dict(options)
    name = given.pop("name", NAME)
    if not options:
        folder = Path(warehouse).resolve()
        make_folder(folder)
        given = {"type": "sql", "uri": f"sqlite:///{folder / 'catalog.db'}", "warehouse": f"file://{folder}"}
    elif warehouse:
        given.setdefault("warehouse", warehouse if "://" in warehouse else f"file://{Path(warehouse).resolve()}")
    return load_catalog(name, **given)


@contextmanager
def catalog_of(table: str, options: dict[str, str], warehouse: str, doing: str) -> Iterator[Catalog]:
    """Open while it is used. Raises SinkError; what is raised about concurrent commits passes through."""
    try:
        catalog = open_catalog(options, warehouse)
        try:
            yield catalog
        finally:
            catalog.close()
    except (PyroMQError, CommitFailedException):
        raise
    except Exception as error:
        where = f" in catalog {options.get('name', NAME)}" if options else ""
        kind = CatalogUnavailableError if isinstance(error, _PASSING) else SinkError
        raise kind(f"Iceberg table {table}{where} {doing}: {in_one_line(error)}") from error


def in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:400] or type(error).__name__
