"""The options of a store, under RocketMQ's own property names, and the settings of one store made of them.

Each option is declared here and nowhere else: a broker inherits `StoreSettings`, so that its files and flags have them
under the titles that a broker's reference page groups them by. Defaults are Apache's, except for synchronous flush.
"""

from dataclasses import FrozenInstanceError
from enum import StrEnum
from pathlib import Path
from typing import Self

from pyromq.protocol.records.queueentry import ENTRY_SIZE
from pyromq.settings.declaration import Settings, options, settings
from pyromq.settings.option import computed, option
from pyromq.store.errors import StoreError
from pyromq.store.log.soundness import CrcOnRead

DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
KB, MB, GB = 1 << 10, 1 << 20, 1 << 30


class BrokerRole(StrEnum):
    ASYNC_MASTER = "ASYNC_MASTER"
    SYNC_MASTER = "SYNC_MASTER"
    SLAVE = "SLAVE"


class FlushDiskType(StrEnum):
    SYNC_FLUSH = "SYNC_FLUSH"
    ASYNC_FLUSH = "ASYNC_FLUSH"


@settings
class RoleSettings(Settings):
    """Identity and addresses."""

    broker_role: BrokerRole = option(BrokerRole.ASYNC_MASTER, "What the broker is to its replicas.")


@settings
class AppendSettings(Settings):
    """Sending."""

    max_message_size: int = option(4 * MB, "Largest body.", unit="bytes", minimum=1, maximum=15 * MB, reloadable=True)
    max_flush_waiters: int = option(
        65_536, "Messages that may wait for the disk at a time.", minimum=1, reloadable=True
    )


@settings
class ReadSettings(Settings):
    """Pulling."""

    max_transfer_bytes_on_message_in_memory: int = option(256 * KB, "Bytes a pull returns at most.", minimum=1)
    max_transfer_count_on_message_in_memory: int = option(32, "Messages a pull returns at most.", minimum=1)
    max_transfer_bytes_on_message_in_disk: int = option(64 * KB, "The same, far behind the end.", minimum=1)
    max_transfer_count_on_message_in_disk: int = option(8, "The same, far behind the end.", minimum=1)
    access_message_in_memory_max_ratio: int = option(
        40, "Share of memory within which a reader counts as near the end.", unit="%", minimum=1, maximum=95
    )
    offset_check_in_slave: bool = option(False, "Let a slave correct offsets.")
    max_filter_message_size: int = option(16_000, "Bytes of queue entries looked at per pull.", minimum=20)


@settings
class FileSettings(Settings):
    """Message store."""

    store_path_root_dir: Path = option(
        computed(lambda: Path.home() / "store", "~/store"), "Folder of everything the broker keeps."
    )
    store_path_commit_log: Path | None = option(None, "Folder of the commit log; empty: below the root.")
    flush_disk_type: FlushDiskType = option(
        FlushDiskType.SYNC_FLUSH, "SYNC_FLUSH: a message is on disk before it is acknowledged."
    )
    sync_flush_timeout: int = option(5_000, "Wait for a flush before FLUSH_DISK_TIMEOUT.", unit="ms", minimum=1)
    flush_interval_commit_log: int = option(500, "Time between asynchronous flushes.", unit="ms", minimum=1)
    flush_commit_log_least_pages: int = option(4, "Dirty pages that make one worth it.", minimum=0)
    flush_commit_log_thorough_interval: int = option(10_000, "Flush everything this often.", unit="ms", minimum=1)
    flush_interval_consume_queue: int = option(1_000, "Time between flushes of queues.", unit="ms", minimum=1)
    flush_consume_queue_least_pages: int = option(2, "Dirty pages that make one worth it.", minimum=0)
    flush_consume_queue_thorough_interval: int = option(60_000, "Flush all this often.", unit="ms", minimum=1)
    mapped_file_size_commit_log: int = option(GB, "Size of a commit-log file.", unit="bytes", minimum=64 * KB)
    mapped_file_size_consume_queue: int = option(
        6_000_000, "Size of a queue file, rounded up to a multiple of 20.", minimum=20
    )
    message_index_enable: bool = option(True, "Keep an index by key.")
    message_index_safe: bool = option(False, "Rebuild the whole index after a crash.")
    max_hash_slot_num: int = option(5_000_000, "Hash slots of an index file.", minimum=1)
    max_index_num: int = option(20_000_000, "Entries of an index file.", minimum=2)
    max_msgs_num_batch: int = option(64, "Messages a key query returns at most.", minimum=1)
    check_crc_on_recover: bool = option(True, "Verify bodies when recovering.", key="checkCRCOnRecover")
    check_crc_on_read: CrcOnRead = option(
        CrcOnRead.SAMPLED,
        "Verify bodies that are read: `always`, `never`, or `sampled`: all that an earlier run wrote or that has left "
        "memory, and one read in 64 of the others.",
        key="checkCRCOnRead",
    )
    message_delay_level: str = option(DELAY_LEVELS, "Delay of each level, from 1.")


