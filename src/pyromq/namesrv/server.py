"""`NameServer`: the tables, their handlers and a listening socket, put together; and the search for silent brokers."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from pyromq.auth.needs import Scene
from pyromq.clock import wall_clock
from pyromq.namesrv.config import NamesrvConfig
from pyromq.namesrv.handlers.config import ConfigHandlers
from pyromq.namesrv.handlers.kv import KVHandlers
from pyromq.namesrv.handlers.registration import RegistrationHandlers
from pyromq.namesrv.handlers.routes import RouteHandlers
from pyromq.namesrv.handlers.topics import TopicHandlers
from pyromq.namesrv.kv import KVConfig
from pyromq.namesrv.members import GroupChange
from pyromq.namesrv.notices import MemberNotifier
from pyromq.namesrv.routes import RouteTable
from pyromq.remoting.address import Address
from pyromq.remoting.client import Client
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Handler
from pyromq.remoting.errors import ConnectError
from pyromq.remoting.server import Server
from pyromq.settings.errors import ConfigError

if TYPE_CHECKING:
    from pyromq.auth.gate import Gate

log = logging.getLogger(__name__)

STOP_GRACE = 3.0
GATE_TICK = 1.0


class NameServer:
    """Keeps routes and answers whoever asks; knows of no other name server.

        server = NameServer(NamesrvConfig(listen_port=0))
        await server.start()
        print(server.address)
        await server.stop()

    `clock` gives monotonic seconds.
    """

    def __init__(self, config: NamesrvConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self.config = config
        self.routes = RouteTable(config, clock)
        self.kv = KVConfig(config.kv_config_path, max_entries=config.max_kv_entries)
        self._clock = clock
        self._server: Server | None = None
        self._address: Address | None = None
        self._notifier: MemberNotifier | None = None
        self._scan_timer: asyncio.TimerHandle | None = None
        self._gate_timer: asyncio.TimerHandle | None = None
        self.gate: Gate | None = None

    @property
    def address(self) -> str:
        """Where it listens, as `host:port`."""
        if self._address is None:
            raise RuntimeError("the name server has not been started")
        return str(self._address)

    @property
    def request_codes(self) -> frozenset[int]:
        """What it serves."""
        return frozenset(self._handlers())

    @property
    def port(self) -> int:
        """The port it listens on."""
        if self._address is None:
            raise RuntimeError("the name server has not been started")
        return self._address.port

    async def start(self) -> None:
        """Load what is on disk, then listen.

        Raises ConfigError for an unsafe bind, KVError and AuthError for unreadable files, TlsError, and ConnectError
        when the address cannot be listened on.
        """
        config = self.config
        config.check_exposure(authenticated=config.is_authenticated)
        tls = config.server_tls()
        await asyncio.to_thread(self.kv.load)
        folder, scene = (
            config.kv_config_path.parent / "auth",
            Scene(config.cluster_name, cluster_of=self.routes.cluster_of),
        )
        self.gate = await asyncio.to_thread(config.gate, folder, scene, wall_clock)
        server = Server(self._handlers(), limits=config.limits(), tls=tls, strangers=config.is_authenticated)
        try:
            self._address = await server.listen(config.host, config.listen_port)
        except OSError as error:
            raise ConnectError(error.strerror or str(error)) from error
        self._server = server
        self._notifier = MemberNotifier(Client(tls=config.client_tls(), hooks=config.signing()))
        self._schedule_scan()
        if self.gate is not None:
            self._look_for_users(self.gate)
        log.info("name server listens on %s", self._address)

    async def reload(self) -> None:
        """Read the configuration file again and take over what needs no restart. What is wrong is logged."""
        try:
            found = self.config.reread()
            self.config.change(found.texts)
        except ConfigError as error:
            log.error("the settings stay as they are: %s", error)  # noqa: TRY400 - one line says it all
            return
        found.log()

    async def stop(self) -> None:
        """Answer what was accepted, close all connections. Does nothing when not started."""
        server, self._server = self._server, None
        notifier, self._notifier = self._notifier, None
        for timer in (self._scan_timer, self._gate_timer):
            if timer is not None:
                timer.cancel()
        self._scan_timer = self._gate_timer = None
        if notifier is not None:
            await notifier.close()
        if server is not None:
            await server.stop(STOP_GRACE)
            log.info("name server stopped")
        if self.gate is not None:
            self.gate.close()
            self.gate = None

    def scan(self) -> None:
        """Remove brokers that fell silent and close their connections; runs by itself."""
        connections, changes = self.routes.expire()
        self._tell(changes)
        for connection in connections:
            if isinstance(connection, Connection):
                connection.close("silent for too long")

    def _handlers(self) -> dict[int, Handler]:
        config, routes, kv = self.config, self.routes, self.kv
        handlers: dict[int, Handler] = {
            **KVHandlers(kv).table(),
            **RegistrationHandlers(config, routes, kv, self._tell).table(),
            **RouteHandlers(config, routes, kv, self._clock).table(),
            **TopicHandlers(config, routes).table(),
            **ConfigHandlers(config).table(),
        }
        return handlers if self.gate is None else self.gate.table(handlers | self.gate.handlers())

    def _tell(self, changes: Iterable[GroupChange]) -> None:
        if self._notifier is not None and self.config.notify_min_broker_id_changed:
            self._notifier.tell(changes)

    def _schedule_scan(self) -> None:
        interval = self.config.scan_not_active_broker_interval / 1000
        self._scan_timer = asyncio.get_running_loop().call_later(interval, self._on_scan_timer)

    def _look_for_users(self, gate: "Gate") -> None:
        gate.tick()
        self._gate_timer = asyncio.get_running_loop().call_later(GATE_TICK, self._look_for_users, gate)

    def _on_scan_timer(self) -> None:
        try:
            self.scan()
        finally:
            self._schedule_scan()
