"""What a broker shows over HTTP: `/metrics` and `/health`."""

from collections.abc import Iterable

from pyromq.broker.core import Core
from pyromq.broker.httpserver import Page, Pages
from pyromq.broker.part import Figure, Part, limit


class HttpPages(Part):
    """Metrics and health, unless there is no port for them."""

    def __init__(self, core: Core, parts: Iterable[Part]) -> None:
        self._core = core
        self._parts = parts
        self.pages: Pages = {"/metrics": self._metrics, "/health": self._health}
        """Whether there is a port for them or not."""

    async def join(self) -> None:
        """Let them be read. Raises ConnectError."""
        await self._core.ports.open_pages(self.pages)

    async def leave(self) -> None:
        """Close the port."""
        await self._core.ports.http.stop()

    def metrics(self) -> Iterable[Figure]:
        """Readers that had to make room."""
        yield limit("http_connections", self._core.ports.http.dropped)

    def _metrics(self) -> Page:
        # Loaded with the first scrape: the library takes a good part of the time that a start may take.
        from pyromq.broker.admin.metrics import CONTENT_TYPE, BrokerMetrics  # noqa: PLC0415

        return Page(BrokerMetrics(self._core, self._parts).page(), CONTENT_TYPE)

    def _health(self) -> Page:
        flags = self._core.store.flags
        if flags.writeable:
            return Page(b"ok\n")
        return Page(f"{flags.reason()}\n".encode(), status="503 Service Unavailable")
