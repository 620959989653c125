"""What the disk allows: so many times a second a page of a file can be changed and be safe.

    python -m benchmarks.disk /data/folder --seconds 1

A mapped file whose blocks were written before gets record after record, each followed by `fdatasync`, as the log of
a broker with SYNC_FLUSH whose one client waits for each answer, with nothing to tell the journal. Prints one line of
JSON.
"""

import argparse
import json
import mmap
import os
import tempfile
import time
from pathlib import Path

LENGTH = 8 << 20
RECORD = 256
"""About what a message of 128 bytes takes in the log."""


def syncs(folder: Path, seconds: float) -> float:
    """Syncs a second."""
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        file.write(bytes(LENGTH))
        file.flush()
        os.fsync(file.fileno())
        with mmap.mmap(file.fileno(), LENGTH) as mapped:
            count, begun = 0, time.perf_counter()
            while (elapsed := time.perf_counter() - begun) < seconds:
                position = count * RECORD % LENGTH
                mapped[position : position + RECORD] = count.to_bytes(RECORD)
                os.fdatasync(file.fileno())
                count += 1
    return count / elapsed


def main() -> None:
    """Parse the command line, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=1.0)
    options = parser.parse_args()
    print(json.dumps({"per_second": syncs(options.folder, options.seconds)}))


if __name__ == "__main__":
    main()
