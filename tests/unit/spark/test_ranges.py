"""Several ranges in one pass through the log: every message once, those of a queue in order. # SP-12"""

import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.arrow.columns import COLUMNS
from pyromq.arrow.errors import ReadError
from pyromq.arrow.rowshape import RowShape
from pyromq.arrow.rowspec import RowSpec
from pyromq.protocol.records.host import Host, pack_host
from pyromq.protocol.records.queueentry import ENTRY_SIZE
from pyromq.spark.log import ranges as module
from pyromq.spark.log.ranges import covered, range_batches
from pyromq.spark.log.storefiles import StoreFiles
from pyromq.spark.source.offsets import Range
from pyromq.store.log.put import PutMessage
from pyromq.store.queue.consumequeue import FILLER
from tests.unit.store.storage import open_store, put

# Every kind of column: one that only looked into the buffer would change with the next window.
NAMES = tuple(COLUMNS)
SHAPE = RowShape(pa.schema([(name, COLUMNS[name]) for name in NAMES]), RowSpec(NAMES), None)
HOSTS = [pack_host(Host("127.0.0.1", 1)), pack_host(Host("::1", 2))]
KEY = ("topic", "brokerName", "queueId", "queueOffset")


def read(root: Path, *wanted: Range, tags: frozenset[str] | None = None) -> list[dict[str, Any]]:
    """All rows. The batches are kept until the last one is there, as Spark may do."""
    found = list(range_batches(StoreFiles(root), wanted, SHAPE, tags=tags, within=None))
    for batch in found:
        batch.validate(full=True)
    return [row for batch in found for row in batch.to_pylist()]


def queue_file(root: Path, queue_id: int = 0) -> Path:
    return root / "consumequeue" / "orders" / str(queue_id) / f"{0:020d}"


MESSAGES = st.lists(
    st.tuples(
        st.sampled_from(["orders", "bills"]),
        st.integers(0, 2),
        st.sampled_from([b"", b"abc", b"x" * 900]),
        st.sampled_from(["a", "b"]),
        st.sampled_from(HOSTS),
    ),
    min_size=1,
    max_size=120,
)


@settings(max_examples=40, deadline=None)
@given(
    messages=MESSAGES, step=st.integers(1, 9), rows=st.integers(1, 9), size=st.sampled_from([200, 3000]), data=st.data()
)
def test_every_message_once_and_in_order(
    messages: list[tuple[str, int, bytes, str, bytes]], step: int, rows: int, size: int, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        for name, value in {"ENTRIES": step, "FEWEST": step, "ROWS": rows, "BYTES": size}.items():
            patch.setattr(module, name, value)
        store, stored = open_store(Path(folder)), defaultdict[tuple[str, int], list[Any]](list)
        for number, (topic, queue, body, tag, host) in enumerate(messages):
            text = f"TAGS\x01{tag}\x02UNIQ_KEY\x01u{number}\x02".encode()
            result = store.put(PutMessage(topic, queue, b"%d" % number + body, text, born_host=host))
            stored[topic, queue].append((result.physical_offset, f"u{number}", b"%d" % number + body, tag))
        store.close()
        wanted = []
        for (topic, queue), all_of_it in stored.items():
            start = data.draw(st.integers(0, len(all_of_it)))
            wanted.append(Range(topic, "b", queue, start, data.draw(st.integers(start, len(all_of_it)))))
        found, tagged = read(Path(folder), *wanted), read(Path(folder), *wanted, tags=frozenset({"a"}))
    expected = sorted(
        (*stored[each.topic, each.queue][offset], each.topic, "b", each.queue, offset)
        for each in wanted
        for offset in range(each.start, each.end)
    )
    names = ("commitLogOffset", "msgId", "body", "tags", *KEY)
    assert [tuple(row[name] for name in names) for row in found] == expected
    assert [row["properties"] for row in found] == [[("TAGS", row[3]), ("UNIQ_KEY", row[1])] for row in expected]
    assert tagged == [row for row in found if row["tags"] == "a"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Ten messages in each of two queues."""
    store = open_store(tmp_path)
    for number in range(20):
        put(store, "orders", number % 2, b"%d" % number)
    store.close()
    return tmp_path


def change(path: Path, index: int, entry: bytes) -> None:
    data = bytearray(path.read_bytes())
    data[index * ENTRY_SIZE : (index + 1) * ENTRY_SIZE] = entry
    path.write_bytes(data)


def test_ranges_without_messages(root: Path) -> None:
    assert read(root) == []
    assert read(root, Range("orders", "b", 0, 4, 4), Range("orders", "b", 1, 6, 2)) == []
    rows = read(root, Range("orders", "b", 0, 4, 4), Range("orders", "b", 1, 2, 3))
    assert [row["body"] for row in rows] == [b"5"]


def test_fillers_are_no_messages(root: Path) -> None:
    change(queue_file(root), 3, FILLER)
    rows = read(root, Range("orders", "b", 0, 2, 5), Range("orders", "b", 1, 2, 5))
    assert [row["body"] for row in rows] == [b"4", b"5", b"7", b"8", b"9"]


@pytest.mark.parametrize("step", [1, 1000])
def test_entries_that_do_not_ascend_are_damage(root: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    monkeypatch.setattr(module, "ENTRIES", step)
    monkeypatch.setattr(module, "FEWEST", step)
    data = queue_file(root).read_bytes()
    change(queue_file(root), 5, data[:ENTRY_SIZE])
    with pytest.raises(ReadError, match="do not ascend"):
        read(root, Range("orders", "b", 0, 0, 10), Range("orders", "b", 1, 0, 10))


def test_a_range_that_the_files_no_longer_hold_is_not_skipped(root: Path) -> None:
    store = StoreFiles(root)
    assert covered(store, Range("orders", "b", 0, 3, 99), "orders").end == 10
    assert covered(store, Range("orders", "b", 0, 12, 99), "orders").messages == 0
    with pytest.raises(ReadError, match=r"entries 8 to 12 .* not in its files"):
        read(root, Range("orders", "b", 1, 0, 10), Range("orders", "b", 0, 8, 12))
    queue_file(root).unlink()
    with pytest.raises(ReadError, match=r"entries 0 to 10 .* not in its files"):
        read(root, Range("orders", "b", 0, 0, 10))


def test_a_hole_in_a_queue_hides_nothing_before_it(root: Path) -> None:
    for index in range(4, 8):
        change(queue_file(root), index, FILLER)
    store = StoreFiles(root)
    assert store.bounds(store.queue("orders", 0)) == (0, 10)
    for index in range(4):
        change(queue_file(root), index, FILLER)
    assert store.bounds(store.queue("orders", 0)) == (8, 10)
    assert store.bounds(store.queue("orders", 7)) == (0, 0)
