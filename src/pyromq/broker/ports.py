"""The ports of a broker: the main one, the fast one two below it, a master's for slaves above, and one for HTTP.

Whether the ports beside a free one are free too shows only when it is tried.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from pyromq.broker.access import KnownSlaves
from pyromq.broker.cluster.addresses import Identity, advertised_host
from pyromq.broker.config import BrokerConfig
from pyromq.broker.httpserver import HttpServer, Pages
from pyromq.broker.replication.port import ReplicationPort
from pyromq.protocol.codes import RequestCode
from pyromq.remoting.address import Address
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Handler
from pyromq.remoting.errors import ConnectError
from pyromq.remoting.server import Server
from pyromq.store.config import BrokerRole
from pyromq.store.messagestore import MessageStore

if TYPE_CHECKING:
    from pyromq.auth.gate import Gate

STOP_GRACE: Final = 5.0
FREE_PORT_TRIES: Final = 50
NO_HTTP: Final = -1

NOT_ON_FAST_PORT: Final = frozenset(
    {
        RequestCode.PULL_MESSAGE,
        RequestCode.LITE_PULL_MESSAGE,
        RequestCode.POP_MESSAGE,
        RequestCode.PEEK_MESSAGE,
        RequestCode.NOTIFICATION,
        RequestCode.POLLING_INFO,
    }
)
"""What may be held for long stays off the port that exists to be fast."""


class Ports:
    """Open from `listen` to `close`; requests are served from `serve` on."""

    def __init__(
        self,
        config: BrokerConfig,
        gate: "Gate | None",
        clock: Callable[[], int],
        steady: Callable[[], int],
        closed: Callable[[Connection], None] = lambda _connection: None,
    ) -> None:
        self._config = config
        self._tls = config.server_tls()
        self._limits = config.limits()
        self._closed = closed
        self.handlers: dict[int, Handler] = {}
        self.inner_handlers: dict[int, Handler] = {}
        """The same for who comes by a port that has found out already who asks."""
        self._fast_handlers: dict[int, Handler] = {}
        self.server = self._new_server()
        self.http = HttpServer({})
        self.http_address: Address | None = None
        """Where pages are served, None where they are not."""
        self.grpc_address: Address | None = None
        """The same for gRPC clients."""
        if gate is None or gate.guard is None:
            self.replicas = ReplicationPort(config, steady)
        else:
            known = KnownSlaves(gate.guard, clock, config.ha_trusted_addresses)
            self.replicas = ReplicationPort(config, steady, known.may_follow)

    async def listen(self, store: MessageStore) -> Identity:
        """Bind them all; returns what others are told. Raises ConnectError."""
        config = self._config
        for left in reversed(range(1 if config.listen_port else FREE_PORT_TRIES)):
            try:
                bound = await self._bind(config.listen_port, self.handlers)
                if config.fast_listen:
                    await self._bind(bound.port - 2, self._fast_handlers)
                if config.broker_role is not BrokerRole.SLAVE:
                    await self._bind_replication(config.ha_listen_port or bound.port + 1, store)
                return self._identity(Address(advertised_host(config.advertised_host, bound.host), bound.port))
            except ConnectError:
                await self.server.stop(0)
                if not left:
                    raise
                self.server = self._new_server()
        raise AssertionError  # the last one raised

    def serve(self, handlers: Mapping[int, Handler], inner: Mapping[int, Handler]) -> None:
        """Let requests in; `inner` are the handlers behind the checks of who asks."""
        self.handlers.update(handlers)
        self.inner_handlers.update(inner)
        self._fast_handlers.update(
            {code: handler for code, handler in handlers.items() if code not in NOT_ON_FAST_PORT}
        )

    async def open_pages(self, pages: Pages) -> None:
        """Serve pages over HTTP, if there is to be a port for them. Raises ConnectError."""
        if self._config.http_port != NO_HTTP:
            self.http.pages.update(pages)
            self.http_address = await self.http.start(self._config.http_host, self._config.http_port, self._tls)

    async def close(self) -> None:
        """Answer what was accepted, then let go of slaves: those who sent may wait for them."""
        await self.server.stop(STOP_GRACE)
        await self.replicas.stop()

    def _new_server(self) -> Server:
        strangers = self._config.is_authenticated
        return Server(self.handlers, limits=self._limits, tls=self._tls, on_close=self._closed, strangers=strangers)

    def _identity(self, address: Address) -> Identity:
        config, replicas = self._config, self.replicas.address
        ha_port = replicas.port if replicas is not None else address.port + 1
        ha_address = Address(config.replication_host or address.host, ha_port)
        return Identity(config.broker_cluster_name, config.broker_name, config.broker_id, str(address), str(ha_address))

    async def _bind(self, port: int, handlers: dict[int, Handler]) -> Address:
        try:
            return await self.server.listen(self._config.host, port, handlers=handlers)
        except OSError as error:
            raise ConnectError(
                f"{error.strerror or error} (the broker takes listenPort and, unless "
                "fastListen=false, the port two below it)"
            ) from error

    async def _bind_replication(self, port: int, store: MessageStore) -> None:
        try:
            await self.replicas.listen(self._config.host, port, store, self.server.tls)
        except OSError as error:
            raise ConnectError(f"{error.strerror or error} (the port for slaves: set haListenPort)") from error
