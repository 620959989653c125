"""Options of the Spark formats: how they are declared and read, and those of the connection, which all formats share.

Spark hands over text under keys that lost their case; each option is declared once, typed, with its default and its
meaning. Secrets may also come from the environment or a file of the driver, since options show up in query plans.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pyromq.protocol.namespace import wrap
from pyromq.remoting.address import Address
from pyromq.remoting.errors import AddressError
from pyromq.settings.declaration import Settings, nearest, options, settings
from pyromq.settings.errors import ConfigError
from pyromq.settings.option import Addresses, Option, Secret, option
from pyromq.spark.errors import OptionError

if TYPE_CHECKING:
    from pyromq.remoting.tls import ClientTls

MAX_SECRET_FILE = 64 * 1024


@settings
class ConnectionOptions(Settings):
    """Connection"""

    aliases: ClassVar[Mapping[str, str]] = {"namesrv": "nameServer"}
    """Other names of options, in lower case."""
    foreign: ClassVar[frozenset[str]] = frozenset()
    """Options that Spark or the user adds for somebody else, in lower case."""

    name_server: Addresses = option((), "Name servers, `host:port` separated by `;`.")
    access_key: str | None = option(None, "Access key, where the servers ask for one.")
    secret_key: Secret | None = option(None, "Its secret.")
    secret_key_file: Path | None = option(None, "A file of the driver that holds the secret.")
    security_token: Secret | None = option(None, "Token of temporary credentials.")
    namespace: str | None = option(None, "Namespace of topics and groups; the names in rows stay without it.")
    tls: bool = option(False, "Encrypt connections.")
    tls_ca: Path | None = option(None, "Certificate authorities, PEM; without them those of the system.")
    tls_cert: Path | None = option(None, "Certificate that this client shows, PEM.")
    tls_key: Path | None = option(None, "Its private key, if not in the same file.")
    tls_check_hostname: bool = option(True, "Whether certificates must name the host, as brokers register it.")

    @property
    def credentials(self) -> tuple[str, str, str | None] | None:
        """Access key, secret and token."""
        if self.access_key is None or self.secret_key is None:
            return None
        return self.access_key, self.secret_key, self.security_token

    @property
    def identity(self) -> tuple[object, ...]:
        """What makes two sets of options use the same connections."""
        return tuple(getattr(self, name) for name in options(ConnectionOptions))

    def wire_name(self, name: str) -> str:
        """A topic or group as the servers know it."""
        return wrap(self.namespace or "", name)

    def client_tls(self) -> "ClientTls | None":
        """How connections are encrypted, None when they are not. Raises TlsError."""
        if not self.tls:
            return None
        from pyromq.remoting.tls import ClientTls  # noqa: PLC0415 - slow to load, and most connections are plain

        return ClientTls(
            ca=self.tls_ca, certificate=self.tls_cert, key=self.tls_key, check_hostname=self.tls_check_hostname
        )

    def complete(self) -> None:
        """Check what one option alone cannot tell, and fetch the secret. Raises OptionError."""
        for address in self.name_server:
            try:
                Address.parse(address)
            except AddressError as error:
                raise OptionError(f"nameServer: {error}") from None
        if self.secret_key is None and self.secret_key_file is not None:
            self.secret_key = _secret(self.secret_key_file)
        if (self.access_key is None) != (self.secret_key is None):
            raise OptionError("accessKey and secretKey belong together; only one of them is set")

    def require_name_server(self) -> None:
        """Raises OptionError without a name server."""
        if not self.name_server:
            raise OptionError('nameServer is missing; say .option("nameServer", "host:9876")')


def _secret(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_SECRET_FILE + 1)
        if len(data) > MAX_SECRET_FILE:
            raise OptionError(f"secretKeyFile {path} is longer than {MAX_SECRET_FILE} bytes")
        return data.decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"secretKeyFile {path} cannot be read: {error}") from error


O = TypeVar("O", bound=ConnectionOptions)  # noqa: E741 - a type variable, never beside a zero


def read_options(cls: type[O], given: Mapping[str, str], environ: Mapping[str, str] | None = None) -> O:
    """Options from what Spark hands over, secrets from the environment where they are not among them.

    Raises OptionError for an unknown one, naming the nearest, and for a value that is not allowed.

    >>> read_options(ConnectionOptions, {"nameserver": "127.0.0.1:9876"})
    """
    known = {each.key.lower(): each for each in options(cls).values()}
    values: dict[str, Any] = {}
    try:
        for each in known.values():
            text = next((text for name in each.environment if (text := _variable(each, name, environ))), None)
            if text is not None:
                values[each.name] = each.parse(text)
        for key, text in given.items():
            lower = key.lower()
            if lower in cls.foreign:
                continue
            each = known.get(cls.aliases.get(lower, lower).lower()) or _unknown(cls, key)
            values[each.name] = each.parse(text)
        made = cls(**values)
    except ConfigError as error:
        raise OptionError(str(error)) from None
    made.complete()
    return made


def _variable(each: Option, name: str, environ: Mapping[str, str] | None) -> str | None:
    """Only credentials come from the environment: what is read must not depend on it."""
    if each.secret or each.name == "access_key":
        return (os.environ if environ is None else environ).get(name)
    return None


def _unknown(cls: type[ConnectionOptions], key: str) -> Option:
    near = nearest(key, (each.key for each in options(cls).values()))
    raise OptionError(f"unknown option {key[:100]!r}" + (f"; did you mean {near}?" if near else ""))
