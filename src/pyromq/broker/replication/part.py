"""Replication as parts of the broker: a master's slaves, a slave's master, and a slave that acts for it."""

import logging
from collections.abc import Iterable, Mapping

from pyromq.broker.cluster.members import Members
from pyromq.broker.cluster.registration import Registration
from pyromq.broker.core import Core
from pyromq.broker.delay.timer import TimerDelivery
from pyromq.broker.part import Every, Figure, Part, counter, gauge
from pyromq.broker.replication.metadata import DELIVERY_INTERVAL, MasterTables
from pyromq.broker.replication.slave import MasterLink
from pyromq.broker.replication.succession.actingmaster import ActingMaster, Work
from pyromq.broker.replication.succession.escape import Escape
from pyromq.broker.replication.succession.onward import Onward
from pyromq.broker.replication.succession.takeover import take_over
from pyromq.broker.replication.verdict import MasterVerdict
from pyromq.store.config import BrokerRole
from pyromq.store.timer.checkpoint import TimerCheckpoint

log = logging.getLogger(__name__)

TICK = 0.1
SEARCH_INTERVAL = 3.0


class Slaves(Part):
    """Of a master: who follows it, and taking over from the one that acted for it."""

    def __init__(self, core: Core, members: Members) -> None:
        self._core = core
        self._members = members
        self._replicas = core.ports.replicas
        self.taken_over: TimerCheckpoint | None = None
        """How far the timer of the slave was that acted for this master, once that is known."""

    async def start(self) -> None:
        """Before anything is delivered here, know what was delivered there."""
        config = self._core.config
        if not config.enable_slave_acting_master:
            return
        if config.broker_role is BrokerRole.SYNC_MASTER:
            self._core.store.add_hook(self._replicas.waits.refusal, ())
        if not config.skip_pre_online:
            self.taken_over = await take_over(self._core, self._members)

    def every(self) -> Iterable[Every]:
        """Signs of life."""
        return [Every(TICK, self._replicas.tick)]

    def runtime(self) -> Mapping[str, object]:
        """For the runtime information."""
        return self._replicas.runtime()

    def metrics(self) -> Iterable[Figure]:
        """Who follows, and how far behind."""
        replicas = self._replicas
        status, waits = replicas.status(), replicas.waits
        unproved = sum(not each.proved for each in replicas.followers())
        yield gauge("pyromq_ha_slaves", "Slaves that follow.", len(status.ha_connection_info))
        yield gauge("pyromq_ha_slaves_in_sync", "Slaves near enough to wait for.", status.in_sync_slave_nums)
        yield gauge("pyromq_ha_slaves_unproved", "Slaves that did not prove what they have.", unproved)
        yield gauge("pyromq_ha_waiting_messages", "Messages that wait for slaves.", len(waits))
        slaves = [((each.addr.removeprefix("/"),), each) for each in status.ha_connection_info]
        yield Figure(
            "pyromq_ha_slave_lag_bytes",
            "Bytes of the log that a slave lacks.",
            [(labels, each.diff) for labels, each in slaves],
            ("slave",),
        )
        yield Figure(
            "pyromq_ha_slave_bytes_per_second",
            "Bytes sent to it.",
            [(labels, each.transferred_byte_in_second) for labels, each in slaves],
            ("slave",),
        )
        outcomes = [((outcome.name.lower(),), count) for outcome, count in waits.outcomes.items()]
        yield Figure("pyromq_ha_waits", "How waits for slaves ended.", outcomes, ("status",), counts=True)


class Master(Part):
    """Of a slave: the master that it follows."""

    def __init__(self, core: Core, registration: Registration, escape: Escape | None) -> None:
        self._registration = registration
        self.escape = escape
        self._role = core.role
        config = core.config
        self.verdict = MasterVerdict(core, registration)
        self.link = MasterLink(
            config,
            core.store,
            core.clock,
            lambda: config.ha_master_address or registration.master.ha_address,
            self.verdict,
        )
        core.offsets.unshared = {}

    def every(self) -> Iterable[Every]:
        """Signs of life."""
        return [Every(TICK, self.link.tick), Every(SEARCH_INTERVAL, self._search)]

    def runtime(self) -> Mapping[str, object]:
        """For the runtime information."""
        return self.link.runtime()

    def metrics(self) -> Iterable[Figure]:
        """Whether it is there."""
        yield gauge("pyromq_ha_following", "Whether this slave is connected to its master.", self.link.connected)
        yield gauge("pyromq_ha_silence_milliseconds", "Time since it heard of it.", self.link.silence())
        yield gauge("pyromq_ha_acting", "Whether it acts for its master.", self._role.acting)
        escaped = self.escape.sent if self.escape is not None else 0
        yield counter("pyromq_ha_escaped_messages", "Messages other masters took.", escaped)

    async def join(self) -> None:
        """Begin to follow."""
        self.link.start()

    async def leave(self) -> None:
        """Follow no more."""
        await self.link.stop()

    def _search(self) -> None:
        """A master that came up or moved is known sooner to those who ask."""
        if not self.link.connected:
            self._registration.ask_again()


class MasterCopy(Part):
    """Of a slave: what it copies of its master besides the log."""

    def __init__(self, core: Core, master: Master, timer: TimerDelivery) -> None:
        self._store = core.store
        tables = self.tables = MasterTables(core, master.link, master.verdict, timer)
        tables.log_seen, tables.topics_saved = master.link.look, master.link.tick
        master.link.joined, master.link.first_unsaved = tables.wake, tables.first_unsaved

    def every(self) -> Iterable[Every]:
        """Copy."""
        return [Every(TICK, self.tables.keep, at_once=True), Every(DELIVERY_INTERVAL, self.tables.keep_deliveries)]

    async def start(self) -> None:
        """Look at what comes over."""
        self._store.add_listener(self.tables.arrived)


class StandIn(Part):
    """Of a slave that may act for its master: whether it does."""

    def __init__(
        self, core: Core, members: Members, master: Master, escape: Escape, timer: TimerDelivery, parts: Iterable[Part]
    ) -> None:
        self._core = core
        self.escape = escape
        self._parts = parts
        link = master.link
        self.acting = ActingMaster(
            core.config,
            members,
            core.clock,
            lambda: link.connected,
            lambda: timer.knows_its_place,
            self._changed,
        )
        self.acting.work.append(Work(self._lead, self._stand_back))
        members.listeners.append(self.acting.decide)

    def every(self) -> Iterable[Every]:
        """See whether it has to."""
        return [Every(TICK, self.acting.decide)]

    def runtime(self) -> Mapping[str, object]:
        """For the runtime information."""
        return self.acting.runtime()

    async def stop(self) -> None:
        """Leave the work to others, and send nothing more to them."""
        self.acting.stop()
        await self.escape.stop()

    def _changed(self) -> None:
        self._core.role.acting = self.acting.active
        if self.acting.active:
            self._core.positions.hold()
        for part in self._parts:
            part.role_changed()

    def _lead(self) -> None:
        self._core.role.working = True
        self.escape.begin()
        for part in self._parts:
            part.lead()

    def _stand_back(self) -> None:
        self._core.role.working = False
        for part in self._parts:
            try:
                part.stand_back()
            except OSError:
                log.exception("%s did not stop cleanly", part)


def way_onward(core: Core) -> tuple[Onward, Escape | None]:
    """Where messages go that have waited."""
    may_act = core.is_slave and core.config.enable_slave_acting_master
    escape = Escape(core.config, core.client, core.clock) if may_act else None
    return Onward(core, escape), escape
