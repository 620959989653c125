"""What the message store costs above the work that cannot be left out, each time measured beside it in the same run.

- append: messages put into a store (record, queue entry and index included), beside a bare loop that packs the same
  bytes with `struct` and copies them into a mapped file;
- group commit: durable messages a second with 1 to 256 of them waiting for the same sync, beside `fdatasync` alone;
- reading by queue offset, and by key;
- recovery: opening a store that was not closed, beside reading its log once and computing its checksum.
"""

import argparse
import mmap
import os
import shutil
import struct
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.report import Figure, best_of, show
from pyromq.protocol.properties import encode_properties
from pyromq.store import FlushDiskType, MessageStore, PutMessage, PutResult, StoreConfig

QUEUES = 8
HOST = bytes((127, 0, 0, 1, 0, 0, 0x2A, 0x9F))
TOPIC = b"TopicTest"
HEAD = struct.Struct(">4i i 2q i q 8s q 8s i q i")
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


def bare_append(file: mmap.mmap, items: list[PutMessage]) -> float:
    """The floor: the fields of each record packed, joined and copied, nothing else."""
    pack, pack_length = HEAD.pack, LENGTH.pack
    position = 0
    begin = time.perf_counter()
    for number, item in enumerate(items):
        body, text = item.body, item.properties
        size = 91 + len(body) + len(TOPIC) + len(text)
        head = pack(size, -626843481, 0, item.queue_id, 0, number, position, 0, 0, HOST, 1, HOST, 0, 0, len(body))
        record = b"".join((head, body, b"\x09", TOPIC, pack_length(len(text)), text))
        file[position : position + size] = record
        position += size
    return time.perf_counter() - begin


def store_append(store: MessageStore, items: list[PutMessage]) -> float:
    """The same messages into the store; what it keeps in memory for queues and index is written out as well."""
    put = store.put
    begin = time.perf_counter()
    for item in items:
        put(item)
    store.queues.prepare_flush(thorough=True)
    if store.index is not None:
        store.index.drain()
    return time.perf_counter() - begin


def append(where: Path, size: int, count: int, rounds: int) -> tuple[float, float]:
    """Appends a second of the bare loop and of the store."""
    items = messages(count, size)
    total = count * (size + 256)
    with folder(where) as root, opened(root / "store") as store, (root / "bare").open("w+b") as file:
        os.posix_fallocate(file.fileno(), 0, total)
        mapped = mmap.mmap(file.fileno(), total)
        bare_append(mapped, items)  # both begin with their pages in memory
        store_append(store, items)
        bare, stored = best_of(rounds, lambda: bare_append(mapped, items), lambda: store_append(store, items))
        mapped.close()
    return count / bare, count / stored


def sync_rate(where: Path, seconds: float) -> float:
    """`fdatasync` calls a second, each after writing one page into a file with blocks of its own."""
    with folder(where) as root, (root / "file").open("w+b") as file:
        os.posix_fallocate(file.fileno(), 0, 64 << 20)
        page, count, begin = os.urandom(4096), 0, time.perf_counter()
        while (elapsed := time.perf_counter() - begin) < seconds:
            os.pwrite(file.fileno(), page, count % 16384 * 4096)
            os.fdatasync(file.fileno())
            count += 1
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


