"""Pytest fixtures: a cluster for the whole run, and clients for each test.

    def test_orders(pyromq_topic, producer, consumer):
        consumer.subscribe(pyromq_topic)
        producer.send(Message(pyromq_topic, b"two pizzas"))
        (message,) = receive(consumer)
        assert message.body == b"two pizzas"

Nothing is imported before a test asks for it: runs that do not need a cluster do not pay for one. A fixture of the same
name in a conftest.py of yours takes precedence; override `pyromq_settings` to change what brokers are set to.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyromq.client.blocking.producer import Producer
    from pyromq.client.blocking.pull_consumer import PullConsumer
    from pyromq.testing.cluster import Cluster


@pytest.fixture(scope="session")
def pyromq_settings() -> dict[str, object]:
    """Settings of the brokers of `pyromq_cluster`; override it to change them."""
    return {}


@pytest.fixture(scope="session")
def pyromq_cluster(pyromq_settings: dict[str, object]) -> "Iterator[Cluster]":
    """A running cluster, shared by all tests of the run."""
    from pyromq.testing.cluster import Cluster  # noqa: PLC0415 - only for tests that ask for it

    with Cluster(settings=pyromq_settings) as cluster:
        yield cluster


@pytest.fixture
def pyromq_topic(pyromq_cluster: "Cluster") -> str:
    """The name of a new topic with four queues, for this test alone."""
    return pyromq_cluster.create_topic(pyromq_cluster.unique("topic"))


@pytest.fixture
def producer(pyromq_cluster: "Cluster") -> "Iterator[Producer]":
    """A running producer."""
    with pyromq_cluster.producer() as made:
        yield made


@pytest.fixture
def consumer(pyromq_cluster: "Cluster") -> "Iterator[PullConsumer]":
    """A running pull consumer in a group of its own, which begins with the oldest message of what it subscribes to."""
    with pyromq_cluster.consumer() as made:
        yield made
