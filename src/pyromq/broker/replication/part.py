"""Puts together what makes a broker follow a master, and act for it. No behaviour of its own."""

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from pyromq.broker.replication.metadata import DELIVERY_INTERVAL, MasterTables
from pyromq.broker.replication.slave import MasterLink
from pyromq.broker.replication.succession.actingmaster import ActingMaster, Work
from pyromq.broker.replication.succession.escape import Escape
from pyromq.broker.replication.verdict import MasterVerdict

if TYPE_CHECKING:
    from pyromq.broker.broker import Broker

TICK = 0.1
SEARCH_INTERVAL = 3.0


def follow_master(broker: "Broker", undo: AsyncExitStack) -> MasterLink:
    """Start to follow on a broker that is registered; `undo` gets how to stop it."""
    config, registration = broker.config, broker.registration
    verdict = MasterVerdict(broker)
    tables = MasterTables(broker, verdict)
    link = MasterLink(
        config,
        broker.store,
        broker.clock,
        lambda: config.ha_master_address or registration.master.ha_address,
        verdict,
    )
    tables.log_seen, tables.topics_saved = link.look, link.tick
    link.joined, link.first_unsaved = tables.wake, tables.first_unsaved

    def search() -> None:
        """A master that came up or moved is known sooner to those who ask."""
        if not link.connected:
            registration.ask_again()

    broker.offsets.unshared = {}
    broker.store.add_listener(tables.arrived)
    broker.runtime_sources.append(link.runtime)
    broker.timers.every(TICK, link.tick)
    broker.timers.every(SEARCH_INTERVAL, search)
    broker.timers.soon(tables.keep())
    broker.timers.every(DELIVERY_INTERVAL, tables.keep_deliveries)
    undo.push_async_callback(link.stop)
    link.start()
    return link


def may_act(broker: "Broker", undo: AsyncExitStack) -> tuple[ActingMaster, Escape]:
    """What a slave needs to act for its master; it begins with `keep_members`."""

    def changed() -> None:
        """From now on nobody has what is beyond this log, or somebody else serves it."""
        if broker.acts_as_master:
            broker.positions.hold()
        broker.park.resume_all()

    escape = Escape(broker.config, broker.client, broker.clock)
    undo.push_async_callback(escape.stop)
    acting = ActingMaster(
        broker.config,
        broker.members,
        broker.clock,
        lambda: broker.link is not None and broker.link.connected,
        lambda: broker.timer.knows_its_place,
        changed,
    )
    acting.work.append(Work(escape.begin, escape.end))
    undo.callback(acting.stop)
    broker.runtime_sources.append(acting.runtime)
    return acting, escape


def keep_members(broker: "Broker") -> None:
    """Give signs of life to the name servers, and on a slave see whether it has to act."""
    broker.timers.every(broker.config.broker_heartbeat_interval / 1000, broker.members.beat)
    if broker.acting is not None:
        broker.members.changed = broker.acting.decide
        broker.timers.soon(broker.members.keep())
        broker.timers.every(TICK, broker.acting.decide)
