"""Run servers in the foreground until a signal asks them to stop."""

import asyncio
import gc
import signal
import sys
from collections.abc import Callable
from typing import Protocol

from pyromq.cli.flags import fail
from pyromq.errors import PyroMQError

NEW_OBJECTS = 20_000
"""How many containers may be made before the youngest are looked at for garbage."""


class Server(Protocol):
    """Whatever can be started and stopped."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


def run(server: Server, announce: Callable[[], None]) -> None:
    """Start, call `announce` once it accepts requests, wait for SIGTERM or SIGINT, stop cleanly.

    A second signal does not wait for the clean stop. What keeps a server from starting, a folder that cannot be used
    for example, is said in one line.
    """
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_run(server, announce))
    except (PyroMQError, OSError) as error:
        fail(str(error))


async def _run(server: Server, announce: Callable[[], None]) -> None:
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked.set)
    try:
        await server.start()
        _spare_the_collector()
        announce()
        await asked.wait()
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
        await server.stop()


def _spare_the_collector() -> None:
    """What a start leaves behind stays for good: look for garbage only among what comes later, and less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it exists."""
    if sys.platform == "win32":
        return None
    try:
        import uvloop  # noqa: PLC0415 - does not exist everywhere
    except ImportError:
        return None
    return uvloop.new_event_loop
