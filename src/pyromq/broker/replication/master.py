"""Of a slave: the master that it follows, and what it copies of it besides the log."""

from collections.abc import Iterable, Mapping

from pyromq.broker.cluster.registration import Registration
from pyromq.broker.core import Core
from pyromq.broker.delay.timer import TimerDelivery
from pyromq.broker.part import Every, Figure, Part, counter, gauge
from pyromq.broker.replication.link import MasterLink
from pyromq.broker.replication.mastertables import DELIVERY_INTERVAL, MasterTables
from pyromq.broker.replication.peer import Peer
from pyromq.broker.replication.succession.escape import Escape
from pyromq.broker.replication.unsavedtopics import UnsavedTopics
from pyromq.broker.replication.verdict import MasterVerdict
from pyromq.remoting.address import Address

TICK = 0.1
SEARCH_INTERVAL = 3.0


class Master(Part):
    """That of this slave. `escape` is there if it may act for it."""

    def __init__(self, core: Core, registration: Registration, timer: TimerDelivery, escape: Escape | None) -> None:
        self._core = core
        self._registration = registration
        self._escape = escape
        peer = Peer(core.client, self._address)
        verdict, unsaved = MasterVerdict(core, peer), UnsavedTopics(core.topics)
        self.link = MasterLink(core, registration, verdict, unsaved)
        self.tables = MasterTables(core, self.link, peer, verdict, unsaved, timer)

    def every(self) -> Iterable[Every]:
        """Signs of life, and copies of tables."""
        yield Every(TICK, self.link.tick)
        yield Every(SEARCH_INTERVAL, self._search)
        yield Every(TICK, self.tables.keep, at_once=True)
        yield Every(DELIVERY_INTERVAL, self.tables.keep_deliveries)

    def runtime(self) -> Mapping[str, object]:
        """For the runtime information."""
        return self.link.runtime()

    def metrics(self) -> Iterable[Figure]:
        """Whether it is there, and what is done in its place."""
        escaped = self._escape.sent if self._escape is not None else 0
        yield gauge("pyromq_ha_following", "Whether this slave is connected to its master.", self.link.connected)
        yield gauge("pyromq_ha_silence_milliseconds", "Time since it heard of it.", self.link.silence())
        yield gauge("pyromq_ha_acting", "Whether it acts for its master.", self._core.role.acting)
        yield counter("pyromq_ha_escaped_messages", "Messages other masters took.", escaped)

    async def join(self) -> None:
        """Begin to follow."""
        self._core.store.add_watcher(self.tables.arrived)
        self.link.start()

    async def leave(self) -> None:
        """Follow no more."""
        await self.link.stop()

    def _search(self) -> None:
        """A master that came up or moved is known sooner to those who ask."""
        if not self.link.connected:
            self._registration.ask_again()

    def _address(self) -> str:
        """The master's main port: as it is set, as the name servers tell, or below the replication port; else empty."""
        config = self._core.config
        known = config.master_broker_address or self._registration.master.address
        if known or not config.ha_master_address:
            return known
        host, port = Address.parse(config.ha_master_address)
        return str(Address(host, port - 1))
