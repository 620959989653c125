"""`Gateway`: the proxy as a process of its own, in front of any cluster. It keeps nothing, so there may be several."""

import asyncio
import contextlib
import platform
import time
from collections.abc import Callable, Mapping

from pyromq.auth.gate import Gate
from pyromq.auth.needs import Scene
from pyromq.clock import wall_clock
from pyromq.proxy.cluster.remote import RemoteCluster
from pyromq.proxy.metrics import page
from pyromq.proxy.proxy import Proxy
from pyromq.proxy.settings import ProxyConfig
from pyromq.remoting.endpoint import Handler

LOOK_EVERY = 2.0
"""Seconds between two looks at the files of users and rules."""


class Gateway:
    """One proxy.

    gateway = Gateway(ProxyConfig(namesrv=("127.0.0.1:9876",), grpc_port=0))
    await gateway.start()
    print(gateway.address)
    await gateway.stop()
    """

    def __init__(self, config: ProxyConfig, clock: Callable[[], int] = wall_clock) -> None:
        self.config = config
        self._clock = clock
        self._undo = contextlib.AsyncExitStack()
        self.proxy: Proxy | None = None

    @property
    def address(self) -> str:
        """Where clients connect to. Raises RuntimeError before it was started."""
        if self.proxy is None or self.proxy.address is None:
            raise RuntimeError("the proxy has not been started")
        return str(self.proxy.address)

    async def start(self) -> None:
        """Listen. Raises ConfigError, AuthError, TlsError and ConnectError."""
        config = self.config
        config.check_exposure(authenticated=config.is_authenticated)
        gate = config.gate(config.data_dir / "auth", Scene(config.rocketmq_cluster_name), self._clock)
        if gate is not None:
            self._undo.callback(gate.close)
            looks = asyncio.get_running_loop().create_task(_look(gate))
            self._undo.callback(looks.cancel)
        guard = gate.guard if gate is not None else None
        try:
            self.proxy = Proxy(config, self._connect, guard, config.grpc_tls(config.data_dir / "tls"), self._clock)
            self._undo.push_async_callback(self.proxy.stop)
            await self.proxy.start(config.host)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Answer the calls that are under way, then leave."""
        await self._undo.aclose()

    def metrics(self) -> bytes:
        """The text that Prometheus scrapes."""
        return b"" if self.proxy is None else page(self.proxy, self.config.rocketmq_cluster_name, platform.node())

    def _connect(self, callbacks: Mapping[int, Handler]) -> RemoteCluster:
        config = self.config
        return RemoteCluster(config.namesrv, callbacks, time.monotonic, tls=config.client_tls(), hooks=config.signing())


async def _look(gate: Gate) -> None:
    while True:
        await asyncio.sleep(LOOK_EVERY)
        gate.tick()
