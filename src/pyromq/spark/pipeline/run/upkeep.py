"""Small files of tables merged while their pipeline runs: in a thread of the runner, a bounded piece at a time.

Nothing waits for it and nothing depends on it: a compaction may be cut short anywhere, and another may go on meanwhile.
"""

import logging
import threading
import time
from collections.abc import Callable

from pyromq.errors import PyroMQError
from pyromq.spark.pipeline.definition.definition import Definition, ParquetTarget
from pyromq.spark.sink.table.compaction import compact
from pyromq.spark.sink.table.folder import MANIFESTS
from pyromq.spark.storage.place import open_store
from pyromq.spark.units import parse_bytes, parse_seconds

EVERY = 60.0
SHARE = 10
"""A round may take this part of the time, so large tables are looked at less often."""
MOST = 1 << 30
"""Bytes that a round merges in each table."""
LEAST = 8
"""Files that are worth a merge."""
GRACE = 3600.0

log = logging.getLogger(__name__)


class Upkeep:
    """The tables of a pipeline that ask for it with `compact: auto`."""

    def __init__(self, definition: Definition, *, clock: Callable[[], float] = time.time) -> None:
        self._definition = definition
        self._targets = [
            target
            for _, _, target in definition.targets
            if isinstance(target, ParquetTarget) and target.compact == "auto"
        ]
        self._clock = clock
        self._done = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Rounds from now on, until `close`."""
        if self._targets:
            self._thread = threading.Thread(target=self._rounds, name="pyromq-upkeep", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """No further round; one that is under way ends with the process."""
        self._done.set()

    def round(self) -> int:
        """Merge once; returns how many files. What fails is logged, and left for the next round."""
        merged = 0
        for target in self._targets:
            try:
                store = open_store(target.path, self._definition.storage, shared=True)
                if store.list(MANIFESTS):
                    merged += compact(
                        store,
                        target=parse_bytes(target.target_file),
                        older_than=parse_seconds(target.compact_after),
                        grace=GRACE,
                        clock=self._clock,
                        most=MOST,
                        least=LEAST,
                    ).merged
            except (PyroMQError, OSError) as error:
                log.warning("small files of %s were not merged: %s", target.path, error)
        return merged

    def _rounds(self) -> None:
        pause = EVERY
        while not self._done.wait(pause):
            began = time.monotonic()
            self.round()
            pause = max(EVERY, SHARE * (time.monotonic() - began))