@settings
class RetentionSettings(Settings):
    """Retention."""

    file_reserved_time: int = option(72, "Age at which a log file may go.", unit="hours", minimum=0, reloadable=True)
    delete_when: str = option("04", "Local hours in which aged files go, separated by ;", reloadable=True)
    disk_max_used_space_ratio: int = option(
        75, "Used disk above which aged files go at once.", unit="%", maximum=100, reloadable=True
    )
    disk_space_clean_forcibly_ratio: int = option(
        85, "Used disk above which any old file goes.", unit="%", maximum=100, reloadable=True
    )
    disk_space_warning_level_ratio: int = option(
        90, "Used disk above which sends are refused.", unit="%", maximum=100, reloadable=True
    )
    clean_file_forcibly_enable: bool = option(True, "Allow files to go before their age.", reloadable=True)
    clean_resource_interval: int = option(10_000, "Time between two looks.", unit="ms", minimum=10)
    delete_file_batch_max: int = option(10, "Files that go at a time.", minimum=1, reloadable=True)
    max_commit_log_size: int = option(
        0, "Total size of the log to keep; 0: any.", unit="bytes", minimum=0, reloadable=True
    )


@settings
class StoreSettings(RetentionSettings, FileSettings, ReadSettings, AppendSettings, RoleSettings):
    """What a store can be told from outside."""


CHANGEABLE = frozenset(each.name for each in options(StoreSettings).values() if each.reloadable)
"""What an open store can be told to do otherwise."""


@settings
class StoreConfig(StoreSettings):
    """The settings of one store, which do not change. Ranges are those of files and flags: tests may go below."""

    allocate_step_commit_log: int = option(16 * MB, "Blocks are allocated ahead by this much.", unit="bytes")
    max_open_queue_files: int = option(512, "Consume-queue files open at a time, over all queues.")
    save_interval_bytes: int = option(
        128 * MB, "Recovery after a crash begins at most about this far before the end.", unit="bytes"
    )

    @classmethod
    def of(cls, given: StoreSettings) -> Self:
        """What `given` says about the store. Raises StoreError."""
        values = {name: getattr(given, name) for name in options(StoreSettings)}
        # Up to whole entries, as Apache's does with sizes that old guides recommend.
        values["mapped_file_size_consume_queue"] += -given.mapped_file_size_consume_queue % ENTRY_SIZE
        return cls(**values)

    def __post_init__(self) -> None:
        if self.mapped_file_size_consume_queue <= 0 or self.mapped_file_size_consume_queue % ENTRY_SIZE:
            raise StoreError(f"mappedFileSizeConsumeQueue must be a positive multiple of {ENTRY_SIZE}")
        if self.mapped_file_size_commit_log <= 0:
            raise StoreError("mappedFileSizeCommitLog must be positive")
        _ = self.delete_hours
        if "," in str(self.store_path_commit_log or ""):
            raise StoreError("storePathCommitLog with several directories is not supported: name one directory")
        self._made = True

    def __setattr__(self, name: str, value: object) -> None:
        if "_made" in self.__dict__:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super().__setattr__(name, value)

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
