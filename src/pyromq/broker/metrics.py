"""The broker's state as Prometheus metrics, under the names and labels of RocketMQ 5. Read at each scrape, never kept.

Lag is what a group has yet to consume of the topics it subscribes to or has offsets in. A group without any committed
offset in a queue has no lag there that anybody could know, so it is left out rather than shown as zero.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from pyromq.broker.stats import Stat
from pyromq.protocol import names
from pyromq.protocol.versions import version_name

if TYPE_CHECKING:
    from pyromq.broker.broker import Broker

_NODE = ("cluster", "node_type", "node_id")
_STORAGE = (*_NODE, "storage_type", "storage_medium")
_GROUP = (*_NODE, "topic", "consumer_group", "is_retry", "is_system")

CONTENT_TYPE = CONTENT_TYPE_LATEST


class BrokerMetrics(Collector):
    """Collects from a running broker."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._node = (broker.config.broker_cluster_name, "broker", broker.config.broker_name)
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

    def _traffic(self) -> Iterator[Metric]:
        broker = self._broker
        labels = (*_NODE, "topic", "message_type", "is_system")
        messages_in = CounterMetricFamily("rocketmq_messages_in", "Messages stored.", labels=labels)
        bytes_in = CounterMetricFamily("rocketmq_throughput_in", "Bytes stored.", labels=labels)
        for topic in broker.topics:
            name = topic.topic_name
            count = broker.stats.total(Stat.TOPIC_PUT_NUMS, name)
            if count:
                kind = topic.attributes.get("message.type", "NORMAL")
                topic_labels = (*self._node, name, kind, _flag(broker.topics.is_system(name)))
                messages_in.add_metric(topic_labels, count)
                bytes_in.add_metric(topic_labels, broker.stats.total(Stat.TOPIC_PUT_SIZE, name))
        yield messages_in
        yield bytes_in
        messages_out = CounterMetricFamily("rocketmq_messages_out", "Messages delivered.", labels=_GROUP)
        bytes_out = CounterMetricFamily("rocketmq_throughput_out", "Bytes delivered.", labels=_GROUP)
        for key, count in broker.stats.totals(Stat.GROUP_GET_NUMS):
            topic_name, _, group = key.partition("@")
            values = self._group_labels(topic_name, group)
            messages_out.add_metric(values, count)
            bytes_out.add_metric(values, broker.stats.total(Stat.GROUP_GET_SIZE, key))
        yield messages_out
        yield bytes_out
        to_dlq = CounterMetricFamily("rocketmq_send_to_dlq_messages", "Messages given up.", labels=_GROUP)
        for key, count in broker.stats.totals(Stat.DLQ_PUT_NUMS):
            topic_name, _, group = key.partition("@")
            to_dlq.add_metric(self._group_labels(topic_name, group), count)
        yield to_dlq

    def _connections(self) -> Iterator[Metric]:
        producers = GaugeMetricFamily(
            "rocketmq_producer_connections", "Connected producers.", labels=(*_NODE, "language", "version")
        )
        counts: dict[tuple[str, str], int] = {}
        for member in self._broker.producers.clients():
            key = (_name(member.language), version_name(member.version))
            counts[key] = counts.get(key, 0) + 1
        for key, count in counts.items():
            producers.add_metric((*self._node, *key), count)
        yield producers
        consumers = GaugeMetricFamily(
            "rocketmq_consumer_connections",
            "Connected consumers.",
            labels=(*_NODE, "consumer_group", "language", "version", "consume_mode"),
        )
        for group in self._broker.consumers:
            counts = {}
            for member in group.members.values():
                key = (_name(member.language), version_name(member.version))
                counts[key] = counts.get(key, 0) + 1
            for key, count in counts.items():
                consumers.add_metric((*self._node, group.name, *key, group.consume_type.value), count)
        yield consumers

    def _lag(self) -> Iterator[Metric]:
        messages = GaugeMetricFamily("rocketmq_consumer_lag_messages", "Messages not consumed yet.", labels=_GROUP)
        latency = GaugeMetricFamily(
            "rocketmq_consumer_lag_latency", "Age of the oldest message not consumed yet, in ms.", labels=_GROUP
        )
        inflight = GaugeMetricFamily(
            "rocketmq_consumer_inflight_messages", "Messages pulled but not committed.", labels=_GROUP
        )
        broker = self._broker
        now = broker.clock()
        for topic, group in broker.offsets.pairs():
            if topic not in broker.topics:
                continue
            lag = oldest = flying = 0
            for queue_id, offset in broker.offsets.queues(group, topic).items():
                behind = max(0, broker.store.max_offset(topic, queue_id) - offset)
                lag += behind
                pulled = broker.offsets.pull_offset(group, topic, queue_id)
                flying += max(0, pulled - offset) if pulled is not None else 0
                if behind:
                    stored = broker.store.store_time(topic, queue_id, offset)
                    oldest = max(oldest, now - stored if stored > 0 else 0)
            values = self._group_labels(topic, group)
            messages.add_metric(values, lag)
            latency.add_metric(values, oldest)
            inflight.add_metric(values, flying)
        yield messages
        yield latency
        yield inflight

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
            for topic, count in counts.items():
                family.add_metric((*self._node, topic, _flag(broker.topics.is_system(topic))), count)
            yield family
        checks = CounterMetricFamily("pyromq_transaction_checks", "Checks by result.", labels=(*_NODE, "result"))
        checks.add_metric((*self._node, "sent"), broker.check_back.sent)
        checks.add_metric((*self._node, "given_up"), broker.check_back.given_up)
        yield checks

    def _storage(self) -> Iterator[Metric]:
        store = self._broker.store
        values = (*self._node, "local", "disk")
        earliest = store.earliest_time()
        facts = (
            ("rocketmq_storage_size", "Bytes of the log.", store.max_physical_offset - store.min_physical_offset),
            (
                "rocketmq_storage_flush_behind_bytes",
                "Bytes of the log not on disk yet.",
                store.max_physical_offset - store.flushed_offset,
            ),
            ("rocketmq_storage_dispatch_behind_bytes", "Bytes not in queues yet.", store.dispatch_behind),
            (
                "rocketmq_storage_message_reserve_time",
                "Age of the oldest message kept, in ms.",
                self._broker.clock() - earliest if earliest > 0 else 0,
            ),
        )
        for name, doc, value in facts:
            gauge = GaugeMetricFamily(name, doc, labels=_STORAGE)
            gauge.add_metric(values, value)
            yield gauge

    def _transport(self) -> Iterator[Metric]:
        stats = self._broker.server.stats
        yield self._gauge("pyromq_connections", "Open connections.", stats.connections)
        yield self._gauge("pyromq_requests_in_flight", "Requests not answered yet.", stats.requests_in_flight)
        refused = CounterMetricFamily("pyromq_limits", "How often a limit was met.", labels=(*_NODE, "limit"))
        for limit, count in (
            ("connections", stats.connections_refused),
            ("connections_per_peer", stats.connections_refused_per_peer),
            ("busy", stats.busy),
            ("idle", stats.closed_idle),
            ("malformed", stats.closed_malformed),
            ("slow", stats.closed_slow),
        ):
            refused.add_metric((*self._node, limit), count)
        yield refused

    def _group_labels(self, topic: str, group: str) -> tuple[str, ...]:
        system = self._broker.topics.is_system(topic) or names.is_system_group(group)
        return (*self._node, topic, group, _flag(names.is_retry_topic(topic)), _flag(system))


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _name(language: object) -> str:
    return getattr(language, "name", "UNKNOWN").lower()
