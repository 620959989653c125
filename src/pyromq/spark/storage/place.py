"""Paths and URLs of tables and checkpoints: which store they mean, and how Spark calls the same place.

Secrets need not stand in a definition: libraries find their own in the environment, and a value `${NAME}` of an option
is read there by the process that opens the store.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pyromq.disk import FILE_MODE, FOLDER_MODE
from pyromq.spark.errors import OptionError
from pyromq.spark.storage.folder import FolderStore
from pyromq.spark.storage.store import Store

Scalar = str | int | float | bool
Options = Mapping[str, Mapping[str, Scalar]]
"""By scheme, as `{"s3": {"endpoint_url": …}}`: what the fsspec file system of that scheme is made with."""

SHARED_FILE = 0o666
SHARED_FOLDER = 0o777
"""A table is for all who may read the folder it was put into: whoever runs the query decides, by the umask."""

SCHEMES = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "gcs": "gs", "abfs": "abfs", "abfss": "abfs", "az": "abfs"}
"""Schemes that mean the same store, by the one whose options they take."""
EXTRAS = {"s3": "s3", "gs": "gcs", "abfs": "azure", "hdfs": "hdfs"}
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)\}")


def scheme_of(place: str) -> str | None:
    """The store that a URL names, None for a local folder."""
    found = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", place)
    if found is None or found[1] == "file":
        return None
    return SCHEMES.get(found[1], found[1])


def local_path(place: str) -> Path:
    """Of a path or a `file://` URL."""
    return Path(unquote(urlsplit(place).path)) if place.startswith("file:") else Path(place)


def spark_url(place: str) -> str:
    """As Hadoop's file systems are registered: what others call s3 is s3a there."""
    return re.sub(r"^s3n?://", "s3a://", place)


def open_store(place: str | Path | Store, options: Options | None = None, *, shared: bool = False) -> Store:
    """The store of a folder or URL; `shared` for what others read, else it is for its owner. Raises OptionError."""
    if not isinstance(place, str | Path):
        return place
    scheme = scheme_of(place) if isinstance(place, str) else None
    if scheme is None:
        path = local_path(place) if isinstance(place, str) else place
        modes = (SHARED_FILE, SHARED_FOLDER) if shared else (FILE_MODE, FOLDER_MODE)
        return FolderStore(path, mode=modes[0], folder_mode=modes[1])
    try:
        from pyromq.spark.storage.hadoop import HadoopStore  # noqa: PLC0415 - an extra
        from pyromq.spark.storage.objects import ObjectStore  # noqa: PLC0415 - an extra

        kind = HadoopStore if scheme == "hdfs" else ObjectStore
        return kind.open(str(place), scheme, known_options(scheme, options or {}))
    except ImportError as error:
        extra = EXTRAS.get(scheme)
        way = f"pip install 'pyromq[{extra}]'" if extra else f"the fsspec library for {scheme}://"
        raise OptionError(f"{place} cannot be opened: {error}; it needs {way}") from None


def known_options(scheme: str, options: Options) -> dict[str, Any]:
    """The options of a scheme, with what they take from the environment. Raises OptionError."""
    given = next((options[name] for name in options if SCHEMES.get(name, name) == scheme), {})
    return {name: _resolved(scheme, name, value) for name, value in given.items()}


def _resolved(scheme: str, name: str, value: Scalar) -> Scalar:
    found = _VARIABLE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return value
    if found[1] not in os.environ:
        raise OptionError(
            f"storage.{scheme}.{name} is {value}, but this process has no {found[1]} in its environment; "
            f"executors get it by spark.executorEnv.{found[1]}"
        )
    return os.environ[found[1]]
