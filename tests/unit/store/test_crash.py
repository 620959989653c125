"""After a power cut every flushed message is there once, in order, can be found by key, and appending goes on.

Each case is one seed: random messages, batches, flushes and saves, then a power cut (see `powercut`) and files lost on
top of it, several times in a row. A failing case prints its seed and what happened to the files; PYROMQ_SEED repeats
it.
"""

import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest

from pyromq.protocol.message import Message, ReceivedMessage
from pyromq.protocol.records.batch import encode_batch
from pyromq.store.config import FlushDiskType, StoreConfig
from pyromq.store.log.put import PutMessage
from pyromq.store.messagestore import MessageStore
from tests.unit.store.powercut import PowerCut

TOPICS = ("T", "%RETRY%g", "other")
FOREVER = 1 << 61
LOSSES = ("nothing", "nothing", "queue file", "queue", "queues", "cut", "index", "checkpoint", "manifest")

FOUND = (
    3867653372,  # a queue was being rebuilt at the second cut, which also took the manifest
    3468115012,  # a record whose torn store time lies in the future
    2476282224,  # a flipped bit turned the body of one message into that of another
    2751191213,  # a message with a flipped bit was readable until its queue was built again
)
"""Seeds that once failed."""

Place = tuple[str, int, int]
"""Topic, queue id and queue offset of a message."""


def config(root: Path, flush: FlushDiskType) -> StoreConfig:
    return StoreConfig(
        store_path_root_dir=root,
        flush_disk_type=flush,
        mapped_file_size_commit_log=4096,
        mapped_file_size_consume_queue=12 * 20,
        allocate_step_commit_log=512,
        max_hash_slot_num=16,
        max_index_num=24,
        max_open_queue_files=3,
        max_message_size=2048,
        flush_interval_commit_log=1 << 30,  # only when asked
        disk_max_used_space_ratio=100,
    )


