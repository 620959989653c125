"""A batch placed by the core is the batch placed by Python: the same records, queue entries, keys and ids."""

from pathlib import Path
from struct import pack
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyromq import native
from pyromq.protocol.records.queueentry import ENTRY
from pyromq.store.index.file import link_keys
from pyromq.store.index.keyhash import HASHED, KeyHasher
from pyromq.store.log.encoder import place_batch
from pyromq.store.log.put import PutMessage, PutStatus, message_ids
from tests.unit.native import samples
from tests.unit.native.twins import agree, needs_core
from tests.unit.store.storage import START, open_store

pytestmark = needs_core


def hashed(placed: Any) -> Any:
    """The result with its keys as the index has them, which Python leaves to the index."""
    if not isinstance(placed, tuple) or isinstance(placed[2], bytes):
        return placed
    hasher = KeyHasher()
    keys = [HASHED.pack(hasher.key(topic, key), place, time) for topic, key, place, time in placed[2]]
    return (*placed[:2], b"".join(keys))


def item(flag: int, body: bytes, text: bytes) -> bytes:
    return pack(">5i", 22 + len(body) + len(text), 0, 0, flag, len(body)) + body + pack(">h", len(text)) + text


ODD = st.lists(st.builds(item, samples.INTS, st.binary(max_size=40), samples.PROPERTY_TEXTS), max_size=5).map(b"".join)
"""Batches whose properties nobody would write."""
SHARED = st.sampled_from([bytes(44), bytes(range(56)), b"\xff" * 68])


@given(
    batch=samples.damaged(st.one_of(samples.BATCHES, ODD)),
    view=st.booleans(),
    at=st.sampled_from([0, 7]),
    limit=st.sampled_from([-1, 0, 100, 1000, 1 << 16]),
    topic=samples.TOPICS,
    queue_id=st.sampled_from([0, 3, (1 << 31) - 1]),
    number=st.sampled_from([0, 41, 1 << 40]),
    place=st.sampled_from([0, 1 << 40]),
    shared=SHARED,
    timestamp=samples.LONGS,
)
@example(item(0, b"", b"TAGS\x01\xed\xa0\x80\x02"), False, 0, 1000, "t", 0, 0, 0, bytes(44), 0)
@example(item(0, b"", b"KEYS\x01\xf0\x9f\x98 \xe2\x82 \xc0\x80\x02"), False, 0, 1000, "t", 0, 0, 0, bytes(44), 0)
def test_a_batch_is_placed_alike(
    batch: bytes, view: bool, at: int, limit: int, topic: str, queue_id: int, number: int, place: int, shared: bytes,
    timestamp: int,
) -> None:  # fmt: skip
    body = memoryview(batch) if view else batch
    raw = bytearray(b"\xee" * (1 << 16))
    agree(
        place_batch, raw, at, limit, body, topic.encode(), queue_id, number, place, shared, timestamp, plain=hashed
    )  # fmt: skip


@given(host=st.sampled_from(["7F00000100002A9F", "FE80" * 8, ""]), entries=samples.QUEUE_ENTRIES.filter(bool))
def test_ids_are_written_alike(host: str, entries: bytes) -> None:
    assert agree(message_ids, host, entries).error is None


KEYS = st.lists(
    st.tuples(st.integers(0, (1 << 31) - 1), samples.LONGS, st.one_of(samples.LONGS, st.integers(0, 1 << 33))),
    max_size=30,
).map(lambda keys: b"".join(HASHED.pack(*key) for key in keys))


@given(
    keys=KEYS,
    slots=st.lists(st.integers(0, 60), min_size=1, max_size=11),
    count=st.integers(1, 50),
    begin=st.one_of(st.sampled_from([0, 1, 1000]), samples.LONGS),
)
def test_keys_are_linked_alike(keys: bytes, slots: list[int], count: int, begin: int) -> None:
    results = []
    for function in (link_keys, link_keys.__wrapped__):  # type: ignore[attr-defined]
        table = bytearray(pack(f"={len(slots)}I", *slots))
        results.append((function(keys, memoryview(table), count, begin), bytes(table)))
    assert results[0] == results[1]


@given(batches=st.lists(st.tuples(samples.TOPICS, samples.damaged(st.one_of(samples.BATCHES, ODD))), max_size=6))
def test_a_store_is_the_same_whoever_wrote_it(
    tmp_path_factory: pytest.TempPathFactory, batches: list[tuple[str, bytes]]
) -> None:
    folder = tmp_path_factory.mktemp("stores")
    found = []
    for on in (True, False):
        native.core.on = on
        try:
            found.append(written(folder / str(on), batches))
        finally:
            native.core.on = True
    assert found[0] == found[1]


def written(root: Path, batches: list[tuple[str, bytes]]) -> object:
    """What is answered, heard, and afterwards in the files of a store."""
    store = open_store(root, mapped_file_size_commit_log=1 << 12, max_index_num=30, max_hash_slot_num=7)
    heard: list[object] = []
    store.add_listener(lambda arrival: heard.append((arrival.topic, arrival.queue_offset, arrival.properties)))
    answers = []
    for topic, batch in batches:
        result = store.put_batch(PutMessage(topic, 1, batch, born_timestamp=START))
        answers.append((result.status, result.reason, result.message_id, result.offsets, result.size))
        if result.status is PutStatus.PUT_OK:
            assert [entry[0] for entry in ENTRY.iter_unpack(result.entries)] == list(result.offsets)
    store.close()
    kinds = ("commitlog", "consumequeue", "index")
    files = [path for kind in kinds for path in sorted((root / kind).rglob("*")) if path.is_file()]
    return answers, heard, [(str(path.relative_to(root).parent), path.read_bytes()) for path in files]
