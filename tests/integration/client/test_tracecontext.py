"""OpenTelemetry's trace context from producers to consumers, by way of message properties."""

import asyncio
import queue
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from pyromq import LocalTransactionState, Message, Producer, PushConsumer, ReceivedMessage, TransactionProducer
from pyromq.aio import Producer as AsyncProducer
from pyromq.aio import PushConsumer as AsyncPushConsumer
from pyromq.client.trace.context import context_of
from pyromq.testing import Cluster, receive
from tests.integration.client.inbox import QUICK

tracer = TracerProvider().get_tracer("tests")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


def trace_of(message: ReceivedMessage) -> int:
    return trace.get_current_span(context_of(message)).get_span_context().trace_id


class Commit:
    def execute(self, _message: Message, _arg: object) -> LocalTransactionState:
        return LocalTransactionState.COMMIT

    def check(self, _message: ReceivedMessage) -> LocalTransactionState:
        return LocalTransactionState.COMMIT


def test_every_kind_of_send_carries_the_context(cluster: Cluster) -> None:
    topic = cluster.create_topic("sends", queues=1)
    with (
        Producer("p", namesrv=cluster.namesrv) as producer,
        TransactionProducer("tp", Commit(), namesrv=cluster.namesrv) as transactional,
        tracer.start_as_current_span("order") as span,
    ):
        producer.send(Message(topic, b"sync"))
        producer.send_async(Message(topic, b"async")).result(60)
        producer.send_oneway(Message(topic, b"oneway"))
        producer.send([Message(topic, b"batch 1"), Message(topic, b"batch 2")])
        transactional.send_in_transaction(Message(topic, b"transaction"))
        wanted = span.get_span_context().trace_id
    with cluster.consumer() as consumer:
        consumer.subscribe(topic)
        found = receive(consumer, 6)
    assert {message.body: trace_of(message) for message in found} == dict.fromkeys(
        [b"sync", b"async", b"oneway", b"batch 1", b"batch 2", b"transaction"], wanted
    )


def test_outside_of_a_span_nothing_is_added(cluster: Cluster) -> None:
    topic = cluster.create_topic("plain", queues=1)
    with cluster.producer() as producer:
        producer.send(Message(topic, b"x"))
    (message,) = cluster.messages(topic)
    assert "traceparent" not in message.properties
    assert trace_of(message) == 0


def test_listeners_run_in_the_context_of_their_message(cluster: Cluster) -> None:
    topic = cluster.create_topic("listened", queues=1)
    seen: queue.Queue[tuple[bytes, int]] = queue.Queue()
    consumer = PushConsumer("listeners", namesrv=cluster.namesrv, **QUICK)
    consumer.subscribe(topic)

    @consumer.listen
    def take(message: ReceivedMessage) -> None:
        seen.put((message.body, trace.get_current_span().get_span_context().trace_id))

    with consumer, cluster.producer() as producer:
        with tracer.start_as_current_span("order") as span:
            producer.send(Message(topic, b"traced"))
        producer.send(Message(topic, b"plain"))
        found = dict(seen.get(timeout=60) for _ in range(2))
    assert found == {b"traced": span.get_span_context().trace_id, b"plain": 0}


async def test_the_same_for_asyncio(cluster: Cluster) -> None:
    topic = await asyncio.to_thread(cluster.create_topic, "listened-async", queues=1)
    seen: asyncio.Queue[int] = asyncio.Queue()
    consumer = AsyncPushConsumer("async-listeners", namesrv=cluster.namesrv, **QUICK)
    consumer.subscribe(topic)

    @consumer.listen
    async def take(message: ReceivedMessage) -> None:
        await asyncio.sleep(0)
        seen.put_nowait(trace.get_current_span().get_span_context().trace_id)

    async with consumer, AsyncProducer("ap", namesrv=cluster.namesrv) as producer:
        with tracer.start_as_current_span("order") as span:
            await producer.send(Message(topic, b"x"))
            await producer.send_async(Message(topic, b"y"))
        assert {await seen.get(), await seen.get()} == {span.get_span_context().trace_id}


def test_a_client_alone_does_not_import_opentelemetry(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom pyromq import Message\nimport pyromq.client.blocking.producer\n"
        "import pyromq.client.blocking.push_consumer\nfrom pyromq.client.trace import context\n"
        "message = Message('t', b'x')\ncontext.carry(message)\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]\n"
        "assert message.properties == {'WAIT': 'true'}\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
