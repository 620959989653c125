"""What the parts tell of themselves as Prometheus metrics, under RocketMQ 5's names and labels. Read at each scrape.

What starts with `pyromq_` has no counterpart there: every bound of the broker is a gauge or counts in `pyromq_limits`.
Labels are topics and groups that exist, never what a message says, and at most `metricsOtelCardinalityLimit` of them in
one metric; the rest is one more, `(other)`.
"""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from pyromq.broker.admin.stats import OTHER
from pyromq.broker.core import Core
from pyromq.broker.part import Figure, Part

_NODE = ("cluster", "node_type", "node_id")

CONTENT_TYPE = CONTENT_TYPE_LATEST


class BrokerMetrics(Collector):
    """Collects from the parts of a running broker."""

    def __init__(self, core: Core, parts: Iterable[Part]) -> None:
        self._parts = parts
        self._node = (core.config.broker_cluster_name, "broker", core.config.broker_name)
        self._limit = core.config.metrics_otel_cardinality_limit
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
        families: dict[str, GaugeMetricFamily | CounterMetricFamily] = {}
        for part in self._parts:
            for figure in part.metrics():
                family = families.get(figure.name)
                if family is None:
                    kind = CounterMetricFamily if figure.counts else GaugeMetricFamily
                    family = families[figure.name] = kind(figure.name, figure.doc, labels=(*_NODE, *figure.labels))
                self._add(family, figure)
        yield from families.values()

    def _add(self, family: GaugeMetricFamily | CounterMetricFamily, figure: Figure) -> None:
        left, rest = self._limit, None
        for labels, value in figure.values:
            if figure.others is None or (left > 0 and OTHER not in labels):
                left -= 1
                family.add_metric((*self._node, *labels), value)
            else:
                rest = value if rest is None else figure.merge(rest, value)
        if rest is not None and figure.others is not None:
            family.add_metric((*self._node, *figure.others), rest)
