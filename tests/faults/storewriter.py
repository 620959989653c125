"""A process that writes into a store and says on standard output, line by line, what is durable. Made to be killed.

    python -m tests.faults.storewriter DIRECTORY SEED

Messages are numbered by queue: the body of the message with queue offset n of queue q of topic t begins with "t q n".
"""

import random
import sys
from pathlib import Path

from pyromq.protocol.message import Message
from pyromq.protocol.records.batch import encode_batch
from pyromq.store.config import FlushDiskType, StoreConfig
from pyromq.store.log.put import PutMessage
from pyromq.store.messagestore import MessageStore

TOPICS = ("orders", "%RETRY%group", "payments")
QUEUES = 3


def config(root: Path) -> StoreConfig:
    return StoreConfig(
        store_path_root_dir=root,
        flush_disk_type=FlushDiskType.SYNC_FLUSH,
        mapped_file_size_commit_log=256 << 10,
        mapped_file_size_consume_queue=20 * 300,
        allocate_step_commit_log=16 << 10,
        max_hash_slot_num=500,
        max_index_num=2_000,
        flush_interval_consume_queue=20,
        flush_consume_queue_thorough_interval=100,
    )


def body(rng: random.Random, topic: str, queue_id: int, offset: int) -> bytes:
    return f"{topic} {queue_id} {offset} ".encode() + rng.randbytes(rng.choice((10, 100, 1000)))


def write(store: MessageStore, rng: random.Random) -> None:
    while True:
        results = []
        for _ in range(rng.randint(1, 32)):  # one flush for all of them
            topic, queue_id = rng.choice(TOPICS), rng.randrange(QUEUES)
            offset = store.max_offset(topic, queue_id, committed=False)
            count = rng.choice((1, 1, 1, 3))
            messages = [Message(topic, body(rng, topic, queue_id, offset + n), keys=[f"k{n}"]) for n in range(count)]
            if count == 1:
                result = store.put(PutMessage.of(messages[0], queue_id))
            else:
                result = store.put_batch(PutMessage(topic, queue_id, encode_batch(messages)))
            assert result.queue_offset == offset, result
            results.append((topic, queue_id, offset, count, result))
        store.wait_durable(results[-1][-1])
        assert results[-1][-1].stored
        lines = (f"{topic} {queue_id} {offset} {count}\n" for topic, queue_id, offset, count, _ in results)
        sys.stdout.write("".join(lines))
        sys.stdout.flush()
        store.tick()


if __name__ == "__main__":
    with MessageStore(config(Path(sys.argv[1])), disk_usage=lambda _: 0.1) as opened:
        sys.stdout.write("open\n")
        sys.stdout.flush()
        write(opened, random.Random(int(sys.argv[2])))
