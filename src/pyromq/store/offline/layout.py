"""How a store was written, by what its folders hold: for tools that look at one without its broker's settings."""

import dataclasses
import itertools
import os
from pathlib import Path

from pyromq.protocol.records.queueentry import ENTRY_SIZE
from pyromq.store.config import StoreConfig
from pyromq.store.errors import StoreFormatError

_MAX_ASKED = 100  # queue files


def found_config(config: StoreConfig) -> StoreConfig:
    """The same settings, with the lengths of files as they are on disk. Raises StoreFormatError without a store."""
    if not config.commit_log_dir.is_dir():
        raise StoreFormatError(
            f"{config.store_path_root_dir} is no store: it has no folder commitlog; give the folder that "
            f"storePathRootDir names"
        )
    log_size = _usual_length(list(config.commit_log_dir.glob("[0-9]*")))
    queue_size = _usual_length(list(itertools.islice(config.consume_queue_dir.glob("*/*/[0-9]*"), _MAX_ASKED)))
    return dataclasses.replace(
        config,
        mapped_file_size_commit_log=log_size or config.mapped_file_size_commit_log,
        mapped_file_size_consume_queue=queue_size - queue_size % ENTRY_SIZE or config.mapped_file_size_consume_queue,
    )


def _usual_length(paths: list[Path]) -> int:
    """The length that most files have: one may be cut, and the last one empty."""
    lengths = [length for path in paths if (length := os.stat(path).st_size)]  # noqa: PTH116 - quick
    return max(set(lengths), key=lengths.count, default=0)
