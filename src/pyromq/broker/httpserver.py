"""A few read-only pages over HTTP: metrics for Prometheus, health for whoever restarts processes.

Just enough of HTTP/1.1 for GET: one request per connection, bounded in size and time. Nothing here changes anything.
"""

import asyncio
import inspect
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pyromq.remoting.accept.listener import Listener
from pyromq.remoting.address import Address
from pyromq.remoting.errors import ConnectError
from pyromq.remoting.tls import ServerTls

log = logging.getLogger(__name__)

DEFAULT_PORT = 8090
REQUEST_TIMEOUT = 10.0
MAX_HEAD = 16 * 1024
MAX_CONNECTIONS = 64


@dataclass(frozen=True, slots=True)
class Page:
    """What is sent back."""

    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: str = "200 OK"


Pages = dict[str, Callable[[], Page]]
LatePages = dict[str, Callable[[], Page | Awaitable[Page]]]
"""Pages of which some have to be asked for elsewhere."""


class HttpServer:
    """Serves pages by path."""

    def __init__(self, pages: LatePages) -> None:
        self.pages = pages
        self._listener: Listener | None = None
        self._open: dict[asyncio.StreamWriter, str] = {}  # with its address, the oldest first
        self.dropped = 0
        """How many connections had to make room for newer ones."""

    async def start(self, host: str, port: int | None, tls: ServerTls | None = None) -> Address:
        """Listen; port 0 takes a free one, None the usual one or, while that is taken, a free one. Raises ConnectError.

        A second broker on a machine must not fail to start over a port that nobody chose.
        """
        if port is not None:
            return await self._listen(host, port, tls)
        try:
            return await self._listen(host, DEFAULT_PORT, tls)
        except ConnectError as error:
            address = await self._listen(host, 0, tls)
            log.warning("%s; metrics and health are served on %s instead: set httpPort to choose", error, address)
            return address

    async def _listen(self, host: str, port: int, tls: ServerTls | None) -> Address:
        listener = Listener(self._protocol, tls)
        try:
            bound = await listener.start(host, port)
        except OSError as error:
            raise ConnectError(f"{error.strerror} (for HTTP)") from error
        self._listener = listener
        return Address(host, bound.port)

    async def stop(self) -> None:
        """Stop listening and drop whoever is still there. Does nothing when not started."""
        listener, self._listener = self._listener, None
        if listener is not None:
            await listener.stop()
            for writer in tuple(self._open):
                writer.transport.abort()

    def _protocol(self) -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(limit=MAX_HEAD), self._serve)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= MAX_CONNECTIONS:
            self._make_room()
        self._open[writer] = str((writer.get_extra_info("peername") or ("",))[0])
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT):
                method, page = await self._page(await reader.readuntil(b"\r\n\r\n"))
                head = (
                    f"HTTP/1.1 {page.status}\r\nContent-Type: {page.content_type}\r\n"
                    f"Content-Length: {len(page.body)}\r\nConnection: close\r\n\r\n"
                )
                writer.write(head.encode() + (b"" if method == "HEAD" else page.body))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            log.debug("an HTTP request was dropped: %s", error)
        finally:
            self._open.pop(writer, None)
            writer.close()

    def _make_room(self) -> None:
        """Drop the oldest connection of the address that has most: who asks at once is served before who is silent."""
        (greediest, _), *_ = Counter(self._open.values()).most_common(1)
        victim = next(writer for writer, host in self._open.items() if host == greediest)
        del self._open[victim]
        self.dropped += 1
        victim.transport.abort()

    async def _page(self, head: bytes) -> tuple[str, Page]:
        method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        if method not in {"GET", "HEAD"}:
            return method, Page(b"only GET is served here\n", status="405 Method Not Allowed")
        make = self.pages.get(path)
        if make is None:
            known = "\n".join(self.pages)
            return method, Page(f"no such page; there are:\n{known}\n".encode(), status="404 Not Found")
        try:
            page = make()
            return method, await page if inspect.isawaitable(page) else page
        except Exception:
            log.exception("the page %s failed", path)
            return method, Page(b"the page failed, the log says why\n", status="500 Internal Server Error")
