"""JSON files that servers keep beside their data: written atomically, read back with Apache's fallbacks. Blocks.

Invariant: at any instant either the file or its `.bak` holds a complete text, whatever kills the process.
"""

import contextlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pyromq import disk, durable
from pyromq.protocol.errors import ProtocolError

log = logging.getLogger(__name__)

T = TypeVar("T")


def write_config(path: Path, text: bytes, *, mode: int = disk.FILE_MODE) -> None:
    """Replace `path` with `text`, keeping the previous text as `<name>.bak`. Raises OSError, and then nothing changed.

    The new text is complete and synced under a temporary name before either name is moved, because releases of
    Apache's servers read `.bak` whenever the main file is missing, but never a temporary one.
    """
    draft = durable.write_draft(path, text, mode=mode)
    if path.exists():
        disk.rename(path, backup_of(path))
    disk.rename(draft, path)
    durable.sync_folder(path.parent)


class DamagedFileError(ProtocolError):
    """A file is there and cannot be read, and neither can its backup."""


def read_config(path: Path, decode: Callable[[bytes], T]) -> T | None:
    """Decode `path`, or its backup when the file is missing or damaged; None when there is neither: a fresh start.

    Raises DamagedFileError when something is there but nothing can be read: an empty table would take the place of
    what might still be saved by hand.
    """
    failures = []
    for candidate in (path, backup_of(path)):
        try:
            value = read_whole(candidate, decode)
        except DamagedFileError as error:
            log.warning("%s", error)
            failures.append(str(error))
            continue
        if value is None:
            continue
        if candidate != path:
            log.warning("%s is missing or damaged: using its backup %s", path, candidate.name)
            # Out of the way, and kept for who can read it: the next save would put it in the place of the backup.
            with contextlib.suppress(FileNotFoundError):
                disk.rename(path, path.with_name(f"{path.name}.damaged"))
        return value
    if failures:
        raise DamagedFileError(
            f"{'; '.join(failures)}; there is no other copy: restore {path.name} from a backup, or move it away "
            f"(and {backup_of(path).name}) to begin anew without what it held"
        )
    return None


def read_whole(path: Path, decode: Callable[[bytes], T]) -> T | None:
    """Decode `path` and nothing else; None when there is no such file. Raises DamagedFileError."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DamagedFileError(f"{path} cannot be read: {error.strerror or error}") from error
    if not data.strip():
        raise DamagedFileError(f"{path} is empty")
    try:
        return decode(data)
    except ProtocolError as error:
        raise DamagedFileError(f"{path} cannot be read: {error}") from error


def backup_of(path: Path) -> Path:
    """Where the previous text of `path` is kept."""
    return path.with_name(path.name + ".bak")
