"""S-03, S-06: offset-named files in a row: loading, finding, extending, cutting."""

from pathlib import Path

import pytest

from pyromq.store.errors import StoreFormatError
from pyromq.store.log.mappedfile import MappedFile
from pyromq.store.log.mappedfiles import MappedFiles, file_name

SIZE = 100


def make(path: Path, count: int = 0) -> MappedFiles:
    files = MappedFiles(path, SIZE)
    for _ in range(count):
        file = files.extend()
        file.append(bytes([1 + file.start // SIZE]) * SIZE)
    return files


def test_names_and_offsets(tmp_path: Path) -> None:
    files = make(tmp_path, 3)
    assert sorted(path.name for path in tmp_path.iterdir()) == [file_name(0), file_name(100), file_name(200)]
    assert file_name(0) == "00000000000000000000"
    assert (files.min_offset, files.max_offset) == (0, 300)
    found = files.find(150)
    assert found is not None
    assert found.start == 100
    assert files.find(300) is None
    assert files.find(-1) is None
    view = files.view(199, 1)
    assert view is not None
    assert view[0] == 2
    assert files.view(199, 2) is None, "no slice across files"
    files.close()


def test_first_file_begins_where_asked(tmp_path: Path) -> None:
    files = make(tmp_path)
    assert files.min_offset == -1
    assert files.max_offset == 0
    assert files.extend(750).start == 700
    assert files.extend(0).start == 800
    files.close()


def test_loading_takes_all_files_as_full(tmp_path: Path) -> None:
    make(tmp_path, 2).close()
    (tmp_path / "folder").mkdir()
    files = make(tmp_path)
    files.load()
    assert [file.start for file in files] == [0, 100]
    assert files.max_offset == 200
    files.close()


def test_empty_last_file_is_deleted(tmp_path: Path) -> None:
    make(tmp_path, 2).close()
    (tmp_path / file_name(200)).touch()
    files = make(tmp_path)
    files.load()
    assert len(files) == 2
    assert not (tmp_path / file_name(200)).exists()
    files.close()


@pytest.mark.parametrize(
    ("name", "length", "why"),
    [
        ("notes.txt", 3, "not an offset"),
        ("00000000000000000100.bak", 100, "not an offset"),
        ("100", 100, "not an offset"),
        (file_name(200), 99, "99 bytes"),
        (file_name(300), 100, "missing"),
        (file_name(250), 100, "multiple"),
    ],
)
def test_anything_unusual_is_refused_and_kept(tmp_path: Path, name: str, length: int, why: str) -> None:
    make(tmp_path, 2).close()
    (tmp_path / name).write_bytes(bytes(length))
    before = sorted(tmp_path.iterdir())
    with pytest.raises(StoreFormatError, match=why):
        make(tmp_path).load()
    assert sorted(tmp_path.iterdir()) == before


def test_truncate_deletes_later_files_and_zeroes_the_rest(tmp_path: Path) -> None:
    files = make(tmp_path, 3)
    assert files.truncate(130) == 70
    assert files.max_offset == 130
    assert (tmp_path / file_name(100)).read_bytes() == b"\2" * 30 + bytes(70)
    assert not (tmp_path / file_name(200)).exists()
    assert files.truncate(100) == 0
    assert [file.start for file in files] == [0]
    files.truncate(0)
    assert [file.start for file in files] == [0], "an empty first file stays"
    assert files.max_offset == 0
    files.close()


def test_dropping_the_first_file_is_left_to_dispose(tmp_path: Path) -> None:
    dropped: list[MappedFile] = []
    files = MappedFiles(tmp_path, SIZE, dispose=dropped.append)
    files.extend().append(b"x" * SIZE)
    files.extend()
    files.drop_first()
    assert [file.start for file in dropped] == [0]
    assert files.min_offset == 100
    files.close()
    dropped[0].destroy()
