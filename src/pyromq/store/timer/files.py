"""Wheel, log and checkpoint of the timer together: entering, recovering, saving. Files only; times come from outside.

Order of saving: commit log, timer log, wheel, checkpoint; each only speaks of what those before it have on disk. What
was entered since the last save is in the log after a crash of the process, and in the commit log in any case.
"""

import logging
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from pyromq.store.timer.checkpoint import TimerCheckpoint
from pyromq.store.timer.log import Places, TimerLog, TimerUnit
from pyromq.store.timer.wheel import SLOTS, Slot, TimerWheel

log = logging.getLogger(__name__)

MAX_END = 2**63 - 1
REACH = SLOTS - 60
"""Slots between the oldest time on the wheel and the present one, at most."""


class TimerFiles:
    """The timer's files below the store's root folder."""

    def __init__(self, root: Path, *, precision: int, log_file_size: int) -> None:
        self.precision = precision
        self.wheel = TimerWheel(root / "timerwheel", precision)
        self.log = TimerLog(root / "timerlog", log_file_size)
        self._check_path = root / "config" / "timercheck"
        self.checkpoint = TimerCheckpoint()
        self.entered = Places()
        """Messages at or after the checkpoint's queue offset that are in the log all the same."""
        self.set_back: list[str] = []
        """What was found to be beyond the commit log, in words."""
        self._log_end = MAX_END
        self._saving = threading.Lock()

    def open(self, now: int, *, log_end: int = MAX_END, queue_end: int = MAX_END) -> None:
        """Load and recover. Raises StoreFormatError or OSError.

        Nothing is trusted beyond the ends of the commit log and of the timer topic: other messages will be there.
        """
        self._log_end = log_end
        has_wheel = self.wheel.load()
        self.log.load()
        check = TimerCheckpoint.load(self._check_path)
        if max(check.queue_offset, check.master_queue_offset) > queue_end:
            self.set_back.append(
                f"the timer had entered messages up to {check.queue_offset}, which this log does not have: set back to "
                f"{queue_end}"
            )
            check = _with(
                check,
                queue_offset=min(check.queue_offset, queue_end),
                master_queue_offset=min(check.master_queue_offset, queue_end),
            )
        current = now - now % self.precision
        oldest = current - REACH * self.precision
        if check.read_time < oldest:
            if check.read_time:
                log.warning("messages timed for before %d are lost: the broker was down for too long", oldest)
            check = _with(check, read_time=oldest if has_wheel or self.log.max_offset else current)
        end = self._link(check, has_wheel)
        if end < check.log_flushed:
            log.warning("the timer log ends at %d, before %d: its messages are entered again", end, check.log_flushed)
            self.wheel.clear_beyond(end)
            check = _with(check, log_flushed=0, queue_offset=0, master_queue_offset=0)
            self._link(check, has_wheel=False)
        self.checkpoint = check

    def enter(self, time: int, unit: TimerUnit, change: int) -> None:
        """Append a unit and make it the last one of its slot. Raises DiskFullError or OSError, and then did nothing."""
        slot = self.wheel.get(time)
        if slot is None:
            position = self.log.append(unit)
            self.wheel.set(time, Slot(position, position, change))
        else:
            position = self.log.append(unit._replace(previous=slot.last))
            self.wheel.set(time, Slot(slot.first, position, slot.waiting + change))

    def prepare_save(self, read_time: int, queue_offset: int, now: int) -> Callable[[], None]:
        """The work that saves the present state, which may run in another thread. It raises DiskFullError or OSError.

        All that was delivered before `read_time` must be on disk before the work runs. Finish it before the next one.
        """
        slots, last = self.wheel.take(), self.checkpoint
        moved = (read_time, queue_offset) != (last.read_time, last.queue_offset)
        check = TimerCheckpoint(
            read_time,
            self.log.max_offset,
            queue_offset,
            queue_offset,
            last.state_version,
            now if moved else last.timestamp,
            last.counter + moved,
        )

        def save() -> None:
            with self._saving:
                self.log.sync(last.log_flushed)
                self.wheel.write(slots)
                check.save(self._check_path)
                self.checkpoint = check

        return save

    def close(self) -> None:
        """Let go of the files, without saving."""
        self.wheel.close()
        self.log.close()

    def _link(self, check: TimerCheckpoint, has_wheel: bool) -> int:
        """Enter units of the log that the wheel may not know; returns the log's end."""
        wheel, precision = self.wheel, self.precision
        linked: dict[int, int] = {}
        fresh: dict[int, list[int]] = {}

        def seen(position: int, time: int, physical_offset: int) -> None:
            if position >= check.log_flushed:
                self.entered.add(physical_offset)
                if time >= check.read_time:
                    fresh.setdefault(time // precision, []).append(position)
            elif time >= check.read_time:
                linked[time // precision] = position

        # From the start of the file that the last save ended in; all of them when there is no wheel.
        begin = max(0, check.log_flushed - 1) if has_wheel else 0
        end = self.log.recover(begin, seen, self._log_end)
        for unit, position in linked.items():
            slot = wheel.get(unit * precision)
            if slot is None or slot.last < position:
                wheel.set(unit * precision, self._chain(position, slot))
        for unit, positions in fresh.items():
            slot = wheel.get(unit * precision)
            added = sum(position > slot.last for position in positions) if slot else len(positions)
            if added:
                first, count = (slot.first, slot.waiting) if slot else (positions[0], 0)
                wheel.set(unit * precision, Slot(first, positions[-1], count + added))
        return end

    def _chain(self, last: int, slot: Slot | None) -> Slot:
        """A slot whose last unit is known, by following the chain."""
        first, count = last, 1
        unit = self.log.read(last)
        while unit is not None and 0 <= unit.previous < first:
            if slot is not None and unit.previous == slot.last:
                return Slot(slot.first, last, slot.waiting + count)
            first, count = unit.previous, count + 1
            unit = self.log.read(first)
        return Slot(first, last, count)


def _with(check: TimerCheckpoint, **changes: int) -> TimerCheckpoint:
    return msgspec.structs.replace(check, **changes)
