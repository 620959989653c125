"""JSON files that servers keep beside their data: written atomically, read back with Apache's fallbacks. Blocks.

Invariant: at any instant either the file or its `.bak` holds a complete text, whatever kills the process.
"""

import contextlib
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pyromq.protocol.errors import ProtocolError

log = logging.getLogger(__name__)

T = TypeVar("T")


def write_config(path: Path, text: bytes, *, mode: int = 0o644) -> None:
    """Replace `path` with `text`, keeping the previous text as `<name>.bak`. Raises OSError, and then nothing changed.

    The new text is complete and synced under a temporary name before either name is moved, because releases of
    Apache's servers read `.bak` whenever the main file is missing, but never a temporary one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".tmp")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise
    if path.exists():
        path.replace(backup_of(path))
    fresh.replace(path)
    _sync_directory(path.parent)


def read_config(path: Path, decode: Callable[[bytes], T]) -> T | None:
    """Decode `path`, or its backup when the file is missing, empty or damaged; None when there is neither.

    Raises the decoder's `ProtocolError` when there are texts but none can be read: starting with an empty table would
    then overwrite what might still be saved by hand.
    """
    failure: ProtocolError | None = None
    for candidate in (path, backup_of(path)):
        try:
            data = candidate.read_bytes()
        except FileNotFoundError:
            continue
        if not data.strip():
            continue
        try:
            value = decode(data)
        except ProtocolError as error:
            log.warning("%s cannot be read (%s)", candidate, error)
            failure = error
            continue
        if candidate != path:
            log.warning("%s was missing or damaged: using its backup %s", path, candidate.name)
        return value
    if failure is not None:
        raise failure
    return None


def backup_of(path: Path) -> Path:
    """Where the previous text of `path` is kept."""
    return path.with_name(path.name + ".bak")


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
