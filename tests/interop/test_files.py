"""One store, opened in turn by Apache's broker and ours, after orderly ends and after kills: nothing is missing.

Ours has it with its native core and without. Each round checks what all earlier ones left and adds messages of every
kind, some of them under way: delayed ones that the next broker has to deliver, half messages that it has to ask about.
"""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

import pytest

from pyromq import (
    Admin,
    ClientError,
    ConsumeFromWhere,
    LocalTransactionState,
    Message,
    MessageQueue,
    Producer,
    PullConsumer,
    ReceivedMessage,
    TransactionProducer,
)
from pyromq.native import core
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from tests.interop.artifacts import LEGACY_SERVER_VERSION, SERVER_VERSION
from tests.interop.matrix import FILES, Note
from tests.interop.scenarios.stage import eventually, names
from tests.interop.servers import Cluster, Server, apache_broker, our_broker, our_name_server, our_python_broker

TOPIC = "orders"
GROUP = "billing"
DELAY_LEVEL = 4
"""30 s: longer than the rest of a round and the end of the broker take."""


class Kind(NamedTuple):
    """A broker that can have the store."""

    name: str
    opener: Callable[..., Server]
    core: bool | None = None
    """Whether its native core has to be at work; None of Apache's."""


APACHE = Kind(f"Apache {SERVER_VERSION}", apache_broker)
LEGACY = Kind(f"Apache {LEGACY_SERVER_VERSION}", partial(apache_broker, version=LEGACY_SERVER_VERSION))
PYROMQ = Kind("PyroMQ", our_broker, core=core.on)
PYTHON = Kind("PyroMQ without its core", our_python_broker, core=False)

Contents = dict[tuple[int, int], tuple[str, bytes, str | None, tuple[str, ...], str | None]]
"""Queue and offset to id, body, tags, keys and a property of the user's."""


class Undecided:
    """Leaves every transaction open."""

    def execute(self, _message: Message, _arg: object) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN

    def check(self, _message: ReceivedMessage) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN


class Committing(Undecided):
    """Commits what it is asked about."""

    def check(self, _message: ReceivedMessage) -> LocalTransactionState:
        return LocalTransactionState.COMMIT


class Outright(Undecided):
    """Commits at once."""

    def execute(self, _message: Message, _arg: object) -> LocalTransactionState:
        return LocalTransactionState.COMMIT


@dataclass
class Left:
    """What a round leaves for the next one to find."""

    contents: Contents = field(default_factory=dict)
    offsets: dict[MessageQueue, int | None] = field(default_factory=dict)
    topics: set[str] = field(default_factory=set)
    pending: list[bytes] = field(default_factory=list)
    """Bodies that are not visible yet."""


@pytest.mark.parametrize(
    ("kinds", "end"),
    [
        ([APACHE, PYROMQ, PYTHON, APACHE, PYTHON], signal.SIGTERM),
        ([PYROMQ, APACHE, PYTHON, PYROMQ, APACHE], signal.SIGKILL),
        ([LEGACY, PYROMQ, LEGACY, PYTHON], signal.SIGKILL),
        ([PYROMQ, LEGACY, PYROMQ, LEGACY], signal.SIGTERM),
    ],
    ids=["5-stopped", "5-killed", "4-killed", "4-stopped"],
)
def test_store_changes_hands(
    tmp_path: Path,
    kinds: Sequence[Kind],
    end: signal.Signals,
    note: Note,
) -> None:
    how = {signal.SIGTERM: "stopped in order", signal.SIGKILL: "killed"}[end]
    note(FILES, f"each broker {how}", " → ".join(kind.name for kind in kinds))
    left = Left()
    with our_name_server(tmp_path / "namesrv") as name_server:
        for number, kind in enumerate(kinds):
            broker = kind.opener(
                tmp_path / "broker", name_server.address, transactionCheckMax="1000", flushDelayOffsetInterval="1000"
            )
            with broker:
                cluster = Cluster(name_server, broker)
                cluster.settle()
                with Round(cluster.namesrv, number, timed=LEGACY not in kinds) as work:
                    work.check(left, exact_offsets=end == signal.SIGTERM)
                    left = work.fill()
                    assert work.core() == kind.core
                broker.stop(end)


