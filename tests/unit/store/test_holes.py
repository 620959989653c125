"""Nothing looks into a hole of a file through a mapping.

On a file system in memory that takes a block, and where there is none left it ends the process (SIGBUS). So the blocks
are counted: a look must not add any.
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq.protocol.records.host import Host, pack_host
from pyromq.protocol.records.record import pack_blank, pack_record
from pyromq.store.index.file import IndexFile, Layout
from pyromq.store.log.damage import Damage
from pyromq.store.log.mappedfiles import MappedFiles, file_name
from pyromq.store.log.resync import next_record
from pyromq.store.log.walk import Walker
from pyromq.store.timer.log import NORMAL, TimerLog, TimerUnit
from pyromq.store.timer.wheel import Slot, TimerWheel

MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of its own is made there
PAGE = 4096
SIZE = 16 * PAGE
NOW = 1_700_000_000_000
HOST, V6 = pack_host(Host("10.1.2.3", 4567)), pack_host(Host("fe80::1", 4567))


@pytest.fixture
def folder() -> Iterator[Path]:
    if not MEMORY.is_dir():
        pytest.skip("no file system in memory here")
    with tempfile.TemporaryDirectory(dir=MEMORY) as made:
        yield Path(made)


def blocks(folder: Path) -> int:
    return sum(path.stat().st_blocks for path in folder.rglob("*") if path.is_file())


def record(place: int, size: int, host: bytes = HOST) -> bytes:
    """A record of exactly so many bytes."""
    empty = len(pack_record(b"t", b"", b"", 0, 0, place, NOW, host, NOW, host, 0, 0, 0, 0))
    body = b"x" * (size - empty)
    return pack_record(b"t", body, b"", 0, 0, place, NOW, host, NOW, host, 0, 0, 0, 0)


def log_with(folder: Path, parts: dict[int, bytes]) -> MappedFiles:
    """A log of one file that has only these bytes at their places."""
    with (folder / file_name(0)).open("wb") as file:
        os.ftruncate(file.fileno(), SIZE)
        for place, data in parts.items():
            os.pwrite(file.fileno(), data, place)
    files = MappedFiles(folder, SIZE)
    files.load()
    return files


def walked(files: MappedFiles, folder: Path) -> tuple[list[int], Walker]:
    walker = Walker(files, 0, verify_crc=True, damage=Damage(folder, tell=False))
    return [found.offset for found in walker], walker


@pytest.mark.parametrize("left", [0, 1, 7, 8, 50, 90])
@pytest.mark.parametrize("host", [HOST, V6])
def test_a_walk_to_the_end_of_the_blocks(folder: Path, left: int, host: bytes) -> None:
    files = log_with(folder, {0: record(0, PAGE), PAGE: record(PAGE, PAGE - left, host)})
    before = blocks(folder)
    places, walker = walked(files, folder)
    assert (places, walker.position, walker.fault) == ([0, PAGE], 2 * PAGE - left, None)
    assert blocks(folder) == before
    files.close()


def test_a_search_for_a_record_behind_a_hole(folder: Path) -> None:
    files = log_with(folder, {0: record(0, PAGE), 4 * PAGE + 9: record(4 * PAGE + 9, 200)})
    before = blocks(folder)
    assert next_record(files, 1) == 4 * PAGE + 9
    assert next_record(files, 4 * PAGE + 10) is None
    places, walker = walked(files, folder)
    assert (places, walker.position, walker.skipped) == ([0, 4 * PAGE + 9], 4 * PAGE + 209, 3 * PAGE + 9)
    assert blocks(folder) == before
    files.close()


@pytest.mark.parametrize("kept", [12, 30, 60, 200])
def test_a_record_whose_rest_is_a_hole_is_torn(folder: Path, kept: int) -> None:
    files = log_with(folder, {0: record(0, PAGE - kept), PAGE - kept: record(PAGE - kept, 400)[:kept]})
    before = blocks(folder)
    places, walker = walked(files, folder)
    assert (places, walker.position) == ([0], PAGE - kept)
    assert walker.fault is not None
    assert f"{PAGE - kept}" in walker.fault
    assert next_record(files, 1) is None
    assert blocks(folder) == before
    files.close()


def test_zeros_of_a_record_may_be_a_hole(folder: Path) -> None:
    """A copy made with holes leaves out what is zero: here the body's middle, and the length of no properties."""
    body = b"x" * 10 + bytes(3 * PAGE) + b"y" * (PAGE - 100)
    whole = pack_record(b"t", body, b"", 0, 0, 0, NOW, HOST, NOW, HOST, 0, 0, 0, 0)
    assert len(whole) == 4 * PAGE + 2
    files = log_with(folder, {0: whole[:PAGE], 3 * PAGE: whole[3 * PAGE : 4 * PAGE]})
    places, walker = walked(files, folder)
    assert (places, walker.position) == ([0], 4 * PAGE + 2)
    assert next_record(files, 0) == 0
    files.close()


def test_a_blank_before_a_hole_ends_the_file(folder: Path) -> None:
    files = log_with(folder, {0: record(0, PAGE - 8), PAGE - 8: pack_blank(SIZE - PAGE + 8)})
    before = blocks(folder)
    places, walker = walked(files, folder)
    assert (places, walker.position) == ([0], SIZE)
    assert blocks(folder) == before
    files.close()


def test_slots_of_an_index_that_were_never_written(folder: Path) -> None:
    layout = Layout(slots=100_000, entries=1_000)
    index = IndexFile.create(folder / "20231114221320000", layout, None)
    index.add([70_000], [("t", "k", 4711, NOW)])
    before = blocks(folder)
    index.sync()
    written = blocks(folder)
    assert written - before <= (1 << 16) // 512 + 8, "one piece of slots"
    index.close()
    assert index.find(70_000, 0, 1 << 62, 10) == [4711]
    assert index.find(5, 0, 1 << 62, 10) == []
    index.add([90_000], [("t", "l", 4712, NOW)])
    assert blocks(folder) == written
    index.destroy()


def test_slots_of_a_timer_wheel_that_were_never_written(folder: Path) -> None:
    wheel = TimerWheel(folder / "timerwheel", 1_000)
    wheel.set(NOW, Slot(52, 104, 2))
    wheel.write(wheel.take())
    before = blocks(folder)
    assert wheel.get(NOW) == Slot(52, 104, 2)
    assert wheel.get(NOW + 500_000) is None
    wheel.clear_beyond(104)
    assert wheel.get(NOW) is None
    assert blocks(folder) == before
    wheel.close()


@pytest.mark.parametrize("count", [0, 78, 79, 1024])
def test_units_of_a_timer_log_that_were_never_written(folder: Path, count: int) -> None:
    log = TimerLog(folder, 1 << 20)
    for _ in range(max(count, 1)):
        log.append(TimerUnit(-1, NORMAL, NOW, 5_000, 4711, 200, 1))
    log.close()
    path = folder / file_name(0)
    os.truncate(path, count * 52)  # and longer again, without the blocks that were taken ahead
    os.truncate(path, 1 << 20)
    before = blocks(folder)
    log.load()
    assert log.recover(0, lambda *_: None) == count * 52
    assert blocks(folder) == before
    log.close()
