"""Looking at a store without changing it, and repairing it."""

import os
import struct
from pathlib import Path

import pytest

from pyromq.store.config import StoreConfig
from pyromq.store.errors import StoreFormatError, StoreLockedError
from pyromq.store.offline.check import Report, check_store
from pyromq.store.offline.repair import SET_ASIDE, Plan, plan_repair, repair
from pyromq.store.save.manifest import FILE_NAME
from tests.unit.store.storage import bodies, crash_copy, log_file, open_store, put
from tests.unit.store.test_damage import check, filled, flip, lose


def config(root: Path) -> StoreConfig:
    """Settings as a tool has them, which does not know the lengths of files; it must know the shape of the index."""
    return StoreConfig(store_path_root_dir=root, max_hash_slot_num=50, max_index_num=400)


def checked(root: Path) -> Report:
    """A check, which changes nothing."""
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    report = check_store(config(root))
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
    return report


def repaired(root: Path, *, accept_loss: bool = False) -> Plan:
    plan = plan_repair(config(root))
    repair(config(root), plan, accept_loss=accept_loss)
    return plan


def overwrite(path: Path, at: int, data: bytes) -> None:
    whole = bytearray(path.read_bytes())
    whole[at : at + len(data)] = data
    path.write_bytes(whole)


def test_a_sound_store(tmp_path: Path) -> None:
    places = filled(tmp_path)
    seen: list[tuple[str, int, int]] = []
    report = check_store(config(tmp_path), lambda *each: seen.append(each))
    assert report.sound, report.findings
    assert (report.state, report.records, report.entries, report.queues) == ("stopped", 60, 60, 4)
    assert (report.index_files, report.keys, report.pending) == (1, 60, 0)
    assert report.log_end == places[-1].offset + places[-1].size
    assert {what for what, done, total in seen if done == total} == {"log", "queues", "index"}


