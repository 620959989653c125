"""A socket pair between a supervisor and one of its brokers, for the broker's pages; nobody else can connect to it.

The supervisor writes `number path`, the broker answers with a line of JSON (number, status, content type, length) and
the body. `stop` asks the broker to stop: a signal would not do, because service managers send one to all processes, and
a second one means not to wait. The end of the channel tells the broker that the supervisor is gone.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable

import msgspec

from pyromq.broker.httpserver import Page, Pages

log = logging.getLogger(__name__)

ASK_TIMEOUT = 5.0
STOP = b"stop\n"

_HEAD = msgspec.json.Decoder(tuple[int, str, str, int])


class Questions:
    """The supervisor's end. Any number may be asked at a time; answers come in order."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._number = 0
        self._asked: dict[int, asyncio.Future[Page]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Before anything is asked."""
        reader, self._writer = await asyncio.open_unix_connection(sock=self._sock)
        self._task = asyncio.get_running_loop().create_task(self._read(reader))

    async def ask(self, path: str) -> Page:
        """A page of the broker. Raises ConnectionError when it is gone, TimeoutError when it does not answer."""
        if self._writer is None or self._task is None or self._task.done():
            raise ConnectionError("the broker has gone")
        self._number += 1
        number = self._number
        answer: asyncio.Future[Page] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        try:
            async with asyncio.timeout(ASK_TIMEOUT):
                self._writer.write(f"{number} {path}\n".encode())
                return await answer
        finally:
            self._asked.pop(number, None)

    def stop(self) -> None:
        """Ask the broker to stop; it may do so already, or be gone."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(STOP)

    async def close(self) -> None:
        """Nothing more is asked."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if self._writer is not None:
            self._writer.close()
        self._sock.close()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                number, status, content_type, length = _HEAD.decode(line)
                page = Page(await reader.readexactly(length), content_type, status)
                answer = self._asked.get(number)
                if answer is not None and not answer.done():
                    answer.set_result(page)
        except (OSError, ValueError, asyncio.IncompleteReadError, msgspec.MsgspecError) as error:
            log.debug("a broker's channel ended: %s", error)
        finally:
            for answer in self._asked.values():
                if not answer.done():
                    answer.set_exception(ConnectionError("the broker has gone"))


class Answers:
    """The broker's end. `stop` is called when it is asked to stop, `ended` once nobody can ask any more."""

    def __init__(
        self,
        sock: socket.socket,
        pages: Callable[[], Pages],
        stop: Callable[[], None],
        ended: Callable[[], None],
    ) -> None:
        self._sock = sock
        self._pages = pages
        self._stop = stop
        self._ended = ended
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Answer from now on."""
        reader, writer = await asyncio.open_unix_connection(sock=self._sock)
        self._task = asyncio.get_running_loop().create_task(self._serve(reader, writer))

    async def close(self) -> None:
        """Answer nothing more."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                if line == STOP:
                    self._stop()
                    continue
                number, _, path = line.decode().strip().partition(" ")
                page = self._page(path)
                writer.write(msgspec.json.encode((int(number), page.status, page.content_type, len(page.body))) + b"\n")
                writer.write(page.body)
                await writer.drain()
        except (OSError, ValueError) as error:
            log.warning("the channel to the supervisor broke: %s", error)
        finally:
            writer.close()
        self._ended()

    def _page(self, path: str) -> Page:
        make = self._pages().get(path)
        if make is None:
            return Page(b"starting\n", status="503 Service Unavailable")
        try:
            return make()
        except Exception:
            log.exception("the page %s failed", path)
            return Page(b"the page failed, the log says why\n", status="500 Internal Server Error")
