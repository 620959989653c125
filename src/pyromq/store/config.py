"""Settings of a store. Field names are RocketMQ's property names in Python case; defaults are RocketMQ's, but safer."""

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from pyromq.protocol.records.queueentry import ENTRY_SIZE
from pyromq.store.errors import StoreError
from pyromq.store.log.soundness import CrcOnRead

DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"


CHANGEABLE = frozenset(
    {
        "clean_file_forcibly_enable", "delete_file_batch_max", "delete_when", "disk_max_used_space_ratio",
        "disk_space_clean_forcibly_ratio", "disk_space_warning_level_ratio", "file_reserved_time",
        "max_commit_log_size", "max_flush_waiters", "max_message_size",
    }
)  # fmt: skip
"""What an open store can be told to do otherwise."""


class BrokerRole(StrEnum):
    ASYNC_MASTER = "ASYNC_MASTER"
    SYNC_MASTER = "SYNC_MASTER"
    SLAVE = "SLAVE"


class FlushDiskType(StrEnum):
    SYNC_FLUSH = "SYNC_FLUSH"
    ASYNC_FLUSH = "ASYNC_FLUSH"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """What a store needs to know. Times are milliseconds, ratios per cent, sizes bytes, unless a comment says else."""

    store_path_root_dir: Path = field(default_factory=lambda: Path.home() / "store")
    store_path_commit_log: Path | None = None  # None: <root>/commitlog
    broker_role: BrokerRole = BrokerRole.ASYNC_MASTER
    flush_disk_type: FlushDiskType = FlushDiskType.SYNC_FLUSH  # Apache: ASYNC_FLUSH

    mapped_file_size_commit_log: int = 1 << 30
    mapped_file_size_consume_queue: int = 300_000 * ENTRY_SIZE
    max_message_size: int = 4 << 20
    allocate_step_commit_log: int = 16 << 20  # blocks are allocated ahead by this much
    max_open_queue_files: int = 512  # consume-queue files open at a time, over all queues

    message_index_enable: bool = True
    message_index_safe: bool = False
    max_hash_slot_num: int = 5_000_000
    max_index_num: int = 20_000_000
    max_msgs_num_batch: int = 64

    flush_interval_commit_log: int = 500
    flush_commit_log_least_pages: int = 4
    flush_commit_log_thorough_interval: int = 10_000
    flush_interval_consume_queue: int = 1_000
    flush_consume_queue_least_pages: int = 2
    flush_consume_queue_thorough_interval: int = 60_000
    save_interval_bytes: int = 128 << 20  # recovery after a crash begins at most about this far before the end
    sync_flush_timeout: int = 5_000
    max_flush_waiters: int = 65_536  # messages appended but neither flushed nor given up; more: OS_PAGE_CACHE_BUSY

    check_crc_on_recover: bool = True
    check_crc_on_read: CrcOnRead = CrcOnRead.SAMPLED

    max_filter_message_size: int = 16_000
    max_transfer_bytes_on_message_in_memory: int = 262_144
    max_transfer_count_on_message_in_memory: int = 32
    max_transfer_bytes_on_message_in_disk: int = 65_536
    max_transfer_count_on_message_in_disk: int = 8
    access_message_in_memory_max_ratio: int = 40
    offset_check_in_slave: bool = False

    clean_resource_interval: int = 10_000
    delete_when: str = "04"  # local hours, ';'-separated
    file_reserved_time: int = 72  # hours
    delete_file_batch_max: int = 10
    clean_file_forcibly_enable: bool = True
    disk_max_used_space_ratio: int = 75
    disk_space_clean_forcibly_ratio: int = 85
    disk_space_warning_level_ratio: int = 90
    max_commit_log_size: int = 0  # total bytes of the commit log kept by retention; 0: no such limit

    message_delay_level: str = DELAY_LEVELS

    def __post_init__(self) -> None:
        if self.mapped_file_size_consume_queue <= 0 or self.mapped_file_size_consume_queue % ENTRY_SIZE:
            raise StoreError(f"mappedFileSizeConsumeQueue must be a positive multiple of {ENTRY_SIZE}")
        if self.mapped_file_size_commit_log <= 0:
            raise StoreError("mappedFileSizeCommitLog must be positive")
        _ = self.delete_hours
        if "," in str(self.store_path_commit_log or ""):
            raise StoreError("storePathCommitLog with several directories is not supported: name one directory")

    @property
    def commit_log_dir(self) -> Path:
        return self.store_path_commit_log or self.store_path_root_dir / "commitlog"

    @property
    def consume_queue_dir(self) -> Path:
        return self.store_path_root_dir / "consumequeue"

    @property
    def index_dir(self) -> Path:
        return self.store_path_root_dir / "index"

    @property
    def checkpoint_path(self) -> Path:
        return self.store_path_root_dir / "checkpoint"

    @property
    def abort_path(self) -> Path:
        return self.store_path_root_dir / "abort"

    @property
    def lock_path(self) -> Path:
        return self.store_path_root_dir / "lock"

    @property
    def sync_flush(self) -> bool:
        return self.flush_disk_type is FlushDiskType.SYNC_FLUSH

    @property
    def delete_hours(self) -> frozenset[int]:
        """`delete_when`, "04" or "04;16", as hours. Raises StoreError for anything else."""
        text = self.delete_when
        try:
            hours = frozenset(int(word) for word in text.split(";") if word.strip())
        except ValueError:
            raise StoreError(f"deleteWhen: {text!r} is not a ';'-separated list of hours") from None
        if not all(0 <= hour <= 23 for hour in hours):
            raise StoreError(f"deleteWhen: {text!r} has an hour outside of 0 to 23")
        return hours

    @property
    def delays(self) -> dict[int, int]:
        """Delay in milliseconds of each delay level, numbered from 1."""
        return parse_delay_levels(self.message_delay_level)


_UNITS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_delay_levels(text: str) -> dict[int, int]:
    """`"1s 5s 1m"` → {1: 1000, 2: 5000, 3: 60000}. Raises StoreError for anything else."""
    levels: dict[int, int] = {}
    for level, word in enumerate(text.split(), start=1):
        number, unit = word[:-1], _UNITS.get(word[-1])
        if unit is None or not (number.isascii() and number.isdigit()):
            raise StoreError(f"messageDelayLevel: {word!r} is not a number followed by s, m, h or d")
        levels[level] = int(number) * unit
    return levels
