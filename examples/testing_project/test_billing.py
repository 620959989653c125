"""What billing does, against a real broker."""

import json
from collections.abc import Iterator

import pytest
from billing import Billing

from pyromq import ClientError, Message, Producer, PullConsumer
from pyromq.testing import Cluster, receive


@pytest.fixture
def billing(pyromq_cluster: Cluster, pyromq_topic: str) -> Iterator[Billing]:
    invoices = pyromq_cluster.create_topic(f"{pyromq_topic}-invoices")
    with Billing(pyromq_cluster.namesrv, orders=pyromq_topic, invoices=invoices) as running:
        yield running


def order(billing: Billing, number: int, *cents: int, tag: str = "paid") -> Message:
    body = {"id": f"o-{number}", "lines": [{"cents": each} for each in cents]}
    return Message(billing.orders, json.dumps(body).encode(), tags=tag)


def test_a_paid_order_gets_an_invoice(billing: Billing, producer: Producer, consumer: PullConsumer) -> None:
    consumer.subscribe(billing.invoices)
    producer.send(order(billing, 17, 950, 1100))
    (invoice,) = receive(consumer)
    assert json.loads(invoice.body) == {"order": "o-17", "cents": 2050}
    assert invoice.keys == ("o-17",)


def test_orders_that_are_not_paid_get_none(
    billing: Billing, producer: Producer, consumer: PullConsumer, pyromq_cluster: Cluster
) -> None:
    consumer.subscribe(billing.invoices)
    producer.send(order(billing, 1, 100, tag="created"))
    producer.send(order(billing, 2, 100))
    receive(consumer)  # the invoice of the second order
    assert [message.keys for message in pyromq_cluster.messages(billing.invoices)] == [("o-2",)]


def test_a_misspelt_topic_is_an_error(producer: Producer) -> None:
    with pytest.raises(ClientError, match="no route"):
        producer.send(Message("ordres", b"{}"))
