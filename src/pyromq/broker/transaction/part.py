"""Transactions as a part of the broker."""

from collections.abc import Iterable, Mapping

from pyromq.broker.admin.stats import OTHER
from pyromq.broker.cluster.heartbeats import Heartbeats
from pyromq.broker.core import Core
from pyromq.broker.part import Every, Figure, Part, Told, limit
from pyromq.broker.replication.succession.escape import Escape
from pyromq.broker.replication.succession.halfescape import HalfEscape
from pyromq.broker.transaction.checkback import CheckBack
from pyromq.broker.transaction.halfmessages import HALF, HalfMessages
from pyromq.broker.transaction.transactions import Transactions
from pyromq.remoting.endpoint import Handler

CHECK_TICK = 0.2


class TransactionPart(Part):
    """`escape` is there on a slave that may act for its master."""

    def __init__(self, core: Core, heartbeats: Heartbeats, escape: Escape | None) -> None:
        self._topics = core.topics
        halves = self._halves = HalfMessages(core.config, core.store, core.offsets, core.clock)
        self.transactions = Transactions(
            core.config,
            core.store,
            halves,
            core.stats,
            core.durability,
            core.clock,
            core.rights.user_of,
            heartbeats.check_group,
        )
        self.check_back = CheckBack(
            core.config, core.store, core.topics, core.producers, halves, core.clock, core.rights
        )
        self._away = HalfEscape(halves, core.store, escape, core.clock) if escape is not None else None

    def handlers(self) -> Mapping[int, Handler]:
        """The request codes served here."""
        return self.transactions.handlers()

    def follows(self) -> Mapping[str, Told]:
        """Half messages."""
        return {HALF: self._halves.arrived}

    def every(self) -> Iterable[Every]:
        """Ask producers, or let others do that."""
        yield Every(CHECK_TICK, self.check_back.tick)
        if self._away is not None:
            yield Every(CHECK_TICK, self._away.tick)

    async def start(self) -> None:
        """Find out which transactions are open, before anything new is stored."""
        self._halves.load()

    def lead(self) -> None:
        """Move what is open to another master."""
        if self._away is not None:
            self._away.start()

    def stand_back(self) -> None:
        """Leave the rest to the master."""
        if self._away is not None:
            self._away.stop()

    def metrics(self) -> Iterable[Figure]:
        """How transactions end."""
        labels, others, transactions = ("topic", "is_system"), (OTHER, "false"), self.transactions
        for name, doc, counts, grows in (
            ("rocketmq_half_messages", "Transactions without an outcome.", transactions.open_by_topic(), False),
            ("rocketmq_commit_messages", "Transactions committed.", transactions.committed, True),
            ("rocketmq_rollback_messages", "Transactions rolled back.", transactions.rolled_back, True),
        ):
            values = [
                ((topic if topic in self._topics else OTHER, str(self._topics.is_system(topic)).lower()), count)
                for topic, count in counts.items()
            ]
            yield Figure(name, doc, values, labels, grows, others)
        checks = [(("sent",), self.check_back.sent), (("given_up",), self.check_back.given_up)]
        yield Figure("pyromq_transaction_checks", "Checks by result.", checks, ("result",), counts=True)
        yield limit("transactions", transactions.refused)