class Life:
    """One store from crash to crash, and what must be in it."""

    def __init__(self, seed: int, root: Path) -> None:
        self.rng = random.Random(seed)
        self.root = root
        self.flush = self.rng.choice(list(FlushDiskType))
        self.now = 1_700_000_000_000
        self.number = 0
        self.flushed: dict[Place, bytes] = {}
        self.pending: dict[Place, bytes] = {}
        self.intact: set[Place] = set()  # flushed, not just found after a crash with perhaps some bits flipped
        self.story: list[str] = []

    def run(self) -> None:
        lives = self.rng.randint(1, 3)
        for life in range(lives):
            self.live(self.root / str(life), self.root / str(life + 1))
        self.live(self.root / str(lives), self.root / "unused", actions=0)

    def open(self, home: Path) -> MessageStore:
        return MessageStore(config(home, self.flush), clock=lambda: self.now, disk_usage=lambda _: 0.1)

    def live(self, home: Path, after: Path, actions: int = 40) -> None:
        """Check the store and use it until the power is cut, or to an orderly end."""
        fuse = self.rng.choice((0, 0, self.rng.randint(1, 40)))
        with pytest.MonkeyPatch.context() as patch:
            disk = PowerCut(patch, home, after, self.rng, fuse, on_cut=self.pending.clear)
            with self.open(home) as store:
                self.check(store)
                for _ in range(self.rng.randint(0, actions)):
                    if not disk.done:
                        self.act(store)
                        if disk.done:  # in the middle of it
                            self.pending.clear()
                if self.rng.random() < 0.8:
                    disk.cut()
        self.story += disk.story
        if disk.done:
            self.lose_files(after)
        else:
            self.keep()
            shutil.copytree(home, after)

    def keep(self) -> None:
        self.flushed |= self.pending
        self.intact |= self.pending.keys()
        self.pending.clear()

    def act(self, store: MessageStore) -> None:
        self.now += self.rng.choice((0, 1, 700, 5_000))
        kind = self.rng.random()
        if kind < 0.6:
            self.put(store)
        elif kind < 0.7:
            self.put_batch(store)
        elif kind < 0.9:
            before = dict(self.pending)
            store.flush()
            if self.pending == before:  # otherwise the power was cut before the flush was complete
                self.keep()
        elif kind < 0.95:
            store.tick()
        else:
            self.now += 100_000
            store.tick()  # a save becomes due

    def message(self, topic: str) -> Message:
        self.number += 1
        body = f"{self.number}:".encode() + self.rng.randbytes(self.rng.choice((0, 20, 300)))
        message = Message(topic, body, tags=self.rng.choice((None, "a")), keys=[f"key{self.number % 5}"])
        message.properties["UNIQ_KEY"] = f"U{self.number:031d}"
        return message

    def put(self, store: MessageStore) -> None:
        topic, queue_id = self.rng.choice(TOPICS), self.rng.randrange(2)
        message = self.message(topic)
        result = store.put(PutMessage.of(message, queue_id))
        assert result.stored, result
        self.pending[topic, queue_id, result.queue_offset] = message.body

    def put_batch(self, store: MessageStore) -> None:
        topic, queue_id = self.rng.choice(TOPICS), self.rng.randrange(2)
        messages = [self.message(topic) for _ in range(self.rng.randint(1, 4))]
        result = store.put_batch(PutMessage(topic, queue_id, encode_batch(messages)))
        assert result.stored, result
        for n, message in enumerate(messages):
            self.pending[topic, queue_id, result.queue_offset + n] = message.body

    def lose_files(self, home: Path) -> None:
        """Besides what the power cut did, files go that can be made again."""
        queue_files = sorted(home.glob("consumequeue/*/*/*"))
        index_files = sorted(home.glob("index/*"))
        # Without the manifest, which is lost already then, losses that only it can tell go unnoticed.
        what = self.rng.choice(LOSSES) if (home / "pyromq.manifest").exists() else "checkpoint"
        if what == "queue file" and queue_files:
            self.rng.choice(queue_files).unlink()
        elif what == "queue" and queue_files:
            shutil.rmtree(self.rng.choice(queue_files).parent)
        elif what == "queues" and queue_files:
            shutil.rmtree(home / "consumequeue")
        elif what == "cut" and queue_files:
            file = self.rng.choice(queue_files)
            os.truncate(file, self.rng.randrange(file.stat().st_size + 1))
        elif what == "index":
            for file in self.rng.choice((index_files, index_files[-1:])):
                file.unlink()
        elif what == "checkpoint":
            (home / "checkpoint").unlink(missing_ok=True)
        elif what == "manifest" and self.flushed:
            (home / "pyromq.manifest").unlink(missing_ok=True)
        self.story.append(f"deleted {what}")

    def check(self, store: MessageStore) -> None:
        """All that was flushed is there, once and in order; then what else survived counts as well."""
        found: dict[Place, bytes] = {}
        bodies: dict[bytes, Place] = {}
        for topic in TOPICS:
            for queue_id in range(2):
                offset = store.min_offset(topic, queue_id)
                while (result := store.get(topic, queue_id, offset, 8)).next_offset > offset:
                    offset = result.next_offset
                    for message, number in zip(result.messages(), result.queue_offsets, strict=True):
                        place = topic, queue_id, number
                        assert message.queue_offset == number
                        if crc32(message.body) & 0x7FFFFFFF != message.body_crc:
                            continue  # a flipped bit: readers are told, and a recovery from the log leaves it out
                        found[place] = message.body
                        if _is_itself(message):  # a flipped bit may have made its body that of another
                            assert message.body not in bodies, f"{place} repeats {bodies[message.body]}"
                            bodies[message.body] = place
        lost = {place: body for place, body in self.flushed.items() if found.get(place) != body}
        assert not lost, f"{len(lost)} of {len(self.flushed)} flushed messages are lost: {sorted(lost)[:3]}"
        for place in self.intact:
            body = self.flushed[place]
            key = f"U{int(body.partition(b':')[0]):031d}"
            messages = store.lookup.by_key(place[0], key, 8, 0, FOREVER).messages()
            # A flipped bit may have given the key to a message that was not flushed.
            assert [message.body for message in messages].count(body) == 1, f"{place} is not found by {key}"
        self.flushed = found
        for topic in TOPICS:
            for queue_id in range(2):
                assert store.max_offset(topic, queue_id) >= 1 + max(
                    (place[2] for place in found if place[:2] == (topic, queue_id)), default=-1
                )


def _is_itself(message: ReceivedMessage) -> bool:
    """Whether body and unique key still name the same number."""
    return message.properties.get("UNIQ_KEY", "")[1:].lstrip("0").encode() == message.body.partition(b":")[0]


@pytest.fixture
def memory_path(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where the system has such: thousands of small files are made, and no disk is needed."""
    shared = Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it
    if not os.access(shared, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=shared) as folder:
        yield Path(folder)


def test_power_cuts(memory_path: Path, long_run: bool) -> None:
    forced = os.environ.get("PYROMQ_SEED")
    base = random.SystemRandom().randrange(1 << 32)
    for seed in [int(forced)] if forced else [*FOUND, *range(base, base + (4_000 if long_run else 200))]:
        root = memory_path / str(seed)
        life = Life(seed, root)
        try:
            life.run()
        except Exception:
            print(f"PYROMQ_SEED={seed}: {life.flush.value}; {'; '.join(life.story)}")  # noqa: T201 - to repeat the case
            raise
        shutil.rmtree(root)
