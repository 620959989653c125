"""What memory allows: so many records a second can be copied into pages of a mapped log that nobody has touched before.

    python -m benchmarks.pages /data/folder --size 10240 --seconds 0.5

Record behind record goes into the commit log of an empty store, which gets pages ahead in a thread as a broker does;
there is no socket, no header, no checksum, no queue, no index and no sync. Prints one line of JSON.
"""

import argparse
import json
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyromq.store.config import StoreConfig
from pyromq.store.log.commitlog import CommitLog

AROUND = 240
"""Bytes of a record besides the body, as a message of the load generator has it."""
AT_ONCE = 64


def copies(folder: Path, size: int, seconds: float) -> float:
    """Records a second."""
    record = bytes(range(256)) * ((size + AROUND) // 256 + 1)
    record = record[: size + AROUND]
    with tempfile.TemporaryDirectory(dir=folder) as root, ThreadPoolExecutor(1) as worker:
        log = CommitLog(StoreConfig(store_path_root_dir=Path(root)), worker)
        count, begun = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - begun) < seconds:
            for _ in range(AT_ONCE):
                log.room(len(record)).append(record)
            count += AT_ONCE
        worker.submit(int).result()
        log.clear()
    return count / elapsed


def main() -> None:
    """Parse the command line, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", type=int, default=10240, help="bytes of a body")
    parser.add_argument("--seconds", type=float, default=0.5)
    options = parser.parse_args()
    print(json.dumps({"per_second": copies(options.folder, options.size, options.seconds)}))


if __name__ == "__main__":
    main()
