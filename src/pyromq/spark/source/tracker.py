"""The driver's side of a stream: where it begins, how far each micro-batch goes, what the group is told.

Offsets come in and go out in their JSON form. "No new data" is the very object that was given: Spark compares texts.
Outages of brokers make a stream wait, not fail; only lost data, wrong options and a beginning nobody can tell end it.
"""

import logging
import time
from collections.abc import Callable
from typing import Any

from pyromq.protocol.message import MessageQueue
from pyromq.spark.errors import DataLossError, LostRange, RouteError
from pyromq.spark.net.patience import FAULTS
from pyromq.spark.source.batchsize import BatchSize
from pyromq.spark.source.bounds import all_bounds, starting_offsets
from pyromq.spark.source.brokers.cluster import Cluster
from pyromq.spark.source.brokers.longpoll import LOOK, LongPoll
from pyromq.spark.source.marks import look_at, made_again, place_of, renewed
from pyromq.spark.source.offsets import Bounds, Offset, Positions, Standing, advanced, capped, losses, standing
from pyromq.spark.source.options import DataLoss, SourceOptions

log = logging.getLogger(__name__)

Json = dict[str, Any]


class Tracker:
    """The offsets of one stream. For one thread."""

    def __init__(
        self,
        options: SourceOptions,
        cluster: Cluster,
        long_poll: LongPoll,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._options = options
        self._cluster = cluster
        self._long_poll = long_poll
        self._clock = clock
        self._sleep = sleep
        self._batch_size = BatchSize(options, clock)
        self._initial: Json | None = None
        self._given: Json = {}
        self._offset = Offset({})
        """What was given last, which an idle stream is given again and again."""
        self._target: Positions | None = None
        self._queues: list[MessageQueue] = []
        self._discovered: float | None = None
        self._is_blind = False
        self._gone: list[MessageQueue] = []
        self._bounds: Bounds = {}
        self._looked: float | None = None
        self._highest: Positions = {}
        self._reached: Positions = {}
        self._is_proved = False
        self._committed: Positions = {}
        self._commit_after = 0.0
        self._warned: set[tuple[object, ...]] = set()

    def initial(self) -> Json:
        """Where a new query begins; resolved once. Raises RouteError, OptionError or BrokerError."""
        if self._initial is None:
            self._initial = Offset(self._begin(), fresh=True).render()
        return self._initial

    def _begin(self) -> Positions:
        if self._target is None:
            self._survey()  # else the beginning must not lie behind the end that was frozen
        default = "latest" if self._options.group is None else "group"
        return starting_offsets(self._cluster, self._queues, self._bounds, default=default)

    def _survey(self) -> None:
        """Learn of every queue and its bounds. Raises RouteError when that is not possible in time."""
        queues = self._cluster.patiently(self._existing)
        bounds = all_bounds(self._cluster, queues)
        self._queues, self._bounds = queues, bounds
        self._discovered = self._looked = self._clock()
        self._highest = self._highest | {queue: high for queue, (_, high) in bounds.items()}

    def _existing(self) -> list[MessageQueue]:
        queues = self._cluster.queues()
        if not queues and not self._options.wait_for_topic:
            wanted = self._options.topics_pattern or ", ".join(self._cluster.topics())
            raise RouteError(
                f"nobody serves {wanted}: create the topic, check nameServer, or set waitForTopic=true to begin without"
            )
        return queues

    def latest(
        self, start: Json, *, max_rows: int | None = None, max_bytes: int | None = None, everything: bool = False
    ) -> Json:
        """The end of the next micro-batch; `start` itself when there is nothing to do yet. Raises DataLossError."""
        if start != self._given:
            self._given, self._offset = start, Offset.parse(start)
        offset = self._offset
        self._batch_size.asked()
        if not offset.fresh:
            self._commit(offset.positions)
        began = self._clock()
        while True:
            stand, lost = self._stand(offset)
            available = sum(stand.available.values())
            noteworthy = bool(lost) and self._options.fail_on_data_loss is DataLoss.RECORD
            if offset.fresh or noteworthy or self._is_due(available):
                return self._end(offset, stand, max_rows, max_bytes, everything)
            silent = self._silent(offset)
            patience = self._options.offset_timeout_ms if silent else self._options.max_wait_ms
            left = began + patience / 1000 - self._clock()
            if silent and left <= 0:
                raise RouteError(f"no answer about offsets from {', '.join(silent)}; not all was read, run it again")
            if (self._target is not None and not silent) or left <= 0:
                self._commit(offset.positions, at_once=self._target is not None)
                return start
            if available or silent:
                self._sleep(min(LOOK, left))  # too few to begin with, or nobody to ask
            else:
                self._long_poll.wait({queue: stand.begin[queue] for queue in self._bounds}, left)
            self._looked = None

    def _silent(self, offset: Offset) -> list[str]:
        """Brokers that say nothing about queues whose end was fixed and is not reached: the stream must not end yet."""
        target = self._target or {}
        waiting = [queue for queue, end in target.items() if queue not in self._bounds and queue not in self._gone]
        return sorted({queue.broker_name for queue in waiting if offset.positions.get(queue, 0) < target[queue]})

    def _is_due(self, available: int) -> bool:
        return available > 0 if self._target is not None else self._batch_size.is_due(available)

    def _stand(self, offset: Offset) -> tuple[Standing, list[LostRange]]:
        """Where the stream is, and what the next batch will pass over. Raises DataLossError."""
        self._discover(offset.positions)
        self._look(offset.positions)
        stand = self._standing(offset)
        if offset.marks and (stand.available or not self._is_proved):
            anew = self._remade(offset, stand)
            stand = self._standing(offset, anew)
        lost = (losses(offset, advanced(stand, {})) if stand.skip else []) + self._deleted(offset)
        if lost and self._options.fail_on_data_loss is DataLoss.FAIL:
            raise DataLossError(lost)
        for each in lost:
            if each[:4] not in self._warned:
                self._warned.add(each[:4])
                log.warning("messages are gone that were not read: %s", each)
        return stand, lost

    def _standing(self, offset: Offset, anew: Positions | None = None) -> Standing:
        bounds = self._bounds if self._target is None else capped(self._bounds, self._target)
        return standing(offset.positions, bounds, gone=offset.gone, anew=anew)

    def _remade(self, offset: Offset, stand: Standing) -> Positions:
        """Queues of topics that are not those that were read, with how far those were seen to reach."""
        places = {place_of(queue) for queue in stand.available} if self._is_proved else None
        verdict = look_at(self._cluster, offset.marks, self._bounds, places)
        self._is_proved = self._is_proved or not verdict.unsure
        if verdict.unsure:  # as if their brokers had said nothing at all: what cannot be known again must not be read
            self._bounds = {queue: b for queue, b in self._bounds.items() if place_of(queue) not in verdict.unsure}
            self._looked = None
        return made_again(verdict.remade, offset.positions, self._bounds, self._reached)

    def _end(
        self, offset: Offset, stand: Standing, max_rows: int | None, max_bytes: int | None, everything: bool
    ) -> Json:
        if stand.available and (max_bytes or self._options.max_bytes_per_trigger) and not everything:
            fullest = max(stand.available, key=lambda queue: stand.available[queue])
            self._batch_size.sized(*self._cluster.sample(fullest, stand.begin[fullest]))
        taken = self._batch_size.take(stand.available, max_rows=max_rows, max_bytes=max_bytes, everything=everything)
        gone = {MessageQueue(*each[:3]): each.end for each in self._deleted(offset)}
        end = advanced(stand, taken, init=offset.positions if offset.fresh else None, gone=gone)
        remade = {place_of(queue) for queue in stand.anew}
        known = {queue: mark for queue, mark in offset.marks.items() if place_of(queue) not in remade}
        end.marks.update(renewed(self._cluster, known, end.positions, self._bounds, taken))
        self._reached = self._highest
        return end.render()

    def freeze(self) -> None:
        """From now on, only what is there at this moment is read. Raises RouteError."""
        self._survey()
        self._target = {queue: high for queue, (_, high) in self._bounds.items()}

    def report(self) -> Json | None:
        """How far the queues reach, as last seen, those that are deleted apart; None before the first look."""
        there = {queue: high for queue, high in self._highest.items() if queue not in self._gone}
        gone = {queue: self._highest.get(queue, 0) for queue in self._gone}
        return Offset(there, gone=gone).render() if self._highest else None

    def commit(self, end: Json) -> None:
        """Tell the group what is done, best effort."""
        self._commit(Offset.parse(end).positions)

    def close(self) -> None:
        """Close the connections."""
        self._long_poll.close()
        self._cluster.wire.close()

    def _commit(self, positions: Positions, *, at_once: bool = False) -> None:
        group = self._options.group
        if group is None or (self._clock() < self._commit_after and not at_once):
            return
        changed = {queue: offset for queue, offset in positions.items() if self._committed.get(queue) != offset}
        if not changed:
            return
        self._commit_after = self._clock() + self._options.group_commit_interval_ms / 1000
        try:
            taken = self._cluster.commit(changed)
        except FAULTS as error:
            log.warning("offsets of group %s were not committed: %s", group, error)
            return
        self._committed |= {queue: changed[queue] for queue in taken}

    def _discover(self, positions: Positions) -> None:
        """Look for queues that came or went, now and then."""
        now = self._clock()
        if self._discovered is not None and now < self._discovered + self._options.partition_discovery_ms / 1000:
            return
        try:
            queues = self._cluster.queues()
            missing = sorted(set(positions) - set(queues))
            # A broker that is away takes its queues along; only one that lives and does not have them lost them.
            living = self._cluster.living_brokers() if missing else set()
        except FAULTS as error:
            if not self._is_blind:
                log.warning("queues cannot be looked up: %s", error)
            self._is_blind = True
            return
        self._queues, self._discovered, self._is_blind = queues, now, False
        self._gone = [queue for queue in missing if queue.broker_name in living]

    def _look(self, positions: Positions) -> None:
        """Learn how far the queues reach, unless that is known well enough."""
        now = self._clock()
        if self._looked is not None and now < self._looked + self._options.offset_cache_ms / 1000:
            return
        before, self._bounds, self._looked = self._bounds, self._cluster.bounds(self._queues), now
        if self._bounds is before:
            return
        if any(high < self._highest.get(queue, 0) for queue, (_, high) in self._bounds.items()):
            # Brokers call topics empty that they do not have: see whether those are still there, and how far they went.
            self._discovered = None
            self._discover(positions)
            self._bounds = {queue: self._bounds[queue] for queue in self._queues if queue in self._bounds}
        self._highest = self._highest | {queue: high for queue, (_, high) in self._bounds.items()}

    def _deleted(self, offset: Offset) -> list[LostRange]:
        """What queues that are gone for good had beyond our positions, as far as that is known and not noted yet."""
        positions = offset.positions
        return [
            LostRange(queue.topic, queue.broker_name, queue.queue_id, positions[queue], high, "deleted")
            for queue in self._gone
            if queue in positions
            and (high := self._highest.get(queue, 0)) > max(positions[queue], offset.gone.get(queue, 0))
        ]
