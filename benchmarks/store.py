"""What the message store costs above the work that cannot be left out, each time measured beside it in the same run.

- append: messages put into a store (record, queue entry and index included), beside a bare loop that packs the same
  bytes with `struct` and copies them into a mapped file;
- pages ahead: processor time that the appending thread takes for a large message, with pages got ahead and without;
- batches: what one of their messages costs, ids for the answer included;
- group commit: durable messages a second with 1 to 256 of them waiting for the same sync, beside `fdatasync` alone;
- reading by queue offset, and by key;
- recovery: opening a store that was not closed, beside reading its log once and computing its checksum. Two cases: the
  store was killed while it wrote, and the worst one, in which queues, index and all notes on what was synced are lost;
- start: opening a store with many queues that was closed in order, beside reading the files of those queues once.

What happens in memory is measured in CPU time, so that neighbours on the machine are not measured too; group commit,
which waits for the disk, in real time.
"""

import argparse
import mmap
import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.report import Figure, best_of, show
from pyromq import disk
from pyromq.protocol.properties import encode_properties
from pyromq.protocol.records.batch import batch_item
from pyromq.store.config import FlushDiskType, StoreConfig
from pyromq.store.log.put import PutMessage, PutResult
from pyromq.store.messagestore import MessageStore

QUEUES = 8
HOST = bytes((127, 0, 0, 1, 0, 0, 0x2A, 0x9F))
TOPIC = b"TopicTest"
HEAD = struct.Struct(">4i i 2q i q 8s q 8s i q i")
MAGIC = -626843481
RECORD_128 = 300  # bytes in the log of a message with a body of 128
LENGTH = struct.Struct(">h")


def config(root: Path, flush: FlushDiskType) -> StoreConfig:
    return StoreConfig(store_path_root_dir=root, flush_disk_type=flush)


@contextmanager
def folder(where: Path) -> Iterator[Path]:
    """A folder that exists only as long as it is needed."""
    path = Path(tempfile.mkdtemp(dir=where))
    try:
        yield path
    finally:
        shutil.rmtree(path)


@contextmanager
def opened(root: Path, flush: FlushDiskType = FlushDiskType.ASYNC_FLUSH) -> Iterator[MessageStore]:
    """A store that retention leaves alone."""
    with MessageStore(config(root, flush), disk_usage=lambda _: 0.1) as store:
        yield store


def messages(count: int, size: int) -> list[PutMessage]:
    """As a producer sends them: a unique id that counts up, a tag, and eight queues in turn."""
    result = []
    for n in range(count):
        properties = {"UNIQ_KEY": f"7F00000100002A9F18B4{n >> 7:08X}{n & 0xFFFF:04X}", "TAGS": "TagA", "WAIT": "true"}
        text = encode_properties(properties)
        result.append(PutMessage("TopicTest", n % QUEUES, bytes(size), text, properties))
    return result


class Bare:
    """The floor: the fields of each record packed, joined and copied into a file that has its blocks, nothing else."""

    def __init__(self, path: Path, size: int) -> None:
        with path.open("w+b") as file:
            os.posix_fallocate(file.fileno(), 0, size)
            self.mapped = mmap.mmap(file.fileno(), size)
        self.position = 0

    def append(self, items: list[PutMessage]) -> float:
        pack, pack_length, checksum, file, position = HEAD.pack, LENGTH.pack, zlib.crc32, self.mapped, self.position
        begin = time.process_time()
        for number, item in enumerate(items):
            body, text = item.body, item.properties
            size = 91 + len(body) + len(TOPIC) + len(text)
            crc = checksum(body) & 0x7FFFFFFF
            head = pack(size, MAGIC, crc, item.queue_id, 0, number, position, 0, 0, HOST, 1, HOST, 0, 0, len(body))
            record = b"".join((head, body, b"\x09", TOPIC, pack_length(len(text)), text))
            file[position : position + size] = record
            position += size
        self.position = position
        return time.process_time() - begin


def store_append(store: MessageStore, items: list[PutMessage]) -> float:
    """The same messages into the store; what it keeps in memory for queues and index is written out as well."""
    put = store.put
    begin = time.process_time()
    for item in items:
        put(item)
    store.queues.prepare_flush(thorough=True)
    if store.index is not None:
        store.index.drain()
    return time.process_time() - begin


def append(where: Path, size: int, count: int, rounds: int) -> tuple[float, float]:
    """Appends a second of the bare loop and of the store."""
    items = messages(count, size)
    with folder(where) as root, opened(root / "store") as store:
        bare = Bare(root / "bare", (rounds + 1) * count * (size + 256))
        bare.append(items)
        store_append(store, items)
        floor, stored = best_of(rounds, lambda: bare.append(items), lambda: store_append(store, items))
        bare.mapped.close()
    return count / floor, count / stored


