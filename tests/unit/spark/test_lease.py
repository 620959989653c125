"""Leases in place of locks: one holder at a time, whatever the clocks of machines say."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyromq.spark.pipeline.state.lease import LOOK, TERM, Lease, LeaseHeldError
from pyromq.spark.storage.folder import FolderStore


class Time:
    """A clock that sleeping moves, with what happens meanwhile."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.renewed_by: Lease | None = None

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.renewed_by is not None:
            self.renewed_by.renew()


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows which processes live where a lease was taken."""
    monkeypatch.setattr("pyromq.spark.pipeline.state.lease._machine", lambda: None)


def lease(folder: Path, time: Time) -> Lease:
    return Lease(FolderStore(folder), clock=time.clock, wall_clock=time.clock, sleep=time.sleep)


def test_a_lease_is_given_back(tmp_path: Path, time: Time) -> None:
    first, second = lease(tmp_path, time), lease(tmp_path, time)
    first.take()
    assert second.is_held()
    first.release()
    assert not second.is_held()
    second.take()
    assert time.now == 1000.0
    assert len(list(tmp_path.iterdir())) == 1


def test_a_lease_that_is_renewed_is_not_taken(tmp_path: Path, time: Time, elsewhere: None) -> None:
    first, second = lease(tmp_path, time), lease(tmp_path, time)
    first.take()
    time.renewed_by = first
    with pytest.raises(LeaseHeldError, match=f"pid {os.getpid()} on "):
        second.take()
    assert time.now == 1000.0 + LOOK
    first.renew()


def test_a_lease_that_nobody_renews_is_taken_over_and_its_holder_finds_out(
    tmp_path: Path, time: Time, elsewhere: None
) -> None:
    first, second = lease(tmp_path, time), lease(tmp_path, time)
    first.take()
    second.take()
    assert time.now >= 1000.0 + TERM
    with pytest.raises(LeaseHeldError, match="taken it over"):
        first.renew()
    first.release()  # which must not give away what is another's
    assert second.is_held()
    second.renew()
    time.now += TERM
    assert not first.is_held()


def test_of_two_who_take_over_one_succeeds(tmp_path: Path, time: Time, elsewhere: None) -> None:
    first, second, third = (lease(tmp_path, time) for _ in range(3))
    first.take()
    original, taken = time.sleep, False

    def sleep(seconds: float) -> None:
        nonlocal taken
        original(seconds)
        if not taken and time.now >= 1000.0 + TERM:
            taken = True
            third.take()

    second._sleep = sleep
    third._sleep = original
    with pytest.raises(LeaseHeldError):
        second.take()
    third.renew()


def test_a_process_of_this_machine_that_is_gone_holds_nothing(tmp_path: Path, time: Time) -> None:
    code = "import sys; from pathlib import Path; from pyromq.spark.pipeline.state.lease import Lease; "
    code += "from pyromq.spark.storage.folder import FolderStore; Lease(FolderStore(Path(sys.argv[1]))).take()"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=60)
    second = lease(tmp_path, time)
    assert not second.is_held()
    second.take()
    assert time.now == 1000.0


def test_a_lease_outlives_the_one_that_is_being_read(
    tmp_path: Path, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = lease(tmp_path, time)
    first.take()
    read = FolderStore.read

    def gone(store: FolderStore, name: str) -> bytes:
        (tmp_path / name).rename(tmp_path / "lease-000000001")
        return read(store, name)

    monkeypatch.setattr(FolderStore, "read", gone)
    with pytest.raises(LeaseHeldError, match="quicker"):
        lease(tmp_path, time).take()
