"""A process that runs as if on a machine of its own: its clock and its disk are what its file says, at once."""

import subprocess
import sys
import time
from pathlib import Path

from tests.faults.harness.cluster import ROOT
from tests.faults.harness.machine import set_state

LOOK = """
import os, sys, time
from pathlib import Path
from tests.faults.harness.machine import follow_state
folder = Path(sys.argv[1])
follow_state(folder / "state")
for _ in sys.stdin:
    with (folder / "file").open("wb") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, 4096)
            full = False
        except OSError:
            full = True
    print(time.time_ns() - time.clock_gettime_ns(time.CLOCK_REALTIME), full, os.statvfs(folder).f_bavail, flush=True)
"""
SECOND = 10**9


def test_clock_and_disk_can_be_set(tmp_path: Path) -> None:
    state = tmp_path / "state"
    set_state(state)
    command = [sys.executable, "-c", LOOK, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def look() -> tuple[int, bool, int]:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("\n")
            process.stdin.flush()
            ahead, full, blocks = process.stdout.readline().split()
            return round(int(ahead) / SECOND / 600) * 600, full == "True", int(blocks)

        ahead, full, blocks = look()
        assert (ahead, full) == (0, False)
        assert blocks > 0
        set_state(state, ahead=3600 * SECOND)
        assert look()[0] == 3600
        set_state(state, ahead=-600 * SECOND, full=True)
        assert look() == (-600, True, 0)
        set_state(state)
        assert look()[:2] == (0, False)
        process.stdin.close()
    assert time.time_ns() - time.clock_gettime_ns(time.CLOCK_REALTIME) < SECOND, "only that process' clock is set"
