"""Pop consumption with a store and a timer, without sockets or a loop; time passes only when told."""

import random
import shutil
from pathlib import Path
from typing import Any, cast

from pyromq.broker.admin.stats import BrokerStats
from pyromq.broker.config import BrokerConfig
from pyromq.broker.durability import Durability
from pyromq.broker.filter.filters import Filters
from pyromq.broker.pop.acks import Acks
from pyromq.broker.pop.batches import OrderedBatches
from pyromq.broker.pop.buffer import PopBuffer
from pyromq.broker.pop.comeback import Comeback
from pyromq.broker.pop.longpoll import PopPark
from pyromq.broker.pop.peeks import Peeks
from pyromq.broker.pop.pops import Pops, QueueTurns
from pyromq.broker.pop.queues import PopQueues
from pyromq.broker.pop.revive import Revive, ReviveQueue
from pyromq.broker.pop.revivelog import ReviveLog
from pyromq.broker.refusals import guarded
from pyromq.broker.tables.groups import Groups
from pyromq.broker.tables.offsets import ConsumerOffsets
from pyromq.broker.tables.topics import Topics
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command
from pyromq.protocol.frame import FrameReader
from pyromq.protocol.headers.base import Header
from pyromq.remoting.address import Address
from pyromq.remoting.connection import Connection
from pyromq.store.arrival import Arrival
from tests.unit.broker.clock import FakeClock
from tests.unit.broker.pop.speaking import (
    Popped,
    ack_header,
    change_header,
    changed,
    messages_of,
    pop_header,
)  # fmt: skip
from tests.unit.broker.waiting import Waiting


class FakeConnection:
    """Takes answers that are sent later."""

    peer = Address("127.0.0.1", 1)

    def __init__(self) -> None:
        self.is_open = True
        self.sent: list[Command] = []

    def send(self, answer: object) -> bool:
        self.sent.append(as_command(answer))
        return True


def as_command(answer: object) -> Command:
    """An answer as its receiver sees it."""
    if isinstance(answer, Command):
        return answer
    (command,) = FrameReader().feed(b"".join(cast("list[bytes]", answer)))
    return command


