"""The embedded cluster that users put into their tests."""

import asyncio
from pathlib import Path

import pytest

from pyromq import BrokerError, ClientError, Message, MessageQueue, ServiceStateError
from pyromq.aio import Producer as AsyncProducer
from pyromq.settings.errors import ConfigError
from pyromq.testing import Cluster, NotReceivedError, receive


def test_messages_there_and_back() -> None:
    with Cluster() as cluster:
        topic = cluster.create_topic("orders", queues=1)
        with cluster.producer() as producer, cluster.consumer() as consumer:
            consumer.subscribe(topic)
            for number in range(5):
                producer.send(Message(topic, b"%d" % number))
            assert [message.body for message in receive(consumer, 3)] == [b"0", b"1", b"2"]
            (last,) = receive(consumer, where=lambda message: message.body == b"4")
            assert last.body == b"4"
            with pytest.raises(NotReceivedError, match=r"0 of 1 messages came within 0\.1 s: none") as missing:
                receive(consumer, seconds=0.1)
            assert missing.value.messages == []
        assert [message.body for message in cluster.messages(topic)] == [b"0", b"1", b"2", b"3", b"4"]
        # Looking leaves no trace.
        assert cluster.admin.consumer_offset("TOOLS_CONSUMER", MessageQueue(topic, "broker-a", 0)) is None


def test_several_brokers() -> None:
    with Cluster(brokers=2) as cluster:
        assert cluster.brokers.keys() == {"broker-a", "broker-b"}
        topic = cluster.create_topic("wide", queues=1)
        with cluster.producer() as producer:
            for name in cluster.brokers:
                producer.send(Message(topic, name.encode()), queue=MessageQueue(topic, name, 0))
        assert {message.body for message in cluster.messages(topic)} == {b"broker-a", b"broker-b"}


def test_data_stays_in_a_folder_that_is_given(tmp_path: Path) -> None:
    for number in range(2):
        with Cluster(path=tmp_path) as cluster:
            topic = cluster.create_topic("kept", queues=1)
            with cluster.producer() as producer:
                producer.send(Message(topic, b"%d" % number))
            assert len(cluster.messages(topic)) == number + 1


def test_settings_under_either_name() -> None:
    for settings in ({"auto_create_topic_enable": False}, {"autoCreateTopicEnable": "false"}):
        with Cluster(settings=settings) as cluster, cluster.producer() as producer, pytest.raises(ClientError):
            producer.send(Message("nowhere", b"x"))
    with Cluster(settings={"max_message_size": 10}) as cluster:
        topic = cluster.create_topic("small")
        with cluster.producer() as producer, pytest.raises((BrokerError, ClientError)):
            producer.send(Message(topic, b"x" * 11))


def test_a_cluster_that_cannot_start_leaves_nothing_behind() -> None:
    cluster = Cluster(settings={"autoCreateTopicEnabled": 1})
    with pytest.raises(ConfigError, match="did you mean 'autoCreateTopicEnable'"):
        cluster.start()
    with pytest.raises(ServiceStateError, match="does not run"):
        _ = cluster.namesrv
    cluster.stop()
    with pytest.raises(ValueError, match="at least one broker"):
        Cluster(brokers=0)


def test_life() -> None:
    cluster = Cluster()
    cluster.stop()  # nothing to do
    with cluster:
        with pytest.raises(ServiceStateError, match="runs already"):
            cluster.start()
        first = cluster.namesrv
    with cluster:  # again
        assert cluster.namesrv.split(":")[0] == first.split(":")[0]


def test_beside_asyncio() -> None:
    async def work() -> int:
        async with Cluster() as cluster, AsyncProducer("p", namesrv=cluster.namesrv) as producer:
            topic = await asyncio.to_thread(cluster.create_topic, "orders")
            await producer.send(Message(topic, b"x"))
            return len(await asyncio.to_thread(cluster.messages, topic))

    assert asyncio.run(work()) == 1