class Round:
    """What happens while one broker has the store."""

    def __init__(self, namesrv: str, number: int, *, timed: bool) -> None:
        self._options: dict[str, Any] = {"namesrv": namesrv, "instance_name": f"round{number}", "api_timeout": 30.0}
        self._number = number
        self._timed = timed
        """Whether both brokers can deliver at any time; 4.9 knows levels only."""
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._admin = self._stack.enter_context(Admin(timeout=30.0, **self._options))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def check(self, left: Left, *, exact_offsets: bool) -> None:
        """Everything that the last round left is there."""
        if not left.topics:
            return
        admin = self._admin
        assert left.topics <= set(admin.topics())
        groups = admin.group_configs()["broker-a"].subscription_group_table
        assert groups[GROUP].retry_max_times == 7
        assert len(admin.queues(TOPIC)) == 3
        found = self._contents()
        missing = {place: left.contents[place] for place in left.contents if found.get(place) != left.contents[place]}
        assert not missing, f"found instead: { {place: found.get(place) for place in missing} }"
        for queue, offset in left.offsets.items():
            stored = admin.consumer_offset(GROUP, queue)
            assert stored == offset if exact_offsets else (stored or 0) <= (offset or 0)
        for body in (b"plain000", b"batch004", b"burst199"):
            key = f"key-{self._number - 1}-{body.decode()}"
            assert [message.body for message in eventually(key, partial(self._by_key, key))] == [body]
        with TransactionProducer("half", Committing(), **self._options):
            eventually("what was under way", lambda: set(left.pending) <= set(self._bodies()))

    def fill(self) -> Left:
        """Add messages of every kind, consume some of them, and say what there is."""
        number = self._number
        admin = self._admin
        if number == 0:
            admin.create_topic(TOPIC, queues=3, cluster="DefaultCluster")
            admin.create_group(SubscriptionGroupConfig(group_name=GROUP, retry_max_times=7), cluster="DefaultCluster")
            eventually("the route", self._has_route)
        with Producer("plain", send_timeout=30.0, **self._options) as producer:
            for body in names("plain", 40):
                producer.send(self._message(body))
            producer.send([self._message(body) for body in names("batch", 20)])
            burst = [producer.send_async(self._message(body)) for body in names("burst", 200)]
            for sent in burst:
                sent.result(30.0)
            producer.send(self._message(b"x" * 8192))
            pending = [f"delayed{number}".encode()]
            producer.send(Message(TOPIC, pending[0], delay_level=DELAY_LEVEL))
            if self._timed:
                pending.append(f"timed{number}".encode())
                producer.send(Message(TOPIC, pending[1], deliver_at_ms=time.time_ns() // 1_000_000 + 30_000))
        with TransactionProducer("whole", Outright(), send_timeout=30.0, **self._options) as committing:
            committing.send_in_transaction(self._message(f"committed{number}".encode()))
        with TransactionProducer("half", Undecided(), send_timeout=30.0, **self._options) as undecided:
            pending.append(f"half{number}".encode())
            undecided.send_in_transaction(self._message(pending[-1]))
        committed = f"committed{number}".encode()
        eventually("the committed message", lambda: committed in self._bodies())
        offsets = self._consume()
        # A broker that is killed may have announced its own topics without having written them down.
        topics = {topic for topic in admin.topics() if not topic.upper().startswith("RMQ_SYS_")}
        return Left(self._contents(), offsets, topics, pending)

    def core(self) -> bool | None:
        """Whether the broker has used its native core all along; None if it has never heard of it."""
        status = self._admin.broker_status()["broker-a"]
        assert status.get("nativeCoreFaults", "0") == "0"
        return status["nativeCore"] == "native core" if "nativeCore" in status else None

    def _consume(self) -> dict[MessageQueue, int | None]:
        first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
        with PullConsumer(GROUP, consume_from=first, auto_commit=False, **self._options) as consumer:
            consumer.subscribe(TOPIC)
            got = 0

            def enough() -> bool:
                nonlocal got
                got += len(consumer.poll(1.0))
                return got >= 25

            eventually("messages to commit", enough)
            consumer.commit()
            return {queue: consumer.committed(queue) for queue in consumer.assignment()}

    def _message(self, body: bytes) -> Message:
        text = body.decode()
        keys = [f"key-{self._number}-{text}"] if len(text) < 100 else []
        return Message(TOPIC, body, tags=f"tag{self._number}", keys=keys, properties={"round": str(self._number)})

    def _has_route(self) -> bool:
        try:
            return len(self._admin.queues(TOPIC)) == 3
        except ClientError:
            return False

    def _by_key(self, key: str) -> list[ReceivedMessage]:
        try:
            return self._admin.query_message(TOPIC, key)
        except ClientError:
            return []

    def _bodies(self) -> Iterator[bytes]:
        return (message.body for message in self._admin.messages(TOPIC, limit=100_000))

    def _contents(self) -> Contents:
        return {
            (message.queue_id, message.queue_offset): (
                message.message_id,
                message.body,
                message.tags,
                message.keys,
                message.get_property("round"),
            )
            for message in self._admin.messages(TOPIC, limit=100_000)
        }
