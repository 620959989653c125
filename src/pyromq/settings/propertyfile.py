"""A Java property file, as values of the options of a settings class. Apache's files load as they are.

That of Apache's proxy is a JSON object; any settings may be written so.
"""

import logging
from collections.abc import Mapping
from pathlib import Path

import msgspec

from pyromq.protocol import javaproperties
from pyromq.protocol.errors import ProtocolError
from pyromq.settings.declaration import Settings, find
from pyromq.settings.errors import ConfigError

log = logging.getLogger(__name__)

MAX_FILE = 1024 * 1024


def read_properties(cls: type[Settings], file: Path) -> dict[str, object]:
    """What `file` sets, by Python name. Raises ConfigError."""
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_FILE + 1)
    except OSError as error:
        raise ConfigError(f"cannot read the configuration file {file}: {error.strerror or error}") from error
    if len(data) > MAX_FILE:
        raise ConfigError(f"the configuration file {file} is longer than {MAX_FILE} bytes")
    values: dict[str, object] = {}
    try:
        texts = _texts(data.decode())
        for key, text in texts.items():
            if key in cls.ignored:
                log.info("%s: %s has no effect in this server", file, key)
                continue
            _check_names(cls, key, texts)
            each = find(cls, key)
            values[each.name] = each.parse(text)
    except (ConfigError, ProtocolError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: {error}") from error
    return values


def _texts(data: str) -> dict[str, str]:
    if not data.lstrip().startswith("{"):
        return javaproperties.loads(data)
    try:
        found = msgspec.json.decode(data, type=dict[str, str | bool | int | float | None])
    except msgspec.MsgspecError as error:
        raise ConfigError(f"it begins as JSON, but is no object of settings: {error}") from None
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in found.items()
        if value is not None
    }


def _check_names(cls: type[Settings], key: str, texts: Mapping[str, str]) -> None:
    now = cls.old_names.get(key, key)
    if texts.get(now, texts[key]) != texts[key]:
        raise ConfigError(f"{key} is an old name of {now}, and both are there with different values")
