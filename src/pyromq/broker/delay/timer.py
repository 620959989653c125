"""Delivery of timed messages: from the timer topic onto the wheel, and off it when their slot of time is over.

Two tasks take turns. Entering follows the queue of the timer topic. Draining takes the oldest slot once it is over and
everything stored until then has been entered, so that a recall which was acknowledged works. `read_time` is the first
slot not drained; what belongs to an earlier one when it is entered is delivered at once.

On a slave the timer follows: it enters what its master has entered and drains nothing, and its master's `read_time` is
its own. When it leads instead, it goes on from there, so that what the master delivered since comes twice, but nothing
is lost.
"""

import asyncio
import logging
from array import array
from collections.abc import Callable

from pyromq.broker.config import BrokerConfig
from pyromq.broker.delay.detour import HOPELESS, MAX_DIGITS, delivery_of, read_record, real_place
from pyromq.broker.delay.postpone import TIMED
from pyromq.broker.delay.timercounts import TimerCounts
from pyromq.broker.durability import Durability
from pyromq.broker.pace import Paced
from pyromq.protocol import names
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command
from pyromq.protocol.errors import MessageError
from pyromq.protocol.properties import Property, append_properties, decode_properties, encode_properties
from pyromq.protocol.records.queueentry import ENTRY
from pyromq.protocol.records.record import RecordSummary
from pyromq.protocol.records.tags import java_hash
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Handler
from pyromq.store.dispatch import Dispatch
from pyromq.store.errors import DiskFullError, StoreError
from pyromq.store.log.put import PutMessage, PutResult
from pyromq.store.messagestore import MessageStore
from pyromq.store.timer.checkpoint import TimerCheckpoint
from pyromq.store.timer.files import REACH, TimerFiles
from pyromq.store.timer.log import DELETE, NORMAL, ROLL, TimerUnit

log = logging.getLogger(__name__)

BATCH = 32
"""Messages a step enters or delivers at most."""
CHAIN_BATCH = 512
"""Units of a chain that a step follows at most."""
SKIP_BATCH = 2_000
"""Empty slots that a step passes at most."""
RETRY = 0.1
"""Seconds until what the store refused is tried again."""
IDLE_SAVE_MS = 30_000
NEVER_ENTERED = 2**63 - 1
"""Stands for the time of entering in a message that was due before it could be."""


