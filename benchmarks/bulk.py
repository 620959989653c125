"""A store of any number of messages, written as files at the speed of the disk instead of message by message.

What lies there afterwards is what the store itself would have written for the same messages, but for index and
manifest, which an Apache broker's store may lack as well; a test opens one and reads it. Needs numpy.
"""

import json
from pathlib import Path
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from pyromq.protocol.records.record import MAGIC_V1, pack_blank
from pyromq.store.config import StoreConfig
from pyromq.store.log.mappedfiles import file_name

QUEUES = 8
TOPIC = "growth"
BODY = b"fifteen bytes !"
BEGIN = 1_700_000_000_000
"""Store time of the first message; a thousand of them share a millisecond."""

_HOST = bytes((127, 0, 0, 1, 0, 0, 0x2A, 0x9F))
_RECORD = np.dtype([
    ("size", ">i4"), ("magic", ">i4"), ("crc", ">i4"), ("queue_id", ">i4"), ("flag", ">i4"), ("queue_offset", ">i8"),
    ("place", ">i8"), ("sys_flag", ">i4"), ("born", ">i8"), ("born_host", "V8"), ("stored", ">i8"),
    ("store_host", "V8"), ("reconsumed", ">i4"), ("prepared", ">i8"), ("body_size", ">i4"), ("body", f"V{len(BODY)}"),
    ("topic_size", "u1"), ("topic", f"V{len(TOPIC)}"), ("properties", ">i2"),
])  # fmt: skip
_ENTRY = np.dtype([("place", ">i8"), ("size", ">i4"), ("tag", ">i8")])
_PIECE = 1 << 17


def build(root: Path, count: int) -> None:
    """Write log, queues and topic table of a store with `count` messages in eight queues, in turn."""
    config = StoreConfig(store_path_root_dir=root)
    _write_log(config, count)
    for queue_id in range(QUEUES):
        _write_queue(config, queue_id, count)
    (root / "config").mkdir(parents=True, exist_ok=True)
    topic = {"topicName": TOPIC, "perm": 6, "readQueueNums": QUEUES, "writeQueueNums": QUEUES}
    (root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": {TOPIC: topic}}))


def _places(numbers: NDArray[np.int64], file_size: int) -> NDArray[np.int64]:
    """Where in the log messages lie, by their number."""
    each = _per_file(file_size)
    return numbers // each * file_size + numbers % each * _RECORD.itemsize


def _per_file(file_size: int) -> int:
    return (file_size - 8) // _RECORD.itemsize


def _write_log(config: StoreConfig, count: int) -> None:
    size = config.mapped_file_size_commit_log
    each = _per_file(size)
    config.commit_log_dir.mkdir(parents=True)
    records = np.zeros(min(_PIECE, count), _RECORD)
    records["size"], records["magic"], records["crc"] = _RECORD.itemsize, MAGIC_V1, crc32(BODY) & 0x7FFFFFFF
    records["born_host"] = records["store_host"] = np.void(_HOST)
    records["body_size"], records["body"] = len(BODY), np.void(BODY)
    records["topic_size"], records["topic"] = len(TOPIC), np.void(TOPIC.encode())
    for first in range(0, count, each):
        with (config.commit_log_dir / file_name(first // each * size)).open("xb") as file:
            last = min(first + each, count)
            for begin in range(first, last, _PIECE):
                numbers = np.arange(begin, min(begin + _PIECE, last), dtype=np.int64)
                part = records[: len(numbers)]
                part["queue_id"], part["queue_offset"] = numbers % QUEUES, numbers // QUEUES
                part["place"] = _places(numbers, size)
                part["born"] = part["stored"] = BEGIN + numbers // 1000
                file.write(part.tobytes())
            if last == first + each:
                file.write(pack_blank(size - each * _RECORD.itemsize))
            file.truncate(size)


def _write_queue(config: StoreConfig, queue_id: int, count: int) -> None:
    size = config.mapped_file_size_consume_queue
    each = size // _ENTRY.itemsize
    folder = config.consume_queue_dir / TOPIC / str(queue_id)
    entries = (count - queue_id + QUEUES - 1) // QUEUES
    for first in range(0, entries, each):
        folder.mkdir(parents=True, exist_ok=True)
        offsets = np.arange(first, min(first + each, entries), dtype=np.int64)
        part = np.zeros(len(offsets), _ENTRY)
        part["place"] = _places(offsets * QUEUES + queue_id, config.mapped_file_size_commit_log)
        part["size"] = _RECORD.itemsize
        with (folder / file_name(first * _ENTRY.itemsize)).open("xb") as file:
            file.write(part.tobytes())
            file.truncate(size)
