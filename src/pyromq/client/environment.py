"""Client settings from the environment.

RocketMQ's environment variables are read as they are. Its Java system properties are read from variables of the same
name in upper case with dots as underscores: `rocketmq.namesrv.addr` is `ROCKETMQ_NAMESRV_ADDR`. A property beats the
plain variable, an explicit argument beats both.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from pyromq.client.errors import ClientError

Parser = Callable[[str], object]


def _boolean(text: str) -> bool:
    return text.strip().lower() == "true"


def _millis(text: str) -> float:
    return int(text) / 1000


def _compression(text: str) -> object:
    from pyromq.protocol.records.compression import CompressionType  # noqa: PLC0415 - loads three codecs, wanted only here

    try:
        return CompressionType[text.strip().upper()]
    except KeyError:
        raise ValueError("expected LZ4, ZSTD or ZLIB") from None


def _binary(text: str) -> bool:
    kind = text.strip().upper()
    if kind not in ("JSON", "ROCKETMQ"):
        raise ValueError("expected JSON or ROCKETMQ")
    return kind == "ROCKETMQ"


def _proxies(text: str) -> object:
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


# Later lines win: a Java property stands after the plain variable that it overrides.
_VARIABLES: tuple[tuple[str, str, Parser], ...] = (
    ("NAMESRV_ADDR", "namesrv", str),
    ("ROCKETMQ_NAMESRV_ADDR", "namesrv", str),
    ("ROCKETMQ_NAMESRV_DOMAIN", "namesrv_domain", str),
    ("ROCKETMQ_NAMESRV_SUBGROUP", "namesrv_subgroup", str),
    ("ROCKETMQ_SERIALIZE_TYPE", "binary_headers", _binary),
    ("ROCKETMQ_ZONE", "zone", str),
    ("ROCKETMQ_ZONE_MODE", "zone_mode", str),
    ("ROCKETMQ_CLIENT_NAME", "instance_name", str),
    ("ROCKETMQ_CLIENT_LOCALOFFSETSTOREDIR", "local_offset_dir", Path),
    ("ROCKETMQ_CLIENT_REBALANCE_WAITINTERVAL", "rebalance_interval", _millis),
    ("ROCKETMQ_CLIENT_REBALANCE_MININTERVAL", "rebalance_min_interval", _millis),
    ("ROCKETMQ_CLIENT_REBALANCE_LOCKINTERVAL", "lock_interval", _millis),
    ("ROCKETMQ_CLIENT_REBALANCE_LOCKMAXLIVETIME", "lock_life", _millis),
    ("ROCKETMQ_CLIENT_UNLOCKDELAYTIMEMILLS", "unlock_delay", _millis),
    ("ROCKETMQ_CLIENT_PULL_PULLMAXIDLETIME", "pull_max_idle", _millis),
    ("ROCKETMQ_MESSAGE_COMPRESSTYPE", "compress_type", _compression),
    ("ROCKETMQ_MESSAGE_COMPRESSLEVEL", "compress_level", int),
    ("ORG_APACHE_ROCKETMQ_CLIENT_SENDSMARTMSG", "smart_send", _boolean),
    ("COM_ROCKETMQ_SENDMESSAGEWITHVIPCHANNEL", "vip_channel", _boolean),
    ("COM_ROCKETMQ_SENDLATENCYENABLE", "latency_faults", _boolean),
    ("COM_ROCKETMQ_STARTDETECTORENABLE", "detector", _boolean),
    ("COM_ROCKETMQ_HEARTBEAT_V2", "heartbeat_v2", _boolean),
    ("COM_ROCKETMQ_READ_BODY", "decode_body", _boolean),
    ("COM_ROCKETMQ_DECOMPRESS_BODY", "decompress_body", _boolean),
    ("COM_ROCKETMQ_RECALL_DEFAULT_TRACE_ENABLE", "recall_trace", _boolean),
    ("COM_ROCKETMQ_REMOTING_CLIENT_CONNECT_TIMEOUT", "connect_timeout", _millis),
    ("COM_ROCKETMQ_REMOTING_CLIENT_CHANNEL_MAXIDLETIMESECONDS", "max_idle", float),
    ("COM_ROCKETMQ_REMOTING_CLIENTASYNCSEMAPHOREVALUE", "async_permits", int),
    ("COM_ROCKETMQ_REMOTING_CLIENTONEWAYSEMAPHOREVALUE", "oneway_permits", int),
    ("COM_ROCKETMQ_REMOTING_FRAMEMAXLENGTH", "max_frame", int),
    ("COM_ROCKETMQ_SOCKS_PROXY_CONFIG", "socks_proxies", _proxies),
)


def environment_options(environ: Mapping[str, str]) -> dict[str, Any]:
    """Options that the environment sets. Raises ClientError naming the variable whose value cannot be read."""
    options: dict[str, Any] = {}
    for variable, option, parse in _VARIABLES:
        text = environ.get(variable)
        if not text:
            continue
        try:
            options[option] = parse(text)
        except (ValueError, msgspec.MsgspecError) as error:
            shown = "" if parse is _proxies else f"={text!r}"  # proxies have passwords
            raise ClientError(f"environment variable {variable}{shown} cannot be read: {error}") from error
    if _boolean(environ.get("TLS_ENABLE", "")):
        options["tls"] = _tls(_tls_settings(environ))
    options.update(_credentials(environ))
    return options


def _tls_settings(environ: Mapping[str, str]) -> Mapping[str, str]:
    """The variables, with what the properties file that `tls.config.file` names says over them."""
    from pyromq.protocol import javaproperties  # noqa: PLC0415 - wanted only when there is such a file
    from pyromq.protocol.errors import ProtocolError  # noqa: PLC0415

    path = environ.get("TLS_CONFIG_FILE")
    if not path:
        return environ
    try:
        found = javaproperties.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ProtocolError) as error:
        raise ClientError(f"TLS settings {path} (TLS_CONFIG_FILE) cannot be read: {error}") from error
    return {**environ, **{key.upper().replace(".", "_"): text for key, text in found.items()}}


def _tls(settings: Mapping[str, str]) -> object:
    """Servers are verified unless somebody says otherwise, which is the reverse of Apache's client."""
    from pyromq.remoting.tls import ClientTls  # noqa: PLC0415 - loads ssl, wanted only here

    if _boolean(settings.get("TLS_TEST_MODE_ENABLE", "false")):
        return ClientTls(verify=False)
    return ClientTls(
        verify=_boolean(settings.get("TLS_CLIENT_AUTHSERVER", "true")),
        check_hostname=_boolean(settings.get("TLS_CLIENT_CHECKHOSTNAME", "true")),
        ca=settings.get("TLS_CLIENT_TRUSTCERTPATH") or None,
        certificate=settings.get("TLS_CLIENT_CERTPATH") or None,
        key=settings.get("TLS_CLIENT_KEYPATH") or None,
        key_password=settings.get("TLS_CLIENT_KEYPASSWORD") or None,
    )


def _credentials(environ: Mapping[str, str]) -> dict[str, str]:
    """Credentials from the properties file that `rocketmq.client.keyFile` names, when that variable is set."""
    from pyromq.protocol import javaproperties  # noqa: PLC0415 - wanted only when a key file is

    path = environ.get("ROCKETMQ_CLIENT_KEYFILE")
    if not path:
        return {}
    try:
        found = javaproperties.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ClientError(f"credentials file {path} (ROCKETMQ_CLIENT_KEYFILE) cannot be read: {error}") from error
    names = {"AccessKey": "access_key", "SecretKey": "secret_key", "SecurityToken": "security_token"}
    return {option: found[name] for name, option in names.items() if found.get(name)}
