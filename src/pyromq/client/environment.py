"""Client settings from the environment.

RocketMQ's environment variables are read as they are. Its Java system properties are read from variables of the same
name in upper case with dots as underscores: `rocketmq.namesrv.addr` is `ROCKETMQ_NAMESRV_ADDR`. A property beats the
plain variable, an explicit argument beats both.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from pyromq.client.errors import ClientError
from pyromq.settings.option import Option


def boolean(text: str) -> bool:
    return text.strip().lower() == "true"


def millis(text: str) -> float:
    return int(text) / 1000


def compression(text: str) -> object:
    from pyromq.protocol.records.compression import CompressionType  # noqa: PLC0415 - loads three codecs, wanted only here

    try:
        return CompressionType[text.strip().upper()]
    except KeyError:
        raise ValueError("expected LZ4, ZSTD or ZLIB") from None


def binary(text: str) -> bool:
    kind = text.strip().upper()
    if kind not in ("JSON", "ROCKETMQ"):
        raise ValueError("expected JSON or ROCKETMQ")
    return kind == "ROCKETMQ"


def proxies(text: str) -> object:
    from pyromq.remoting.connect.socks import SocksProxy  # noqa: PLC0415 - wanted only here

    class Entry(msgspec.Struct):
        addr: str
        username: str | None = None
        password: str | None = None

    entries = msgspec.json.decode(text, type=dict[str, Entry])
    return {
        network: SocksProxy(address=entry.addr, username=entry.username, password=entry.password)
        for network, entry in entries.items()
    }


def environment_options(known: Mapping[str, Option], environ: Mapping[str, str]) -> dict[str, Any]:
    """Those of the options `known` that the environment sets.

    Raises ClientError naming the variable whose value cannot be read.
    """
    options: dict[str, Any] = {}
    for name, each in known.items():
        for variable, read in each.environment.items():
            text = environ.get(variable)
            if not text or read is None:
                continue
            try:
                options[name] = read(text)
            except (ValueError, msgspec.MsgspecError) as error:
                shown = "" if read is proxies else f"={text!r}"  # proxies have passwords
                raise ClientError(f"environment variable {variable}{shown} cannot be read: {error}") from error
    if boolean(environ.get("TLS_ENABLE", "")):
        options["tls"] = _tls(_tls_settings(environ))
    options.update(_credentials(environ))
    return options


def _properties(environ: Mapping[str, str], variable: str, what: str) -> Mapping[str, str]:
    """What the properties file says that a variable names; nothing without the variable."""
    from pyromq.protocol import javaproperties  # noqa: PLC0415 - wanted only when there is such a file
    from pyromq.protocol.errors import ProtocolError  # noqa: PLC0415

    path = environ.get(variable)
    if not path:
        return {}
    try:
        return javaproperties.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ProtocolError) as error:
        raise ClientError(f"{what} {path} ({variable}) cannot be read: {error}") from error


def _tls_settings(environ: Mapping[str, str]) -> Mapping[str, str]:
    """The variables, with what the properties file that `tls.config.file` names says over them."""
    found = _properties(environ, "TLS_CONFIG_FILE", "TLS settings")
    return {**environ, **{key.upper().replace(".", "_"): text for key, text in found.items()}}


def _tls(settings: Mapping[str, str]) -> object:
    """Servers are verified unless somebody says otherwise, which is the reverse of Apache's client."""
    from pyromq.remoting.tls import ClientTls  # noqa: PLC0415 - loads ssl, wanted only here

    if boolean(settings.get("TLS_TEST_MODE_ENABLE", "false")):
        return ClientTls(verify=False)
    return ClientTls(
        verify=boolean(settings.get("TLS_CLIENT_AUTHSERVER", "true")),
        check_hostname=boolean(settings.get("TLS_CLIENT_CHECKHOSTNAME", "true")),
        ca=settings.get("TLS_CLIENT_TRUSTCERTPATH") or None,
        certificate=settings.get("TLS_CLIENT_CERTPATH") or None,
        key=settings.get("TLS_CLIENT_KEYPATH") or None,
        key_password=settings.get("TLS_CLIENT_KEYPASSWORD") or None,
    )


def _credentials(environ: Mapping[str, str]) -> dict[str, str]:
    """Credentials from the properties file that `rocketmq.client.keyFile` names, when that variable is set."""
    found = _properties(environ, "ROCKETMQ_CLIENT_KEYFILE", "credentials file")
    names = {"AccessKey": "access_key", "SecretKey": "secret_key", "SecurityToken": "security_token"}
    return {option: found[name] for name, option in names.items() if found.get(name)}