class PopWorld:
    """A broker's pop parts; `run` does what is due until a time."""

    def __init__(self, root: Path, clock: FakeClock, *, queues: int = 1, retries: int = 16, **settings: Any) -> None:
        self.root, self.clock, self.queues, self.settings = root, clock, queues, settings
        self.waiting = Waiting(root, clock)
        self.store = store = self.waiting.store
        self.config = config = BrokerConfig(broker_name="broker-a", store_path_root_dir=root, **settings)
        self.topics = Topics(config, clock)
        self.topics.load()
        if "orders" not in self.topics:
            self.topics.put(TopicConfig(topic_name="orders", read_queue_nums=queues, write_queue_nums=queues)).check()
        self.groups = Groups(config, clock)
        self.groups.load()
        self.retries = retries
        self.groups.put(SubscriptionGroupConfig(group_name="g", retry_max_times=retries)).check()
        self.offsets = ConsumerOffsets(config.config_dir / "consumerOffset.json", clock)
        self.offsets.load()
        self.batches = OrderedBatches(config.config_dir / "consumerOrderInfo.json", clock)
        self.batches.load()
        self.stats = BrokerStats(clock)
        self.log = ReviveLog(config, store, clock)
        topics, groups = self.topics, self.groups
        self.waiting.tail.popped.take_up(
            self.offsets, self.log, lambda topic, group: topic in topics and group in groups
        )
        self.offsets.listeners.append(self.log.void)
        self.buffer = PopBuffer(config, self.log, self.offsets, lambda: store.progress.flushed, clock)
        pop_queues = PopQueues(config, store, self.offsets, self.buffer, self.batches)
        turns = QueueTurns(config, self.topics, random.Random(1))
        self.park, self.questions = (PopPark(clock, capacity=5, per_key=3, force_every=800) for _ in range(2))
        filters = Filters(config, clock)
        pops = Pops(config, self.topics, self.groups, filters, pop_queues, turns, self.park, self.stats, clock)
        acks = Acks(
            config, self.topics, store, Durability(store), self.offsets, self.log, self.buffer, self.batches,
            self.park, self.stats, clock,
        )  # fmt: skip
        peeks = Peeks(config, self.topics, self.groups, store, pop_queues, turns, self.park, self.questions, clock)
        self._handlers = guarded(pops.handlers() | acks.handlers() | peeks.handlers())
        self.comeback = Comeback(
            config, self.topics, self.groups, self.offsets, store, self.stats, lambda _topic, _result: None
        )
        self.revive = Revive(
            [
                ReviveQueue(number, config, store, self.offsets, self.log, self.comeback, self._timed_until)
                for number in range(config.revive_queue_num)
            ]
        )
        store.add_listener(self._arrived)

    def _timed_until(self) -> int:
        return self.waiting.timer.read_time

    def _arrived(self, message: Arrival) -> None:
        for park in (self.park, self.questions):
            park.arrived(message.topic, message.queue_id, message.queue_offset, message.tags_code, message.properties)

    # -- what clients do

    def call(
        self,
        code: RequestCode,
        header: Header | None = None,
        connection: FakeConnection | None = None,
        body: bytes = b"",
    ) -> Command | None:
        """The answer to a request; None when it is held."""
        request = Command.request(code, header, body=body)
        answer = self._handlers[code](request, cast("Connection", connection or FakeConnection()))
        return None if answer is None else as_command(answer)

    def answer(self, code: RequestCode, header: Header | None = None, body: bytes = b"") -> Command:
        """The answer to a request that is answered at once."""
        answer = self.call(code, header, body=body)
        assert answer is not None
        return answer

    def send(self, *bodies: str, queue: int = 0, **properties: str) -> None:
        for body in bodies:
            self.waiting.put(body.encode(), queue_id=queue, **properties)

    def pop(self, *, topic: str = "orders", group: str = "g", **options: Any) -> list[Popped]:
        header = pop_header(topic, group, **{"born": self.clock.now, **options})
        return messages_of(self.answer(RequestCode.POP_MESSAGE, header), group)

    def hold(
        self, *, topic: str = "orders", group: str = "g", hold: int = 10_000, host: str = "127.0.0.1", **options: Any
    ) -> FakeConnection:
        """A pop that finds nothing yet, as the connection that gets its answer."""
        connection = FakeConnection()
        connection.peer = Address(host, 1)
        header = pop_header(topic, group, born=self.clock.now, hold=hold, **options)
        answer = self.call(RequestCode.POP_MESSAGE, header, connection)
        assert answer is None, answer
        return connection

    def ack(self, *popped: Popped) -> None:
        for each in popped:
            answer = self.answer(RequestCode.ACK_MESSAGE, ack_header(each))
            assert answer.code == 0, answer.remark

    def renew(self, popped: Popped, invisible: int) -> Popped:
        return changed(popped, self.answer(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, change_header(popped, invisible)))

    # -- what happens by itself

    def run(self, millis: int) -> None:
        """Let time pass."""
        until = self.clock.now + millis
        while True:
            self.settle()
            if self.clock.now >= until:
                return
            self.clock.now = min(until, self.clock.now + 100)

    def settle(self) -> None:
        """Do everything that is due now."""
        busy = True
        while busy:
            self.store.flush()
            self.store.tick()
            steps = (self.waiting.timer.step, self.buffer.step, self.park.step, self.questions.step, self.revive.step)
            busy = any([step() == 0 for step in steps])  # noqa: C419 - each of them has its turn

    def messages(self, topic: str) -> list[bytes]:
        return [bytes(message.body) for message in self.waiting.messages(topic)]

    def offset(self, topic: str = "orders", queue_id: int = 0, group: str = "g") -> int | None:
        return self.offsets.get(group, topic, queue_id)

    def save(self) -> None:
        """What the broker saves every few seconds."""
        self.offsets.persist()
        self.batches.persist()
        self.waiting.save()

    def crash(self, target: Path) -> "PopWorld":
        """A broker that starts on the files as they are, as if this one had been killed."""
        shutil.copytree(self.root, target, ignore=shutil.ignore_patterns("lock", "*.tmp"))
        self.close()
        return PopWorld(target, self.clock, queues=self.queues, retries=self.retries, **self.settings)

    def close(self) -> None:
        self.waiting.close()
