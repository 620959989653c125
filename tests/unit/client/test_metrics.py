"""Metrics of clients: what becomes a label."""

from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry

from pyromq.client.consumer.hooks import ConsumeHookContext
from pyromq.metrics import MAX_ORIGINS, ClientMetrics
from pyromq.protocol.message import MessageQueue


def test_topics_that_retried_messages_claim_to_come_from_are_bounded() -> None:
    registry = CollectorRegistry()
    metrics = ClientMetrics(registry, clock=lambda: 1.0)
    consumer: Any = SimpleNamespace(client_id="c", consume_hooks=[], damage_hooks=[], running_info=lambda: None)
    metrics.watch(consumer)
    (hook,) = consumer.consume_hooks
    for number in range(MAX_ORIGINS + 50):
        message: Any = SimpleNamespace(topic=f"origin{number}", store_timestamp=0)
        context: Any = SimpleNamespace(
            group="g", messages=[message], queue=MessageQueue("%RETRY%g", "b", 0), success=True, state={}
        )
        assert set(vars(context)) <= set(ConsumeHookContext.__slots__)
        hook.before(context)
        hook.after(context)
    for histogram in (metrics._deliveries, metrics._processing):
        topics = {sample.labels["topic"] for family in histogram.collect() for sample in family.samples}
        assert len(topics) == MAX_ORIGINS + 1
        assert "%RETRY%g" in topics
