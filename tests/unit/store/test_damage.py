"""Rotten bytes in a store: what is not damaged stays readable under its own offset, and nothing is cut or zeroed."""

import os
import random
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from pyromq.protocol.records.queueentry import ENTRY_SIZE
from pyromq.protocol.records.record import peek_record
from pyromq.store.config import BrokerRole, FlushDiskType
from pyromq.store.errors import DiskFullError, StoreFormatError
from pyromq.store.flags import Flag
from pyromq.store.log.put import PutStatus
from pyromq.store.log.resync import next_record
from pyromq.store.messagestore import MessageStore
from pyromq.store.queue.consumequeue import ConsumeQueue
from pyromq.store.save.manifest import FILE_NAME, Manifest
from tests.unit.store.storage import Clock, bodies, crash_copy, log_file, message, open_store, put

TOPICS = ("orders", "bills")
QUEUES = 2


class Place(NamedTuple):
    """A message and where its record lies."""

    topic: str
    queue_id: int
    queue_offset: int
    offset: int
    size: int
    body: bytes


def filled(root: Path, count: int = 60, seed: int = 1) -> list[Place]:
    """A store that was stopped in order, with three log files, and what is in it."""
    rng = random.Random(seed)
    clock = Clock()
    store = open_store(root, clock)
    places = []
    for n in range(count):
        clock.now += 1000
        topic, queue_id = rng.choice(TOPICS), rng.randrange(QUEUES)
        body = b"%d:" % n + rng.randbytes(rng.choice((0, 30, 200)))
        result = put(store, topic, queue_id, body, {"KEYS": f"k{n}", "TAGS": "t"})
        places.append(Place(topic, queue_id, result.queue_offset, result.physical_offset, result.size, body))
    store.tick()
    store.close()
    assert len(list((root / "commitlog").iterdir())) >= 3
    return places


def flip(root: Path, offset: int, mask: int = 1) -> None:
    path = log_file(root, offset - offset % 4096)
    data = bytearray(path.read_bytes())
    data[offset % 4096] ^= mask
    path.write_bytes(data)


def lose(root: Path, what: str) -> None:
    victim = root / what
    if not what:
        return
    if victim.is_dir():
        shutil.rmtree(victim)
    else:
        victim.unlink()


def log_of(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (root / "commitlog").iterdir()}


def check(store: MessageStore, places: list[Place], damaged: set[int]) -> None:
    """Every message whose record is not damaged is read from its queue under its own offset."""
    for place in places:
        if place.offset in damaged:
            continue
        result = store.get(place.topic, place.queue_id, place.queue_offset, 1)
        found = [(each.queue_offset, each.body) for each in result.messages()]
        assert found == [(place.queue_offset, place.body)], f"{place}: {result.status}"


LOSSES = ("", "index", "consumequeue", FILE_NAME, "checkpoint", "consumequeue/orders/0")


@pytest.mark.parametrize("lost", LOSSES)
def test_a_rotten_byte_in_a_body_destroys_nothing_behind_it(
    tmp_path: Path, lost: str, caplog: pytest.LogCaptureFixture
) -> None:
    places = filled(tmp_path)
    victim = next(each for each in places if len(each.body) > 30)
    flip(tmp_path, victim.offset + 95)
    lose(tmp_path, lost)
    before = log_of(tmp_path)
    store = open_store(tmp_path)
    check(store, places, {victim.offset})
    if lost == "consumequeue":
        assert [(each.begin, each.end, each.topic) for each in store.damage.stretches] == [
            (victim.offset, victim.offset + victim.size, victim.topic)
        ]
        assert f"damaged from {victim.offset} to" in caplog.text
    number = max(each.queue_offset for each in places if each[:2] == ("orders", 0)) + 1
    assert put(store, body=b"more").queue_offset == number
    store.close()
    end = places[-1].offset + places[-1].size
    for name, data in before.items():
        stop = max(0, min(4096, end - int(name)))
        assert log_file(tmp_path, int(name)).read_bytes()[:stop] == data[:stop]


