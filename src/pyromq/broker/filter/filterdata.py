"""The SQL filters that groups registered with their heartbeats: `config/consumerFilter.json` in memory, and compiled.

A filter outlives its consumers by a day, so that they find it again when they come back. Invariant: what is in the
table compiles, and its version never goes back.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from pyromq.broker.filter.bloom import bloom_data
from pyromq.broker.filter.sql import Predicate, SqlSyntaxError, compile_sql
from pyromq.broker.tables.periodicfile import PeriodicFile
from pyromq.configfile import read_config
from pyromq.protocol.bodies.clients import SubscriptionData
from pyromq.protocol.bodies.enums import ExpressionType
from pyromq.protocol.bodies.groups import ConsumerFilterData, ConsumerFilterTable, TopicFilters

log = logging.getLogger(__name__)

MAX_FILTERS = 50_000
DEAD_BEFORE_LOAD_MS = 30_000
"""How long ago consumers are said to have left that were there when the broker stopped."""


@dataclass(slots=True)
class RegisteredFilter:
    """The record that is kept, and the function made of its expression."""

    data: ConsumerFilterData
    matches: Predicate

    @property
    def is_dead(self) -> bool:
        """Whether nobody of the group subscribes with it any more."""
        return self.data.dead_time > 0


class FilterTable:
    """Group and topic → filter."""

    def __init__(self, path: Path, clock: Callable[[], int], keep_dead: int) -> None:
        self._file = PeriodicFile(path, "filterDataByTopic", self._copies)
        self._clock = clock
        self._keep_dead = keep_dead
        self._groups: dict[str, dict[str, RegisteredFilter]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def get(self, group: str, topic: str) -> RegisteredFilter | None:
        """The filter of a group on a topic, whether its consumers are there or not."""
        return self._groups.get(group, {}).get(topic)

    def register(self, group: str, subscriptions: Iterable[SubscriptionData]) -> None:
        """Take over what a group's heartbeat says. An expression that does not compile changes nothing."""
        wanted = {each.topic: each for each in subscriptions if each.expression_type is ExpressionType.SQL92}
        for subscription in wanted.values():
            self._register(group, subscription)
        for topic, known in self._groups.get(group, {}).items():
            if topic not in wanted:
                self._bury(known)

    def unregister(self, group: str) -> None:
        """A group's last consumer left."""
        for known in self._groups.get(group, {}).values():
            self._bury(known)

    def load(self) -> None:
        """Read the file. Everything in it is dead until its consumers come back. Raises ProtocolError."""
        stored = read_config(self._file.path, ConsumerFilterTable.decode)
        deadline = self._clock() - DEAD_BEFORE_LOAD_MS
        for topic, filters in (stored.filter_data_by_topic if stored is not None else {}).items():
            for group, data in filters.group_filter_data.items():
                if not data.dead_time:
                    data.dead_time = max(deadline, data.born_time)
                try:
                    self._enter(topic, group, RegisteredFilter(data, compile_sql(data.expression)))
                except SqlSyntaxError as error:
                    log.warning("filter of %s on %s dropped: %s", group, topic, error)
        self._file.start_with(stored.filter_data_by_topic if stored is not None else ())

    def persist(self) -> None:
        """Drop what is dead for too long and write the file, if anything changed since the last time. Blocks."""
        self._clean()
        self._file.persist()

    async def save(self) -> None:
        """The same in a thread, with the filters as they are now."""
        self._clean()
        await self._file.save()

    def _copies(self, topics: Iterable[str]) -> dict[str, TopicFilters | None]:
        copies: dict[str, TopicFilters | None] = dict.fromkeys(topics)
        for group, filters in self._groups.items():
            for topic in filters.keys() & copies.keys():
                of_topic = copies[topic] = copies[topic] or TopicFilters(topic=topic)
                of_topic.group_filter_data[group] = msgspec.structs.replace(filters[topic].data)
        return copies

    def _register(self, group: str, subscription: SubscriptionData) -> None:
        topic, expression, version = subscription.topic, subscription.sub_string, subscription.sub_version
        known = self.get(group, topic)
        if known is not None and version < known.data.client_version:
            return
        if known is not None and known.data.expression == expression:
            if known.is_dead or version > known.data.client_version:
                known.data.client_version = version
                known.data.dead, known.data.dead_time = False, 0
                self._file.dirty.add(topic)
            return
        if known is not None and version == known.data.client_version:
            log.warning("%s subscribes to %s with another expression under one version, ignored", group, topic)
            return
        try:
            matches = compile_sql(expression)
        except SqlSyntaxError as error:
            log.warning("filter of %s on %s ignored: %s", group, topic, error)
            return
        data = ConsumerFilterData(
            bloom_filter_data=bloom_data(group, topic),
            born_time=self._clock(),
            client_version=version,
            consumer_group=group,
            expression=expression,
            expression_type=ExpressionType.SQL92,
            topic=topic,
        )
        self._enter(topic, group, RegisteredFilter(data, matches))
        self._file.dirty.add(topic)

    def _enter(self, topic: str, group: str, entry: RegisteredFilter) -> None:
        known = self.get(group, topic)
        if known is None and self._count >= MAX_FILTERS:
            log.warning("filter of %s on %s ignored: there are %d already", group, topic, MAX_FILTERS)
            return
        self._count += known is None
        self._groups.setdefault(group, {})[topic] = entry

    def _bury(self, entry: RegisteredFilter) -> None:
        if not entry.is_dead:
            entry.data.dead, entry.data.dead_time = True, self._clock()
            self._file.dirty.add(entry.data.topic)

    def _clean(self) -> None:
        limit = self._clock() - self._keep_dead
        for group, filters in list(self._groups.items()):
            for topic in [topic for topic, each in filters.items() if each.is_dead and each.data.dead_time <= limit]:
                del filters[topic]
                self._count -= 1
                self._file.dirty.add(topic)
            if not filters:
                del self._groups[group]
