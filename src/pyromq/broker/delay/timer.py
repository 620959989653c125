"""Delivery of timed messages: from the timer topic onto the wheel, and off it when their slot of time is over.

Two tasks take turns. Entering follows the queue of the timer topic. Draining takes the oldest slot once it is over and
everything stored until then has been entered, so that a recall which was acknowledged works. `read_time` is the first
slot not drained; what belongs to an earlier one when it is entered is delivered at once.

On a slave the timer follows: it enters what its master has entered and drains nothing, and its master's `read_time` is
its own. When it leads instead, it resumes from there, so that what the master delivered since comes twice, but nothing
is lost.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping

from pyromq.broker.core import Core
from pyromq.broker.delay.dueslot import DueSlot
from pyromq.broker.delay.postpone import MARKS, Postpone
from pyromq.broker.delay.timedmessage import TimedMessage
from pyromq.broker.delay.timercounts import Rate, TimerCounts
from pyromq.broker.delay.timerqueue import TimerQueue
from pyromq.broker.pace import Paced
from pyromq.broker.part import Every, Part, Told
from pyromq.broker.replication.slaves import Slaves
from pyromq.broker.replication.succession.onward import Onward
from pyromq.broker.tables.tail import Tail
from pyromq.protocol import names
from pyromq.protocol.codes import RequestCode
from pyromq.remoting.endpoint import Handler
from pyromq.store.timer.checkpoint import TimerCheckpoint
from pyromq.store.timer.files import REACH, TimerFiles
from pyromq.store.timer.log import ROLL, TimerUnit

log = logging.getLogger(__name__)

SAMPLE_INTERVAL = 10.0
CLEAN_INTERVAL = 30.0
COUNT_INTERVAL = 180.0
SKIP_BATCH = 2_000
"""Empty slots that a step passes at most."""
IDLE_SAVE_MS = 30_000
NEVER_ENTERED = 2**63 - 1
"""Stands for the time of entering in a message that was due before it could be."""


class TimerDelivery(Part):
    """Messages with a time of their own; and the hook that has the store set aside these and those with a level.

    With `slaves`, what the one delivered that acted for this master is not delivered again.
    """

    def __init__(self, core: Core, onward: Onward, tail: Tail, slaves: Slaves | None = None) -> None:
        config, clock = core.config, core.clock
        self._core = core
        self._store = core.store
        self._clock = clock
        self._onward = onward
        self._slaves = slaves
        self._runs = config.timer_wheel_enable
        self._follows = core.is_slave
        self._precision = config.timer_precision_ms
        self._files = TimerFiles(
            config.store_path_root_dir, precision=self._precision, log_file_size=config.mapped_file_size_timer_log
        )
        self._opened = False
        self.counts = TimerCounts(config.config_dir / "timermetrics", clock)
        self._slot: DueSlot | None = None
        self._barrier: int | None = None
        self._enter_next = False
        self._saved_at = 0
        self._saving = asyncio.Lock()
        self._entered = Rate(clock)
        self._left = Rate(clock)
        self.queue = TimerQueue(
            self._store, self._files, self.counts, self._entered, config.timer_roll_window_slot, self._late
        )
        self._pace = Paced(self.step)
        self.read_time = 0
        self._master_offset = 0
        self.knows_its_place = False
        """On a slave: whether it ever learned how far its master was."""
        self._elsewhere = TimerCheckpoint()
        self._elsewhere_end = 0
        self._done = tail.timed
        """Physical offsets of messages that were delivered after the last save."""
        self._began = clock(), self.queue.end
        if self._runs:
            onward.when_woken(self._pace.wake)

    def handlers(self) -> Mapping[int, Handler]:
        """The request codes served here."""
        return {
            RequestCode.GET_TIMER_CHECK_POINT: lambda request, _: request.reply(body=self._files.checkpoint.encode()),
            RequestCode.GET_TIMER_METRICS: lambda request, _: request.reply(body=self.counts.table().encode()),
        }

    def follows(self) -> Mapping[str, Told]:
        """Messages that wait."""
        return {names.TIMER_TOPIC: lambda _message: self._pace.wake()} if self._runs else {}

    def every(self) -> Iterable[Every]:
        """Save, measure, clean."""
        if self._runs:
            topics = self._core.topics
            yield Every(self._core.config.timer_flush_interval_ms / 1000, self.save)
            yield Every(SAMPLE_INTERVAL, self._sample)
            yield Every(CLEAN_INTERVAL, self._clean)
            yield Every(COUNT_INTERVAL, lambda: self.counts.forget_unknown(topics.__contains__))

    def open(self) -> None:
        """Load and recover the files. Raises StoreFormatError or OSError."""
        files, store = self._files, self._store
        queue_end = store.max_offset(names.TIMER_TOPIC, 0, committed=False)
        files.open(self._clock(), log_end=store.max_physical_offset, queue_end=queue_end)
        self._opened = True
        self._core.positions.note("timer", files.set_back)
        self.counts.load()
        check = files.checkpoint
        self.read_time = check.read_time
        self.queue.offset = self._master_offset = min(check.queue_offset, check.master_queue_offset)
        self.knows_its_place = check.counter > 0
        self._store.add_hook(Postpone(self._core.config, self._clock, self.waiting), MARKS)

    async def start(self) -> None:
        """Deliver from now on."""
        self.open()
        if self._slaves is not None and self._slaves.taken_over is not None:
            self.take_over(self._slaves.taken_over)
        if self._runs:
            self._pace.start()

    async def stop(self) -> None:
        """Deliver no more, and save how far it got. Raises OSError or DiskFullError."""
        self._pace.stop()
        self.close()

    def close(self) -> None:
        """Save how far it got, and close the files. Raises OSError or DiskFullError."""
        try:
            if self._runs and self._opened and self._onward.flush():
                self._files.prepare_save(self._safe_time(), self.queue.offset, self._clock())()
                if self.counts.changed:
                    self.counts.persist(self.counts.table())
        finally:
            self._files.close()

    async def save(self) -> None:
        """Save how far it got, once what was delivered is on disk. Without any change, only now and then.

        When it returns, no save is under way.
        """
        async with self._saving:
            files, now = self._files, self._clock()
            idle = not files.wheel.changed and self.queue.offset == files.checkpoint.queue_offset
            if idle and now - self._saved_at < IDLE_SAVE_MS:
                return
            self._saved_at = now
            end, table = self._store.max_physical_offset, self.counts.table() if self.counts.changed else None
            work = files.prepare_save(self._safe_time(), self.queue.offset, now)
            if await self._core.durability.reached(end):
                await asyncio.to_thread(work)
                if table is not None:
                    await asyncio.to_thread(self.counts.persist, table)

    def _safe_time(self) -> int:
        held = self._onward.held_since()
        return self.read_time if held is None else min(self.read_time, held - held % self._precision)

    def follow(self, master: TimerCheckpoint | None = None) -> None:
        """Leave the draining to a master, which has come this far; None: as far as is known."""
        self._follows, self._slot, self._barrier = True, None, None
        self.knows_its_place |= master is not None
        if master is not None and master.read_time:
            self.read_time, self._master_offset = master.read_time, master.queue_offset
        self._pace.wake()

    def lead(self) -> None:
        """Drain from now on."""
        if self._runs:
            self._follows = False
            self._pace.wake()

    def stand_back(self) -> None:
        """Leave the draining to a master again."""
        if self._runs:
            self.follow()

    def take_over(self, other: TimerCheckpoint) -> None:
        """Another broker delivered from a copy of this log while this one was away: what it did is not done again.

        It knew the messages below its queue offset, and delivered those before its `read_time`.
        """
        queue = self._store.queues.get(names.TIMER_TOPIC, 0)
        entry = queue.entry(other.queue_offset) if queue is not None else None
        self._elsewhere = other
        self._elsewhere_end = entry[0] if entry is not None else self._store.max_physical_offset

    def _is_done(self, slot: int, physical_offset: int) -> bool:
        """Whether a message was delivered before: here since the last save, or by another broker."""
        if physical_offset in self._done:
            return True
        return slot < self._elsewhere.read_time and physical_offset < self._elsewhere_end

    def _clean(self) -> None:
        """Drop timer log files whose messages the store no longer has."""
        self._files.log.delete_before(self._store.min_physical_offset)

    @property
    def settled(self) -> bool:
        """Whether all that was delivered before the start has been passed, so that a save knows of it."""
        time, offset = self._began
        if self.read_time > time - self._precision and self.queue.offset >= offset:
            self._done.clear()
        return not self._done

    def waiting(self, time: int) -> int:
        """How many messages are timed for a slot."""
        slot = self._files.wheel.get(time)
        return slot.waiting if slot is not None else 0

    def runtime(self) -> Mapping[str, object]:
        """For the runtime information."""
        if not self._runs:
            return {}
        return {
            "timerReadBehind": max(0, self._clock() - self.read_time - self._precision) // 1000,
            "timerOffsetBehind": self.queue.behind,
            "timerCongestNum": self.counts.total,
            "timerEnqueueTps": self._entered.per_second,
            "timerDequeueTps": self._left.per_second,
        }

    def _sample(self) -> None:
        """Take the rates since the last call."""
        self._entered.sample()
        self._left.sample()

    def step(self) -> float | None:
        """Enter some messages, or drain some of a slot; see `pace.Step`."""
        now = self._clock()
        current = now - now % self._precision
        if self._follows:
            # No further than the master, and than what is here of it.
            most = min(self.queue.end, self._master_offset) - self.queue.offset
            return self.queue.step(current, self.read_time, most) if most > 0 else None
        if self._slot is None:
            # The clock may have been set back: slots drained before are empty, so nothing repeats. Or far forward: the
            # wheel goes round, so that nothing older can be on it.
            self.read_time = min(max(self.read_time, current - REACH * self._precision), current)
        behind = self.queue.behind
        if self._slot is None and self.read_time < current and self._pick(current, behind):
            return 0.0
        if self._slot is not None and not (self._enter_next and behind):
            self._enter_next = True
            return self._drain(self._slot)
        if behind:
            self._enter_next = False
            first_open = self.read_time + self._precision if self._slot is not None else self.read_time
            return self.queue.step(current, first_open)
        return max(self.read_time + self._precision - now, 1) / 1000

    def _drain(self, slot: DueSlot) -> float:
        if not slot.drained:
            return slot.step()
        slot.close()
        self.read_time += self._precision
        self._slot = None
        return 0.0

    def _pick(self, current: int, behind: int) -> bool:
        """Begin with the oldest slot that is over, unless older messages have to be entered first; or pass empty ones.

        Returns whether anything was done.
        """
        if self._barrier is None:
            self._barrier = self.queue.offset + behind
        if self.queue.offset < self._barrier:
            return False
        get = self._files.wheel.get
        for _ in range(SKIP_BATCH):
            if self.read_time >= current:
                self._barrier = None
                return True
            slot = get(self.read_time)
            if slot is not None:
                self._barrier = None
                self._slot = DueSlot(self.read_time, slot.last, self._store, self._files, self.counts, self._deliver)
                return True
            self.read_time += self._precision
        return True

    def _late(self, message: TimedMessage, slot: int) -> bool:
        """Deal with a message whose slot has passed before it could be entered."""
        past = message.recalls is not None or self._follows or self._is_done(slot, message.summary.physical_offset)
        return past or self._put(message, NEVER_ENTERED, rolls=False)

    def _deliver(self, message: TimedMessage, unit: TimerUnit) -> bool:
        """Put a message of the slot that is being drained, unless it was before."""
        done = self._is_done(self.read_time, unit.physical_offset)
        return done or self._put(message, unit.written, rolls=bool(unit.magic & ROLL))

    def _put(self, message: TimedMessage, entered: int, *, rolls: bool) -> bool:
        """Put a message where it belongs, or back into the timer topic. False when that has to be tried again."""
        offset = message.summary.physical_offset
        delivery = message.delivery(entered, self._clock(), rolls=rolls)
        if delivery is None:
            log.error("the message at %d does not say where it belongs: dropped", offset)
            return True
        if not self._onward.deliver(delivery, "the timed message at %d", offset):
            return False
        self._left.total += 1
        return True
