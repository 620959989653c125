"""Small stores for tests: tiny files, a clock that moves when told, a crash without a process."""

import shutil
from pathlib import Path

from pyromq.protocol.properties import encode_properties
from pyromq.store.config import FlushDiskType, StoreConfig
from pyromq.store.log.put import PutMessage, PutResult, PutStatus
from pyromq.store.messagestore import MessageStore

START = 1_700_000_000_000


class Clock:
    """Milliseconds that pass only when a test says so."""

    def __init__(self, now: int = START) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


def small_config(root: Path, **changes: object) -> StoreConfig:
    settings: dict[str, object] = {
        "store_path_root_dir": root,
        "mapped_file_size_commit_log": 4096,
        "mapped_file_size_consume_queue": 20 * 50,
        "allocate_step_commit_log": 1024,
        "max_hash_slot_num": 50,
        "max_index_num": 400,
        "flush_disk_type": FlushDiskType.ASYNC_FLUSH,
        **changes,
    }
    return StoreConfig(**settings)  # type: ignore[arg-type]


def open_store(root: Path, clock: Clock | None = None, **changes: object) -> MessageStore:
    store = MessageStore(small_config(root, **changes), clock=clock or Clock(), disk_usage=lambda _: 0.1)
    store.open()
    # Opening ends with a save in the worker; one that a test asks for must not be overtaken by it.
    store._worker.submit(int).result()
    return store


def message(
    topic: str = "orders", queue_id: int = 0, body: bytes = b"hello", properties: dict[str, str] | None = None
) -> PutMessage:
    return PutMessage(topic, queue_id, body, encode_properties(properties or {}))


def put(store: MessageStore, *args: object, **kwargs: object) -> PutResult:
    """Put a message that must be taken."""
    result = store.put(message(*args, **kwargs))  # type: ignore[arg-type]
    assert result.status is PutStatus.PUT_OK, result.reason
    return result


def bodies(store: MessageStore, topic: str = "orders", queue_id: int = 0) -> list[bytes]:
    """All bodies that a reader of the queue gets, from its first offset on."""
    found: list[bytes] = []
    offset = store.min_offset(topic, queue_id)
    while (result := store.get(topic, queue_id, offset, 32)).count:
        assert [m.queue_offset for m in result.messages()] == result.queue_offsets
        found += [m.body for m in result.messages()]
        offset = result.next_offset
    return found


def crash_copy(store: MessageStore, target: Path) -> Path:
    """What a killed process leaves: the files as they are now, with everything only in memory gone."""
    store._worker.submit(int).result()  # not in the middle of a save
    shutil.copytree(store.config.store_path_root_dir, target)
    return target


def log_file(root: Path, start: int = 0) -> Path:
    return root / "commitlog" / f"{start:020d}"
