"""Puts together what brings messages back later: retries, delay levels, the timer, recalls. No behaviour of its own."""

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from pyromq.broker.consume.retry import Retries
from pyromq.broker.delay.levels import DelayLevels
from pyromq.broker.delay.postpone import MARKS, Postpone
from pyromq.broker.delay.recall import Recalls
from pyromq.broker.delay.timer import TimerDelivery
from pyromq.broker.delay.timercounts import TimerCounts
from pyromq.broker.replication.succession.actingmaster import Work
from pyromq.protocol import names
from pyromq.store.config import BrokerRole
from pyromq.store.timer.files import TimerFiles

if TYPE_CHECKING:
    from pyromq.broker.broker import Broker

SAMPLE_INTERVAL = 10.0
CLEAN_INTERVAL = 30.0
POSITION_INTERVAL = 5.0
COUNT_INTERVAL = 180.0


def delivery_parts(broker: "Broker", undo: AsyncExitStack) -> tuple[Retries, DelayLevels, TimerDelivery, Recalls]:
    """Start all of it on a broker whose store is open and whose sender is there; `undo` gets how to stop it."""
    retries = Retries(
        broker.config, broker.topics, broker.groups, broker.locks, broker.store, broker.durability, broker.stats
    )
    retries.way_out = broker.way_out
    broker.sender.steps.append(retries.divert)
    recalls = Recalls(broker.config, broker.topics, broker.store, broker.durability, broker.clock, broker.sender.count)
    delays, timer = _start_delays(broker, undo), _start_timer(broker, undo)
    if broker.config.broker_role is not BrokerRole.SLAVE:
        _keep_position(broker, delays, timer)
    return retries, delays, timer, recalls


def _keep_position(broker: "Broker", delays: DelayLevels, timer: TimerDelivery) -> None:
    """Note how much of the log is reflected in saved positions, so that a start has little to read."""
    position, store = broker.log_position, broker.store

    async def save_offsets() -> None:
        broker.pop.settle()
        await broker.offsets.save()

    async def save() -> None:
        if timer.settled:
            await position.save(store, broker.durability, delays.save, timer.save, save_offsets)

    broker.timers.every(POSITION_INTERVAL, save, at_once=True)


def _start_delays(broker: "Broker", undo: AsyncExitStack) -> DelayLevels:
    """Messages with a delay level; a slave leaves them to its master, unless it acts for it."""
    config, store = broker.config, broker.store
    delays = DelayLevels(
        store,
        broker.durability,
        broker.delay_offsets,
        store.config.delays,
        broker.clock,
        broker.sender.count,
        put=broker.put_onward,
    )
    broker.runtime_sources.append(delays.runtime)
    if broker.acting is not None:
        broker.acting.work.append(Work(delays.start, delays.stop))
        broker.escape.woken.append(delays.retry)
    elif config.broker_role is not BrokerRole.SLAVE:
        done = broker.tail.delay_offsets()
        broker.delay_offsets.raise_to(done, lambda level: store.max_offset(names.SCHEDULE_TOPIC, level - 1))
        broker.followers[names.SCHEDULE_TOPIC] = delays.arrived
        undo.callback(delays.stop)
        delays.start()
        broker.timers.every(config.flush_delay_offset_interval / 1000, delays.save)
    return delays


def _start_timer(broker: "Broker", undo: AsyncExitStack) -> TimerDelivery:
    """Messages with a time of their own; and the hook that has the store set aside these and those with a level."""
    config, store, every = broker.config, broker.store, broker.timers.every
    files = TimerFiles(
        config.store_path_root_dir,
        precision=config.timer_precision_ms,
        log_file_size=config.mapped_file_size_timer_log,
    )
    timed = store.max_offset(names.TIMER_TOPIC, 0, committed=False)
    files.open(broker.clock(), log_end=store.max_physical_offset, queue_end=timed)
    broker.positions.note("timer", files.set_back)
    undo.callback(files.close)
    counts = TimerCounts(config.config_dir / "timermetrics", broker.clock)
    counts.load()
    timer = TimerDelivery(
        config,
        store,
        broker.durability,
        files,
        counts,
        broker.clock,
        broker.sender.count,
        put=broker.put_onward,
        follows=config.broker_role is BrokerRole.SLAVE,
    )
    store.add_hook(Postpone(config, broker.clock, timer.waiting), MARKS)
    timer.done = broker.tail.timed
    if broker.taken_over is not None:
        timer.take_over(broker.taken_over)
    if config.timer_wheel_enable:
        broker.runtime_sources.append(timer.runtime)
        broker.followers[names.TIMER_TOPIC] = timer.arrived
        undo.callback(timer.stop)
        timer.start()
        every(config.timer_flush_interval_ms / 1000, timer.save)
        every(SAMPLE_INTERVAL, timer.sample)
        every(CLEAN_INTERVAL, timer.clean)
        every(COUNT_INTERVAL, lambda: counts.forget_unknown(broker.topics.__contains__))
        if broker.acting is not None:
            broker.acting.work.append(Work(timer.lead, timer.follow))
            broker.escape.woken.append(timer.retry)
    return timer
