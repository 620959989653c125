"""`GrpcPort`: serves gRPC clients inside the broker, if there is to be a port for them."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pyromq.broker.cluster.addresses import advertised_host
from pyromq.broker.core import Core
from pyromq.broker.part import Figure, Part
from pyromq.broker.tables.savedtable import Unsaved
from pyromq.protocol import names
from pyromq.proxy.extra import MISSING, is_installed
from pyromq.proxy.messages.types import ATTRIBUTE, MIXED
from pyromq.proxy.metrics import figures
from pyromq.proxy.settings import NO_GRPC
from pyromq.remoting.address import Address
from pyromq.settings.errors import ConfigError

if TYPE_CHECKING:
    from pyromq.proxy.cluster.local import LocalCluster
    from pyromq.proxy.proxy import Proxy
    from pyromq.remoting.endpoint import Handler


class GrpcPort(Part):
    """Listens while requests are served."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.proxy: Proxy | None = None

    async def join(self) -> None:
        """Let clients in. Raises ConfigError and ConnectError."""
        core = self._core
        config = core.config
        if config.grpc_port == NO_GRPC:
            return
        if not is_installed():
            raise ConfigError(MISSING)
        from pyromq.proxy.proxy import Proxy  # noqa: PLC0415 - protobuf, which brokers without the port do without

        guard = core.gate.guard if core.gate is not None else None
        tls = config.grpc_tls(config.store_path_root_dir / "tls")
        self.proxy = Proxy(config, self._connect, guard, tls, core.clock)
        bound = await self.proxy.start(config.host)
        core.ports.grpc_address = Address(advertised_host(config.advertised_host, bound.host), bound.port)

    async def leave(self) -> None:
        """Let calls end, then close the port."""
        proxy, self.proxy = self.proxy, None
        if proxy is not None:
            await proxy.stop()

    def metrics(self) -> Iterable[Figure]:
        """Those of the proxy."""
        if self.proxy is not None:
            yield from (Figure(*each) for each in figures(self.proxy))

    def runtime(self) -> Mapping[str, object]:
        """Where gRPC clients are served, and how many there are."""
        proxy = self.proxy
        if proxy is None:
            return {}
        return {
            "grpcAddress": proxy.address,
            "grpcClients": len(proxy.sessions),
            "grpcConnections": proxy.stats.transport.connections,
            "grpcStreams": proxy.stats.http2.streams,
        }

    def _connect(self, callbacks: Mapping[int, "Handler"]) -> "LocalCluster":
        from pyromq.proxy.cluster.local import Host, LocalCluster  # noqa: PLC0415 - as above

        core, config = self._core, self._core.config
        host = Host(
            config.broker_name,
            config.broker_cluster_name,
            Address.parse(core.address),
            core.ports.server,
            core.ports.inner_handlers,
            core.topics.get,
            lambda: config.broker_permission,
            self._create,
        )
        return LocalCluster(host, callbacks, config.grpc_max_clients)

    async def _create(self, topic: str, party: str) -> bool:
        """Make a topic as for a producer that sends its first message, but for every kind of message."""
        core = self._core
        while topic not in core.topics:
            try:
                made = core.topics.create_on_send(
                    topic,
                    names.DEFAULT_TOPIC,
                    core.config.default_topic_queue_nums,
                    party=party,
                    attributes={ATTRIBUTE: MIXED},
                )
            except Unsaved as unsaved:
                await unsaved.save
                continue
            if made is None:
                return False
        return True
