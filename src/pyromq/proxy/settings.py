"""Settings of the proxy: those it has inside a broker too, and all of `pyromq proxy`."""

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, Final

from pyromq.auth.settings import AuthSettings
from pyromq.proxy.apache import OLD_NAMES, WITHOUT_EFFECT
from pyromq.remoting.accept.settings import NETTY_KEYS, ServerSettings
from pyromq.remoting.tls import ServerTls, TlsMode
from pyromq.settings.declaration import settings
from pyromq.settings.errors import ConfigError
from pyromq.settings.option import Address, Addresses, computed, option

log = logging.getLogger(__name__)

DEFAULT_PORT: Final = 8081
NO_GRPC: Final = -1
NO_HTTP: Final = -1
SELF_SIGNED_DAYS: Final = 365
RENEWED_SECONDS: Final = 300 * 86_400


@settings
class GrpcSettings(ServerSettings):
    """gRPC clients"""

    grpc_port: int | None = option(
        NO_GRPC,
        f"Port for gRPC clients, the official 5.x ones; 0: a free one, -1: none; empty: {DEFAULT_PORT} or, while that "
        "is taken, a free one.",
        key="grpcServerPort",
        minimum=-1,
        maximum=65535,
    )
    grpc_max_clients: int = option(10_000, "gRPC clients at a time; further ones are refused.", minimum=1)
    grpc_shutdown_time_seconds: int = option(
        10, "How long calls that are under way may take when the server stops.", minimum=0, maximum=600, unit="s"
    )
    tls_test_mode: bool = option(
        False,
        "Make a certificate up for the port of gRPC clients if there is none, since some of them insist on TLS and "
        "check nothing. For tests.",
        key="tls.test.mode.enable",
    )

    def grpc_tls(self, folder: Path) -> ServerTls | None:
        """TLS of the port; `folder` is for a made-up certificate. Raises ConfigError and TlsError. Blocks."""
        tls = self.server_tls()
        if tls is not None or not self.tls_test_mode or self.tls_mode is TlsMode.DISABLED:
            return tls
        certificate, key = folder / "self-signed.pem", folder / "self-signed.key"
        if not (_is_young(certificate) and key.exists()):
            from pyromq.auth import certificates  # noqa: PLC0415 - cryptography, which most starts do without

            hosts = sorted({"localhost", "127.0.0.1", self.host} - {"", "0.0.0.0", "::"})  # noqa: S104 - compared with
            made = certificates.Issued(certificate, key)
            certificates.self_signed(made, hosts, days=SELF_SIGNED_DAYS, now=datetime.now(UTC))
        log.warning(
            "gRPC clients that use TLS get a self-signed certificate (tls.test.mode.enable); set tls.server.certPath"
        )
        return ServerTls(certificate, key)


def _is_young(file: Path) -> bool:
    """Whether a certificate was made so long ago only that it holds for weeks to come."""
    try:
        return datetime.now(UTC).timestamp() - file.stat().st_mtime < RENEWED_SECONDS
    except OSError:
        return False


@settings
class ProxyConfig(AuthSettings, GrpcSettings):
    """Proxy"""

    ignored: ClassVar[frozenset[str]] = NETTY_KEYS | WITHOUT_EFFECT
    old_names: ClassVar[Mapping[str, str]] = OLD_NAMES

    namesrv: Addresses = option((), "Name servers of the cluster.", key="namesrvAddr", env="NAMESRV_ADDR", short="n")
    grpc_port: int | None = option(
        DEFAULT_PORT, "Port for gRPC clients; 0: a free one.", key="grpcServerPort", minimum=0, maximum=65535
    )
    http_port: int = option(
        NO_HTTP, "Port of /metrics and /health; 0: a free one, -1: none.", minimum=-1, maximum=65535
    )
    http_host: Address = option(
        "127.0.0.1", "Address of /metrics and /health, which ask nobody who they are.", key="httpBindAddress"
    )
    rocketmq_cluster_name: str = option("DefaultCluster", "Cluster that rules name.", key="rocketMQClusterName")
    data_dir: Path = option(
        computed(lambda: Path.home() / "pyromq-proxy", "~/pyromq-proxy"),
        "Folder of users and of a made-up certificate.",
    )

    def check_together(self) -> None:
        super().check_together()
        if not self.namesrv:
            raise ConfigError("namesrvAddr is not set: name the name servers of the cluster, host:port;host:port")
