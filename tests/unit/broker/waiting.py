"""A store whose messages wait, delay levels and timer on top of it, and time that passes only when told."""

import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyromq.broker.admin.stats import BrokerStats
from pyromq.broker.config import BrokerConfig
from pyromq.broker.delay.levels import DelayLevels
from pyromq.broker.delay.timer import TimerDelivery
from pyromq.broker.replication.succession.onward import Onward
from pyromq.broker.tables.tail import Tail
from pyromq.protocol import names
from pyromq.protocol.message import ReceivedMessage
from pyromq.protocol.properties import encode_properties
from pyromq.store.config import FlushDiskType, StoreConfig
from pyromq.store.log.put import PutMessage, PutResult, PutStatus
from pyromq.store.messagestore import MessageStore
from tests.unit.broker.clock import FakeClock
from tests.unit.broker.cores import make_core

LEVELS = "1s 5s 10s"


class NotedStats(BrokerStats):
    """Remembers where messages were delivered."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.delivered: list[str] = []

    def stored(self, topic: str, result: PutResult) -> None:
        self.delivered.append(topic)
        super().stored(topic, result)


class Waiting:
    """Everything that postpones and delivers, without a loop: `run` does what is due until a time."""

    def __init__(self, root: Path, clock: FakeClock, levels: str = LEVELS, **settings: Any) -> None:
        self.root = root
        self.clock = clock
        config = BrokerConfig(
            store_path_root_dir=root, message_delay_level=levels, mapped_file_size_timer_log=1 << 16, **settings
        )
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
        stats = NotedStats(clock)
        self.delivered = stats.delivered
        self.core = core = replace(make_core(config, clock, self.store), stats=stats)
        core.tables.load()
        self.offsets, self.position = core.tables.delays, core.tables.log_position
        tail = self.tail = Tail.read(self.store, self.position, names.revive_topic("DefaultCluster"), follows=False)
        self.onward = Onward(core)
        self.timer = TimerDelivery(core, self.onward, tail)
        self.timer.open()
        self.files, self.counts = self.timer._files, self.timer.counts
        self.delays = DelayLevels(core, self.onward, tail)
        self.delays.resume()
        self.delays.look_again()
        self.store.add_listener(lambda message: self.delays.arrived(message) if message.topic[0] == "S" else None)

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
        self.delays.stand_back()
        self.timer.close()
        self.store.close()
        return Waiting(self.root, self.clock)

    def close(self) -> None:
        self.files.close()
        self.store.close()
