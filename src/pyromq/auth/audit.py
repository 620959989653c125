"""The audit log: one JSON object in a line for each administrative and each denied request.

Who, from where, what, on which resource, with which result: taken from facts the server checked, never from bodies or
header fields as such, so no secret can get in. Rotated by size; a flood of denied requests from one place is counted,
not written line by line.
"""

import json
import logging
import os
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

from pyromq import disk, durable

log = logging.getLogger(__name__)

MAX_TEXT = 300
DENIALS_PER_SECOND = 100
"""Lines about denied requests; what is beyond is only counted, in the next line."""


class AuditLog:
    """Lines in a file; `keep` older files beside it as `.1`, `.2` …, each of about `max_size` bytes.

    `clock` gives Unix milliseconds. A disk that takes no more is logged once and does not stop requests.
    """

    def __init__(self, path: Path, *, max_size: int, keep: int, clock: Callable[[], int]) -> None:
        self._path = path
        self._max_size = max_size
        self._keep = keep
        self._clock = clock
        self._descriptor = -1
        self._size = 0
        self._failing = False
        self._second = 0
        self._denials = 0
        self.suppressed = 0

    def done(self, *, user: str, peer: str, request: str, resources: Iterable[str], result: str) -> None:
        """An administrative request was answered."""
        self._write("request", user, peer, request, resources, result, {})

    def denied(self, *, user: str, peer: str, request: str, reason: str) -> None:
        """A request was refused because of who asked."""
        second = self._clock() // 1000
        if second != self._second:
            self._second, self._denials = second, 0
        self._denials += 1
        if self._denials > DENIALS_PER_SECOND:
            self.suppressed += 1
            return
        suppressed, self.suppressed = self.suppressed, 0
        extra: dict[str, object] = {"reason": _short(reason)}
        self._write("denied", user, peer, request, (), "NO_PERMISSION", extra | _count(suppressed))

    def close(self) -> None:
        """Nothing more is written."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _write(
        self,
        event: str,
        user: str,
        peer: str,
        request: str,
        resources: Iterable[str],
        result: str,
        extra: dict[str, object],
    ) -> None:
        moment = datetime.fromtimestamp(self._clock() / 1000, UTC).isoformat(timespec="milliseconds")
        facts: dict[str, object] = {
            "time": moment,
            "event": event,
            "user": _short(user),
            "peer": peer,
            "request": request,
        }
        facts |= {"resources": [_short(each) for each in resources], "result": _short(result), **extra}
        line = json.dumps(facts, ensure_ascii=True).encode() + b"\n"
        try:
            if self._descriptor >= 0 and self._size + len(line) > self._max_size:
                self._rotate()
            if self._descriptor < 0:
                self._open()
            os.write(self._descriptor, line)
            self._size += len(line)
            self._failing = False
        except OSError as error:
            if not self._failing:
                log.error("the audit log %s cannot be written: %s", self._path, error)  # noqa: TRY400 - one line
            self._failing = True

    def _open(self) -> None:
        durable.make_folder(self._path.parent)
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, disk.FILE_MODE)
        self._size = os.fstat(self._descriptor).st_size

    def _rotate(self) -> None:
        self.close()
        for number in range(self._keep - 1, 0, -1):
            older = self._numbered(number)
            if older.exists():
                older.replace(self._numbered(number + 1))
        if self._keep:
            self._path.replace(self._numbered(1))
        else:
            self._path.unlink()

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")


def _short(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "…"


def _count(suppressed: int) -> dict[str, object]:
    return {"denialsNotWritten": suppressed} if suppressed else {}
