"""Settings that every server has: where it listens, how much it accepts, TLS; and the rule about wide binds.

Invariant: a server without authentication is reachable from other machines only if its operator said so.
"""

import ipaddress
import logging
from enum import StrEnum
from pathlib import Path

from pyromq.protocol import javaproperties
from pyromq.protocol.errors import ProtocolError
from pyromq.remoting.limits import Limits
from pyromq.remoting.tls import ClientTls, ServerTls, TlsMode
from pyromq.settings.declaration import options, settings
from pyromq.settings.errors import ConfigError
from pyromq.settings.option import Address, Secret, option
from pyromq.settings.process import ProcessSettings

log = logging.getLogger(__name__)

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


class ClientAuth(StrEnum):
    """Whether clients must show a certificate."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRE = "require"


@settings
class ServerSettings(ProcessSettings):
    """Network"""

    host: Address = option(
        "127.0.0.1",
        "Address to listen on; one that other machines can reach needs authentication or `insecure`.",
        key="bindAddress",
    )
    insecure: bool = option(False, "Allow a wider bind although anybody who can connect may do anything.")
    max_connections: int = option(10_000, "Connections in all; further ones are closed at once.", minimum=1)
    max_connections_per_peer: int = option(2_000, "Connections from one machine.", minimum=1)
    connection_rate: int = option(1_000, "Connections that one machine may open in a second; 0: any number.", minimum=0)
    request_rate: int = option(
        0, "Requests of one machine in a second; more are answered busy. 0: any number.", minimum=0
    )
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
    tls_client_auth: ClientAuth = option(
        ClientAuth.NONE,
        "Whether clients must show a certificate of those authorities.",
        key="tls.server.need.client.auth",
    )
    tls_config_file: Path | None = option(
        None, "Properties that replace those of TLS here, except tls.enable and tls.server.mode.", key="tls.config.file"
    )
    tls_enable: bool = option(False, "Use TLS to reach name servers and other brokers.", key="tls.enable")
    tls_client_cert_path: Path | None = option(
        None, "Certificate to show to them, PEM; for mutual TLS.", key="tls.client.certPath"
    )
    tls_client_key_path: Path | None = option(None, "Its private key.", key="tls.client.keyPath")
    tls_client_key_password: Secret = option("", "Password of that key.", key="tls.client.keyPassword")
    tls_client_trust_cert_path: Path | None = option(
        None,
        "Authorities that sign their certificates, PEM; empty: those of the system.",
        key="tls.client.trustCertPath",
    )
    tls_client_auth_server: bool = option(True, "Check their certificates.", key="tls.client.authServer")
    tls_client_check_hostname: bool = option(
        True, "Their certificates must be for the address that is connected to.", key="tls.client.checkHostname"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tls_config_file is not None:
            self._read_tls_file(self.tls_config_file)

    def limits(self) -> Limits:
        """Bounds of the transport that follow from these settings."""
        return Limits(
            connections=self.max_connections,
            connections_per_peer=self.max_connections_per_peer,
            idle_timeout=float(self.server_channel_max_idle_time_seconds),
            connection_rate=float(self.connection_rate),
            request_rate=float(self.request_rate),
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
            client_ca=self._client_authorities(),
            require_client_certificate=self.tls_client_auth is ClientAuth.REQUIRE,
            mode=self.tls_mode,
        )

    def client_tls(self) -> ClientTls | None:
        """TLS of connections to other servers; None without. Raises TlsError."""
        if not self.tls_enable:
            return None
        return ClientTls(
            ca=self.tls_client_trust_cert_path,
            certificate=self.tls_client_cert_path,
            key=self.tls_client_key_path,
            key_password=self.tls_client_key_password or None,
            verify=self.tls_client_auth_server,
            check_hostname=self.tls_client_check_hostname,
        )

    def _client_authorities(self) -> Path | None:
        if self.tls_client_auth is ClientAuth.NONE:
            return None
        if self.tls_trust_cert_path is None:
            raise ConfigError(f"tls.server.need.client.auth = {self.tls_client_auth} needs tls.server.trustCertPath")
        return self.tls_trust_cert_path

    def _read_tls_file(self, file: Path) -> None:
        """What Apache's `tls.properties` sets, over what is set here. Raises ConfigError."""
        known = {each.key: each for each in options(type(self)).values() if each.key.startswith("tls.")}
        try:
            found = javaproperties.loads(file.read_text("utf-8"))
        except (OSError, UnicodeDecodeError, ProtocolError) as error:
            raise ConfigError(f"cannot read tls.config.file {file}: {error}") from error
        for key, text in found.items():
            if key in _NOT_IN_TLS_FILE:
                continue
            if key not in known:
                raise ConfigError(f"{file}: unknown key {key!r}; there are {', '.join(sorted(known))}")
            setattr(self, known[key].name, known[key].parse(text))

    def check_exposure(self, *, authenticated: bool) -> None:
        """Raise ConfigError for a bind wider than loopback without authentication, unless `insecure` is set."""
        if authenticated or is_loopback(self.host):
            return
        if self.insecure:
            log.warning(
                "INSECURE: anybody who can reach %s may do anything, for nobody is asked who they are; "
                "set authenticationEnabled=true",
                self.host or "this machine",
            )
        else:
            raise ConfigError(
                f"refusing to listen on {self.host or 'all addresses'}: without authentication anybody who can connect "
                "may do anything; set authenticationEnabled=true, listen on 127.0.0.1, or say --insecure "
                "(insecure=true) if the network is trusted"
            )


_NOT_IN_TLS_FILE = frozenset(
    {"tls.enable", "tls.server.mode", "tls.config.file", "tls.test.mode.enable", "tls.server.authClient"}
)
"""Set elsewhere, or without a meaning here: only the port of gRPC clients has a test mode."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to `host`. Names other than localhost count as wide."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