def read_rate(where: Path, count: int) -> tuple[float, float, float]:
    """Messages a second by queue offset, the same decoded, and queries by unique key."""
    items = messages(count, 128)
    with folder(where) as root, opened(root) as store:
        store_append(store, items)

        def read(take: Callable[[int, int], int]) -> float:
            begin, found = time.perf_counter(), 0
            for queue_id in range(QUEUES):
                offset = 0
                while got := take(queue_id, offset):
                    offset += got
                found += offset
            assert found == count
            return count / (time.perf_counter() - begin)

        sliced = read(lambda queue_id, offset: store.get("TopicTest", queue_id, offset, 32).count)
        decoded = read(lambda queue_id, offset: len(store.get("TopicTest", queue_id, offset, 32).messages()))
        keys = [item.property_map["UNIQ_KEY"] for item in items[:: max(count // 2000, 1)] if item.property_map]
        begin = time.perf_counter()
        for key in keys:
            assert len(store.query("TopicTest", key, 32, 0, 1 << 60).records) == 1
        return sliced, decoded, len(keys) / (time.perf_counter() - begin)


def recovery_factor(where: Path, size: int, rounds: int) -> tuple[float, float]:
    """Seconds to open a store of `size` bytes of log that was not closed and has no manifest or checkpoint to go by,
    and to read and checksum its log once.
    """
    items = messages(4096, 1024)
    with folder(where) as root:
        with opened(root / "store") as store:
            while store.max_physical_offset < size:
                for item in items:
                    store.put(item)
        for name in ("pyromq.manifest", "checkpoint"):
            (root / "store" / name).unlink()
        shutil.rmtree(root / "store" / "index")
        shutil.rmtree(root / "store" / "consumequeue")

        def scan() -> float:
            begin, checksum = time.perf_counter(), 0
            for path in sorted((root / "store" / "commitlog").iterdir()):
                with path.open("rb") as file:
                    left = min(size, path.stat().st_size)
                    while left > 0 and (block := file.read(1 << 20)):
                        checksum, left = zlib.crc32(block, checksum), left - len(block)
            return time.perf_counter() - begin

        def recover() -> float:
            (root / "store" / "abort").touch()
            for name in ("index", "consumequeue"):
                shutil.rmtree(root / "store" / name, ignore_errors=True)
            for name in ("pyromq.manifest", "checkpoint"):
                (root / "store" / name).unlink(missing_ok=True)
            begin = time.perf_counter()
            store = MessageStore(config(root / "store", FlushDiskType.ASYNC_FLUSH), disk_usage=lambda _: 0.1)
            store.open()
            elapsed = time.perf_counter() - begin
            assert sum(queue.max_offset for queue in store.queues) * 1000 > size / 2
            store.close()
            return elapsed

        scan()  # into the page cache
        scanned, recovered = best_of(rounds, scan, recover)
        return scanned, recovered


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the message store beside what it cannot do without.")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--rounds", type=int, default=5, help="take the best of this many (default: %(default)s)")
    parser.add_argument("--recovery-mib", type=int, default=1024, help="size of the log (default: %(default)s)")
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="for each group-commit figure (default: %(default)s)"
    )
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where to put the files")
    options = parser.parse_args()
    where: Path = options.folder

    figures: dict[str, Figure] = {}
    for size, count in ((128, 40_000), (1024, 40_000)):
        bare, stored = append(where, size, count, options.rounds)
        figures[f"append_{size}_per_second"] = round(stored)
        figures[f"append_{size}_share_of_bare_loop"] = round(stored / bare, 3)
    syncs = sync_rate(where, options.seconds)
    figures["fdatasync_per_second"] = round(syncs)
    for waiters in (1, 8, 64, 256):
        rate = durable_rate(where, waiters, options.seconds)
        figures[f"group_commit_{waiters}_per_second"] = round(rate)
        figures[f"group_commit_{waiters}_share_of_syncs"] = round(rate / (syncs * waiters), 3)
    sliced, decoded, queries = read_rate(where, 100_000)
    figures["read_by_offset_per_second"] = round(sliced)
    figures["read_and_decode_per_second"] = round(decoded)
    figures["query_by_key_per_second"] = round(queries)
    scanned, recovered = recovery_factor(where, options.recovery_mib << 20, max(options.rounds // 2, 1))
    figures["recovery_mib"] = options.recovery_mib
    figures["recovery_seconds"] = round(recovered, 2)
    figures["recovery_times_reading_once"] = round(recovered / scanned, 2)
    show("store", figures, as_json=options.json)


if __name__ == "__main__":
    main()
