"""What brings messages back later, as parts of the broker: delay levels and the timer."""

from collections.abc import Callable, Iterable, Mapping

from pyromq.broker.core import Core
from pyromq.broker.delay.levels import DelayLevels
from pyromq.broker.delay.postpone import MARKS, Postpone
from pyromq.broker.delay.timer import TimerDelivery
from pyromq.broker.delay.timercounts import TimerCounts
from pyromq.broker.part import Every, Part, Told
from pyromq.broker.replication.part import Slaves
from pyromq.broker.replication.succession.onward import Onward
from pyromq.broker.tables.tail import Tail
from pyromq.protocol import names
from pyromq.remoting.endpoint import Handler
from pyromq.store.timer.files import TimerFiles

SAMPLE_INTERVAL = 10.0
CLEAN_INTERVAL = 30.0
COUNT_INTERVAL = 180.0
POSITION_INTERVAL = 5.0


class DelayPart(Part):
    """Messages with a delay level; a slave leaves them to its master, unless it acts for it."""

    def __init__(self, core: Core, onward: Onward, tail: Tail) -> None:
        self._core = core
        self._tail = tail
        self.delays = DelayLevels(
            core.store,
            core.durability,
            core.tables.delays,
            core.store.config.delays,
            core.clock,
            core.stats.stored,
            put=onward.put,
        )
        onward.when_woken(self.delays.retry)

    def handlers(self) -> Mapping[int, Handler]:
        """The request codes served here."""
        return self.delays.handlers()

    def follows(self) -> Mapping[str, Told]:
        """Messages that wait."""
        return {} if self._core.is_slave else {names.SCHEDULE_TOPIC: self.delays.arrived}

    def every(self) -> Iterable[Every]:
        """Save how far it is."""
        if not self._core.is_slave:
            yield Every(self._core.config.flush_delay_offset_interval / 1000, self.delays.save)

    def runtime(self) -> Mapping[str, object]:
        """For the runtime information."""
        return self.delays.runtime()

    async def start(self) -> None:
        """Deliver from where the log says."""
        if not self._core.is_slave:
            store = self._core.store
            self._core.tables.delays.raise_to(
                self._tail.delay_offsets(), lambda level: store.max_offset(names.SCHEDULE_TOPIC, level - 1)
            )
            self.delays.start()

    async def stop(self) -> None:
        """Deliver no more."""
        if not self._core.is_slave:
            self.delays.stop()

    def lead(self) -> None:
        """Deliver in the place of the master."""
        self.delays.start()

    def stand_back(self) -> None:
        """Leave it to the master."""
        self.delays.stop()


class TimerPart(Part):
    """Messages with a time of their own; and the hook that has the store park these and those with a level."""

    def __init__(self, core: Core, onward: Onward, tail: Tail, slaves: Slaves | None) -> None:
        self._core = core
        self._slaves = slaves
        config, store = core.config, core.store
        self._files = TimerFiles(
            config.store_path_root_dir,
            precision=config.timer_precision_ms,
            log_file_size=config.mapped_file_size_timer_log,
        )
        timed = store.max_offset(names.TIMER_TOPIC, 0, committed=False)
        self._files.open(core.clock(), log_end=store.max_physical_offset, queue_end=timed)
        core.positions.note("timer", self._files.set_back)
        self._counts = TimerCounts(config.config_dir / "timermetrics", core.clock)
        self._counts.load()
        self.timer = TimerDelivery(
            config,
            store,
            core.durability,
            self._files,
            self._counts,
            core.clock,
            core.stats.stored,
            put=onward.put,
            follows=core.is_slave,
        )
        self.timer.done = tail.timed
        self._runs = config.timer_wheel_enable
        if self._runs:
            onward.when_woken(self.timer.retry)

    def handlers(self) -> Mapping[int, Handler]:
        """The request codes served here."""
        return self.timer.handlers()

    def follows(self) -> Mapping[str, Told]:
        """Messages that wait."""
        return {names.TIMER_TOPIC: self.timer.arrived} if self._runs else {}

    def every(self) -> Iterable[Every]:
        """Save, measure, clean."""
        if self._runs:
            topics = self._core.topics
            yield Every(self._core.config.timer_flush_interval_ms / 1000, self.timer.save)
            yield Every(SAMPLE_INTERVAL, self.timer.sample)
            yield Every(CLEAN_INTERVAL, self.timer.clean)
            yield Every(COUNT_INTERVAL, lambda: self._counts.forget_unknown(topics.__contains__))

    def runtime(self) -> Mapping[str, object]:
        """For the runtime information."""
        return self.timer.runtime() if self._runs else {}

    async def start(self) -> None:
        """Deliver from now on."""
        core = self._core
        core.store.add_hook(Postpone(core.config, core.clock, self.timer.waiting), MARKS)
        if self._slaves is not None and self._slaves.taken_over is not None:
            self.timer.take_over(self._slaves.taken_over)
        if self._runs:
            self.timer.start()

    async def stop(self) -> None:
        """Deliver no more."""
        try:
            if self._runs:
                self.timer.stop()
        finally:
            self._files.close()

    def lead(self) -> None:
        """Deliver in the place of the master."""
        if self._runs:
            self.timer.lead()

    def stand_back(self) -> None:
        """Leave it to the master."""
        if self._runs:
            self.timer.follow()


class SavedPosition(Part):
    """How much of the log is reflected in saved positions, so that a start has little to read. Not on a slave."""

    def __init__(self, core: Core, delays: DelayLevels, timer: TimerDelivery, settle_pops: Callable[[], None]) -> None:
        self._core = core
        self._delays = delays
        self._timer = timer
        self._settle_pops = settle_pops

    def every(self) -> Iterable[Every]:
        """Note it."""
        return [Every(POSITION_INTERVAL, self._save, at_once=True)]

    async def _save(self) -> None:
        core, timer = self._core, self._timer
        if timer.settled:
            await core.tables.log_position.save(
                core.store, core.durability, self._delays.save, timer.save, self._save_offsets
            )

    async def _save_offsets(self) -> None:
        self._settle_pops()
        await self._core.offsets.save()
