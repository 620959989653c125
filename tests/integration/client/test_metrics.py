"""Metrics of clients, as Prometheus scrapes them."""

import threading
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from pyromq import Admin, ClientError, Message, Producer, PushConsumer, ReceivedMessage, ServiceStateError
from pyromq.metrics import ClientMetrics
from pyromq.testing import Cluster
from tests.integration.client.inbox import QUICK


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


def test_sends_and_deliveries_are_measured(cluster: Cluster) -> None:
    topic = cluster.create_topic("orders", queues=1)
    registry = CollectorRegistry()
    metrics = ClientMetrics(registry)

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels)

    consumer = PushConsumer("billing", namesrv=cluster.namesrv, **QUICK)
    consumer.subscribe(topic)
    arrived, go_on, finished = threading.Event(), threading.Event(), threading.Semaphore(0)

    @consumer.listen
    def take(message: ReceivedMessage) -> bool:
        arrived.set()
        go_on.wait(60)
        finished.release()
        return message.body != b"bad"

    producer = Producer("shop", namesrv=cluster.namesrv)
    metrics.watch(producer)
    metrics.watch(consumer)
    with pytest.raises(ServiceStateError, match="has no client id before it is started"):
        _ = producer.client_id
    with producer, consumer:
        for body in (b"good", b"good", b"bad"):
            producer.send(Message(topic, body))
        with pytest.raises(ClientError):
            producer.send(Message(topic, b""))
        sender, reader = producer.client_id, consumer.client_id
        assert value("rocketmq_send_cost_time_count", topic=topic, client_id=sender, invocation_status="success") == 3
        assert arrived.wait(60)
        where = {"topic": topic, "consumer_group": "billing", "client_id": reader}
        cached = value("rocketmq_consumer_cached_messages", **where)
        assert cached is not None
        assert 1 <= cached <= 3
        assert (value("rocketmq_consumer_cached_bytes", **where) or 0) > 0
        go_on.set()
        for _ in range(3):
            assert finished.acquire(timeout=60)
    assert value("rocketmq_process_time_count", **where, invocation_status="success") == 2
    assert value("rocketmq_process_time_count", **where, invocation_status="failure") == 1
    assert value("rocketmq_delivery_latency_count", **where) == 3
    assert value("rocketmq_consumer_cached_messages", **where) is None  # closed: it holds nothing
    assert b"rocketmq_send_cost_time_bucket" in generate_latest(registry)


def test_only_producers_and_push_consumers_can_be_watched(cluster: Cluster) -> None:
    with pytest.raises(ClientError, match="Admin cannot be watched"):
        ClientMetrics(CollectorRegistry()).watch(Admin(namesrv=cluster.namesrv))
