"""Disk space: what the system says of a full disk becomes the store's `DiskFullError`, and how full a disk is."""

from pathlib import Path

from pyromq import disk
from pyromq.store.errors import DiskFullError


def translated(error: OSError, path: Path | str) -> Exception:
    """What to raise in the place of an error of the system."""
    if error.errno in disk.NO_SPACE:
        return DiskFullError(f"no space left for {path}: free some space, or lower fileReservedTime")
    return error


def write_at(fd: int, data: disk.Bytes, position: int, path: Path | str) -> None:
    """Write all of `data` at `position`. Raises DiskFullError or OSError; part of the data may be there then."""
    try:
        disk.write_at(fd, data, position)
    except OSError as error:
        raise translated(error, path) from error


def used_ratio(path: Path) -> float:
    """The used share of the partition that holds a path, 0 to 1; -1 when it cannot be known."""
    try:
        status = disk.space(path)
    except OSError:
        return -1.0
    used = status.f_blocks - status.f_bfree
    total = used + status.f_bavail  # what is reserved for root counts as used
    return used / total if total > 0 else -1.0
