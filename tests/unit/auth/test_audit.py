"""The audit log: what a line holds, rotation, floods, and a disk that takes no more."""

import json
import logging
import stat
from pathlib import Path

import pytest

from pyromq.auth.audit import DENIALS_PER_SECOND, AuditLog


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def denied(log: AuditLog, reason: str = "wrong signature") -> None:
    log.denied(user="alice", peer="10.0.0.1:5", request="SEND_MESSAGE_V2", reason=reason)


def test_a_line_says_who_what_where_and_how_it_ended(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log", max_size=10_000, keep=1, clock=Clock())
    log.done(user="root", peer="10.0.0.1:5", request="DELETE_TOPIC", resources=["Topic:a"], result="SUCCESS")
    denied(log, "forged\nline")
    log.close()
    assert lines(tmp_path / "audit.log") == [
        {
            "time": "2023-11-14T22:13:20.000+00:00",
            "event": "request",
            "user": "root",
            "peer": "10.0.0.1:5",
            "request": "DELETE_TOPIC",
            "resources": ["Topic:a"],
            "result": "SUCCESS",
        },
        {
            "time": "2023-11-14T22:13:20.000+00:00",
            "event": "denied",
            "user": "alice",
            "peer": "10.0.0.1:5",
            "request": "SEND_MESSAGE_V2",
            "resources": [],
            "result": "NO_PERMISSION",
            "reason": "forged\nline",
        },
    ]
    assert stat.S_IMODE((tmp_path / "audit.log").stat().st_mode) == 0o600


def test_it_is_rotated_and_bounded(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log", max_size=600, keep=2, clock=Clock())
    for number in range(40):
        log.done(user=f"user{number}", peer="p", request="r", resources=(), result="SUCCESS")
    log.close()
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["audit.log", "audit.log.1", "audit.log.2"]
    assert all(path.stat().st_size <= 600 for path in tmp_path.iterdir())
    assert lines(tmp_path / "audit.log")[-1]["user"] == "user39"


def test_nothing_rotated_is_kept_when_none_is_wanted(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log", max_size=600, keep=0, clock=Clock())
    for _ in range(40):
        log.done(user="u", peer="p", request="r", resources=(), result="SUCCESS")
    log.close()
    assert [path.name for path in tmp_path.iterdir()] == ["audit.log"]


def test_a_flood_of_denials_is_counted_not_written(tmp_path: Path) -> None:
    clock = Clock()
    log = AuditLog(tmp_path / "audit.log", max_size=10_000_000, keep=1, clock=clock)
    for _ in range(DENIALS_PER_SECOND + 500):
        denied(log)
    clock.now += 1000
    denied(log)
    log.close()
    found = lines(tmp_path / "audit.log")
    assert len(found) == DENIALS_PER_SECOND + 1
    assert found[-1]["denialsNotWritten"] == 500


def test_a_log_that_exists_is_appended_to(tmp_path: Path) -> None:
    for _ in range(2):
        log = AuditLog(tmp_path / "audit.log", max_size=10_000, keep=1, clock=Clock())
        denied(log)
        log.close()
    assert len(lines(tmp_path / "audit.log")) == 2


def test_a_disk_that_takes_no_more_stops_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    log = AuditLog(tmp_path / "file" / "audit.log", max_size=10_000, keep=1, clock=Clock())
    with caplog.at_level(logging.ERROR):
        denied(log)
        denied(log)
    assert len(caplog.records) == 1


def test_long_texts_are_cut(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log", max_size=10_000, keep=1, clock=Clock())
    log.denied(user="u" * 100_000, peer="p", request="r", reason="x" * 100_000)
    log.close()
    assert (tmp_path / "audit.log").stat().st_size < 2_000