def test_damage_stays_known_over_a_restart(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    places = filled(tmp_path)
    flip(tmp_path, places[20].offset + 5)
    lose(tmp_path, "consumequeue")
    open_store(tmp_path).close()
    caplog.clear()
    store = open_store(tmp_path)
    assert [each.begin for each in store.damage.stretches] == [places[20].offset]
    assert "is damaged" not in caplog.text, "told once"
    store.close()


@pytest.mark.parametrize("lost", LOSSES)
def test_flips_anywhere_in_the_log(tmp_path: Path, lost: str, long_run: bool) -> None:
    forced = os.environ.get("PYROMQ_SEED")
    base = random.SystemRandom().randrange(1 << 32)
    places = filled(tmp_path / "sound")
    for seed in [int(forced)] if forced else range(base, base + (300 if long_run else 15)):
        rng = random.Random(seed)
        root = tmp_path / str(seed)
        shutil.copytree(tmp_path / "sound", root)
        damaged = set()
        for _ in range(rng.randint(1, 3)):
            victim = rng.choice(places)
            damaged.add(victim.offset)
            for _ in range(rng.choice((1, 1, 8))):
                flip(root, victim.offset + rng.randrange(victim.size), rng.randrange(1, 256))
        lose(root, lost)
        before = log_of(root)
        try:
            store = open_store(root)
            check(store, places, damaged)
            store.close()
            assert log_of(root) == before
        except BaseException:
            print(f"PYROMQ_SEED={seed}")  # noqa: T201 - to repeat the case
            raise
        shutil.rmtree(root)


def test_the_last_record_is_damaged(tmp_path: Path) -> None:
    places = filled(tmp_path)
    last = places[-1]
    flip(tmp_path, last.offset + 90)
    lose(tmp_path, "consumequeue")
    before = log_of(tmp_path)
    store = open_store(tmp_path)
    check(store, places, {last.offset})
    assert store.max_physical_offset == last.offset + last.size
    assert store.max_offset(last.topic, last.queue_id) == last.queue_offset + 1
    store.close()
    assert log_of(tmp_path) == before


def test_only_the_time_of_the_checkpoint_vouches_for_the_end(tmp_path: Path) -> None:
    places = filled(tmp_path)
    last = places[-1]
    flip(tmp_path, last.offset + 90)
    lose(tmp_path, "consumequeue")
    lose(tmp_path, FILE_NAME)
    store = open_store(tmp_path)
    check(store, places, {last.offset})
    assert store.max_physical_offset == last.offset + last.size
    store.close()


def test_a_lost_page_in_the_unsynced_tail_takes_nothing_behind_it(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a")
    results = [put(store, body=b"%d" % n + b"x" * 200) for n in range(12)]
    root = crash_copy(store, tmp_path / "b")
    store.close()
    data = bytearray(log_file(root).read_bytes())
    data[results[3].physical_offset - 40 : results[5].physical_offset + 10] = bytes(40 + 10 + 2 * results[0].size)
    log_file(root).write_bytes(data)
    again = open_store(root)
    found = {each.queue_offset for n in range(12) for each in again.get("orders", 0, n, 1).messages()}
    assert found == {0, 1, *range(6, 12)}
    assert put(again).queue_offset == 12
    again.close()


def test_a_torn_end_is_still_cut(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a")
    for n in range(4):
        last = put(store, body=b"%d" % n + b"x" * 200)
    root = crash_copy(store, tmp_path / "b")
    store.close()
    flip(root, last.physical_offset + 100)
    again = open_store(root)
    assert again.max_physical_offset == last.physical_offset
    assert len(again.damage) == 0
    assert put(again, body=b"next").queue_offset == 3
    again.close()


def test_an_end_that_was_saved_is_never_cut(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a")
    results = [put(store, body=b"%d" % n + b"x" * 200) for n in range(4)]
    store._upkeep.save()
    root = crash_copy(store, tmp_path / "b")
    store.close()
    for result in results[2:]:
        flip(root, result.physical_offset + 5)
    before = log_of(root)
    lose(root, "consumequeue")
    again = open_store(root)
    assert again.max_physical_offset == results[-1].end
    assert put(again, body=b"next").queue_offset == 4
    assert again.damage.bytes == 2 * results[0].size
    again.close()
    assert log_of(root)[f"{0:020d}"][: results[-1].end] == before[f"{0:020d}"][: results[-1].end]


def test_a_log_of_which_nothing_can_be_read_is_refused(tmp_path: Path) -> None:
    places = filled(tmp_path)
    for place in places:
        flip(tmp_path, place.offset + 5)
    before = log_of(tmp_path)
    with pytest.raises(StoreFormatError, match="no message that can be read"):
        open_store(tmp_path)
    assert log_of(tmp_path) == before
    assert not (tmp_path / "abort").exists()


def test_a_slave_steps_over_damage_that_its_master_sent(tmp_path: Path) -> None:
    places = filled(tmp_path / "master")
    flip(tmp_path / "master", places[10].offset + 5)
    slave = open_store(tmp_path / "slave", broker_role=BrokerRole.SLAVE)
    data = b"".join(log_of(tmp_path / "master")[name] for name in sorted(log_of(tmp_path / "master")))
    end = places[-1].offset + places[-1].size
    rng = random.Random(7)
    at = 0
    while at < end:
        step = min(rng.randint(1, 300), end - at)
        slave.replica.append(at, data[at : at + step])
        at += step
    check(slave, places, {places[10].offset})
    assert [each.begin for each in slave.damage.stretches] == [places[10].offset]
    slave.close()


def test_a_slave_that_cut_its_log_on_purpose_does_not_get_it_back(tmp_path: Path) -> None:
    places = filled(tmp_path / "a")
    store = open_store(tmp_path / "a", broker_role=BrokerRole.SLAVE)
    store.replica.truncate(places[30].offset)
    root = crash_copy(store, tmp_path / "b")
    store.close()
    again = open_store(root)
    assert again.max_physical_offset == places[30].offset
    assert len(again.damage) == 0
    check(again, places[:30], set())
    again.close()


def test_a_copy_of_a_record_in_a_body_is_not_taken_for_one(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    first = put(store, body=b"first")
    record = bytes(store.lookup.record_at(first.physical_offset) or b"")
    assert peek_record(record, 0).topic == "orders"
    second = put(store, body=b"<" + record + b">")
    third = put(store, body=b"third")
    store.flush()
    assert next_record(store.commit_log.files, second.physical_offset + 1) == third.physical_offset
    store.close()


def test_queues_with_more_holes_than_a_file_has_entries(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    results = [put(store, body=b"%d" % n) for n in range(200)]
    store.close()
    for result in results[40:160]:
        flip(tmp_path, result.physical_offset + 4, 0xFF)
    lose(tmp_path, "consumequeue")
    again = open_store(tmp_path)
    assert bodies(again) == [b"%d" % n for n in (*range(40), *range(160, 200))]
    again.close()


@pytest.mark.parametrize("full_at", [30, 160])  # at an entry before the hole, or while the hole is filled
@pytest.mark.parametrize("flush", list(FlushDiskType))
def test_a_full_disk_while_offsets_of_lost_messages_are_reserved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full_at: int, flush: FlushDiskType
) -> None:
    clock = Clock()
    store = open_store(tmp_path, clock)
    results = [put(store, body=b"%d" % n) for n in range(200)]
    put(store, "bills")
    store.close()
    for result in results[40:160]:
        flip(tmp_path, result.physical_offset + 4, 0xFF)
    lose(tmp_path, "consumequeue")
    append, extend = ConsumeQueue.append, ConsumeQueue.extend

    def append_below(queue: ConsumeQueue, queue_offset: int, *rest: int) -> bool:
        if queue_offset >= full_at:
            raise DiskFullError("no space left")
        return append(queue, queue_offset, *rest)

    def extend_below(queue: ConsumeQueue, queue_offset: int, entries: bytes, *places: int) -> bool:
        if queue_offset + len(entries) // ENTRY_SIZE > full_at:
            raise DiskFullError("no space left")
        return extend(queue, queue_offset, entries, *places)

    def no_space(*_: object) -> None:
        raise DiskFullError("no space left")

    monkeypatch.setattr("pyromq.store.queue.files.write_at", no_space)
    monkeypatch.setattr(ConsumeQueue, "append", append_below)
    monkeypatch.setattr(ConsumeQueue, "extend", extend_below)
    again = open_store(tmp_path, clock, flush_disk_type=flush)
    for _ in range(2):
        assert again.flags.has(Flag.LOGIC_DISK_FULL)
        assert again.max_offset("orders", 0) == min(full_at, 40)
        assert again.put(message()).status is PutStatus.SERVICE_NOT_AVAILABLE
        clock.now += 2_000
        again.tick()
    monkeypatch.undo()
    clock.now += 2_000
    again.tick()
    kept = [n for n in range(200) if not 40 <= n < 160]
    queue = again.queues.get_or_create("orders", 0)
    assert [queue.entry(n)[:2] for n in kept] == [(results[n].physical_offset, results[n].size) for n in kept]  # type: ignore[index]
    assert bodies(again) == [b"%d" % n for n in kept]
    assert bodies(again, "bills") == [b"hello"]
    assert put(again).queue_offset == 200
    assert put(again, "bills").queue_offset == 1
    again.close()


def test_consumers_step_over_the_hole(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    results = [put(store, body=b"%d" % n) for n in range(10)]
    store.close()
    flip(tmp_path, results[4].physical_offset + 4, 0xFF)
    lose(tmp_path, "consumequeue")
    again = open_store(tmp_path)
    assert bodies(again) == [b"%d" % n for n in range(10) if n != 4]
    again.close()


def test_known_damage_leaves_with_the_log(tmp_path: Path) -> None:
    places = filled(tmp_path)
    flip(tmp_path, places[0].offset + 5)
    lose(tmp_path, "consumequeue")
    store = open_store(tmp_path)
    assert len(store.damage) == 1
    store.commit_log.files.drop_first()
    store._upkeep.save()
    assert len(store.damage) == 0
    manifest = Manifest.read(tmp_path)
    assert manifest is not None
    assert manifest.damaged == []
    store.close()
