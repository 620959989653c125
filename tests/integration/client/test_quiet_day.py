"""An ordinary day: new store, new topics, new groups, probes. Nobody has anything to warn of."""

import logging
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pyromq import Admin, Message, Producer, PullConsumer, PushConsumer
from pyromq.broker.standalone import Standalone
from pyromq.client.blocking.loop import BackgroundLoop
from tests.integration.client.clusters import LIMIT

EAGER: dict[str, Any] = {"rebalance_interval": 1.0, "consume_from": "CONSUME_FROM_FIRST_OFFSET"}


@contextmanager
def day(folder: Path) -> Iterator[Standalone]:
    loop = BackgroundLoop()
    server = Standalone(folder, namesrv_port=0, broker_port=0, http_port=0)
    try:
        loop.call(server.start)
        yield server
    finally:
        loop.call(server.stop)
        loop.stop()


def pages(server: Standalone) -> None:
    for path in ("/health", "/metrics"):
        with urllib.request.urlopen(f"http://{server.http_address}{path}", timeout=LIMIT) as answer:
            assert answer.status == 200


def pushed(namesrv: str, topic: str, group: str, *, orderly: bool, client_rebalance: bool = True) -> None:
    """A group that is there before its topic, and another one that comes later."""
    for name in (f"{group}-early", f"{group}-late"):
        arrived = threading.Event()
        consumer = PushConsumer(name, namesrv=namesrv, client_rebalance=client_rebalance, **EAGER)
        consumer.subscribe(topic, tags="a || b")
        consumer.listen(lambda _message, arrived=arrived: arrived.set(), orderly=orderly)
        with consumer, Producer("shop", namesrv=namesrv) as producer:
            producer.send(Message(topic, b"x", tags="b", keys=["k"]))
            assert arrived.wait(LIMIT)


def pulled(namesrv: str, topic: str) -> None:
    with PullConsumer("pulls", namesrv=namesrv, consume_from=EAGER["consume_from"]) as consumer:
        consumer.subscribe(topic)
        assert consumer.poll(LIMIT)


@pytest.mark.parametrize("orderly", [False, True])
def test_nobody_warns_of_what_is_new(tmp_path: Path, caplog: pytest.LogCaptureFixture, orderly: bool) -> None:
    caplog.set_level(logging.WARNING)
    for _ in range(2):  # the second day begins with the store of the first
        with day(tmp_path / "new" / "data") as server:
            pages(server)
            pushed(server.namesrv_address, "orders", "pushes", orderly=orderly)
            pulled(server.namesrv_address, "orders")
            with Admin(namesrv=server.namesrv_address) as admin:
                admin.create_topic("invoices", queues=2)
                admin.wait_for_topic("invoices")
                assert "pushes-late" in admin.groups()
            pages(server)
    assert [record.getMessage() for record in caplog.records] == []


def test_nor_when_the_broker_divides_the_queues(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    with day(tmp_path) as server:
        pushed(server.namesrv_address, "orders", "pushes", orderly=False, client_rebalance=False)
    assert [record.getMessage() for record in caplog.records] == []
