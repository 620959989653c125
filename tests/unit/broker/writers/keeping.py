"""A store with writers in its log: what happens to them is done as the broker does it, and read again as after a start.

`known` is the table without what may differ after a start: when somebody was last heard of, and old offsets.
"""

from pathlib import Path

from pyromq.broker.writers.journal import TABLES, TOPIC, Journal
from pyromq.broker.writers.records import Began, Closed, Opened
from pyromq.broker.writers.table import WriterTable
from pyromq.protocol.handles.writer import PLACE, WRITER, Place
from pyromq.store.messagestore import MessageStore
from tests.unit.store.storage import Clock, crash_copy, open_store, put

Known = dict[str, tuple[int, dict[int, int], dict[int, tuple[int, dict[int, tuple[int, int]]]]]]


class Kept:
    """One life of a broker, as far as writers are concerned."""

    def __init__(self, store: MessageStore, clock: Clock, *, max_lanes: int = 1000) -> None:
        self.store = store
        self.clock = clock
        self.table = WriterTable(100, max_lanes)
        self.journal = Journal(self.table, store, clock)
        self.journal.load()

    def begin(self, name: str = "job", topic: str = "orders") -> int:
        run = self.table.next_run(self.clock.now)
        origins = self.table.origins(topic, name, {0: self.store.max_offset(topic, 0)})
        self.journal.decide(Began(topic, name, run, self.clock.now, origins))
        return run

    def open(self, run: int, lane: int = 0, attempt: int = 0, name: str = "job") -> None:
        self.journal.decide(Opened("orders", name, run, lane, attempt, self.clock.now))

    def close(self, name: str = "job") -> None:
        self.journal.decide(Closed("orders", name))

    def write(self, place: Place, name: str = "job", *, queue: int | None = None, size: int = 5) -> None:
        """Store a message and note it."""
        queue_id = place.queue if queue is None else queue
        result = put(self.store, "orders", queue_id, b"x" * size, properties={WRITER: name, PLACE: str(place)})
        if queue is None:
            self.table.note(
                "orders", name, place, count=1, offset=result.queue_offset, end=result.end, now=self.clock.now
            )
            self.journal.touch()

    def known(self) -> Known:
        return {
            writer.name: (
                writer.run,
                writer.origins,
                {
                    number: (lane.attempt, {queue: (tail.next, tail.end) for queue, tail in lane.queues.items()})
                    for number, lane in writer.lanes.items()
                },
            )
            for writer in self.table
        }

    def tables(self) -> int:
        """Records of tables that were written so far."""
        return self.store.max_offset(TOPIC, TABLES)

    def after_crash(self, path: Path) -> "Kept":
        """The next life, of a copy of what a kill leaves."""
        store = open_store(crash_copy(self.store, path), self.clock)
        return Kept(store, self.clock)

    def again(self) -> "Kept":
        """What another would read in the same log now."""
        return Kept(self.store, self.clock)
