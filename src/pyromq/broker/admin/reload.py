"""Settings that change while a broker runs: by a request, or because its file was read again."""

import logging
from collections.abc import Mapping

from pyromq.broker.core import Core
from pyromq.settings.errors import ConfigError
from pyromq.store.config import CHANGEABLE

log = logging.getLogger(__name__)


async def change_settings(core: Core, texts: Mapping[str, str]) -> list[str]:
    """All of these reloadable settings, by Java name, or none; returns Python names. Raises as `Settings.change`."""
    if "brokerPermission" in texts:
        await core.topics.bump()  # first, as it may fail; name servers take only a newer table
    changed = core.config.change(texts)
    if in_store := {name: value for name, value in changed.items() if name in CHANGEABLE}:
        core.store.change(**in_store)
    if "broker_permission" in changed:
        core.topics.announce(list(core.topics))
    return list(changed)


async def reread_file(core: Core) -> None:
    """Take over what the configuration file says now, as far as that needs no restart. What is wrong is logged."""
    try:
        found = core.config.reread()
        await change_settings(core, found.texts)
    except ConfigError as error:
        log.error("the settings stay as they are: %s", error)  # noqa: TRY400 - one line says it all
        return
    found.log()
