"""The store against a model that is plain dictionaries: any order of appending, reading, cleaning and restarting.

A dirty restart copies the files of the open store, as a killed process would leave them, and goes on with the copy;
power cuts, which also lose what was written but not synced, are in test_crash.
"""

import os
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from pyromq.protocol.message import Message
from pyromq.protocol.records.batch import encode_batch
from pyromq.store.config import FlushDiskType, StoreConfig
from pyromq.store.log.put import PutMessage
from pyromq.store.messagestore import MessageStore
from pyromq.store.queue.offsettime import Boundary
from pyromq.store.queue.read import GetStatus
from tests.unit.store.powercut import use_one_thread
from tests.unit.store.storage import START, Clock, crash_copy

FOREVER = 1 << 61
QUEUES = [(topic, queue_id) for topic in ("orders", "%RETRY%g", "订单") for queue_id in (0, 5)]
KEYS = ("k1", "k2", "a-key")
FOLDER = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - folders of its own are made in it

queues = st.sampled_from(QUEUES)
bodies = st.binary(max_size=20) | st.integers(0, 900).map(bytes)
keys = st.sets(st.sampled_from(KEYS), max_size=2).map(sorted)
tags = st.sampled_from((None, "a", "b"))


class Stored(NamedTuple):
    """What the model knows of a message."""

    body: bytes
    tags: str | None
    keys: list[str]
    time: int
    physical_offset: int


class StoreModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        use_one_thread(self.patch)
        self.folder = tempfile.TemporaryDirectory(dir=FOLDER)
        self.lives = 0
        self.clock = Clock()
        self.usage = 0.1
        self.model: dict[tuple[str, int], list[Stored]] = {queue: [] for queue in QUEUES}
        self.deleted: set[int] = set()  # physical offsets of messages whose topic was deleted
        self.number = 0

    @initialize(flush=st.sampled_from(FlushDiskType))
    def start(self, flush: FlushDiskType) -> None:
        self.flush_type = flush
        self.root = Path(self.folder.name, "0")
        self.store = self.opened()

    def opened(self) -> MessageStore:
        config = StoreConfig(
            store_path_root_dir=self.root,
            flush_disk_type=self.flush_type,
            mapped_file_size_commit_log=4096,
            mapped_file_size_consume_queue=20 * 16,
            allocate_step_commit_log=1024,
            max_hash_slot_num=8,
            max_index_num=40,
            max_open_queue_files=3,
            max_message_size=2048,
        )
        store = MessageStore(config, clock=self.clock, disk_usage=lambda _: self.usage)
        store.open()
        return store

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
        self.folder.cleanup()
        self.patch.undo()

    # what happens

    def message(self, topic: str, body: bytes, tag: str | None, words: list[str]) -> Message:
        self.number += 1
        message = Message(topic, body, tags=tag, keys=words)
        message.properties["UNIQ_KEY"] = f"{self.number:032X}"
        return message

    @rule(queue=queues, body=bodies, tag=tags, words=keys, passed=st.sampled_from((0, 0, 1, 999, 7_000)))
    def put(self, queue: tuple[str, int], body: bytes, tag: str | None, words: list[str], passed: int) -> None:
        self.clock.now += passed
        message = self.message(queue[0], body, tag, words)
        result = self.store.put(PutMessage.of(message, queue[1]))
        assert result.stored, result
        known = self.model[queue]
        assert result.queue_offset == len(known)
        known.append(
            Stored(body, tag, [*words, message.properties["UNIQ_KEY"]], self.clock.now, result.physical_offset)
        )

    @rule(queue=queues, content=st.lists(st.tuples(bodies, tags, keys), min_size=1, max_size=4))
    def put_batch(self, queue: tuple[str, int], content: list[tuple[bytes, str | None, list[str]]]) -> None:
        messages = [self.message(queue[0], *item) for item in content]
        body = encode_batch(messages)
        result = self.store.put_batch(PutMessage(queue[0], queue[1], body))
        if not result.stored:  # only what takes more than a whole message may
            assert sum(len(item[0]) for item in content) > 1000, result
            return
        assert result.queue_offset == len(self.model[queue])
        for message, (text, tag, words), offset in zip(messages, content, result.offsets, strict=True):
            stored = Stored(text, tag, [*words, message.properties["UNIQ_KEY"]], self.clock.now, offset)
            self.model[queue].append(stored)

    @rule()
    def flush(self) -> None:
        self.store.flush()

    @rule(passed=st.sampled_from((100, 1_000, 61_000)))
    def tick(self, passed: int) -> None:
        self.clock.now += passed
        self.store.tick()

    @rule()
    def restart(self) -> None:
        self.store.close()
        assert not self.store.config.abort_path.exists()
        self.store = self.opened()

    @rule()
    def killed(self) -> None:
        self.lives += 1
        after = Path(self.folder.name, str(self.lives))
        crash_copy(self.store, after)
        self.store.close()
        shutil.rmtree(self.root)
        self.root = after
        self.store = self.opened()

    @precondition(lambda self: self.store.max_physical_offset > 3 * 4096)
    @rule()
    def clean(self) -> None:
        """The disk is nearly full: all log files but the newest go."""
        self.store.flush()
        self.usage = 0.87
        self.store.retention.run_once()
        self.usage = 0.1
        assert self.store.max_physical_offset - self.store.min_physical_offset <= 4096

    @precondition(lambda self: any(self.model.values()))
    @rule(data=st.data())
    def delete_topic(self, data: st.DataObject) -> None:
        topic = data.draw(st.sampled_from(sorted({topic for topic, _ in QUEUES})))
        self.store.flush()
        self.store.delete_topic(topic)
        for queue in QUEUES:
            if queue[0] == topic:
                self.deleted |= {stored.physical_offset for stored in self.model[queue]}
                self.model[queue] = []

    # what must hold

    def kept(self, queue: tuple[str, int]) -> dict[int, Stored]:
        """What the model still has of a queue, by offset."""
        begin = self.store.min_physical_offset
        return {n: stored for n, stored in enumerate(self.model[queue]) if stored.physical_offset >= begin}

    @rule(queue=queues, count=st.integers(1, 40), tag=st.sampled_from((None, "a")))
    def read(self, queue: tuple[str, int], count: int, tag: str | None) -> None:
        self.store.flush()
        kept = self.kept(queue)
        code = 97
        expected = {n: stored for n, stored in kept.items() if tag in (None, stored.tags)}
        found: dict[int, bytes] = {}
        offset = self.store.min_offset(*queue)
        while True:
            result = self.store.get(*queue, offset, count, tag_filter=None if tag is None else lambda c: c == code)
            assert result.count <= count
            for message, number in zip(result.messages(), result.queue_offsets, strict=True):
                assert (message.topic, message.queue_id, message.queue_offset) == (*queue, number)
                assert number not in found
                found[number] = message.body
            if result.next_offset <= offset:
                break
            offset = result.next_offset
        assert found == {n: stored.body for n, stored in expected.items()}
        assert list(found) == sorted(found)

    @rule(queue=queues)
    def read_outside(self, queue: tuple[str, int]) -> None:
        self.store.flush()
        known = self.model[queue]
        end = len(known)
        first = min(self.kept(queue), default=end)
        statuses = {self.store.get(*queue, end, 1).status, self.store.get(*queue, end + 1, 1).status}
        if end:
            assert statuses == {GetStatus.OFFSET_OVERFLOW_ONE, GetStatus.OFFSET_OVERFLOW_BADLY}
            if first > 0:
                assert self.store.get(*queue, first - 1, 1).status is GetStatus.OFFSET_TOO_SMALL
        else:
            assert statuses <= {GetStatus.NO_MATCHED_LOGIC_QUEUE, GetStatus.NO_MESSAGE_IN_QUEUE}

    @rule(queue=queues, boundary=st.sampled_from(Boundary), data=st.data())
    def by_time(self, queue: tuple[str, int], boundary: Boundary, data: st.DataObject) -> None:
        self.store.flush()
        kept = self.kept(queue)
        times = sorted({stored.time for stored in kept.values()})
        near = [time + step for time in times for step in (-1, 0, 1)]
        timestamp = data.draw(st.sampled_from([*near, 0, START, FOREVER]))
        end = len(self.model[queue])
        later = [n for n, stored in kept.items() if stored.time >= timestamp]
        earlier = [n for n, stored in kept.items() if stored.time <= timestamp]
        if boundary is Boundary.LOWER:
            expected = min(later, default=end)
        else:
            expected = max(earlier, default=min(kept, default=end))
        assert self.store.lookup.offset_by_time(*queue, timestamp, boundary) == expected

    @rule(queue=queues, key=st.sampled_from(KEYS), data=st.data())
    def by_key(self, queue: tuple[str, int], key: str, data: st.DataObject) -> None:
        self.store.flush()
        topic = queue[0]
        stored = [s for q in QUEUES if q[0] == topic for s in self.kept(q).values()]
        if stored and key == KEYS[0]:
            key = data.draw(st.sampled_from(stored)).keys[-1]  # a unique key
        expected = sorted(s.physical_offset for s in stored if key in s.keys)
        # Up to 64 hits are looked at, some of which may belong to records that are gone.
        hits = self.store.lookup.by_key(topic, key, 64, 0, FOREVER)
        found = [message.physical_offset for message in hits.messages()]
        assert found == sorted(set(found))
        found = [offset for offset in found if offset not in self.deleted]  # the log still has them
        assert set(found) <= set(expected)
        if len(expected) + len(self.deleted) <= 20:
            assert found == expected

    @rule(queue=queues)
    def by_place(self, queue: tuple[str, int]) -> None:
        for stored in self.kept(queue).values():
            message = self.store.lookup.message_at(stored.physical_offset)
            assert message is not None
            assert (message.body, message.store_timestamp) == (stored.body, stored.time)

    @invariant()
    def numbering(self) -> None:
        for queue, known in self.model.items():
            assert self.store.max_offset(*queue, committed=False) == len(known)


def test_store_behaves_like_dictionaries(long_run: bool) -> None:
    effort = settings(
        max_examples=600 if long_run else 40,
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(StoreModel, settings=effort)
