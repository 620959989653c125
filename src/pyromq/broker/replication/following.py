"""Puts together what makes a broker follow a master. No behaviour of its own."""

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from pyromq.broker.replication.metadata import MasterTables
from pyromq.broker.replication.slave import MasterLink

if TYPE_CHECKING:
    from pyromq.broker.broker import Broker

TICK = 0.1
SEARCH_INTERVAL = 3.0


def follow_master(broker: "Broker", undo: AsyncExitStack) -> MasterLink:
    """Start to follow on a broker that is registered; `undo` gets how to stop it."""
    config, registration = broker.config, broker.registration
    tables = MasterTables(broker)
    link = MasterLink(
        config,
        broker.store,
        broker.clock,
        lambda: config.ha_master_address or registration.master.ha_address,
        tables.log,
        tables.agrees,
    )

    tables.log_seen = link.look

    def search() -> None:
        """A master that came up or moved is known sooner to those who ask."""
        if not link.connected:
            registration.ask_again()

    broker.store.add_listener(tables.arrived)
    broker.runtime_sources.append(link.runtime)
    broker.timers.every(TICK, link.tick)
    broker.timers.every(SEARCH_INTERVAL, search)
    broker.timers.soon(tables.keep())
    undo.push_async_callback(link.stop)
    link.start()
    return link
