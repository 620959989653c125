"""Settings that every server has: where it listens, how much it accepts, TLS; and the rule about wide binds.

Invariant: a server without authentication is reachable from other machines only if its operator said so.
"""

import ipaddress
from pathlib import Path

from pyromq.config import Address, ConfigError, Secret, Settings, option, settings
from pyromq.remoting.limits import Limits
from pyromq.remoting.tls import ServerTls, TlsMode

NETTY_KEYS = frozenset(
    {
        "enableShutdownGracefully", "serverAsyncSemaphoreValue", "serverCallbackExecutorThreads",
        "serverNettyWorkerGroupEnable", "serverOnewaySemaphoreValue", "serverPooledByteBufAllocatorEnable",
        "serverSelectorThreads", "serverSocketBacklog", "serverSocketRcvBufSize", "serverSocketSndBufSize",
        "serverWorkerThreads", "shutdownWaitTimeSeconds", "useEpollNativeSelector", "writeBufferHighWaterMark",
        "writeBufferLowWaterMark",
    }
)  # fmt: skip
"""Keys of Apache's servers about their network library: nothing here corresponds to them."""


@settings
class ServerSettings(Settings):
    """Network"""

    host: Address = option(
        "127.0.0.1",
        "Address to listen on; one that other machines can reach needs authentication or `insecure`.",
        key="bindAddress",
    )
    listen_port: int = option(0, "Port to listen on; 0 takes a free one.", minimum=0, maximum=65535)
    insecure: bool = option(False, "Allow a wider bind although anybody who can connect may do anything.")
    max_connections: int = option(10_000, "Connections in all; further ones are closed at once.", minimum=1)
    max_connections_per_peer: int = option(2_000, "Connections from one machine.", minimum=1)
    server_channel_max_idle_time_seconds: int = option(
        120, "A connection that neither sent nor received for so long is closed.", minimum=1, unit="s"
    )
    tls_mode: TlsMode = option(
        TlsMode.PERMISSIVE, "TLS on the listen port, once there is a certificate.", key="tls.server.mode"
    )
    tls_cert_path: Path | None = option(None, "Certificate chain of the server, PEM.", key="tls.server.certPath")
    tls_key_path: Path | None = option(None, "Private key, if not in the same file.", key="tls.server.keyPath")
    tls_key_password: Secret = option("", "Password of the private key.", key="tls.server.keyPassword")
    tls_trust_cert_path: Path | None = option(
        None, "Authorities that sign the certificates of clients, PEM.", key="tls.server.trustCertPath"
    )
    tls_client_auth: bool = option(
        False, "Refuse clients without a certificate of those authorities.", key="tls.server.need.client.auth"
    )

    def limits(self) -> Limits:
        """Bounds of the transport that follow from these settings."""
        return Limits(
            connections=self.max_connections,
            connections_per_peer=self.max_connections_per_peer,
            idle_timeout=float(self.server_channel_max_idle_time_seconds),
        )

    def server_tls(self) -> ServerTls | None:
        """TLS of the listen port; None without a certificate. Raises ConfigError or TlsError."""
        if self.tls_cert_path is None:
            if self.tls_mode is TlsMode.ENFORCING:
                raise ConfigError("tls.server.mode = 'enforcing' needs tls.server.certPath")
            return None
        return ServerTls(
            self.tls_cert_path,
            self.tls_key_path,
            key_password=self.tls_key_password or None,
            client_ca=self.tls_trust_cert_path,
            require_client_certificate=self.tls_client_auth,
            mode=self.tls_mode,
        )

    def check_exposure(self, *, authenticated: bool) -> None:
        """Raise ConfigError for a bind wider than loopback without authentication, unless `insecure` is set."""
        if not (authenticated or self.insecure or is_loopback(self.host)):
            raise ConfigError(
                f"refusing to listen on {self.host or 'all addresses'}: without authentication anybody who can connect "
                "may do anything; listen on 127.0.0.1, or say --insecure (insecure=true) if the network is trusted"
            )


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to `host`. Names other than localhost count as wide."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
