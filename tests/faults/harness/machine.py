"""Runs a module as if on a machine of its own: connections come from its address, its wall clock and disk can be set.

    MACHINE_ADDRESS=127.9.9.1 MACHINE_STATE=file python -m tests.faults.harness.machine pyromq broker …

The file holds by how many nanoseconds this machine's clock is ahead of the true one, and whether its disk is full. Only
the wall clock jumps; the monotonic one does not, as on a real machine. A full disk gives files no more blocks, and says
so; that is for machines without a disk of their own, which could be filled for real.
"""

import asyncio
import ctypes
import errno
import mmap
import os
import runpy
import signal
import struct
import sys
import time
from pathlib import Path
from typing import Any

import uvloop

STATE = struct.Struct("=q?")
FREE_BLOCKS, AVAILABLE_BLOCKS = 3, 4
"""Places in the answer of statvfs."""
SET_PARENT_DEATH_SIGNAL = 1


class Loop(uvloop.Loop):
    """An event loop whose connections come from this machine."""

    async def create_connection(self, *arguments: Any, **options: Any) -> Any:
        options.setdefault("local_addr", (os.environ["MACHINE_ADDRESS"], 0))
        return await super().create_connection(*arguments, **options)


def set_state(file: Path, *, ahead: int = 0, full: bool = False) -> None:
    """Let the machine with this file have such a clock and disk. Seen at once."""
    with file.open("r+b" if file.exists() else "wb") as opened:
        opened.write(STATE.pack(ahead, full))


def follow_state(file: Path) -> None:
    """Make this process' wall clock and disk the machine's."""
    with file.open("rb") as opened:
        page = mmap.mmap(opened.fileno(), STATE.size, prot=mmap.PROT_READ)
    true_ns, true_fallocate, true_statvfs = time.time_ns, os.posix_fallocate, os.statvfs

    def time_ns() -> int:
        return true_ns() + int(STATE.unpack(page)[0])

    def posix_fallocate(descriptor: int, offset: int, length: int, /) -> None:
        if STATE.unpack(page)[1]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        true_fallocate(descriptor, offset, length)

    def statvfs(path: Any) -> os.statvfs_result:
        fields = list(true_statvfs(path))
        if STATE.unpack(page)[1]:
            fields[FREE_BLOCKS] = fields[AVAILABLE_BLOCKS] = 0
        return os.statvfs_result(fields)

    time.time_ns = time_ns
    time.time = lambda: time_ns() / 1e9
    os.posix_fallocate, os.statvfs = posix_fallocate, statvfs


def new_event_loop() -> asyncio.AbstractEventLoop:
    return Loop()


def die_with_parent() -> None:
    """Have this process killed when the one that started it ends, however that ends."""
    ctypes.CDLL(None).prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def main() -> None:
    die_with_parent()
    follow_state(Path(os.environ["MACHINE_STATE"]))
    uvloop.new_event_loop = new_event_loop  # type: ignore[assignment]  # a kind of it
    module = sys.argv[1]
    del sys.argv[0]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
