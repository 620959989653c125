"""The broker's state as Prometheus metrics, under the names and labels of RocketMQ 5. Read at each scrape, never kept.

What starts with `pyromq_` has no counterpart there: every bound of the broker is a gauge or counts in `pyromq_limits`.

Lag is what a group has yet to consume of the topics it subscribes to or has offsets in. A group without any committed
offset in a queue has no lag there that anybody could know, so it is left out rather than shown as zero.

Labels are topics and groups that exist, never what a message says, and at most `metricsOtelCardinalityLimit` of them in
one metric; the rest is one more, `(other)`.
"""

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from pyromq.broker.admin.stats import OTHER, Stat
from pyromq.broker.cluster.clients import Client
from pyromq.protocol import names
from pyromq.protocol.bodies.enums import ConsumeType
from pyromq.protocol.release import version_name
from pyromq.store.space import used_ratio

if TYPE_CHECKING:
    from pyromq.broker.broker import Broker

_NODE = ("cluster", "node_type", "node_id")
_STORAGE = (*_NODE, "storage_type", "storage_medium")
_GROUP = (*_NODE, "topic", "consumer_group", "is_retry", "is_system")

_CLIENT = (*_NODE, "language", "version", "protocol_type")
_MODES = {
    ConsumeType.CONSUME_PASSIVELY: "push",
    ConsumeType.CONSUME_ACTIVELY: "pull",
    ConsumeType.CONSUME_POP: "pop",
}

CONTENT_TYPE = CONTENT_TYPE_LATEST


class _Family:
    """A metric with at most `limit` sets of labels, and one more for the rest: their sum, or the largest of them.

    `others` are the labels of the rest, behind those of the broker.
    """

    def __init__(
        self,
        family: GaugeMetricFamily | CounterMetricFamily,
        others: tuple[str, ...],
        limit: int,
        merge: Callable[[float, float], float] = operator.add,
    ) -> None:
        self._family = family
        self._others = others
        self._left = limit
        self._merge = merge
        self._rest: float | None = None

    def add(self, labels: tuple[str, ...], value: float) -> None:
        if self._left > 0 and OTHER not in labels:
            self._left -= 1
            self._family.add_metric(labels, value)
        else:
            self._rest = value if self._rest is None else self._merge(self._rest, value)

    def done(self, node: tuple[str, ...]) -> Metric:
        if self._rest is not None:
            self._family.add_metric((*node, *self._others), self._rest)
        return self._family


