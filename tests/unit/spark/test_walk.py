"""A log walked in chunks and stretches: every record once, wherever the borders fall."""

import itertools
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.arrow.errors import ReadError
from pyromq.protocol.records.host import Host, pack_host
from pyromq.protocol.records.record import BLANK_SIZE, MAGIC_BLANK, pack_record
from pyromq.spark.log import walk
from pyromq.spark.log.storefiles import LogFile
from pyromq.spark.log.walk import walk_file

HOST = pack_host(Host("127.0.0.1", 1))
START = 40_960  # where the file begins in the log
CHUNK = 1024


def record(size: int, offset: int = 0) -> bytes:
    """A record of so many bytes, at least 92."""
    made = pack_record(b"t", b"x" * (size - 92), b"", 0, 0, offset, 5, HOST, 4, HOST)
    assert len(made) == size
    return made


def make_file(path: Path, data: bytes, *, start: int = START) -> LogFile:
    path.write_bytes(data)
    return LogFile(path, start, len(data))


def walked(file: LogFile, begin: int, end: int, *, is_last: bool = False, skip: bool = False) -> list[bytes]:
    """The bytes of all records that a stretch owns."""
    found = []
    for window in walk_file(file, begin, end, is_last=is_last, skip_corrupt=skip):
        view = memoryview(window.buffer)
        for start in window.starts.tolist():
            size = int.from_bytes(view[start : start + 4])
            assert start + size <= len(view)
            found.append(bytes(view[start : start + size]))
    return found


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "CHUNK", CHUNK)
    monkeypatch.setattr(walk, "MAX_RECORD", CHUNK)


# Such that chunks end with a record, a few bytes into the next one, and anywhere else; one is as large as may be.
SIZES = st.lists(st.sampled_from([92, 100, 128, 464, 508, 512, 516, 1016, 1020, 1024]), max_size=30)


@settings(deadline=None)
@given(sizes=SIZES, ending=st.sampled_from(["blank", "nothing", "zeros"]), step=st.integers(200, 5000))
def test_every_record_once(sizes: list[int], ending: str, step: int) -> None:
    records = [record(size, number) for number, size in enumerate(sizes)]
    blank = (600).to_bytes(4) + MAGIC_BLANK.to_bytes(4, signed=True) + bytes(600 - BLANK_SIZE)
    data = b"".join(records) + {"blank": blank, "nothing": b"", "zeros": bytes(600)}[ending]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk, "CHUNK", CHUNK)
        patch.setattr(walk, "MAX_RECORD", CHUNK)
        file, is_last = make_file(Path(folder) / "log", data), ending == "zeros"
        end = START + len(data)
        assert walked(file, START, end, is_last=is_last) == records
        cuts = [*range(START, end, step), end]
        parts = [walked(file, *part, is_last=is_last) for part in itertools.pairwise(cuts)]
    assert [each for part in parts for each in part] == records


@pytest.mark.parametrize("before", [1, 2, 9])
def test_damage_behind_a_border_of_chunks(tmp_path: Path, before: int) -> None:
    records = [record(512, number) for number in range(before + 4)]
    broken = bytearray(records[before])
    broken[4] ^= 0xFF
    file = make_file(tmp_path / "log", b"".join([*records[:before], broken, *records[before + 1 :]]))
    end = START + file.size
    with pytest.raises(ReadError, match=f"no record at {START + before * 512}"):
        walked(file, START, end)
    assert walked(file, START, end, skip=True) == records[:before] + records[before + 1 :]
    assert walked(file, START, end, is_last=True) == records[:before]


def test_a_record_that_is_cut_off_by_the_end_of_the_file(tmp_path: Path) -> None:
    records = [record(500, number) for number in range(5)]
    file = make_file(tmp_path / "log", b"".join(records)[:-10])
    with pytest.raises(ReadError, match="cut off"):
        walked(file, START, START + file.size)
    assert walked(file, START, START + file.size, is_last=True) == records[:4]


def test_a_stretch_within_a_hole_has_nothing(tmp_path: Path) -> None:
    file = make_file(tmp_path / "log", record(500))
    os.truncate(file.path, 64 << 20)
    file = LogFile(file.path, START, 64 << 20)
    assert walked(file, START + (1 << 20), START + (2 << 20), is_last=True) == []
    assert file.next_data(START) == START
    assert file.next_data(START + file.size) == START + file.size


@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_a_record_whose_first_bytes_lie_in_a_hole(tmp_path: Path, zeros: int) -> None:
    """A copy may leave out what is zero, and the size of a record begins with zeros."""
    records = [record(512, number) for number in range(4)]
    begin, path = 65_536 - zeros, tmp_path / "log"
    with path.open("wb") as stream:
        stream.seek(begin + zeros)
        stream.write(b"".join(records)[zeros:])
    file = LogFile(path, START, path.stat().st_size)
    assert walked(file, START + 100, START + file.size, is_last=True) == records
