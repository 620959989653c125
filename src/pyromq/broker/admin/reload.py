"""Settings that change while a broker runs: by a request, or because its file was read again."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyromq.settings.errors import ConfigError
from pyromq.store.config import CHANGEABLE

if TYPE_CHECKING:
    from pyromq.broker.broker import Broker

log = logging.getLogger(__name__)


async def change_settings(broker: "Broker", texts: Mapping[str, str]) -> list[str]:
    """All of these reloadable settings, by Java name, or none; returns Python names. Raises as `Settings.change`."""
    if "brokerPermission" in texts:
        await broker.topics.bump()  # first, as it may fail; name servers take only a newer table
    changed = broker.config.change(texts)
    if in_store := {name: value for name, value in changed.items() if name in CHANGEABLE}:
        broker.store.change(**in_store)
    if "broker_permission" in changed:
        broker.registration.announce(list(broker.topics))
    return list(changed)


async def reread_file(broker: "Broker") -> None:
    """Take over what the configuration file says now, as far as that needs no restart. What is wrong is logged."""
    try:
        found = broker.config.reread()
        await change_settings(broker, found.texts)
    except ConfigError as error:
        log.error("the settings stay as they are: %s", error)  # noqa: TRY400 - one line says it all
        return
    found.log()
