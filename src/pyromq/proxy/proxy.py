"""`Proxy`: everything that serves gRPC clients, put together on one port."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

from pyromq.auth.authority import Authority
from pyromq.clock import wall_clock
from pyromq.proxy.calls.ack import Acks
from pyromq.proxy.calls.lite import Lite
from pyromq.proxy.calls.offsets import Offsets
from pyromq.proxy.calls.recall import Recalls
from pyromq.proxy.calls.receive import Receives
from pyromq.proxy.calls.routes import Routes
from pyromq.proxy.calls.send import Sends
from pyromq.proxy.calls.sessions import ClientCalls
from pyromq.proxy.calls.transactions import Transactions
from pyromq.proxy.catalogue import Catalogue
from pyromq.proxy.clients.doorkeeper import Door
from pyromq.proxy.clients.nonces import Nonces
from pyromq.proxy.clients.questions import Questions
from pyromq.proxy.clients.roster import Roster
from pyromq.proxy.clients.sessions import Sessions
from pyromq.proxy.clients.telemetry import Telemetry
from pyromq.proxy.cluster.cluster import Cluster
from pyromq.proxy.core import Core
from pyromq.proxy.grpc.health import PROTO as HEALTH
from pyromq.proxy.grpc.health import Health
from pyromq.proxy.grpc.limits import GrpcLimits, GrpcStats
from pyromq.proxy.grpc.method import Method
from pyromq.proxy.grpc.reflection import reflection
from pyromq.proxy.grpc.server import GrpcServer
from pyromq.proxy.renewal import Renewal
from pyromq.proxy.schema import messages
from pyromq.proxy.settings import DEFAULT_PORT, GrpcSettings
from pyromq.remoting.address import Address
from pyromq.remoting.endpoint import Handler
from pyromq.remoting.errors import ConnectError
from pyromq.remoting.tls import ServerTls

log = logging.getLogger(__name__)

SWEEP_EVERY: Final = 10.0

Connect = Callable[[Mapping[int, Handler]], Cluster]
"""Makes the cluster, given what serves the questions of brokers to clients."""


class Proxy:
    """Serves from `start` to `stop`. Without an `authority` everybody may do everything."""

    def __init__(
        self,
        settings: GrpcSettings,
        connect: Connect,
        authority: Authority | None = None,
        tls: ServerTls | None = None,
        clock: Callable[[], int] = wall_clock,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self.sessions = Sessions(settings.grpc_max_clients, monotonic)
        nonces = Nonces()
        door = Door(authority)
        cluster = connect(Questions(self.sessions, nonces, clock, door.may).handlers())
        self._core = core = Core(cluster, door, clock, monotonic)
        catalogue = Catalogue(cluster, monotonic)
        self._renewal = Renewal(core)
        self._roster = Roster(core, self.sessions)
        core.on_half.append(self._roster.produces)
        self.telemetry = Telemetry(core, catalogue, self.sessions, self._roster, nonces)
        self._clients = ClientCalls(core, self.sessions, self._roster, self.telemetry, self._renewal)
        self._health = Health([messages.SERVICE])
        methods: dict[str, Method] = {**self._health.service, **reflection((*messages.FILES, HEALTH.file))}
        self._receives = Receives(core, catalogue, self._renewal)
        for calls in (
            Routes(core, catalogue),
            Sends(core, catalogue),
            self._receives,
            Acks(core, self._renewal),
            Offsets(core),
            Recalls(core),
            Lite(core),
            Transactions(core),
            self._clients,
        ):
            methods |= calls.methods()
        limits = GrpcLimits(transport=settings.limits())
        self._server = GrpcServer(methods, limits=limits, tls=tls)
        self._tasks: list[asyncio.Task[None]] = []
        self.address: Address | None = None
        """Where it listens, once it does."""

    @property
    def mode(self) -> str:
        """`local` inside a broker, `cluster` in front of one, as RocketMQ calls it."""
        return "local" if self._core.cluster.has_links else "cluster"

    @property
    def stats(self) -> GrpcStats:
        """Counters, live."""
        return self._server.stats

    async def start(self, host: str) -> Address:
        """Listen. Raises ConnectError."""
        port = self._settings.grpc_port
        try:
            self.address = await self._listen(host, port)
        except OSError as error:
            raise ConnectError(f"{error.strerror or error} (for gRPC clients: set grpcServerPort)") from error
        self._tasks = [
            asyncio.get_running_loop().create_task(work)
            for work in (self._renewal.run(), self._roster.run(), self._sweep())
        ]
        return self.address

    async def stop(self) -> None:
        """Take no more calls, answer those that are under way, then let go of the cluster."""
        self._health.stop()
        self._receives.end_polls()
        await self._server.stop(float(self._settings.grpc_shutdown_time_seconds))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._core.cluster.stop()

    async def _listen(self, host: str, port: int | None) -> Address:
        if port is not None:
            return await self._server.listen(host, port)
        try:
            return await self._server.listen(host, DEFAULT_PORT)
        except OSError as error:
            address = await self._server.listen(host, 0)
            log.warning("%s; gRPC clients are served on %s instead: set grpcServerPort to choose", error, address)
            return address

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_EVERY)
            dropped = self._clients.drop_silent()
            if dropped:
                log.info("%d gRPC clients fell silent and were dropped", dropped)