def test_a_store_that_is_open(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for n in range(40):
        put(store, body=b"%d" % n, properties={"KEYS": f"k{n}"})
    report = check_store(config(tmp_path))
    assert report.sound, report.findings
    assert (report.state, report.records) == ("running", 40)
    with pytest.raises(StoreLockedError, match="stop the broker"):
        plan_repair(config(tmp_path))
    store.close()


def test_a_copy_of_a_store_that_was_killed(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a")
    for n in range(20):
        put(store, body=b"%d" % n, properties={"KEYS": f"k{n}"})
    store._upkeep.save()
    for n in range(20):
        put(store, body=b"%d" % n)
    root = crash_copy(store, tmp_path / "b")
    store.close()
    report = checked(root)
    assert report.sound, report.findings
    assert (report.state, report.records, report.entries) == ("killed", 40, 20)


def test_topics_that_were_deleted_are_no_damage(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for _ in range(5):
        put(store, "gone")
        put(store, "anew")
    store.delete_topic("gone")
    store.delete_topic("anew")
    put(store, "anew")
    store.close()
    report = checked(tmp_path)
    assert report.sound, report.findings


@pytest.mark.parametrize("at", [0, 4, 8, 20, 28, 84, 89, 100])
def test_damage_in_the_log_is_found(tmp_path: Path, at: int) -> None:
    places = filled(tmp_path)
    victim = next(each for each in places[5:] if len(each.body) > 30)
    flip(tmp_path, victim.offset + at, 0x40)
    report = checked(tmp_path)
    assert not report.sound
    if at != 20:  # the number in the queue, of which no checksum knows
        assert [each.begin for each in report.damaged] == [victim.offset]
    else:
        assert "queue" in report.counts


@pytest.mark.parametrize("at", [0, 7, 9, 11, 19])
def test_damage_in_a_queue_is_found_and_repaired(tmp_path: Path, at: int) -> None:
    places = filled(tmp_path)
    path = tmp_path / "consumequeue" / "orders" / "0" / f"{0:020d}"
    overwrite(path, 3 * 20 + at, bytes([path.read_bytes()[3 * 20 + at] ^ 0x10]))
    report = checked(tmp_path)
    assert report.counts["queue"] >= 1
    assert all(each.place == "orders 0" for each in report.findings if each.kind == "queue")
    assert len(repaired(tmp_path).steps) == 1
    after = checked(tmp_path)
    assert after.sound, after.findings
    store = open_store(tmp_path)
    check(store, places, set())
    store.close()
    assert list((tmp_path / SET_ASIDE).glob("*/consumequeue/orders/0/*"))


def test_damage_in_the_index_is_found_and_repaired(tmp_path: Path) -> None:
    filled(tmp_path)
    path = next((tmp_path / "index").iterdir())
    first = 40 + 50 * 4 + 20
    overwrite(path, first + 5 * 20, struct.pack(">i", 12345))
    report = checked(tmp_path)
    assert report.counts == {"index": 1}
    repaired(tmp_path)
    assert checked(tmp_path).sound


def test_an_index_that_lacks_keys(tmp_path: Path) -> None:
    filled(tmp_path)
    lose(tmp_path, "index")
    assert checked(tmp_path).counts == {"index": 1}
    repaired(tmp_path)
    assert checked(tmp_path).sound


def test_queues_that_are_missing(tmp_path: Path) -> None:
    filled(tmp_path)
    lose(tmp_path, "consumequeue/bills")
    assert "queue" in checked(tmp_path).counts


def test_a_manifest_that_cannot_be_read(tmp_path: Path) -> None:
    filled(tmp_path)
    overwrite(tmp_path / FILE_NAME, 12, b"?")
    assert checked(tmp_path).counts == {"state": 1}


def test_a_middle_file_of_the_log_is_missing(tmp_path: Path) -> None:
    places = filled(tmp_path)
    log_file(tmp_path, 4096).unlink()
    with pytest.raises(StoreFormatError, match="is missing"):
        open_store(tmp_path)
    with pytest.raises(StoreFormatError, match="is missing"):
        check_store(config(tmp_path))
    plan = repaired(tmp_path)
    assert [step.loses for step in plan.steps] == [""]
    store = open_store(tmp_path)
    check(store, places, {each.offset for each in places if 4096 <= each.offset < 8192})
    store.close()


def test_a_file_of_the_log_is_cut(tmp_path: Path) -> None:
    places = filled(tmp_path)
    os.truncate(log_file(tmp_path), 2000)
    repaired(tmp_path)
    store = open_store(tmp_path)
    check(store, places, {each.offset for each in places if each.offset < 4096 and each.offset + each.size > 2000})
    store.close()


def test_an_end_that_cannot_be_read_is_cut_only_when_that_is_accepted(tmp_path: Path) -> None:
    places = filled(tmp_path)
    for place in places[-2:]:
        flip(tmp_path, place.offset + 4, 0xFF)
    before = log_file(tmp_path, 8192).read_bytes()
    plan = plan_repair(config(tmp_path))
    assert plan.cut is not None
    lost = places[-2].size + places[-1].size
    assert plan.cut.loses.startswith(f"{lost} bytes")
    repair(config(tmp_path), plan, accept_loss=False)
    assert log_file(tmp_path, 8192).read_bytes() == before
    done = repair(config(tmp_path), plan, accept_loss=True)
    assert done == [plan.cut]
    store = open_store(tmp_path)
    assert store.max_physical_offset == places[-2].offset
    check(store, places[:-2], set())
    for place in places[-2:]:
        assert store.max_offset(place.topic, place.queue_id) >= place.queue_offset + 1, "numbers are not given twice"
    store.close()
    aside = next((tmp_path / SET_ASIDE).glob("*/commitlog/*"))
    assert aside.read_bytes() == before[places[-2].offset - 8192 :][:lost]
    assert checked(tmp_path).sound


def test_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreFormatError, match="is no store"):
        check_store(config(tmp_path))


def test_damage_in_the_middle_needs_no_repair(tmp_path: Path) -> None:
    places = filled(tmp_path)
    flip(tmp_path, places[20].offset + 4, 0xFF)
    lose(tmp_path, "consumequeue")
    open_store(tmp_path).close()
    report = checked(tmp_path)
    assert report.counts == {"log": 1}
    assert repaired(tmp_path).steps == []
    store = open_store(tmp_path)
    assert len(bodies(store)) == sum(each[:2] == ("orders", 0) for each in places if each is not places[20])
    store.close()


def test_a_topic_that_became_no_name_of_a_folder(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    result = put(store, body=b"")
    put(store)
    store.close()
    (tmp_path / FILE_NAME).unlink()
    overwrite(log_file(tmp_path), result.physical_offset + 89, b"\0")
    report = checked(tmp_path)
    assert report.records == 2
    assert "is missing" in report.findings[0].fault
