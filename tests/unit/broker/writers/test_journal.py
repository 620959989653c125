"""Writers in the log of a real store: whatever happens to the process, the log says who they are and how far they came.

Files of the log have 4 kB, so that a few messages fill one.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from pyromq.broker.errors import Refused
from pyromq.broker.writers import journal as module
from pyromq.broker.writers.journal import DECISIONS, TABLES, TOPIC
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.handles.writer import PLACE, WRITER, Place
from pyromq.store.flags import Flag
from tests.unit.broker.writers.keeping import Kept
from tests.unit.store.storage import Clock, open_store, put


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    clock = Clock()
    store = open_store(tmp_path / "store", clock)
    yield Kept(store, clock)
    store.close()


def at_work(kept: Kept) -> int:
    """Two lanes, of which the second was taken over, messages in two queues, and a writer that is closed again."""
    put(kept.store)
    run = kept.begin()
    kept.open(run, lane=0, attempt=1)
    kept.open(run, lane=1, attempt=2)
    for number in range(3):
        kept.write(Place(run, 0, 1, 0, number))
        kept.write(Place(run, 1, 2, 1, number))
        put(kept.store)
    kept.open(run, lane=1, attempt=3)
    kept.write(Place(run, 1, 3, 1, 0))
    kept.begin("done")
    kept.close("done")
    return run


def roll(kept: Kept) -> None:
    """Have the log go on to another file."""
    put(kept.store)
    last = kept.store.commit_log.last
    while kept.store.commit_log.last is last:
        put(kept.store, "filler", body=b"x" * 1000)


def test_a_crash_loses_nothing(kept: Kept, tmp_path: Path) -> None:
    run = at_work(kept)
    known = kept.known()
    assert [*known["job"][2]] == [0, 1]
    assert kept.tables() == 0
    later = kept.after_crash(tmp_path / "crashed")
    assert later.known() == known
    assert later.table.stored("orders", "job", Place(run, 0, 1, 0, 0)) == 3
    assert later.begin("next") > later.table.get("orders", "job").run  # type: ignore[union-attr]  # it is known
    later.store.close()


def test_a_saved_table_is_found_with_what_came_after(kept: Kept, tmp_path: Path) -> None:
    run = at_work(kept)
    kept.journal.save()
    known = kept.known()
    assert kept.again().known() == known
    kept.write(Place(run, 0, 1, 0, 3))
    kept.open(run, lane=2)
    kept.begin("late")
    later = kept.after_crash(tmp_path / "crashed")
    assert later.known() == kept.known() != known
    later.store.close()


def test_a_clean_restart(tmp_path: Path) -> None:
    clock = Clock()
    store = open_store(tmp_path, clock)
    kept = Kept(store, clock)
    at_work(kept)
    known = kept.known()
    kept.journal.save()
    store.close()
    store = open_store(tmp_path, clock)
    assert Kept(store, clock).known() == known
    store.close()


def test_the_table_outlives_the_first_files_of_the_log(kept: Kept, tmp_path: Path) -> None:
    at_work(kept)
    for _ in range(3):
        roll(kept)
        kept.journal.tick()
    known = kept.known()
    kept.store.flush()
    while len(kept.store.commit_log.files) > 1:
        kept.store.commit_log.files.drop_first()
    assert kept.again().known() == known
    later = kept.after_crash(tmp_path / "crashed")
    assert later.known() == known
    later.store.close()


def test_the_table_is_written_again_in_each_file_and_not_more_often(kept: Kept) -> None:
    at_work(kept)
    kept.journal.tick()
    kept.journal.tick()
    assert kept.tables() == 0, "everything is in the first file"
    roll(kept)
    for _ in range(5):
        kept.journal.tick()
    assert kept.tables() == 1
    kept.again().journal.tick()
    assert kept.tables() == 1


def test_the_table_is_written_again_as_the_log_grows(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TABLE_EVERY", 700)
    kept.begin()
    before = kept.tables()
    put(kept.store, body=b"x" * 800)
    kept.journal.tick()
    kept.journal.tick()
    assert kept.tables() == before + 1


def test_without_writers_nothing_is_written(kept: Kept) -> None:
    roll(kept)
    kept.journal.tick()
    kept.journal.save()
    assert not kept.tables()


def test_an_empty_table_ends_what_was_before(kept: Kept) -> None:
    run = at_work(kept)
    kept.close()
    roll(kept)
    kept.journal.tick()
    assert kept.tables() == 1
    assert not kept.again().known()
    roll(kept)
    kept.journal.tick()
    assert kept.tables() == 1, "it is as empty as it was"
    kept.clock.now -= 3_600_000
    assert kept.again().begin() > run, "numbers of runs are remembered without writers"


def test_after_an_empty_table_decisions_count_again(kept: Kept) -> None:
    kept.begin("old")
    kept.close("old")
    kept.journal.save()
    at_work(kept)
    assert kept.again().known() == kept.known()
    assert kept.tables() == 1


@pytest.mark.parametrize("body", [b"", b"{", b'{"part":0,"parts":1,"decisions":0,"writers":[{"topic":1}]}'])
def test_an_illegible_table_is_passed_over(kept: Kept, body: bytes) -> None:
    at_work(kept)
    kept.journal.save()
    put(kept.store, TOPIC, TABLES, body or b"\x00")
    assert kept.again().known() == kept.known()


def damage(kept: Kept, text: bytes, *, by: int = 0) -> None:
    """Change bytes of the log, at or before the last occurrence of a text."""
    file = kept.store.commit_log.last
    assert file is not None
    at = file.raw.rfind(text) - by
    file.raw[at] ^= 1


def test_a_table_that_does_not_match_its_checksum_is_passed_over(kept: Kept) -> None:
    at_work(kept)
    kept.journal.save()
    damage(kept, b'"run":', by=-7)
    assert kept.again().known() == kept.known()


@pytest.mark.parametrize(
    ("text", "by"),
    [
        (b'"attempt":3', -10),  # a decision that looks as good as before
        (b'"attempt":3', 0),  # one that cannot be read
        (b'{"type":"Opened"', 88),  # the record is no record any more, nor what follows it
    ],
)
def test_whoever_cannot_read_all_knows_nobody(kept: Kept, text: bytes, by: int) -> None:
    # Not attempt 2, from which 3 took over.
    run = at_work(kept)
    damage(kept, text, by=by)
    again = kept.again()
    assert not again.known()
    assert again.begin() > run
    assert again.again().known() == again.known()


def test_a_table_of_which_the_end_is_missing_is_passed_over(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PART", 400)
    at_work(kept)
    kept.journal.save()
    parts = kept.tables()
    assert parts == 2
    assert kept.again().known() == kept.known()
    # Another save that did not get to its end.
    first = kept.store.get(TOPIC, TABLES, 0, 1).messages()[0]
    put(kept.store, TOPIC, TABLES, first.body)
    kept.write(Place(kept.table.latest - 1, 0, 1, 0, 3))
    assert kept.again().known() == kept.known()


def test_parts_are_as_small_as_messages_must_be(tmp_path: Path) -> None:
    clock = Clock()
    store = open_store(tmp_path, clock, max_message_size=1000)
    kept = Kept(store, clock)
    run = kept.begin()
    kept.open(run)
    for queue in range(30):
        kept.write(Place(run, 0, 0, queue))
    for number in range(10):
        kept.begin(f"idle-{number}")
    kept.journal.save()
    assert kept.tables() > 10
    start = store.max_physical_offset
    assert kept.again().known() == kept.known()
    assert store.max_physical_offset == start
    store.close()


def test_copies_of_messages_do_not_count(kept: Kept) -> None:
    # Somebody sends a message again, with all its properties, to whatever queue.
    run = kept.begin()
    kept.open(run)
    kept.write(Place(run, 0, 0, 0, 0))
    known = kept.known()
    kept.write(Place(run, 0, 0, 0, 0), queue=1)
    put(kept.store, "orders", 0, properties={WRITER: "job", PLACE: str(Place(run, 0, 0, 0, 0))})
    put(kept.store, "elsewhere", 0, properties={WRITER: "job", PLACE: str(Place(run, 0, 0, 0, 1))})
    put(kept.store, "orders", 0, properties={WRITER: "job", PLACE: "nonsense"})
    put(kept.store, "orders", 0, properties={WRITER: "job"})
    assert kept.again().known() == known


def test_what_a_store_refuses_was_not_decided(kept: Kept) -> None:
    run = at_work(kept)
    known = kept.known()
    kept.store.flags.set(Flag.DISK_FULL)
    for act in (kept.begin, partial(kept.open, run, attempt=9), kept.close):
        with pytest.raises(Refused, match="writers cannot be noted") as caught:
            act()
        assert caught.value.code == ResponseCode.SYSTEM_BUSY
        assert kept.known() == known
    kept.journal.save()
    assert not kept.tables()
    kept.store.flags.clear(Flag.DISK_FULL)
    kept.journal.save()
    assert kept.tables() == 1
    assert kept.again().known() == known


def test_decisions_whose_beginning_left_the_log_do_not_hold(kept: Kept) -> None:
    run = kept.begin("gone")
    roll(kept)
    kept.open(run, name="gone")
    kept.write(Place(run, 0, 0), "gone")
    kept.begin("there")
    kept.store.flush()
    kept.store.commit_log.files.drop_first()  # and the queues have not heard of it
    assert [*kept.again().known()] == ["there"]


def test_too_many_lanes_end_the_same_way_after_a_crash(tmp_path: Path) -> None:
    clock = Clock()
    store = open_store(tmp_path, clock)
    kept = Kept(store, clock, max_lanes=2)
    run = kept.begin()
    kept.open(run, lane=0)
    kept.open(run, lane=1)
    with pytest.raises(Refused, match="more than 2 lanes"):
        kept.open(run, lane=2)
    assert not kept.known()
    assert not Kept(store, clock, max_lanes=2).known()
    assert store.max_offset(TOPIC, DECISIONS) == 4
    store.close()
