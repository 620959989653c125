"""Saving of tables that change all the time, and what operators see of all tables."""

from collections.abc import Iterable

from pyromq.broker.core import Core
from pyromq.broker.part import Every, Figure, Part, gauge, limit

FILTER_INTERVAL = 10.0


class TableKeeper(Part):
    """Looks after the tables of the core."""

    def __init__(self, core: Core) -> None:
        self._config = core.config
        self._tables = core.tables
        self._positions = core.positions

    def every(self) -> Iterable[Every]:
        yield Every(self._config.flush_consumer_offset_interval / 1000, self._tables.offsets.save)
        yield Every(FILTER_INTERVAL, self._tables.filters.registered.save)

    def metrics(self) -> Iterable[Figure]:
        """How many entries, saves and refusals there are."""
        topics, groups, modes = self._tables.topics, self._tables.groups, self._tables.modes
        yield gauge("rocketmq_topic_number", "Topics.", len(topics))
        yield gauge("rocketmq_consumer_group_number", "Consumer groups.", len(groups))
        beyond = [((kind,), count) for kind, count in self._positions.set_back.items()]
        doc = "Positions that were beyond the log."
        yield Figure("pyromq_positions_set_back", doc, beyond, ("kind",), counts=True)
        saves = [
            ((table, result), count)
            for table, saved in (("topics", topics.saved), ("groups", groups.saved), ("request_modes", modes.saved))
            for result, count in (("saved", saved.saves), ("failed", saved.failures))
        ]
        doc = "Saves of tables; a failed one changed nothing."
        yield Figure("pyromq_table_saves", doc, saves, ("table", "result"), counts=True)
        yield limit("topics", topics.refused)
        yield limit("groups", groups.refused)
        yield limit("new_topics", topics.newcomers.refused)
        yield limit("new_groups", groups.newcomers.refused)
