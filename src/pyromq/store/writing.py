"""Positioned writes that are complete or an error of the store's family, for files not written through a map."""

import os
from pathlib import Path

from pyromq.store.log.mappedfile import Bytes, translated


def write_at(fd: int, data: Bytes, position: int, path: Path | str) -> None:
    """Write all of `data` at `position`. Raises DiskFullError or OSError; part of the data may be there then."""
    try:
        written = os.pwrite(fd, data, position)
        while written < len(data):  # a disk that fills up takes a part first and refuses the next call
            written += os.pwrite(fd, memoryview(data)[written:], position + written)
    except OSError as error:
        raise translated(error, Path(path)) from error
