"""A listening socket for protocols of another kind than frames (replication, HTTP), with TLS as on the main port.

With a certificate the first byte tells TLS from plain text, so both can share the port or one of them be refused. Each
handshake uses the certificate as it is then. Who connects and stays silent is closed after a while, or earlier to make
room.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from functools import partial

from pyromq.remoting.accept.acceptor import bind
from pyromq.remoting.accept.preamble import CLOSED
from pyromq.remoting.address import Address, peer_address
from pyromq.remoting.tls import HANDSHAKE_BYTE, ServerTls, TlsMode

logger = logging.getLogger("pyromq.remoting")

MAX_OPENINGS = 128
OPENING_TIMEOUT = 10.0
ACCEPT_PAUSE = 1.0


class Listener:
    """Gives each connection a protocol of its own, once it is known to speak what the port serves."""

    def __init__(self, make: Callable[[], asyncio.Protocol], tls: ServerTls | None) -> None:
        self._make = make
        self._tls = tls
        self._openings: dict[asyncio.Task[None], None] = {}
        self._task: asyncio.Task[None] | None = None
        self.refused = 0

    async def start(self, host: str, port: int) -> Address:
        """Listen; port 0 takes a free one. Raises OSError."""
        sock = await bind(host, port)
        self._task = asyncio.get_running_loop().create_task(self._accept(sock))
        # Not in the task: one that is cancelled before its first step would leave the port open.
        self._task.add_done_callback(lambda _task: sock.close())
        return peer_address(sock.getsockname())

    async def stop(self) -> None:
        """Accept nothing more and drop what is not up yet."""
        task, self._task = self._task, None
        tasks = [*self._openings, *([task] if task is not None else [])]
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, _ = await loop.sock_accept(listening)
            except OSError as error:
                # Mostly too many open files; trying again at once would only spin.
                logger.warning("Cannot accept connections for now: %s", error)
                await asyncio.sleep(ACCEPT_PAUSE)
                continue
            if len(self._openings) >= MAX_OPENINGS:
                # Who has something to say does so at once: the oldest is the likeliest to say nothing.
                self.refused += 1
                oldest = next(iter(self._openings))
                del self._openings[oldest]
                oldest.cancel()
            task = loop.create_task(self._open(sock))
            self._openings[task] = None
            task.add_done_callback(partial(self._opened, sock))

    def _opened(self, sock: socket.socket, task: "asyncio.Task[None]") -> None:
        self._openings.pop(task, None)
        if task.cancelled():  # perhaps before its first step
            sock.close()

    async def _open(self, sock: socket.socket) -> None:
        """Find out what is spoken and hand the socket over; it is closed when that fails."""
        tls, loop = self._tls, asyncio.get_running_loop()
        mode = tls.mode if tls is not None else TlsMode.DISABLED
        context = None
        handed_over = False
        try:
            if tls is not None and mode is not TlsMode.DISABLED:
                async with asyncio.timeout(OPENING_TIMEOUT):
                    first = await _peek(sock)
                if first == HANDSHAKE_BYTE:
                    tls.reload_if_changed()
                    context = tls.context
                elif mode is TlsMode.ENFORCING:
                    self.refused += 1
                    return
            await loop.connect_accepted_socket(
                self._make,
                sock,
                ssl=context,
                ssl_handshake_timeout=OPENING_TIMEOUT if context is not None else None,
                ssl_shutdown_timeout=OPENING_TIMEOUT if context is not None else None,
            )
            handed_over = True
        except (OSError, TimeoutError) as error:
            self.refused += 1
            level = logging.DEBUG if str(error) == CLOSED else logging.INFO
            logger.log(level, "A connection was dropped: %s", error)
        finally:
            if not handed_over:
                sock.close()


async def _peek(sock: socket.socket) -> int:
    """The first byte, left where it is. Raises OSError."""
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()
    loop.add_reader(sock.fileno(), _resolve, readable)
    try:
        await readable
    finally:
        loop.remove_reader(sock.fileno())
    data = sock.recv(1, socket.MSG_PEEK)
    if not data:
        raise ConnectionError(CLOSED)
    return data[0]


def _resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
