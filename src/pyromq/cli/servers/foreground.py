"""Run servers in the foreground until a signal asks them to stop."""

import asyncio
import gc
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Protocol

from pyromq.cli.servers.flags import fail
from pyromq.errors import PyroMQError

NEW_OBJECTS = 20_000
"""How many containers may be made before the youngest are looked at for garbage."""


Reload = Callable[[], Coroutine[None, None, None]]


class Server(Protocol):
    """Whatever can be started and stopped."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


def run(server: Server, announce: Callable[[], None], reload: Reload | None = None) -> None:
    """Start, call `announce` once it accepts requests, wait for SIGTERM or SIGINT, stop cleanly.

    With `reload` SIGHUP calls that; without, it ends the process as usual. A start that takes long is given up.
    A second signal does not wait for the clean stop. What keeps a server from starting, a folder that cannot be used
    for example, is said in one line.
    """
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_run(server, announce, reload))
    except (PyroMQError, OSError) as error:
        fail(str(error))


async def _run(server: Server, announce: Callable[[], None], reload: Reload | None) -> None:
    asked, hung_up = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    handlers = {signal.SIGTERM: asked, signal.SIGINT: asked} | ({signal.SIGHUP: hung_up} if reload is not None else {})
    for number, event in handlers.items():
        loop.add_signal_handler(number, event.set)
    reloads: asyncio.Task[None] | None = None
    start = loop.create_task(server.start())
    try:
        if not await _in_time(start, asked):
            return
        _spare_the_collector()
        announce()
        if reload is not None:
            reloads = loop.create_task(_reload_at_each(hung_up, reload))
        await asked.wait()
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)
        if reloads is not None:
            reloads.cancel()
        if start.cancel():
            await asyncio.wait({start})
        await server.stop()


async def _in_time(start: asyncio.Task[None], asked: asyncio.Event) -> bool:
    """Whether a server has started before it was asked to stop. Raises what the start raised."""
    stop = asyncio.get_running_loop().create_task(asked.wait())
    await asyncio.wait({start, stop}, return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    if start.done():
        start.result()
    return start.done()


async def _reload_at_each(hung_up: asyncio.Event, reload: Reload) -> None:
    while True:
        await hung_up.wait()
        hung_up.clear()
        await reload()


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
