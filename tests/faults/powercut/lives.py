"""Servers on a disk that forgets: each life ends with the power, and the next one finds what the disk has."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests import processes
from tests.faults.powercut.disk import cut
from tests.faults.powercut.program import on_disk

SMALL = {
    "mapped_file_size_commit_log": 1 << 20,
    "mapped_file_size_consume_queue": 20_000,
    "mapped_file_size_timer_log": 128_000,
    "max_hash_slot_num": 500,
    "max_index_num": 2_000,
}
"""Settings of a broker whose files are quickly compared."""


def broker(folder: Path, **settings: object) -> processes.Server:
    """A broker with these settings (Python names); its store is a new folder below this one, which is the disk."""
    flags: list[str] = []
    for name, value in (SMALL | settings).items():
        flag = "--" + name.replace("_", "-")
        flags += [flag] if value is True else [flag, str(value)]
    server = processes.broker(folder / "new" / "store", *flags)
    server.runner = on_disk(folder)
    return server


def name_server(folder: Path) -> processes.Server:
    """A name server that keeps its file in a new folder below this one."""
    server = processes.name_server(folder / "new")
    server.runner = on_disk(folder)
    return server


@asynccontextmanager
async def life(server: processes.Server, folder: Path, seed: int) -> AsyncIterator[str]:
    """Start it, whatever it finds; when this ends, the power is cut. Yields its address."""
    await asyncio.to_thread(server.start)
    try:
        yield server["namesrv" if server.command == "namesrv" else "broker"]
    finally:
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(cut, folder, seed)
