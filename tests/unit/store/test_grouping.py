"""Putting a group is putting one message after the other: the same files, results and arrivals."""

import tempfile
from collections.abc import Callable, Sequence
from copy import copy
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.protocol.properties import decode_properties, encode_properties
from pyromq.protocol.records import sysflag
from pyromq.store.arrival import Arrival
from pyromq.store.config import FlushDiskType
from pyromq.store.errors import DiskFullError
from pyromq.store.log.put import PutMessage, PutResult, PutStatus
from pyromq.store.messagestore import MessageStore
from tests.unit.store.storage import bodies, message, open_store

HOST_V6 = bytes(16) + b"\x00\x00\x2a\x9f"
PROPERTIES = st.fixed_dictionaries(
    {},
    optional={
        "UNIQ_KEY": st.sampled_from(["u1", "0A00000910E118B4AAC2000000000001"]),
        "TAGS": st.sampled_from(["a", "b", "schlüssel"]),
        "KEYS": st.sampled_from(["k1", "k1 k2"]),
        "DELAY": st.just("3"),
        "INNER_NUM": st.just("2"),
    },
)
MESSAGES = st.builds(
    lambda topic, queue_id, body, properties, sys_flag, host, flag: PutMessage(
        topic, queue_id, body, encode_properties(properties), dict(properties), sys_flag, flag, 5, host
    ),
    st.sampled_from(["orders", "payments", "SCHEDULE_TOPIC_XXXX", "bad/name"]),
    st.integers(0, 2),
    st.sampled_from([b"", b"hello", b"x" * 300, b"x" * 5000]),
    PROPERTIES,
    st.sampled_from([0, 0, 0, sysflag.COMPRESSED, sysflag.PREPARED, sysflag.COMMIT, sysflag.ROLLBACK]),
    st.sampled_from([b"\x7f\x00\x00\x01\x00\x00\x2a\x9f", HOST_V6]),
    st.sampled_from([0, 7, 2**40]),
)
GROUPS = st.lists(st.lists(MESSAGES, min_size=1, max_size=6), min_size=1, max_size=6)


def delay(message: PutMessage) -> None:
    """A hook that sends messages elsewhere."""
    message.topic, message.queue_id = "later", 1


def outcome(
    groups: Sequence[Sequence[PutMessage]],
    flush: FlushDiskType,
    put: Callable[[MessageStore, Sequence[PutMessage]], list[PutResult]],
) -> tuple[object, ...]:
    """Everything one can see of a store after the groups were put."""
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(Path(folder), flush_disk_type=flush)
        arrivals: list[Arrival] = []
        store.add_listener(arrivals.append)
        store.add_hook(delay, ["DELAY"])
        results = [result for group in groups for result in put(store, group)]
        store.flush()
        log = store.commit_log.read(0, 4096)
        queues = {(queue.topic, queue.queue_id): queue.entries(0, 100) for queue in store.queues}
        seen = [(each.topic, each.queue_id, each.queue_offset, each.properties) for each in arrivals]
        found = [bytes(record) for record in store.lookup.by_key("orders", "k1", 64, 0, 2**62).records]
        counters = store.stats.put_count, store.stats.put_bytes, store.stats.put_failed
        facts = (results, bytes(log or b""), queues, sorted(seen, key=repr), found, counters, store.progress.dispatched)
        store.close()
        return facts


@pytest.mark.parametrize("flush", FlushDiskType)
@settings(max_examples=60, deadline=None)
@given(groups=GROUPS)
def test_a_group_is_stored_as_its_messages_one_by_one(flush: FlushDiskType, groups: list[list[PutMessage]]) -> None:
    def copies() -> list[list[PutMessage]]:
        return [[_copy(each) for each in group] for group in groups]

    one_by_one = outcome(copies(), flush, lambda store, group: [store.put(each) for each in group])
    together = outcome(copies(), flush, lambda store, group: store.put_many(group))
    assert together == one_by_one


def _copy(message: PutMessage) -> PutMessage:
    copied = copy(message)
    copied.property_map = decode_properties(message.properties)
    return copied


def plain(number: int) -> PutMessage:
    made = message(body=b"%d" % number, properties={"UNIQ_KEY": f"u{number}"})
    made.property_map = {"UNIQ_KEY": f"u{number}"}
    return made


def test_a_queue_that_cannot_be_written_keeps_the_rest_of_the_group_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path)
    store.put_many([plain(0)])
    queue = store.queues.get("orders", 0)
    assert queue is not None
    append = type(queue).append

    def full(self: object, queue_offset: int, *rest: int) -> bool:
        if queue_offset >= 2:
            raise DiskFullError("no space")
        return append(queue, queue_offset, *rest)

    monkeypatch.setattr(type(queue), "append", full)
    results = store.put_many([plain(1), plain(2), plain(3)])
    assert [result.status for result in results] == [PutStatus.PUT_OK] * 3
    assert bodies(store) == [b"0", b"1"]
    assert store.put_many([plain(4), plain(5)])[0].status is PutStatus.SERVICE_NOT_AVAILABLE
    monkeypatch.undo()
    store._dispatcher.advance(store.max_physical_offset)
    assert bodies(store) == [b"0", b"1", b"2", b"3"]
    assert [result.queue_offset for result in store.put_many([plain(6), plain(7)])] == [4, 5]
    store.close()


def test_no_more_of_a_group_waits_for_the_disk_than_may(tmp_path: Path) -> None:
    store = open_store(tmp_path, flush_disk_type=FlushDiskType.SYNC_FLUSH, max_flush_waiters=3)
    with store._flusher.hold:
        store.put(plain(0))
        results = store.put_many([plain(1), plain(2), plain(3), plain(4)])
    assert [result.stored for result in results] == [True, True, False, False]
    assert results[-1].status is PutStatus.OS_PAGE_CACHE_BUSY
    store.close()
