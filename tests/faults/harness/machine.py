"""Runs a module as if on a machine of its own: connections come from its address, and its wall clock can be set.

    MACHINE_ADDRESS=127.9.9.1 MACHINE_CLOCK=file python -m tests.faults.harness.machine pyromq broker …

The clock's file holds nanoseconds, eight bytes, by which this machine's clock is ahead of the true one. Only the wall
clock jumps; the monotonic one does not, as on a real machine.
"""

import asyncio
import mmap
import os
import runpy
import struct
import sys
import time
from pathlib import Path
from typing import Any

import uvloop

OFFSET = struct.Struct("=q")


class Loop(uvloop.Loop):
    """An event loop whose connections come from this machine."""

    async def create_connection(self, *arguments: Any, **options: Any) -> Any:
        options.setdefault("local_addr", (os.environ["MACHINE_ADDRESS"], 0))
        return await super().create_connection(*arguments, **options)


def set_clock(file: Path, offset: int) -> None:
    """Let the clock of the machine with this file be ahead by so many nanoseconds. Seen at once."""
    with file.open("r+b") as opened:
        opened.write(OFFSET.pack(offset))


def follow_clock(file: Path) -> None:
    """Make this process' wall clock the machine's."""
    with file.open("rb") as opened:
        page = mmap.mmap(opened.fileno(), OFFSET.size, prot=mmap.PROT_READ)
    true_ns = time.time_ns

    def time_ns() -> int:
        return true_ns() + int(OFFSET.unpack(page)[0])

    time.time_ns = time_ns
    time.time = lambda: time_ns() / 1e9


def new_event_loop() -> asyncio.AbstractEventLoop:
    return Loop()


def main() -> None:
    follow_clock(Path(os.environ["MACHINE_CLOCK"]))
    uvloop.new_event_loop = new_event_loop  # type: ignore[assignment]  # a kind of it
    module = sys.argv[1]
    del sys.argv[0]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
