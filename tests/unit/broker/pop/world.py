"""Pop consumption with a store and a timer, without sockets or a loop; time passes only when told."""

import random
import shutil
from pathlib import Path
from typing import Any, cast

from pyromq.broker.pop.part import PopPart
from pyromq.broker.refusals import guarded
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command
from pyromq.protocol.frame import FrameReader
from pyromq.protocol.headers.base import Header
from pyromq.remoting.address import Address
from pyromq.remoting.connection import Connection
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
        bounds = {"max_pop_polling_size": 5, "pop_polling_size": 3, "pop_long_polling_force_notify_interval": 800}
        self.waiting = Waiting(root, clock, broker_name="broker-a", **(bounds | settings))
        core = self.waiting.core
        self.store, self.config, self.stats = self.waiting.store, core.config, core.stats
        self.topics, self.groups, self.offsets, self.batches = (
            core.topics,
            core.groups,
            core.offsets,
            core.tables.batches,
        )
        if "orders" not in self.topics:
            self.topics.put(TopicConfig(topic_name="orders", read_queue_nums=queues, write_queue_nums=queues)).check()
        self.retries = retries
        self.groups.put(SubscriptionGroupConfig(group_name="g", retry_max_times=retries)).check()
        pop = PopPart(core, self.waiting.timer, self.waiting.onward, self.waiting.tail, random.Random(1))
        pop.resume_positions()
        self.log, self.buffer, self.park, self.questions = pop.log, pop.buffer, pop.park, pop.questions
        self.revive = pop.revive
        self._handlers = guarded(pop.handlers())
        for park in pop.parks():
            self.store.add_watcher(park.heard, park.topics)

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