class Rate:
    """A total, and how fast it grew between the last two samples."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._since = clock()
        self._before = 0
        self.total = 0
        self.per_second = 0.0

    def sample(self) -> None:
        now = self._clock()
        self.per_second = (self.total - self._before) * 1000 / max(1, now - self._since)
        self._since, self._before = now, self.total


class _Slot:
    """A slot that is being drained: first its chain is followed, then its recalls are read, then the rest delivered."""

    __slots__ = ("missed", "next_unit", "normal", "recalled", "recalls")

    def __init__(self, last: int) -> None:
        self.next_unit = last
        self.normal = array("q")
        """Positions in the timer log, the last one first. Eight bytes a message, whatever the size of a slot."""
        self.recalls = array("q")
        self.recalled: set[str] = set()
        """Topic and unique key, joined with a plus sign, of messages that are not to be delivered."""
        self.missed: dict[str, str] = {}
        """Those of them that did not turn up, with their topics."""


class TimerDelivery:
    """`delivered(topic, result)` is told about each message put."""

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        durability: Durability,
        files: TimerFiles,
        counts: TimerCounts,
        clock: Callable[[], int],
        delivered: Callable[[str, PutResult], None],
        *,
        put: Callable[[PutMessage], PutResult] | None = None,
        follows: bool = False,
    ) -> None:
        self._store = store
        self._put_message = put
        self._follows = follows
        self._durability = durability
        self._files = files
        self.counts = counts
        self._clock = clock
        self._delivered = delivered
        self._precision = files.precision
        self._window = config.timer_roll_window_slot
        self._slot: _Slot | None = None
        self._barrier: int | None = None
        self._enter_next = False
        self._saved_at = 0
        self._saving = asyncio.Lock()
        self._entered = Rate(clock)
        self._left = Rate(clock)
        self._pace = Paced(self.step)
        check = files.checkpoint
        self.read_time = check.read_time
        self.queue_offset = min(check.queue_offset, check.master_queue_offset)
        self._master_offset = self.queue_offset
        self.knows_its_place = check.counter > 0
        """On a slave: whether it ever learned how far its master was."""
        self._elsewhere = TimerCheckpoint()
        self._elsewhere_end = 0
        self.done: set[int] = set()
        """Physical offsets of messages that were delivered after the last save; see `tail`."""
        self._began = clock(), store.max_offset(names.TIMER_TOPIC, 0)
        self.holds: Callable[[], int | None] = lambda: None
        """The time of the oldest message that was handed over and is not safe yet; it is not saved as delivered."""

    def handlers(self) -> dict[int, Handler]:
        """The request codes served here."""
        return {
            RequestCode.GET_TIMER_CHECK_POINT: lambda request, _: request.reply(body=self._files.checkpoint.encode()),
            RequestCode.GET_TIMER_METRICS: self._metrics,
        }

    def start(self) -> None:
        """Deliver from now on."""
        self._pace.start()

    def stop(self) -> None:
        """Deliver no more, and save how far it got. Raises OSError or DiskFullError."""
        self._pace.stop()
        try:
            self._store.flush()
        except StoreError as error:
            log.warning("what was delivered since the last save will be delivered again: %s", error)
            return
        self._files.prepare_save(self._safe_time(), self.queue_offset, self._clock())()
        if self.counts.changed:
            self.counts.persist(self.counts.table())

    async def save(self) -> None:
        """Save how far it got, once what was delivered is on disk. Without any change, only now and then.

        When it returns, no save is under way.
        """
        async with self._saving:
            await self._save()

    async def _save(self) -> None:
        files, now = self._files, self._clock()
        idle = not files.wheel.changed and self.queue_offset == files.checkpoint.queue_offset
        if idle and now - self._saved_at < IDLE_SAVE_MS:
            return
        self._saved_at = now
        end, table = self._store.max_physical_offset, self.counts.table() if self.counts.changed else None
        work = files.prepare_save(self._safe_time(), self.queue_offset, now)
        if await self._durability.reached(end):
            await asyncio.to_thread(work)
            if table is not None:
                await asyncio.to_thread(self.counts.persist, table)

    def _safe_time(self) -> int:
        held = self.holds()
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
        self._follows = False
        self._pace.wake()

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
        if physical_offset in self.done:
            return True
        return slot < self._elsewhere.read_time and physical_offset < self._elsewhere_end

    def clean(self) -> None:
        """Drop timer log files whose messages the store no longer has."""
        self._files.log.delete_before(self._store.min_physical_offset)

    @property
    def settled(self) -> bool:
        """Whether all that was delivered before the start has been passed, so that a save knows of it."""
        time, offset = self._began
        if self.read_time > time - self._precision and self.queue_offset >= offset:
            self.done.clear()
        return not self.done

    def arrived(self, _message: Dispatch) -> None:
        """A timed message was stored."""
        self._pace.wake()

    def retry(self) -> None:
        """What was refused may be taken now."""
        self._pace.wake()

    def waiting(self, time: int) -> int:
        """How many messages are timed for a slot."""
        slot = self._files.wheel.get(time)
        return slot.waiting if slot is not None else 0

    def runtime(self) -> dict[str, object]:
        """For the runtime information."""
        return {
            "timerReadBehind": max(0, self._clock() - self.read_time - self._precision) // 1000,
            "timerOffsetBehind": self._behind(),
            "timerCongestNum": self.counts.total,
            "timerEnqueueTps": self._entered.per_second,
            "timerDequeueTps": self._left.per_second,
        }

    def sample(self) -> None:
        """Take the rates since the last call."""
        self._entered.sample()
        self._left.sample()

    def step(self) -> float | None:
        """Enter some messages, or drain some of a slot; see `pace.Step`."""
        now = self._clock()
        current = now - now % self._precision
        if self._follows:
            return self._enter_some(current) if self.queue_offset < self._followed_end() else None
        if self._slot is None:
            # The clock may have been set back: slots drained before are empty, so nothing repeats. Or far forward: the
            # wheel goes round, so that nothing older can be on it.
            self.read_time = min(max(self.read_time, current - REACH * self._precision), current)
        behind = self._behind()
        if self._slot is None and self.read_time < current and self._pick(current, behind):
            return 0.0
        if self._slot is not None and not (self._enter_next and behind):
            self._enter_next = True
            return self._drain(self._slot)
        if behind:
            self._enter_next = False
            return self._enter_some(current)
        return max(self.read_time + self._precision - now, 1) / 1000

    def _behind(self) -> int:
        """Messages of the timer topic that are not on the wheel yet."""
        return max(0, self._store.max_offset(names.TIMER_TOPIC, 0) - self.queue_offset)

    def _followed_end(self) -> int:
        """How far a slave may enter: what its master has, as far as it is here."""
        return min(self._store.max_offset(names.TIMER_TOPIC, 0), self._master_offset)

    def _pick(self, current: int, behind: int) -> bool:
        """Begin with the oldest slot that is over, unless older messages have to be entered first; or pass empty ones.

        Returns whether anything was done.
        """
        if self._barrier is None:
            self._barrier = self.queue_offset + behind
        if self.queue_offset < self._barrier:
            return False
        get = self._files.wheel.get
        for _ in range(SKIP_BATCH):
            if self.read_time >= current:
                self._barrier = None
                return True
            slot = get(self.read_time)
            if slot is not None:
                self._slot, self._barrier = _Slot(slot.last), None
                return True
            self.read_time += self._precision
        return True

    # -- onto the wheel --

    def _enter_some(self, current: int) -> float:
        queue = self._store.queues.get(names.TIMER_TOPIC, 0)
        if queue is None:
            return RETRY
        if self.queue_offset < queue.min_offset:
            log.warning("the timer goes on at %d: there is nothing at %d", queue.min_offset, self.queue_offset)
            self.queue_offset = queue.min_offset
        count = min(BATCH, max(1, self._followed_end() - self.queue_offset)) if self._follows else BATCH
        for physical_offset, size, _ in ENTRY.iter_unpack(queue.entries(self.queue_offset, count)):
            try:
                entered = self._enter(physical_offset, size, current)
            except (DiskFullError, OSError) as error:
                log.warning("timed messages wait for disk space: %s", error)
                return 1.0
            if not entered:
                return RETRY
            self.queue_offset += 1
        return 0.0

    def _enter(self, physical_offset: int, size: int, current: int) -> bool:
        """Put one message on the wheel, or where it belongs if its slot has passed. False: try again later."""
        if physical_offset in self._files.entered:
            return True
        found = read_record(self._store, physical_offset, size)
        if found is None:
            return True
        summary, record = found
        properties = decode_properties(summary.properties)
        time = properties.get(Property.TIMER_OUT_MS, "")
        topic = properties.get(Property.REAL_TOPIC)
        if topic is None or not (time.isascii() and time.isdigit()) or len(time) > MAX_DIGITS:
            log.error("the message at %d does not say when and where it is to be delivered: dropped", physical_offset)
            return True
        slot = int(time)
        first_open = self.read_time + self._precision if self._slot is not None else self.read_time
        recall = Property.TIMER_DEL_UNIQ_KEY in properties
        if slot < first_open:
            past = recall or self._follows or self._is_done(slot, physical_offset)
            return past or self._put(summary, record, properties, NEVER_ENTERED, rolls=False)
        magic, ahead, window = NORMAL, slot - current, self._window * self._precision
        if ahead >= window:
            # Far away: comes back to the timer topic first, so that its record does not age away before it is due.
            magic |= ROLL
            rest = ahead - window
            slot = current + (self._window // 2 * self._precision if rest < window // 3 else window)
        if recall:
            magic |= DELETE
        unit = TimerUnit(-1, magic, current, slot - current, physical_offset, size, java_hash(topic))
        change = -1 if recall else 1
        self._files.enter(slot, unit, change)
        self._entered.total += 1
        self.counts.add(topic, change)
        return True

    # -- off the wheel --

    def _drain(self, slot: _Slot) -> float:
        if slot.next_unit >= 0:
            self._follow(slot)
        elif slot.recalls:
            for _ in range(min(BATCH, len(slot.recalls))):
                self._note_recall(slot, slot.recalls.pop())
        elif slot.normal:
            for _ in range(min(BATCH, len(slot.normal))):
                if not self._deliver(slot, slot.normal[-1]):
                    return RETRY
                slot.normal.pop()
        else:
            for topic in slot.missed.values():
                self.counts.add(topic, 1)
            self._files.wheel.clear(self.read_time)
            self.read_time += self._precision
            self._slot = None
        return 0.0

    def _follow(self, slot: _Slot) -> None:
        """Collect the units of a chain, from its end to its beginning."""
        position = slot.next_unit
        for _ in range(CHAIN_BATCH):
            unit = self._files.log.read(position)
            if unit is None or unit.time // self._precision != self.read_time // self._precision:
                log.error("the chain of the slot %d breaks at %d of the timer log", self.read_time, position)
                position = -1
                break
            recall = unit.magic & DELETE and not unit.magic & ROLL
            (slot.recalls if recall else slot.normal).append(position)
            if unit.previous >= position:
                log.error("the chain of the slot %d turns round at %d of the timer log", self.read_time, position)
                position = -1
                break
            position = unit.previous
            if position < 0:
                break
        slot.next_unit = position

    def _note_recall(self, slot: _Slot, position: int) -> None:
        unit = self._files.log.read(position)
        found = read_record(self._store, unit.physical_offset, unit.size) if unit is not None else None
        if found is None:
            return
        properties = decode_properties(found[0].properties)
        key, topic = properties.get(Property.TIMER_DEL_UNIQ_KEY, ""), properties.get(Property.REAL_TOPIC, "")
        if not key.startswith(f"{topic}+"):
            return  # of another topic: an older release may have stored it
        if key in slot.recalled:
            self.counts.add(topic, 1)  # recalled twice, and counted twice
        slot.recalled.add(key)
        slot.missed[key] = topic

    def _deliver(self, slot: _Slot, position: int) -> bool:
        unit = self._files.log.read(position)
        found = read_record(self._store, unit.physical_offset, unit.size) if unit is not None else None
        if unit is None or found is None:
            log.warning("a message timed for %d is no longer in the log", self.read_time)
            return True
        summary, record = found
        properties = decode_properties(summary.properties)
        topic = properties.get(Property.REAL_TOPIC, "")
        if slot.recalled:
            key = f"{topic}+{properties.get(Property.UNIQ_KEY, '')}"
            if key in slot.recalled:
                slot.missed.pop(key, None)
                return True
        done = self._is_done(self.read_time, unit.physical_offset)
        if not done and not self._put(summary, record, properties, unit.written, rolls=bool(unit.magic & ROLL)):
            return False
        self.counts.add(topic, 1 if unit.magic & DELETE else -1)
        return True

    def _put(
        self, summary: RecordSummary, record: memoryview, properties: dict[str, str], entered: int, *, rolls: bool
    ) -> bool:
        """Put a message where it belongs, or back into the timer topic. False when that has to be tried again."""
        place = (names.TIMER_TOPIC, 0) if rolls else real_place(properties)
        if place is None:
            log.error("the message at %d does not say where it belongs: dropped", summary.physical_offset)
            return True
        added = {Property.TIMER_ENQUEUE_MS: str(entered), Property.TIMER_DEQUEUE_MS: str(self._clock())}
        if rolls:
            times = properties.get(Property.TIMER_ROLL_TIMES, "0")
            added[Property.TIMER_ROLL_TIMES] = str(int(times[:MAX_DIGITS]) + 1 if times.isdecimal() else 1)
        try:
            repeated = not properties.keys().isdisjoint(added)
            properties.update(added)
            text = encode_properties(properties) if repeated else append_properties(summary.properties, added)
        except MessageError:
            text = summary.properties  # too long with the additions, which only inform
        # The stored text keeps its time, as Apache's does; without it in the map the store has less to ask.
        for name in TIMED:
            properties.pop(name, None)
        result = (self._put_message or self._store.put)(delivery_of(summary, record, place, text, properties))
        if result.stored:
            self._left.total += 1
            self._delivered(place[0], result)
            return True
        if result.status in HOPELESS:
            log.error("the timed message at %d is dropped: %s", summary.physical_offset, result.reason)
            return True
        return False

    def _metrics(self, request: Command, _connection: Connection) -> Command:
        return request.reply(body=self.counts.table().encode())
