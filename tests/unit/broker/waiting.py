"""A store whose messages wait, delay levels and timer on top of it, and time that passes only when told."""

import math
import shutil
from collections.abc import Callable
from pathlib import Path

from pyromq.broker.config import BrokerConfig
from pyromq.broker.delay.delayoffsets import DelayOffsets
from pyromq.broker.delay.levels import DelayLevels
from pyromq.broker.delay.postpone import MARKS, Postpone
from pyromq.broker.delay.timer import TimerDelivery
from pyromq.broker.delay.timercounts import TimerCounts
from pyromq.broker.durability import Durability
from pyromq.broker.tables.tail import LogPosition, Tail
from pyromq.protocol import names
from pyromq.protocol.message import ReceivedMessage
from pyromq.protocol.properties import encode_properties
from pyromq.store.config import FlushDiskType, StoreConfig
from pyromq.store.log.put import PutMessage, PutResult, PutStatus
from pyromq.store.messagestore import MessageStore
from pyromq.store.timer.files import TimerFiles
from tests.unit.broker.clock import FakeClock

LEVELS = "1s 5s 10s"


class Waiting:
    """Everything that postpones and delivers, without a loop: `run` does what is due until a time."""

    def __init__(self, root: Path, clock: FakeClock, levels: str = LEVELS, **settings: int) -> None:
        self.root = root
        self.clock = clock
        config = BrokerConfig(store_path_root_dir=root, message_delay_level=levels, **settings)  # type: ignore[arg-type]
        self.store = MessageStore(
            StoreConfig(
                store_path_root_dir=root,
                flush_disk_type=FlushDiskType.ASYNC_FLUSH,
                mapped_file_size_commit_log=1 << 20,
                allocate_step_commit_log=1 << 16,
                message_index_enable=False,
                message_delay_level=levels,
            ),
            clock=clock,
            disk_usage=lambda _: 0.1,
        )
        self.store.open()
        self.delivered: list[str] = []
        durability = Durability(self.store)
        self.offsets = DelayOffsets(root / "config" / "delayOffset.json", clock)
        self.offsets.load()
        self.files = TimerFiles(root, precision=config.timer_precision_ms, log_file_size=1 << 16)
        self.files.open(clock())
        self.counts = TimerCounts(root / "config" / "timermetrics", clock)
        self.counts.load()
        self.timer = TimerDelivery(config, self.store, durability, self.files, self.counts, clock, self._note)
        self.position = LogPosition(root / "config" / "logPosition.json")
        tail = self.tail = Tail.read(self.store, self.position, names.revive_topic("DefaultCluster"), follows=False)
        self.timer.done = tail.timed
        self.offsets.raise_to(
            tail.delay_offsets(), lambda level: self.store.max_offset(names.SCHEDULE_TOPIC, level - 1)
        )
        self.store.add_hook(Postpone(config, clock, self.timer.waiting), MARKS)
        self.delays = DelayLevels(self.store, durability, self.offsets, self.store.config.delays, clock, self._note)
        self.store.add_listener(lambda message: self.delays.arrived(message) if message.topic[0] == "S" else None)
        for level in self.delays._levels.values():  # what `start` does, without a loop
            self.delays._look(level)

    def put(self, body: bytes, *, topic: str = "orders", queue_id: int = 0, **properties: str) -> PutResult:
        """Store a message that must be taken."""
        result = self.store.put(PutMessage(topic, queue_id, body, encode_properties(properties)))
        assert result.status is PutStatus.PUT_OK, result.reason
        return result

    def run(self, until: int) -> None:
        """Let time pass to `until`, delivering exactly when the parts ask for it."""
        while True:
            pauses = [self._idle(self.delays.step), self._idle(self.timer.step)]
            wake = min([self.clock.now + math.ceil(pause * 1000) for pause in pauses if pause is not None] + [until])
            if wake >= until:
                self.clock.now = until
                for step in (self.delays.step, self.timer.step):
                    self._idle(step)
                return
            self.clock.now = wake

    @staticmethod
    def _idle(step: Callable[[], float | None]) -> float | None:
        while (pause := step()) == 0:
            pass
        return pause

    def save(self) -> None:
        """What the broker does every few seconds."""
        self.offsets.persist(self.offsets.table())
        self.files.prepare_save(self.timer.read_time, self.timer.queue.offset, self.clock())()
        if self.timer.settled:
            self.position.persist(self.store.max_physical_offset)

    def messages(self, topic: str = "orders", queue_id: int = 0) -> list[ReceivedMessage]:
        found: list[ReceivedMessage] = []
        while (result := self.store.get(topic, queue_id, len(found), 32)).count:
            found += result.messages()
        return found

    def bodies(self, topic: str = "orders") -> list[bytes]:
        return [message.body for message in self.messages(topic)]

    def crash(self, target: Path) -> "Waiting":
        """A broker that starts on the files as they are now, as if this one had been killed."""
        shutil.copytree(self.root, target, ignore=shutil.ignore_patterns("lock", "*.tmp"))
        self.close()
        return Waiting(target, self.clock)

    def restart(self) -> "Waiting":
        """The same after an orderly stop."""
        self.delays.stop()
        self.timer.stop()
        self.close()
        return Waiting(self.root, self.clock)

    def close(self) -> None:
        self.files.close()
        self.store.close()

    def _note(self, topic: str, _result: PutResult) -> None:
        self.delivered.append(topic)
