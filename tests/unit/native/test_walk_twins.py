"""The core walks over a log as Python does, whatever is in it; a store is made whole by both in the same way."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyromq import native
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.queueentry import ENTRY
from pyromq.store.errors import StoreFormatError
from pyromq.store.index.keyhash import HASHED, KeyHasher
from pyromq.store.log.plainrecord import MIN_SIZE, are_plain, pass_plain
from pyromq.store.log.put import PutMessage
from pyromq.store.log.span import gather_plain
from pyromq.store.log.walk import LogRecord, Walker
from pyromq.store.offline.check import check_store
from tests.unit.native import samples
from tests.unit.native.twins import agree, needs_core
from tests.unit.store.storage import START, open_store, small_config

pytestmark = needs_core

KINDS = ("commitlog", "consumequeue", "index")


def hashed(gathered: Any) -> Any:
    """The result with its keys as the index has them, which Python leaves to the index."""
    *rest, keys = gathered
    if isinstance(keys, bytes):
        return gathered
    hasher = KeyHasher()
    return (*rest, b"".join(HASHED.pack(hasher.key(topic, key), place, time) for topic, key, place, time in keys))


@given(
    log=samples.damaged(samples.LOGS),
    at=st.sampled_from([0, 0, 0, 1]),
    short=st.sampled_from([0, 0, 1, 40]),
    start=st.sampled_from([0, 0, 4096]),
    verify_crc=st.booleans(),
    most=st.sampled_from([1, 2, 8192]),
)
def test_records_are_gathered_alike(
    log: bytes, at: int, short: int, start: int, verify_crc: bool, most: int
) -> None:  # fmt: skip
    agree(gather_plain, log, at, max(len(log) - short, 0), start, verify_crc, most, plain=hashed)


@given(log=samples.damaged(samples.LOGS), data=st.data(), verify_crc=st.booleans())
def test_records_are_checked_alike(log: bytes, data: st.DataObject, verify_crc: bool) -> None:
    largest = data.draw(st.sampled_from([100, 1 << 20]))
    agree(pass_plain, memoryview(log), 0, len(log), 0, largest)
    sizes = data.draw(st.sampled_from([[len(log)], *cuts(log)])) if len(log) >= MIN_SIZE else []
    places = [sum(sizes[:n]) for n in range(len(sizes))]
    number = data.draw(st.sampled_from([0, *numbers(log)]))
    agree(are_plain, memoryview(log), places, sizes, number, verify_crc)


def cuts(log: bytes) -> Iterator[list[int]]:
    """Sizes of the records that seem to be there: of the first, of two …"""
    sizes: list[int] = []
    at = 0
    while at + MIN_SIZE <= len(log):
        size = int.from_bytes(log[at : at + 4])
        if not MIN_SIZE <= size <= len(log) - at:
            return
        sizes.append(size)
        yield list(sizes)
        at += size


def numbers(log: bytes) -> list[int]:
    return [int.from_bytes(log[20:28], signed=True)] if len(log) >= MIN_SIZE else []


MESSAGES = st.builds(
    PutMessage,
    topic=st.sampled_from(["orders", "orders", "bills", "größe", "SCHEDULE_TOPIC_XXXX", "x" * 128]),
    queue_id=st.integers(0, 1),
    body=st.binary(max_size=50),
    properties=st.one_of(samples.PROPERTY_TEXTS, st.just(b"DELAY\x013\x02TAGS\x01a\x02")),
    sys_flag=st.sampled_from([0, 0, 0, sysflag.COMMIT, sysflag.PREPARED, sysflag.ROLLBACK]),
    born_host=st.sampled_from([bytes(8), bytes(8), bytes(20)]),
)
LOSSES = st.lists(
    st.one_of(
        st.sampled_from(["abort", "consumequeue", "consumequeue/orders", "index", "pyromq.manifest", "checkpoint"]),
        st.tuples(st.sampled_from(["flip", "cut", "zero"]), st.floats(0, 1), st.integers(1, 255)),
    ),
    max_size=5,
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(messages=st.lists(MESSAGES, max_size=25), losses=LOSSES, kept=st.integers(0, 20))
def test_a_store_is_made_whole_alike(
    tmp_path_factory: pytest.TempPathFactory, messages: list[PutMessage], losses: list[Any], kept: int
) -> None:
    folder = tmp_path_factory.mktemp("stores")
    write(folder / "found", messages, kept)
    for loss in losses:
        lose(folder / "found", loss)
    found = {}
    for way in ("core", "python", "one by one"):
        shutil.copytree(folder / "found", folder / way)
        with pytest.MonkeyPatch.context() as patch:
            if way != "core":
                patch.setattr(native.core, "on", False)
            if way == "one by one":
                patch.setattr(Walker, "spans", Walker.__iter__)
            found[way] = opened(folder / way), checked(folder / "found")
    assert found["core"] == found["python"] == found["one by one"]


def checked(root: Path) -> object:
    """What `pyromq store check` says of a store."""
    config = small_config(root, mapped_file_size_commit_log=2048, max_index_num=30, max_hash_slot_num=7)
    try:
        return check_store(config)
    except StoreFormatError as error:
        return str(error)


def write(root: Path, messages: list[PutMessage], kept: int) -> None:
    """A store; queues and index of the first messages are on disk, those of the rest may be."""
    store = open_store(root, mapped_file_size_commit_log=2048, max_index_num=30, max_hash_slot_num=7)
    for number, message in enumerate(messages):
        store.put(message)
        if number == kept:
            store.flush()
            store.tick()
    store.close()


def lose(root: Path, loss: Any) -> None:
    """What a crash or a bad disk does."""
    if loss == "abort":
        (root / "abort").touch()
    elif isinstance(loss, str):
        shutil.rmtree(root / loss, ignore_errors=True) if (root / loss).is_dir() else (root / loss).unlink(True)
    else:
        kind, where, value = loss
        path = sorted((root / "commitlog").iterdir())[-1:]
        for file in path:
            data = bytearray(file.read_bytes())
            used = len(data.rstrip(b"\0"))
            at = min(int(where * (used + 10)), len(data) - 1)
            if kind == "flip":
                data[at] ^= value
            elif kind == "zero":
                data[at : at + value] = bytes(len(data[at : at + value]))
            else:
                data[at:] = bytes(len(data) - at)
            file.write_bytes(data)


def opened(root: Path) -> object:
    """What recovery makes of a store: its files, what is damaged, what queues and index have."""
    try:
        store = open_store(root, mapped_file_size_commit_log=2048, max_index_num=30, max_hash_slot_num=7)
    except StoreFormatError as error:
        return str(error).replace(str(root), "")
    queues = {
        (queue.topic, queue.queue_id): (
            queue.min_offset,
            queue.max_offset,
            [ENTRY.unpack(entry) for n in range(queue.min_offset, queue.max_offset) if (entry := queue.entries(n, 1))],
        )
        for queue in store.queues
    }
    index = store.index
    assert index is not None
    hits = [index.query(topic, key, 99, 0, START * 2) for topic in ("orders", "bills") for key in ("a", "b", "1", "ab")]
    state = store.max_physical_offset, index.max_physical_offset, store.damage.stretches, hits
    store.close()
    return queues, state, contents(root)


def contents(root: Path) -> list[tuple[str, bytes]]:
    """All files of log, queues and index; those of the index without their names, which are times."""
    files = [path for kind in KINDS for path in sorted((root / kind).rglob("*")) if path.is_file()]
    return [
        (path.parent.name if path.parent.name == "index" else str(path.relative_to(root)), path.read_bytes())
        for path in files
    ]


def test_a_span_ends_where_something_else_begins(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    kinds = [0, 0, sysflag.COMMIT, sysflag.PREPARED, 0, sysflag.ROLLBACK]
    for kind in kinds:
        store.put(PutMessage("orders", 0, b"x", sys_flag=kind))
    found = [
        "record" if isinstance(each, LogRecord) else each.count
        for each in Walker(store.commit_log.files, 0, verify_crc=True).spans()
    ]
    assert found == [3, "record", 1, "record"]
    store.close()
