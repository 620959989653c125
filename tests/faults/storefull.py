"""Fills a small disk with a store, in a process of its own: a write to a hole of a mapped file would kill it.

    python -m tests.faults.storefull DIRECTORY

Ends with 0 when every step went as it should.
"""

import os
import sys
from pathlib import Path

from pyromq.protocol.message import Message
from pyromq.store.config import FlushDiskType, StoreConfig
from pyromq.store.log.put import PutMessage, PutStatus
from pyromq.store.messagestore import MessageStore

LOG_FILE = 512 << 10


class Clock:
    now = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now


def config(root: Path) -> StoreConfig:
    return StoreConfig(
        store_path_root_dir=root,
        flush_disk_type=FlushDiskType.SYNC_FLUSH,
        mapped_file_size_commit_log=LOG_FILE,
        mapped_file_size_consume_queue=20 * 3_000,
        allocate_step_commit_log=64 << 10,
        max_hash_slot_num=1_000,
        max_index_num=5_000,
    )


class Filler:
    def __init__(self, disk: Path) -> None:
        self.disk = disk
        self.clock = Clock()
        self.usage = 0.1
        self.stored = 0
        self.store = self.opened()

    def opened(self) -> MessageStore:
        store = MessageStore(config(self.disk / "store"), clock=self.clock, disk_usage=lambda _: self.usage)
        store.open()
        return store

    def put(self) -> PutStatus:
        message = Message("orders", b"%d " % self.stored + bytes(900), keys=[f"k{self.stored}"])
        result = self.store.put(PutMessage.of(message))
        if result.stored:
            assert result.queue_offset == self.stored
            self.stored += 1
        else:
            assert "space" in result.reason, result.reason
        return result.status

    def fill(self) -> None:
        """Put until there is no space, and then some more."""
        for _ in range(100_000):
            if self.put() is not PutStatus.PUT_OK:
                break
            if self.stored % 20 == 0:
                self.store.flush()
        else:
            raise AssertionError("the disk does not get full")
        for _ in range(200):
            self.pass_time(20)
            assert self.put() is PutStatus.SERVICE_NOT_AVAILABLE

    def pass_time(self, milliseconds: int) -> None:
        self.clock.now += milliseconds
        self.store.tick()

    def until_accepted(self) -> None:
        for _ in range(100):
            self.pass_time(1_000)
            if self.put() is PutStatus.PUT_OK:
                return
        raise AssertionError("there is space again, but messages are still refused")

    def check(self, *, lacking: int = 0) -> None:
        """Everything that was taken can be read; on a full disk all but some of the last, whose entries need space."""
        self.store.flush()
        self.pass_time(2_000)
        offset = self.store.min_offset("orders", 0)
        while (result := self.store.get("orders", 0, offset, 32)).count:
            for message in result.messages():
                assert message.body.startswith(b"%d " % offset)
                offset += 1
        assert self.stored - lacking <= offset <= self.stored, f"{self.stored} were taken, {offset} can be read"


def run(disk: Path) -> None:
    ballast = disk / "ballast"
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 3 << 20)
    filler = Filler(disk)

    filler.fill()
    filler.check(lacking=200)
    ballast.unlink()  # somebody makes space
    filler.until_accepted()
    filler.check()

    filler.fill()
    filler.usage = 0.95  # now retention is asked to
    filler.pass_time(20_000)
    filler.usage = 0.2
    filler.pass_time(20_000)
    filler.until_accepted()
    filler.check()
    assert filler.store.min_physical_offset > 0

    filler.fill()
    filler.check(lacking=200)
    filler.store.close()
    filler.store = filler.opened()  # on a disk that is still full
    filler.check(lacking=3_000)
    filler.usage = 0.95
    filler.pass_time(20_000)
    filler.usage = 0.2
    filler.pass_time(20_000)
    filler.until_accepted()
    filler.check()
    filler.store.close()


if __name__ == "__main__":
    run(Path(sys.argv[1]))