class BrokerMetrics(Collector):
    """Collects from a running broker."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._node = (broker.config.broker_cluster_name, "broker", broker.config.broker_name)
        self._limit = broker.config.metrics_otel_cardinality_limit
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def page(self) -> bytes:
        """The text that Prometheus scrapes."""
        return generate_latest(self._registry)

    def describe(self) -> Iterable[Metric]:
        """Nothing up front: what there is depends on topics and groups."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Every metric with its present values."""
        yield from self._broker_gauges()
        yield from self._traffic()
        yield from self._connections()
        yield from self._lag()
        yield from self._transactions()
        yield from self._storage()
        yield from self._replication()
        yield from self._tables()
        yield from self._transport()

    def _gauge(self, name: str, doc: str, value: float) -> GaugeMetricFamily:
        gauge = GaugeMetricFamily(name, doc, labels=_NODE)
        gauge.add_metric(self._node, value)
        return gauge

    def _broker_gauges(self) -> Iterator[Metric]:
        broker = self._broker
        yield self._gauge("rocketmq_broker_permission", "Permission bits.", broker.config.broker_permission)
        yield self._gauge("rocketmq_topic_number", "Topics.", len(broker.topics))
        yield self._gauge("rocketmq_consumer_group_number", "Consumer groups.", len(broker.groups))
        yield self._gauge("pyromq_parked_pulls", "Pulls that wait for an arrival.", len(broker.park))
        yield self._gauge("pyromq_queue_locks", "Queues locked by ordered consumers.", len(broker.locks))
        known = list(broker.registration.standing.values())
        yield self._gauge("pyromq_registered_name_servers", "Name servers that know this broker.", known.count(None))
        conflicts = broker.registration.conflicts
        yield self._gauge("pyromq_name_conflicts", "Name servers that know another with its name and id.", conflicts)
        yield self._gauge(
            "pyromq_waiting_messages", "Messages that wait for the disk or a replica.", broker.store.progress.waiting
        )

        beyond = CounterMetricFamily(
            "pyromq_positions_set_back", "Positions that were beyond the log.", labels=(*_NODE, "kind")
        )
        for kind, count in broker.positions.set_back.items():
            beyond.add_metric((*self._node, kind), count)
        yield beyond
        yield from self._writers()

    def _writers(self) -> Iterator[Metric]:
        writers = self._broker.writers
        yield self._gauge("pyromq_writers", "Writers whose messages are stored once.", len(writers.table))
        yield self._gauge("pyromq_writer_lanes", "Tasks that they work with.", writers.table.lanes)
        yield self._gauge("pyromq_writer_queues", "Queues that each task writes to.", writers.table.tails)
        for name, doc, count in (
            ("pyromq_writer_repeated_messages", "Messages of writers that were stored already.", writers.repeated),
            ("pyromq_writer_fenced_requests", "Requests of runs or attempts that were given up.", writers.fenced),
        ):
            counter = CounterMetricFamily(name, doc, labels=_NODE)
            counter.add_metric(self._node, count)
            yield counter

    def _traffic(self) -> Iterator[Metric]:
        broker = self._broker
        labels = (*_NODE, "topic", "message_type", "is_system")
        rest = (OTHER, "normal", "false")
        messages_in = self._counter("rocketmq_messages_in", "Messages stored.", labels, rest)
        bytes_in = self._counter("rocketmq_throughput_in", "Bytes stored.", labels, rest)
        for topic in broker.topics:
            name = topic.topic_name
            count = broker.stats.total(Stat.TOPIC_PUT_NUMS, name)
            if count:
                kind = topic.attributes.get("message.type", "normal").lower()
                topic_labels = (*self._node, name, kind, _flag(broker.topics.is_system(name)))
                messages_in.add(topic_labels, count)
                bytes_in.add(topic_labels, broker.stats.total(Stat.TOPIC_PUT_SIZE, name))
        yield messages_in.done(self._node)
        yield bytes_in.done(self._node)
        labels, rest = (*_NODE, "topic", "consumer_group", "is_system"), (OTHER, OTHER, "false")
        messages_out = self._counter("rocketmq_messages_out", "Messages delivered.", labels, rest)
        bytes_out = self._counter("rocketmq_throughput_out", "Bytes delivered.", labels, rest)
        for key, count in broker.stats.totals(Stat.GROUP_GET_NUMS):
            topic_name, _, group = key.partition("@")
            values = (*self._node, topic_name, group, _flag(self._is_system(topic_name, group)))
            messages_out.add(values, count)
            bytes_out.add(values, broker.stats.total(Stat.GROUP_GET_SIZE, key))
        yield messages_out.done(self._node)
        yield bytes_out.done(self._node)
        to_dlq = self._counter("rocketmq_send_to_dlq_messages", "Messages given up.", labels, rest)
        for key, count in broker.stats.totals(Stat.DLQ_PUT_NUMS):
            topic_name, _, group = key.partition("@")
            to_dlq.add((*self._node, topic_name, group, _flag(self._is_system(topic_name, group))), count)
        yield to_dlq.done(self._node)

    def _counter(self, name: str, doc: str, labels: tuple[str, ...], rest: tuple[str, ...]) -> _Family:
        return _Family(CounterMetricFamily(name, doc, labels=labels), rest, self._limit)

    def _connections(self) -> Iterator[Metric]:
        producers = GaugeMetricFamily("rocketmq_producer_connections", "Connected producers.", labels=_CLIENT)
        for values, count in Counter(map(_client, self._broker.producers.clients())).items():
            producers.add_metric((*self._node, *values), count)
        yield producers
        labels = (*_CLIENT, "consumer_group", "consume_mode", "is_system")
        consumers = _Family(
            GaugeMetricFamily("rocketmq_consumer_connections", "Connected consumers.", labels=labels),
            ("unknown", "unknown", "remoting", OTHER, "push", "false"),
            self._limit,
        )
        for group in self._broker.consumers:
            mode = _MODES.get(group.consume_type, "push")
            system = _flag(names.is_system_group(group.name))
            for values, count in Counter(map(_client, group.members.values())).items():
                consumers.add((*self._node, *values, group.name, mode, system), count)
        yield consumers.done(self._node)

    def _lag(self) -> Iterator[Metric]:
        broker = self._broker
        facts = (
            ("rocketmq_consumer_lag_messages", "Messages not consumed yet."),
            ("rocketmq_consumer_lag_latency_milliseconds", "Age of the oldest message not consumed yet."),
            ("rocketmq_consumer_inflight_messages", "Messages pulled but not committed."),
            ("rocketmq_consumer_ready_messages", "Messages not pulled yet."),
            ("rocketmq_consumer_queueing_latency_milliseconds", "Age of the oldest message not pulled yet."),
        )
        rest = (OTHER, OTHER, "false", "false")
        gauges = [
            _Family(
                GaugeMetricFamily(name, doc, labels=_GROUP),
                rest,
                self._limit,
                max if name.endswith("_milliseconds") else operator.add,
            )
            for name, doc in facts
        ]
        for topic, group in broker.offsets.pairs():
            if topic not in broker.topics:
                continue
            system = _flag(self._is_system(topic, group))
            values = (*self._node, topic, group, _flag(names.is_retry_topic(topic)), system)
            for gauge, value in zip(gauges, self._lag_of(topic, group), strict=True):
                gauge.add(values, value)
        for gauge in gauges:
            yield gauge.done(self._node)

    def _lag_of(self, topic: str, group: str) -> tuple[int, int, int, int, int]:
        """Lag, its age, in flight, ready, its age: messages over all queues, ages of the oldest one in any."""
        broker = self._broker
        lag = age = flying = ready = waiting = 0
        for queue_id, offset in broker.offsets.queues(group, topic).items():
            end = broker.store.max_offset(topic, queue_id)
            pulled = min(max(broker.offsets.pull_offset(group, topic, queue_id) or 0, offset), end)
            lag += max(0, end - offset)
            flying += max(0, pulled - offset)
            ready += end - pulled
            age = max(age, self._age(topic, queue_id, offset) if end > offset else 0)
            waiting = max(waiting, self._age(topic, queue_id, pulled) if end > pulled else 0)
        return lag, age, flying, ready, waiting

    def _age(self, topic: str, queue_id: int, offset: int) -> int:
        stored = self._broker.store.lookup.store_time(topic, queue_id, offset)
        return max(0, self._broker.clock() - stored) if stored > 0 else 0

    def _transactions(self) -> Iterator[Metric]:
        broker, labels = self._broker, (*_NODE, "topic", "is_system")
        transactions = broker.transactions
        half = GaugeMetricFamily("rocketmq_half_messages", "Transactions without an outcome.", labels=labels)
        committed = CounterMetricFamily("rocketmq_commit_messages", "Transactions committed.", labels=labels)
        rolled_back = CounterMetricFamily("rocketmq_rollback_messages", "Transactions rolled back.", labels=labels)
        for family, counts in (
            (half, transactions.open_by_topic()),
            (committed, transactions.committed),
            (rolled_back, transactions.rolled_back),
        ):
            capped = _Family(family, (OTHER, "false"), self._limit)
            for topic, count in counts.items():
                name = topic if topic in broker.topics else OTHER
                capped.add((*self._node, name, _flag(broker.topics.is_system(topic))), count)
            yield capped.done(self._node)
        checks = CounterMetricFamily("pyromq_transaction_checks", "Checks by result.", labels=(*_NODE, "result"))
        checks.add_metric((*self._node, "sent"), broker.check_back.sent)
        checks.add_metric((*self._node, "given_up"), broker.check_back.given_up)
        yield checks

    def _storage(self) -> Iterator[Metric]:
        store = self._broker.store
        damaged = "Places of the log that are damaged and skipped, as far as they are known."
        yield self._gauge("pyromq_store_damaged_records", damaged, len(store.damage))
        yield self._gauge("pyromq_store_damaged_bytes", "Bytes of these places.", store.damage.bytes)
        values = (*self._node, "local", "disk")
        earliest = store.lookup.earliest_time()
        facts = (
            ("rocketmq_storage_size_bytes", "Bytes of the log.", store.max_physical_offset - store.min_physical_offset),
            (
                "rocketmq_storage_flush_behind_bytes",
                "Bytes of the log not on disk yet.",
                store.max_physical_offset - store.progress.flushed,
            ),
            ("rocketmq_storage_dispatch_behind_bytes", "Bytes not in queues yet.", store.progress.behind),
            (
                "rocketmq_storage_message_reserve_time_milliseconds",
                "Age of the oldest message kept.",
                self._broker.clock() - earliest if earliest > 0 else 0,
            ),
        )
        folders = (store.config.commit_log_dir, store.config.store_path_root_dir)
        yield self._gauge(
            "pyromq_disk_used_ratio", "Used share of the fuller disk, as df has it.", max(map(used_ratio, folders))
        )
        for name, doc, value in facts:
            gauge = GaugeMetricFamily(name, doc, labels=_STORAGE)
            gauge.add_metric(values, value)
            yield gauge

    def _replication(self) -> Iterator[Metric]:
        broker, link = self._broker, self._broker.link
        if link is not None:
            yield self._gauge("pyromq_ha_following", "Whether this slave is connected to its master.", link.connected)
            yield self._gauge("pyromq_ha_silence_milliseconds", "Time since it heard of it.", link.silence())
            yield self._gauge("pyromq_ha_acting", "Whether it acts for its master.", broker.acts_as_master)
            escaped = CounterMetricFamily("pyromq_ha_escaped_messages", "Messages other masters took.", labels=_NODE)
            escaped.add_metric(self._node, broker.escape.sent if broker.acting is not None else 0)
            yield escaped
            return
        status, waits = broker.replicas.status(), broker.replicas.waits
        yield self._gauge("pyromq_ha_slaves", "Slaves that follow.", len(status.ha_connection_info))
        yield self._gauge("pyromq_ha_slaves_in_sync", "Slaves near enough to wait for.", status.in_sync_slave_nums)
        unproved = sum(not each.proved for each in broker.replicas.followers())
        yield self._gauge("pyromq_ha_slaves_unproved", "Slaves that did not prove what they have.", unproved)
        yield self._gauge("pyromq_ha_waiting_messages", "Messages that wait for slaves.", len(waits))
        labels = (*_NODE, "slave")
        lag = GaugeMetricFamily("pyromq_ha_slave_lag_bytes", "Bytes of the log that a slave lacks.", labels=labels)
        rate = GaugeMetricFamily("pyromq_ha_slave_bytes_per_second", "Bytes sent to it.", labels=labels)
        for each in status.ha_connection_info:
            lag.add_metric((*self._node, each.addr.removeprefix("/")), each.diff)
            rate.add_metric((*self._node, each.addr.removeprefix("/")), each.transferred_byte_in_second)
        yield lag
        yield rate
        ended = CounterMetricFamily("pyromq_ha_waits", "How waits for slaves ended.", labels=(*_NODE, "status"))
        for outcome, count in waits.outcomes.items():
            ended.add_metric((*self._node, outcome.name.lower()), count)
        yield ended

    def _tables(self) -> Iterator[Metric]:
        broker = self._broker
        labels = (*_NODE, "table", "result")
        saves = CounterMetricFamily(
            "pyromq_table_saves", "Saves of tables; a failed one changed nothing.", labels=labels
        )
        for table, saved in (
            ("topics", broker.topics.saved),
            ("groups", broker.groups.saved),
            ("request_modes", broker.request_modes.saved),
        ):
            saves.add_metric((*self._node, table, "saved"), saved.saves)
            saves.add_metric((*self._node, table, "failed"), saved.failures)
        yield saves
        directory = broker.gate.directory if broker.gate is not None else None
        if directory is not None:
            doc = "Whether files of users and rules changed and cannot be read; what was known before holds."
            yield self._gauge("pyromq_access_files_damaged", doc, bool(directory.trouble))

    def _transport(self) -> Iterator[Metric]:
        broker = self._broker
        stats = broker.server.stats
        yield self._gauge("pyromq_connections", "Open connections.", stats.connections)
        yield self._gauge("pyromq_requests_in_flight", "Requests not answered yet.", stats.requests_in_flight)
        refused = CounterMetricFamily("pyromq_limits", "How often a limit was met.", labels=(*_NODE, "limit"))
        for limit, count in (
            ("connections", stats.connections_refused),
            ("connections_per_peer", stats.connections_refused_per_peer),
            ("connection_rate", stats.connections_refused_rate),
            ("request_rate", stats.requests_refused_rate),
            ("strangers", stats.closed_strangers),
            ("handshakes", stats.handshakes_failed),
            ("busy", stats.busy),
            ("idle", stats.closed_idle),
            ("malformed", stats.closed_malformed),
            ("slow", stats.closed_slow),
            ("parked_pulls", broker.park.refused),
            ("held_pops", broker.pop.park.refused + broker.pop.questions.refused),
            ("topics", broker.topics.refused),
            ("groups", broker.groups.refused),
            ("new_topics", broker.topics.newcomers.refused),
            ("new_groups", broker.groups.newcomers.refused),
            ("producer_groups", broker.producers.refused),
            ("queue_locks", broker.locks.refused),
            ("subscriptions", broker.consumers.text.refused),
            ("transactions", broker.transactions.refused),
            ("http_connections", broker.http.dropped if broker.http is not None else 0),
            ("waiting_messages", broker.sender.busy),
            ("writers", broker.writers.table.evicted),
        ):
            refused.add_metric((*self._node, limit), count)
        yield refused
        guard = broker.gate.guard if broker.gate is not None else None
        if guard is not None:
            checked = CounterMetricFamily("pyromq_requests_checked", "Signed requests.", labels=(*_NODE, "result"))
            for result, count in (
                ("verified", guard.stats.verified),
                ("unauthenticated", guard.stats.unauthenticated),
                ("unauthorized", guard.stats.unauthorized),
                ("limited", guard.stats.limited),
            ):
                checked.add_metric((*self._node, result), count)
            yield checked

    def _is_system(self, topic: str, group: str) -> bool:
        return self._broker.topics.is_system(topic) or names.is_system_group(group)


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _client(member: Client) -> tuple[str, str, str]:
    language = member.language.name if member.language is not None else "unknown"
    version = version_name(member.version).lower() if member.version >= 0 else "unknown"
    return language.lower(), version, "remoting"
