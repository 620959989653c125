"""S-05: one mapped file, its blocks, its slices that outlive it."""

import errno
import mmap
import os
import resource
import threading
from pathlib import Path

import pytest

from pyromq import disk
from pyromq.store.errors import DiskFullError
from pyromq.store.log.mappedfile import MappedFile

PAGE = 4096


def blocks(path: Path) -> int:
    return path.stat().st_blocks * 512


def test_created_file_has_full_length_but_no_blocks(tmp_path: Path) -> None:
    file = MappedFile.create(tmp_path / "deep" / "f", 1 << 20, start=1 << 20, step=PAGE)
    assert file.path.stat().st_size == 1 << 20
    assert blocks(file.path) == 0
    assert (file.start, file.end, file.limit, file.full) == (1 << 20, 2 << 20, 1 << 20, False)
    file.close()


def test_append_allocates_in_steps_ahead(tmp_path: Path) -> None:
    file = MappedFile.create(tmp_path / "f", 1 << 20, step=16 * PAGE)
    assert file.append(b"abc") == 0
    assert file.append(b"de") == 3
    assert file.reserved == 16 * PAGE
    assert blocks(file.path) >= 16 * PAGE
    assert bytes(file.view(0, 5)) == b"abcde"
    file.close()


def test_reserving_keeps_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * PAGE)
    file = MappedFile.open(tmp_path / "f")
    assert file.position == PAGE
    file.position = 10
    file.reserve(PAGE)
    assert bytes(file.view(0, PAGE)) == b"x" * PAGE
    file.close()


def test_full_disk_is_an_error_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = MappedFile.create(tmp_path / "f", 1 << 20, step=PAGE)
    file.append(b"abc")
    asked: list[tuple[int, int]] = []

    def refuse(_fd: int, offset: int, length: int) -> None:
        asked.append((offset, length))
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(disk, "allocate", refuse)
    with pytest.raises(DiskFullError, match="no space left"):
        file.append(b"y" * PAGE)
    assert file.position == 3
    assert asked == [(PAGE, PAGE), (PAGE, 3)], "a whole step first, then just what is needed"
    monkeypatch.undo()
    file.append(b"y" * PAGE)
    assert file.position == 3 + PAGE
    file.close()


def test_last_bit_of_space_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = MappedFile.create(tmp_path / "f", 1 << 20, step=64 * PAGE)
    real = os.posix_fallocate

    def nearly_full(fd: int, offset: int, length: int) -> None:
        if length > PAGE:
            raise OSError(errno.ENOSPC, "no space")
        real(fd, offset, length)

    monkeypatch.setattr(disk, "allocate", nearly_full)
    file.append(b"abc")
    assert file.reserved == 3
    file.close()


def test_slices_outlive_close_and_destroy(tmp_path: Path) -> None:
    file = MappedFile.create(tmp_path / "f", PAGE)
    file.append(b"still here")
    view = file.view(0, 10)
    file.destroy()
    file.close()
    assert not file.path.exists()
    assert bytes(view) == b"still here"


def test_zero_touches_only_what_is_not_zero(tmp_path: Path) -> None:
    file = MappedFile.create(tmp_path / "f", 64 << 20, step=PAGE)
    file.append(b"keep" + b"stale")
    file.reserve(40 << 20)
    file.raw[40 << 20 : (40 << 20) + 3] = b"far"
    before = blocks(file.path)
    assert file.zero(4) > 0
    assert bytes(file.view(0, 10)) == b"keep" + bytes(6)
    assert bytes(file.view(40 << 20, (40 << 20) + 4)) == bytes(4)
    assert blocks(file.path) <= before + (1 << 20), "holes stay holes"
    assert file.zero(4) == 0
    file.close()


def test_failed_creation_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_fd: int, _length: int) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(disk, "set_length", refuse)
    with pytest.raises(DiskFullError):
        MappedFile.create(tmp_path / "f", PAGE)
    assert not (tmp_path / "f").exists()


def test_read_only_mapping(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    file = MappedFile.open(tmp_path / "f", writable=False)
    assert bytes(file.view(0, 3)) == b"abc"
    with pytest.raises(TypeError):
        file.raw[0:1] = b"x"
    file.close()


def test_pages_got_ahead_are_still_zeros_and_cost_no_faults(tmp_path: Path) -> None:
    size = 4 << 20
    file = MappedFile.create(tmp_path / "f", size, step=size)
    file.append(b"abc")
    file.populate(0, size)
    assert (file.position, file.read(0, 8)) == (3, b"abc" + bytes(5))
    assert not any(file.read(3, size))
    data = b"x" * (size - 3)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    file.append(data)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    file.close()
    assert faults < size // PAGE // 4 or not can_populate()


def can_populate() -> bool:
    """Whether this system knows the advice (Linux 5.14)."""
    with mmap.mmap(-1, PAGE) as memory:
        try:
            memory.madvise(23)
        except OSError:
            return False
    return True


def test_pages_that_the_owner_has_reached_are_not_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(disk, "populate", lambda _, begin, end: asked.append((begin, end)))
    file = MappedFile.create(tmp_path / "f", 4 << 20, step=4 << 20)
    file.position = 1 << 20
    file.populate(0, (1 << 20) + 3 * PAGE)
    file.populate(0, 1 << 20)
    assert asked == [(1 << 20, (1 << 20) + 3 * PAGE)]
    file.close()


def test_a_map_stays_while_its_pages_are_got(tmp_path: Path) -> None:
    file = MappedFile.create(tmp_path / "f", 64 << 20, step=64 << 20)
    file.reserve(1)
    helper = threading.Thread(target=disk.populate, args=(file.raw, 0, 64 << 20))
    helper.start()
    file.close()
    helper.join()
