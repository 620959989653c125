"""TLS settings of both sides. Files are read when the settings are made and on `reload`, never during a handshake.

Servers look for changed files every few seconds, clients before they connect.
"""

import logging
import pathlib
import ssl
from abc import ABC, abstractmethod
from enum import StrEnum
from os import PathLike

from pyromq.remoting.errors import TlsError

Path = str | PathLike[str]
logger = logging.getLogger("pyromq.remoting")

HANDSHAKE_BYTE = 0x16
"""First byte of every TLS connection. No frame starts with it: it would be 352 MiB long."""


class TlsMode(StrEnum):
    """What a server does with TLS and with plain connections on the same port."""

    DISABLED = "disabled"
    """TLS connections are closed, plain ones served."""
    PERMISSIVE = "permissive"
    """Both are served."""
    ENFORCING = "enforcing"
    """Plain connections are closed."""


class _Reloading(ABC):
    """A context made of files, and made again when they are others."""

    __slots__ = ("_context", "_files", "_seen")

    def __init__(self, *files: Path | None) -> None:
        self._files = [file for file in files if file is not None]
        self._seen = self._versions()
        self._context = self._load()

    @property
    def context(self) -> ssl.SSLContext:
        """What the next handshake uses."""
        return self._context

    def reload(self) -> None:
        """Read the files again; connections that exist keep what they have. On error the loaded ones stay in use."""
        self._context = self._load()

    def reload_if_changed(self) -> None:
        """`reload` when a file is another than before; files that cannot be used are logged, once for each change."""
        seen = self._versions()
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self.reload()
        except TlsError as error:
            logger.error("The certificates that are in use stay: %s", error)  # noqa: TRY400 - one line says it all
        else:
            logger.info("Certificates were read again: %s", ", ".join(map(str, self._files)))

    @abstractmethod
    def _load(self) -> ssl.SSLContext:
        """Read the files. Raises TlsError."""

    def _versions(self) -> list[tuple[int, int, int]]:
        """What tells one version of the files from the next; a missing one counts as such."""
        found = []
        for file in self._files:
            try:
                facts = pathlib.Path(file).stat()
            except OSError:
                found.append((0, 0, 0))
            else:
                found.append((facts.st_ino, facts.st_mtime_ns, facts.st_size))
        return found


class ServerTls(_Reloading):
    """Certificate of a server and, for mutual TLS, the authorities its clients must be signed by.

    With `client_ca` clients must show a certificate unless `require_client_certificate` is False. `protocols` are
    offered by ALPN. Raises TlsError.
    """

    __slots__ = ("_ca", "_certificate", "_key", "_password", "_protocols", "_required", "mode")

    def __init__(
        self,
        certificate: Path,
        key: Path | None = None,
        *,
        key_password: str | None = None,
        client_ca: Path | None = None,
        require_client_certificate: bool = True,
        mode: TlsMode = TlsMode.PERMISSIVE,
        protocols: tuple[str, ...] = (),
    ) -> None:
        self.mode = mode
        self._protocols = protocols
        self._certificate = certificate
        self._key = key
        self._password = key_password
        self._ca = client_ca
        self._required = require_client_certificate
        super().__init__(certificate, key, client_ca)

    def speaking(self, *protocols: str) -> "ServerTls":
        """The same for a port whose clients ask, with ALPN, for one of these protocols. Raises TlsError."""
        return ServerTls(
            self._certificate,
            self._key,
            key_password=self._password,
            client_ca=self._ca,
            require_client_certificate=self._required,
            mode=self.mode,
            protocols=protocols,
        )

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        _load_chain(context, self._certificate, self._key, self._password)
        if self._protocols:
            context.set_alpn_protocols(list(self._protocols))
        if self._ca is not None:
            _load_authorities(context, self._ca)
            context.verify_mode = ssl.CERT_REQUIRED if self._required else ssl.CERT_OPTIONAL
        return context


class ClientTls(_Reloading):
    """How a client checks its servers and, for mutual TLS, what it shows them.

    Verification is on: `ca` names the authorities (default: those of the system), and the host name must match unless
    `check_hostname` is False, as with brokers that register by numeric address. Raises TlsError.
    """

    __slots__ = ("_ca", "_certificate", "_check", "_key", "_password", "_verify", "server_name")

    def __init__(
        self,
        *,
        ca: Path | None = None,
        certificate: Path | None = None,
        key: Path | None = None,
        key_password: str | None = None,
        verify: bool = True,
        check_hostname: bool = True,
        server_name: str | None = None,
    ) -> None:
        self.server_name = server_name
        self._ca = ca
        self._certificate = certificate
        self._key = key
        self._password = key_password
        self._verify = verify
        self._check = check_hostname
        super().__init__(ca, certificate, key)

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if not self._verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        else:
            context.check_hostname = self._check
            if self._ca is None:
                context.load_default_certs(ssl.Purpose.SERVER_AUTH)
            else:
                _load_authorities(context, self._ca)
        if self._certificate is not None:
            _load_chain(context, self._certificate, self._key, self._password)
        return context


def _load_chain(context: ssl.SSLContext, certificate: Path, key: Path | None, password: str | None) -> None:
    try:
        # A password is always given, or OpenSSL would ask for one on the terminal.
        context.load_cert_chain(certificate, key, password or "")
    except (OSError, ValueError) as error:
        raise TlsError(f"cannot load certificate {certificate} with key {key or certificate}: {error}") from error


def _load_authorities(context: ssl.SSLContext, path: Path) -> None:
    try:
        context.load_verify_locations(cafile=path)
    except (OSError, ValueError) as error:
        raise TlsError(f"cannot load certificate authorities {path}: {error}") from error
