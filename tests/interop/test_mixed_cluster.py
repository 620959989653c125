"""Brokers of both kinds with one name server of either kind: one topic on both, one group of both kinds of clients."""

import contextlib
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from pyromq import Admin, ClientError, Message, MessageQueue, Producer
from tests.interop.artifacts import CLIENT_VERSIONS, SERVER_VERSION, java_driver
from tests.interop.drivers import PATIENT
from tests.interop.matrix import MIXED, Note
from tests.interop.scenarios.stage import BOUND, Inbox, Stage, eventually, stage
from tests.interop.servers import (
    Cluster,
    Server,
    apache_broker,
    apache_name_server,
    java,
    our_broker,
    our_name_server,
)

TOPIC = "both"
GROUP = "everybody"
QUEUES = 4
"""On each of the two brokers."""

NAME_SERVERS: dict[str, Callable[[Path], Server]] = {
    "PyroMQ": our_name_server,
    f"Apache {SERVER_VERSION}": apache_name_server,
}


@pytest.mark.parametrize("kind", NAME_SERVERS)
def test_mixed_cluster(tmp_path: Path, kind: str, note: Note) -> None:
    note(MIXED, f"name server {kind}", "brokers and consumers of both kinds")
    with (
        NAME_SERVERS[kind](tmp_path / "namesrv") as name_server,
        our_broker(tmp_path / "ours", name_server.address, "broker-ours") as mine,
        apache_broker(tmp_path / "apache", name_server.address, "broker-apache"),
        stage(Cluster(name_server, mine), "mixed") as here,
    ):
        admin = here.admin()
        eventually("both brokers", lambda: _brokers(admin) == {"broker-ours", "broker-apache"})
        admin.create_topic(TOPIC, queues=QUEUES, cluster="DefaultCluster")
        eventually("the topic on both brokers", lambda: _queues(admin) == 2 * QUEUES)
        _share(here, tmp_path)


def _share(here: Stage, home: Path) -> None:
    """A consumer of each kind gets half of the queues, then one of them all."""
    inbox = Inbox()
    consumer = here.consumer(GROUP)
    consumer.subscribe(TOPIC)
    consumer.listen(inbox.put)
    here.enter(consumer)
    with _java_member(here.namesrv, home) as told:
        eventually("the queues to be shared", lambda: len(_owned(consumer.assignment())) == QUEUES)
        producer = here.producer()
        _send_everywhere(producer, "shared")
        wanted = {f"shared-{broker}-{number}" for broker in ("ours", "apache") for number in range(40)}
        eventually("all messages", lambda: {*_texts(inbox), *told} == wanted)
        assert len(_texts(inbox)) == len(told) == 40, "each member has half of the queues"
    eventually("the other queues", lambda: len(_owned(consumer.assignment())) == 2 * QUEUES)
    _send_everywhere(producer, "alone")
    eventually("the rest", lambda: sum(text.startswith("alone") for text in _texts(inbox)) == 80)


def _send_everywhere(producer: Producer, prefix: str) -> None:
    """The same number of messages to every queue of both brokers."""
    counts: dict[str, int] = {}
    for queue in producer.publish_queues(TOPIC):
        broker = queue.broker_name.removeprefix("broker-")
        for _ in range(10):
            number = counts[broker] = counts.get(broker, -1) + 1
            producer.send(Message(TOPIC, f"{prefix}-{broker}-{number}".encode()), queue=queue)
    assert counts == {"ours": 39, "apache": 39}


@contextlib.contextmanager
def _java_member(namesrv: str, home: Path) -> Iterator[list[str]]:
    """A push consumer of the official client, and the bodies it prints."""
    command = java(java_driver(CLIENT_VERSIONS[-1]), "pyromq.Member", namesrv, GROUP, TOPIC, home=home, jvm=[PATIENT])
    process = subprocess.Popen(
        command, cwd=home, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    told: list[str] = []
    reader = threading.Thread(target=_read, args=(process.stdout, told))
    reader.start()
    try:
        yield told
    finally:
        process.stdin.close()  # lets it leave the group
        process.wait(BOUND)
        reader.join()
        process.stdout.close()


def _read(lines: Iterable[str], told: list[str]) -> None:
    told.extend(line[5:].rstrip() for line in lines if line.startswith("got: "))


def _owned(queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    return [queue for queue in queues if queue.topic == TOPIC]


def _texts(inbox: Inbox) -> list[str]:
    return [body.decode() for body in inbox.bodies]


def _brokers(admin: Admin) -> set[str]:
    with contextlib.suppress(ClientError):
        return set(admin.cluster_info().broker_addr_table)
    return set()


def _queues(admin: Admin) -> int:
    with contextlib.suppress(ClientError):
        return len(admin.queues(TOPIC))
    return 0
