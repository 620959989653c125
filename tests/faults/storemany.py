"""Ten thousand queues in one store, in a process that may open few files. Prints one JSON object with what it took.

python -m tests.faults.storemany DIRECTORY TOPICS {write|read|crash}
"""

import json
import os
import resource
import sys
from pathlib import Path

from pyromq.protocol.message import Message
from pyromq.store.config import FlushDiskType, StoreConfig
from pyromq.store.log.put import PutMessage
from pyromq.store.messagestore import MessageStore

QUEUES = 10
ROUNDS = 2
MAX_FILES = 200


def config(root: Path) -> StoreConfig:
    return StoreConfig(
        store_path_root_dir=root,
        flush_disk_type=FlushDiskType.ASYNC_FLUSH,
        mapped_file_size_commit_log=16 << 20,
        max_hash_slot_num=50_000,
        max_index_num=100_000,
        max_open_queue_files=100,
    )


def write(store: MessageStore, topics: int, first: int) -> None:
    for number in range(first, first + ROUNDS):
        for topic in range(topics):
            for queue_id in range(QUEUES):
                message = Message(f"topic-{topic}", b"%d" % number, keys=["k"])
                result = store.put(PutMessage.of(message, queue_id))
                assert result.queue_offset == number, result
        store.flush()
        store.tick()


def read(store: MessageStore, topics: int, count: int) -> None:
    for topic in range(topics):
        for queue_id in range(QUEUES):
            result = store.get(f"topic-{topic}", queue_id, 0, 32)
            assert [message.body for message in result.messages()] == [b"%d" % n for n in range(count)], result


def blocks(root: Path) -> int:
    """Bytes that files really take."""
    return sum(Path(folder, name).stat().st_blocks * 512 for folder, _, names in os.walk(root) for name in names)


def memory() -> int:
    """The most that this program had; getrusage would also count the process it was started from."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM:"))


def main() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (MAX_FILES, MAX_FILES))
    root, topics, action = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    store = MessageStore(config(root), disk_usage=lambda _: 0.1)
    store.open()
    count = store.max_offset("topic-0", 0)
    if count:
        read(store, topics, count)
    if action != "read":
        write(store, topics, count)
        read(store, topics, count + ROUNDS)
    assert len(store.queues) == topics * QUEUES
    report = {
        "open_files": len(list(Path("/proc/self/fd").iterdir())),
        "memory": memory(),
        "queue_bytes": blocks(root / "consumequeue"),
        "count": store.max_offset("topic-0", 0),
    }
    print(json.dumps(report), flush=True)  # noqa: T201 - the report is the output
    if action == "crash":
        os._exit(0)  # as if killed: nothing is closed
    store.close()


if __name__ == "__main__":
    main()
