"""Records by position: the bytes of the log, however they are read."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.arrow.errors import ReadError
from pyromq.arrow.recordlayout import Longs
from pyromq.spark.log import windows as module
from pyromq.spark.log.storefiles import StoreFiles
from pyromq.spark.log.windows import Window, windows

FILE = 20_000
CONTENT = np.random.default_rng(1).bytes(3 * FILE)


def make_store(root: Path) -> StoreFiles:
    """Three log files full of noise."""
    (root / "commitlog").mkdir(parents=True)
    for start in range(0, 3 * FILE, FILE):
        (root / "commitlog" / f"{start:020d}").write_bytes(CONTENT[start : start + FILE])
    return StoreFiles(root)


def longs(*numbers: int) -> Longs:
    return np.array(numbers, np.int64)


def pieces(window: Window, sizes: Longs) -> list[bytes]:
    view = memoryview(window.buffer)
    own = sizes[window.first : window.first + len(window.starts)]
    return [bytes(view[start : start + size]) for start, size in zip(window.starts.tolist(), own.tolist(), strict=True)]


@st.composite
def records(draw: st.DrawFn) -> tuple[Longs, Longs]:
    """Ascending places that never cross a border of files: close to each other, far apart, or both in turn."""
    positions, sizes, end = [], [], 0
    gaps = st.one_of(st.just(0), st.integers(0, 50), st.integers(0, 9_000))
    for gap, size in draw(st.lists(st.tuples(gaps, st.sampled_from([1, 91, 700, 5000])), max_size=40)):
        start = end + gap
        if start // FILE != (start + size - 1) // FILE:
            start = start // FILE * FILE + FILE
        end = start + size
        if end <= 3 * FILE:
            positions.append(start)
            sizes.append(size)
    return longs(*positions), longs(*sizes)


@settings(deadline=None)
@given(records(), st.integers(1, 9), st.sampled_from([1, 800, 6000, 1 << 20]), st.sampled_from([500, 8_000, 1 << 20]))
def test_every_record_is_seen_once_within_the_limits(
    made: tuple[Longs, Longs], rows: int, size: int, span: int
) -> None:
    positions, sizes = made
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SPAN", span)
        store, found, following = make_store(Path(folder)), list[bytes](), 0
        for window in windows(store, positions, sizes, rows=rows, size=size):
            assert window.first == following
            following += len(window.starts)
            part = slice(window.first, following)
            assert 1 <= len(window.starts) <= rows
            assert len(window.starts) == 1 or sizes[part].sum() <= size
            assert len(window.starts) == 1 or positions[part][-1] + sizes[part][-1] - positions[part][0] <= span
            found += pieces(window, sizes)
    wanted = zip(positions.tolist(), sizes.tolist(), strict=True)
    assert found == [CONTENT[start : start + length] for start, length in wanted]


def test_what_is_far_apart_is_not_read_in_between(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    positions, sizes = longs(0, 900, 1800), longs(100, 100, 100)
    (dense,) = windows(store, positions, longs(800, 800, 800), rows=9, size=1 << 20)
    (last,) = windows(store, positions + 2 * FILE, sizes, rows=9, size=1 << 20)
    assert len(dense.buffer) == 2600
    assert len(last.buffer) == 300  # of the last file, which is never mapped, the records only
    (mapped,) = windows(store, positions + 70, sizes, rows=9, size=1 << 20)
    assert pieces(mapped, sizes) == [CONTENT[at : at + 100] for at in (70, 970, 1870)]


def test_places_outside_of_the_log(tmp_path: Path) -> None:
    store = make_store(tmp_path)

    def read(positions: Longs, sizes: Longs) -> list[Window]:
        return list(windows(store, positions, sizes, rows=9, size=1 << 20))

    assert read(longs(), longs()) == []
    with pytest.raises(ReadError, match="nothing at 60000"):
        read(longs(0, 3 * FILE), longs(100, 100))
    with pytest.raises(ReadError, match=r"record at 19950 .* beyond its file"):
        read(longs(0, FILE - 50), longs(100, 100))
    with pytest.raises(ReadError, match=r"record at 10 .* beyond its file"):
        read(longs(10, 300), longs(FILE, 100))
    (tmp_path / "commitlog" / f"{0:020d}").unlink()
    with pytest.raises(ReadError, match="nothing at 0: deleted"):
        read(longs(0), longs(100))


def test_a_last_file_that_is_cut_while_it_is_read(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    positions, sizes = longs(2 * FILE, 2 * FILE + 100, 2 * FILE + 9000), longs(100, 100, 100)
    reading = windows(store, positions, sizes, rows=1, size=1 << 20)
    assert pieces(next(reading), sizes) == [CONTENT[2 * FILE : 2 * FILE + 100]]
    with (tmp_path / "commitlog" / f"{2 * FILE:020d}").open("r+b") as file:
        file.truncate(150)
    # The rest of the space, with bytes of the window before, must not pass for the record.
    assert [bytes(window.buffer) for window in reading] == [CONTENT[2 * FILE + 100 : 2 * FILE + 150], b""]