def pages_ahead(where: Path, size: int, count: int, rounds: int) -> tuple[float, float]:
    """Microseconds of the appending thread for a message with pages got ahead and without, medians of runs in turn.

    Each run has a new log, whose pages nobody has touched.
    """
    items = messages(1000, size)

    def run() -> float:
        with folder(where) as root, opened(root) as store:
            begin = time.thread_time()
            for _ in range(count // len(items)):
                for item in items:
                    store.put(item)
            return (time.thread_time() - begin) / count * 1e6

    pairs = []
    populate = disk.populate
    for _ in range(rounds):
        got = run()
        try:
            disk.populate = lambda mapped, begin, end: None  # noqa: ARG005
            pairs.append((got, run()))
        finally:
            disk.populate = populate
    return statistics.median(got for got, _ in pairs), statistics.median(without for _, without in pairs)


def batches(where: Path, count: int, rounds: int) -> float:
    """CPU microseconds for each message of batches of so many, ids and what is written later included."""
    body = b"".join([b"".join(batch_item(0, bytes(item.body), item.properties)) for item in messages(count, 128)])
    with folder(where) as root, opened(root) as store:

        def put() -> float:
            begin = time.process_time()
            for _ in range(10_000 // count):
                _ = store.put_batch(PutMessage("TopicTest", 0, body, b"", {})).message_id
            store.queues.prepare_flush(thorough=True)
            if store.index is not None:
                store.index.drain()
            return time.process_time() - begin

        put()
        return min(put() for _ in range(rounds)) / (10_000 // count * count) * 1e6


def sync_rate(where: Path, size: int, seconds: float) -> float:
    """`fdatasync` calls a second, each after writing so many bytes into a file that has its blocks."""
    with folder(where) as root, (root / "file").open("w+b") as file:
        limit = 64 << 20
        os.posix_fallocate(file.fileno(), 0, limit)
        data, position, count, begin = os.urandom(size), 0, 0, time.perf_counter()
        while (elapsed := time.perf_counter() - begin) < seconds and position + size <= limit:
            os.pwrite(file.fileno(), data, position)
            os.fdatasync(file.fileno())
            position, count = position + size, count + 1
    return count / elapsed


def durable_rate(where: Path, waiters: int, seconds: float) -> float:
    """Durable messages a second when so many producers each wait for their last message before they send the next."""
    items = messages(1024, 128)
    done = 0
    with folder(where) as root, opened(root, FlushDiskType.SYNC_FLUSH) as store:
        begin = time.perf_counter()
        last: PutResult | None = None
        while (elapsed := time.perf_counter() - begin) < seconds:
            for n in range(waiters):
                last = store.put(items[(done + n) % 1024])
            assert last is not None
            assert store.wait_durable(last).stored
            done += waiters
    return done / elapsed


def group_commit(where: Path, waiters: int, seconds: float, rounds: int) -> tuple[float, float]:
    """The best rate of syncs alone and of durable messages, measured in turn: other processes use the disk as well."""
    pairs = [
        (sync_rate(where, waiters * RECORD_128, seconds / rounds), durable_rate(where, waiters, seconds / rounds))
        for _ in range(rounds)
    ]
    return max(syncs for syncs, _ in pairs), max(rate for _, rate in pairs)


def read_rate(where: Path, count: int) -> tuple[float, float, float]:
    """Messages a second by queue offset, the same decoded, and queries by unique key."""
    items = messages(count, 128)
    with folder(where) as root, opened(root) as store:
        store_append(store, items)

        def read(take: Callable[[int, int], int]) -> float:
            begin, found = time.process_time(), 0
            for queue_id in range(QUEUES):
                offset = 0
                while got := take(queue_id, offset):
                    offset += got
                found += offset
            assert found == count
            return count / (time.process_time() - begin)

        sliced = read(lambda queue_id, offset: store.get("TopicTest", queue_id, offset, 32).count)
        decoded = read(lambda queue_id, offset: len(store.get("TopicTest", queue_id, offset, 32).messages()))
        keys = [item.property_map["UNIQ_KEY"] for item in items[:: max(count // 2000, 1)] if item.property_map]
        begin = time.process_time()
        for key in keys:
            assert len(store.lookup.by_key("TopicTest", key, 32, 0, 1 << 60).records) == 1
        return sliced, decoded, len(keys) / (time.process_time() - begin)


def write_and_die(root: Path, size: int) -> None:
    """In a process of its own: write so many bytes of log and end without closing the store."""
    code = (
        "import os, sys; from pathlib import Path; from benchmarks.store import fill\n"
        "fill(Path(sys.argv[1]), int(sys.argv[2])); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, str(root), str(size)], check=True)


def fill(root: Path, size: int) -> None:
    items = messages(4096, 1024)
    store = MessageStore(config(root, FlushDiskType.ASYNC_FLUSH), disk_usage=lambda _: 0.1)
    store.open()
    while store.max_physical_offset < size:
        for item in items:
            store.put(item)
        store.tick()


def recovery_factors(where: Path, size: int, rounds: int) -> tuple[float, float, float]:
    """CPU seconds to read and checksum a log, to open its store after a crash, and when only the log is left of it."""
    with folder(where) as root:
        write_and_die(root, size)

        def scan() -> float:
            begin, checksum, left = time.process_time(), 0, size
            for path in sorted((root / "commitlog").iterdir()):
                with path.open("rb") as file:
                    while left > 0 and (block := file.read(1 << 20)):
                        checksum, left = zlib.crc32(block, checksum), left - len(block)
            return time.process_time() - begin

        def recover() -> float:
            begin = time.process_time()
            store = MessageStore(config(root, FlushDiskType.ASYNC_FLUSH), disk_usage=lambda _: 0.1)
            store.open()
            elapsed = time.process_time() - begin
            assert sum(queue.max_offset for queue in store.queues) * 1500 > size
            store.close()
            return elapsed

        def recover_from_log() -> float:
            (root / "abort").touch()
            for name in ("index", "consumequeue"):
                shutil.rmtree(root / name)
            for name in ("pyromq.manifest", "checkpoint"):
                (root / name).unlink()
            return recover()

        scan()  # into the page cache
        crashed = recover()
        scanned, rebuilt = best_of(rounds, scan, recover_from_log)
        return scanned, crashed, rebuilt


def start_factors(where: Path, topics: int, rounds: int) -> tuple[float, float]:
    """CPU seconds to list the queues of a store and read what their files hold, and to open that store."""
    with folder(where) as root:
        with opened(root) as store:
            for n in range(topics * QUEUES):
                store.put(PutMessage(f"topic-{n // QUEUES}", n % QUEUES, bytes(128)))

        def read() -> float:
            begin, checksum = time.process_time(), 0
            for topic in os.scandir(root / "consumequeue"):
                for queue in os.scandir(topic.path):
                    for file in os.scandir(queue.path):
                        checksum = zlib.crc32(_used(file.path), checksum)
            return time.process_time() - begin

        def start() -> float:
            begin = time.process_time()
            with opened(root) as store:
                elapsed = time.process_time() - begin
                assert len(store.queues) == topics * QUEUES
            return elapsed

        scanned, started = best_of(rounds, read, start)
        return scanned, started


def _used(path: str) -> bytes:
    """The beginning of a file, up to its first hole."""
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.pread(fd, os.lseek(fd, 0, os.SEEK_HOLE), 0)
    finally:
        os.close(fd)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the message store beside what it cannot do without.")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--rounds", type=int, default=5, help="take the best of this many (default: %(default)s)")
    parser.add_argument("--recovery-mib", type=int, default=2048, help="size of the log (default: %(default)s)")
    parser.add_argument(
        "--topics", type=int, default=2000, help=f"topics with {QUEUES} queues at a start (default: %(default)s)"
    )
    parser.add_argument("--only-starts", action="store_true", help="measure recovery and start, and leave out the rest")
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="for each group-commit figure (default: %(default)s)"
    )
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where to put the files")
    options = parser.parse_args()
    where: Path = options.folder

    figures: dict[str, Figure] = {} if options.only_starts else _running(where, options)
    scanned, crashed, rebuilt = recovery_factors(where, options.recovery_mib << 20, max(options.rounds // 2, 1))
    figures["recovery_mib"] = options.recovery_mib
    figures["recovery_seconds"] = round(crashed, 2)
    figures["recovery_times_reading_once"] = round(crashed / scanned, 2)
    figures["rebuild_seconds"] = round(rebuilt, 2)
    figures["rebuild_times_reading_once"] = round(rebuilt / scanned, 2)
    read, started = start_factors(where, options.topics, options.rounds)
    figures["start_queues"] = options.topics * QUEUES
    figures["start_seconds"] = round(started, 2)
    figures["start_times_reading_once"] = round(started / read, 2)
    show("store", figures, as_json=options.json)


def _running(where: Path, options: argparse.Namespace) -> dict[str, Figure]:
    """What a store that is open does."""
    figures: dict[str, Figure] = {}
    for size in (128, 1024):
        bare, stored = append(where, size, 10_000, 4 * options.rounds)
        figures[f"append_{size}_per_second"] = round(stored)
        figures[f"append_{size}_share_of_bare_loop"] = round(stored / bare, 3)
    ahead, touched = pages_ahead(where, 10 << 10, 20_000, 2 * options.rounds + 1)
    figures["append_10240_thread_us"] = round(ahead, 1)
    figures["append_10240_thread_us_without_pages_ahead"] = round(touched, 1)
    for count in (10, 100, 1000):
        figures[f"batch_of_{count}_us_a_message"] = round(batches(where, count, 4 * options.rounds), 2)
    for waiters in (1, 8, 64, 256):
        syncs, rate = group_commit(where, waiters, options.seconds, options.rounds)
        figures[f"fdatasync_{waiters}_per_second"] = round(syncs)
        figures[f"group_commit_{waiters}_per_second"] = round(rate)
        figures[f"group_commit_{waiters}_share_of_syncs"] = round(rate / (syncs * waiters), 3)
    sliced, decoded, queries = read_rate(where, 100_000)
    figures["read_by_offset_per_second"] = round(sliced)
    figures["read_and_decode_per_second"] = round(decoded)
    figures["query_by_key_per_second"] = round(queries)
    return figures


if __name__ == "__main__":
    main()
