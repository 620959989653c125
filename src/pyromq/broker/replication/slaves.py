"""Of a master: who follows it, and taking over from the slave that acted for it."""

from collections.abc import Iterable, Mapping

from pyromq.broker.cluster.members import Members
from pyromq.broker.core import Core
from pyromq.broker.part import Every, Figure, Part, gauge
from pyromq.broker.replication.succession.takeover import take_over
from pyromq.store.config import BrokerRole
from pyromq.store.timer.checkpoint import TimerCheckpoint

TICK = 0.1


class Slaves(Part):
    """Those of this master."""

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
        lags = [(labels, each.diff) for labels, each in slaves]
        rates = [(labels, each.transferred_byte_in_second) for labels, each in slaves]
        yield Figure("pyromq_ha_slave_lag_bytes", "Bytes of the log that a slave lacks.", lags, ("slave",))
        yield Figure("pyromq_ha_slave_bytes_per_second", "Bytes sent to it.", rates, ("slave",))
        outcomes = [((outcome.name.lower(),), count) for outcome, count in waits.outcomes.items()]
        yield Figure("pyromq_ha_waits", "How waits for slaves ended.", outcomes, ("status",), counts=True)
