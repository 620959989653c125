"""Metrics of clients for Prometheus, under the names and labels of RocketMQ 5's clients. Times are in milliseconds.

    from pyromq.metrics import ClientMetrics

    metrics = ClientMetrics()          # in prometheus_client's registry; serve it with start_http_server(8000)
    metrics.watch(producer)            # a producer or push consumer of either face, before it is started

RocketMQ's `rocketmq_await_time`, the time between arrival and listener, is not told apart here: it is part of
`rocketmq_delivery_latency`, which ends when the listener is called.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from pyromq.client.consumer.damage import DamageContext
from pyromq.client.consumer.hooks import ConsumeHookContext
from pyromq.client.errors import ClientError
from pyromq.client.hooks import SendContext
from pyromq.client.producer.results import SendStatus

SEND_BUCKETS = (1, 5, 10, 20, 50, 200, 500)
DELIVERY_BUCKETS = (1, 5, 10, 20, 100, 1_000, 5_000, 10_000)
PROCESS_BUCKETS = (1, 5, 10, 100, 1_000, 10_000, 60_000)

MAX_ORIGINS = 100
"""Topics of retried messages that are labels of their own."""

_OUTCOME = {True: "success", False: "failure"}


class ClientMetrics:
    """What watched clients do. `clock` gives seconds since 1970; one object serves any number of clients."""

    def __init__(self, registry: CollectorRegistry = REGISTRY, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        consumer = ("topic", "consumer_group", "client_id")
        self._sends = Histogram(
            "rocketmq_send_cost_time",
            "Milliseconds of one attempt to send.",
            ("topic", "client_id", "invocation_status"),
            buckets=SEND_BUCKETS,
            registry=registry,
        )
        self._deliveries = Histogram(
            "rocketmq_delivery_latency",
            "Milliseconds between the storing of a message and the call of the listener.",
            consumer,
            buckets=DELIVERY_BUCKETS,
            registry=registry,
        )
        self._processing = Histogram(
            "rocketmq_process_time",
            "Milliseconds of one call of the listener.",
            (*consumer, "invocation_status"),
            buckets=PROCESS_BUCKETS,
            registry=registry,
        )
        self._damaged = Counter(
            "rocketmq_damaged_messages",
            "Messages that could not be read as they were sent, by what became of them.",
            (*consumer, "action"),
            registry=registry,
        )
        self._cached = _Cached()
        registry.register(self._cached)

    def watch(self, client: Any) -> None:
        """Measure a producer or push consumer. Raises ClientError for anything else."""
        if hasattr(client, "consume_hooks"):
            client.consume_hooks.append(_Consumption(self, client))
            client.damage_hooks.append(_Damaged(self, client))
            self._cached.consumers.append(client)
        elif hasattr(client, "send_hooks"):
            client.send_hooks.append(_Sends(self, client))
        else:
            raise ClientError(f"{type(client).__name__} cannot be watched; producers and push consumers can")

    def sent(self, topic: str, client_id: str, seconds: float, *, success: bool) -> None:
        self._sends.labels(topic, client_id, _OUTCOME[success]).observe(seconds * 1000)

    def delivered(self, topic: str, group: str, client_id: str, stored_ms: int) -> None:
        self._deliveries.labels(topic, group, client_id).observe(max(0.0, self._clock() * 1000 - stored_ms))

    def processed(self, topic: str, group: str, client_id: str, seconds: float, *, success: bool) -> None:
        self._processing.labels(topic, group, client_id, _OUTCOME[success]).observe(seconds * 1000)

    def damaged(self, topic: str, group: str, client_id: str, action: str) -> None:
        self._damaged.labels(topic, group, client_id, action).inc()


class _Damaged:
    """A damage hook."""

    name = "metrics"

    def __init__(self, metrics: ClientMetrics, consumer: Any) -> None:
        self._metrics = metrics
        self._consumer = consumer

    def damaged(self, context: DamageContext) -> None:
        self._metrics.damaged(context.queue.topic, context.group, self._consumer.client_id, context.action)


class _Sends:
    """A send hook."""

    name = "metrics"

    def __init__(self, metrics: ClientMetrics, producer: Any) -> None:
        self._metrics = metrics
        self._producer = producer

    def before(self, context: SendContext) -> None:
        context.state[self.name] = time.perf_counter()

    def after(self, context: SendContext) -> None:
        seconds = time.perf_counter() - context.state[self.name]
        stored = context.result is None or context.result.status is SendStatus.SEND_OK  # one-way sends have no result
        self._metrics.sent(
            context.queue.topic, self._producer.client_id, seconds, success=context.error is None and stored
        )


class _Consumption:
    """A consume hook."""

    name = "metrics"

    def __init__(self, metrics: ClientMetrics, consumer: Any) -> None:
        self._metrics = metrics
        self._consumer = consumer
        self._origins: set[str] = set()

    def before(self, context: ConsumeHookContext) -> None:
        context.state[self.name] = time.perf_counter()
        for message in context.messages:
            topic = self._label(message.topic, context)
            self._metrics.delivered(topic, context.group, self._consumer.client_id, message.store_timestamp)

    def after(self, context: ConsumeHookContext) -> None:
        seconds = time.perf_counter() - context.state[self.name]
        topic = self._label(context.messages[0].topic, context) if context.messages else context.queue.topic
        client_id = self._consumer.client_id
        self._metrics.processed(topic, context.group, client_id, seconds, success=context.success)

    def _label(self, topic: str, context: ConsumeHookContext) -> str:
        """The topic of a message; a retried one says itself where it came from, which is believed for so many."""
        if topic != context.queue.topic and topic not in self._origins:
            if len(self._origins) >= MAX_ORIGINS:
                return context.queue.topic
            self._origins.add(topic)
        return topic


class _Cached(Collector):
    """What consumers hold, read at each scrape."""

    def __init__(self) -> None:
        self.consumers: list[Any] = []

    def describe(self) -> Iterable[Metric]:
        """Nothing up front: what there is depends on subscriptions."""
        return ()

    def collect(self) -> Iterator[Metric]:
        labels = ("topic", "consumer_group", "client_id")
        messages = GaugeMetricFamily(
            "rocketmq_consumer_cached_messages", "Messages held and not consumed yet.", labels=labels
        )
        size = GaugeMetricFamily("rocketmq_consumer_cached_bytes", "Their bytes.", labels=labels)
        for consumer in self.consumers:
            for topic, (count, total) in consumer.cached().items():
                values = (topic, consumer.group, consumer.client_id)
                messages.add_metric(values, count)
                size.add_metric(values, total)
        yield messages
        yield size
