"""What a slave copies besides the log: topics, groups, offsets, request modes, how far delays and timer have come.

Each table is taken whole, when its version differs. What consumers committed here while the master was away, or not
known to them, is told to the master first, where it is further on. How far deliveries have come waits until the log has
caught up: what it speaks of must be here before, or it would be lost with the master.
"""

import asyncio
import contextlib
import logging
from typing import NamedTuple

from pyromq.broker.admin.offsets import ORDERED_BATCHES, WHICH_TABLE
from pyromq.broker.core import Core
from pyromq.broker.delay.timer import TimerDelivery
from pyromq.broker.replication.link import MasterLink
from pyromq.broker.replication.peer import Peer, PeerRefused
from pyromq.broker.replication.unsavedtopics import UnsavedTopics
from pyromq.broker.replication.verdict import MasterVerdict
from pyromq.errors import PyroMQError
from pyromq.protocol import names
from pyromq.protocol.bodies.groups import SubscriptionGroupTable
from pyromq.protocol.bodies.offsets import ConsumerOffsetTable, DelayOffsetTable
from pyromq.protocol.bodies.pop import ConsumerOrderTable
from pyromq.protocol.bodies.queues import MessageRequestModeTable
from pyromq.protocol.bodies.stats import TimerMetrics
from pyromq.protocol.bodies.topics import TopicConfigTable
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command
from pyromq.protocol.errors import ProtocolError
from pyromq.protocol.requests import commit_offset
from pyromq.store.arrival import Arrived
from pyromq.store.timer.checkpoint import TimerCheckpoint

log = logging.getLogger(__name__)

INTERVAL = 10.0
DELIVERY_INTERVAL = 3.0
FEW_OFFSETS = 1_000
"""Groups and topics up to which all offsets are copied as often as what is delivered."""
MAX_TOLD = 5_000
"""Offsets that the master is told at a time."""

_OWN_GROUPS = frozenset({names.TRANSACTION_GROUP, names.REVIVE_GROUP})
"""Of brokers themselves: a master reads these at its start only."""


class _Deliveries(NamedTuple):
    """How far a master's deliveries had come when its log ended at `end`."""

    end: int
    delays: DelayOffsetTable
    timer: TimerCheckpoint
    counts: TimerMetrics


class MasterTables:
    """Asks the master of a slave, as long as its log is followed."""

    def __init__(
        self,
        core: Core,
        link: MasterLink,
        master: Peer,
        verdict: MasterVerdict,
        unsaved: UnsavedTopics,
        timer: TimerDelivery,
    ) -> None:
        self._core = core
        self._tables = core.tables
        self._link = link
        self._master = master
        self._verdict = verdict
        self._unsaved = unsaved
        self._timer = timer
        self._waiting: _Deliveries | None = None
        self._wake = asyncio.Event()
        self._failing = False
        self._offset_keys = 0
        self.synced = 0
        """How often everything was copied."""
        link.listeners.append(self._wake.set)

    @property
    def may_copy(self) -> bool:
        """Whether the log is being followed: a slave whose log is not the master's keeps its own tables, too."""
        return bool(self._master.address) and self._link.connected

    def arrived(self, arrived: Arrived) -> None:
        """Messages came over. The topic of one that nobody told of yet is made up until the table is there."""
        if all(topic in self._tables.topics for topic in arrived.topics):
            return
        for message in arrived.arrivals():
            if message.topic not in self._tables.topics:
                self._wake.set()
                self._unsaved.note(message)
                if self.synced or self._failing:  # else the first copy may have them all
                    self._assume(message.topic)

    def _assume(self, topic: str) -> bool:
        """Make up a topic, and report more once it is on disk; False when there are as many as may be."""
        save = self._unsaved.assume(topic)
        if save is not None:
            save.when_saved(self._link.tick)
        return save is not None

    def _assume_all(self) -> None:
        """Make up the topics that could not be copied: the master may not come back. Nothing waits for too many."""
        for topic in self._unsaved:
            if not self._assume(topic):
                self._unsaved.forget([topic])
                log.warning("the master's topic %s is one more than maxTopics: it cannot be read here", topic)

    async def keep(self) -> None:
        """Copy everything now and then, and soon after a new topic showed up."""
        while True:
            try:
                if self.may_copy:
                    await self.sync()
                self._failing = False
            except (PyroMQError, OSError) as error:  # it does not answer, or this disk is full
                if not self._failing:
                    log.warning("tables cannot be copied from the master at %s: %s", self._master.address, error)
                self._failing = True
            except Exception:
                log.exception("copying tables from the master failed")
            self._assume_all()
            await asyncio.sleep(1.0 if self._failing else 0.1)
            try:
                async with asyncio.timeout(INTERVAL if self.synced else 1.0):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()

    async def sync(self) -> None:
        """Copy all tables once. Raises PyroMQError, and OSError when they cannot be saved."""
        tables, unsaved = self._tables, list(self._unsaved)
        topics = await self._master.fetch(RequestCode.GET_ALL_TOPIC_CONFIG, TopicConfigTable.decode)
        if topics.data_version != tables.topics.version or tables.topics.assumed:
            await tables.topics.replace_all(topics)
        self._unsaved.forget(unsaved)  # each is in the table, or was deleted since
        self._link.tick()
        groups = await self._master.fetch(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, SubscriptionGroupTable.decode)
        if groups.data_version != tables.groups.version:
            await tables.groups.replace_all(groups)
        await self._sync_offsets()
        await tables.modes.replace_all(
            await self._master.fetch(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE, MessageRequestModeTable.decode)
        )
        await self.sync_deliveries()
        self.synced += 1

    async def _sync_offsets(self) -> None:
        offsets = self._tables.offsets
        table = await self._master.fetch(RequestCode.GET_ALL_CONSUMER_OFFSET, ConsumerOffsetTable.decode)
        self._offset_keys = len(table.offset_table)
        for topic, group, queue_id, offset in offsets.take_unshared(MAX_TOLD):
            known = table.offset_table.setdefault(f"{topic}@{group}", {})
            if offset > known.get(queue_id, -1) and group not in _OWN_GROUPS:
                await self._tell(topic, group, queue_id, offset)
                known[queue_id] = offset
        offsets.merge(table)
        await self._sync_ordered_batches()

    async def _sync_ordered_batches(self) -> None:
        """Offsets of ordered pops are half of the story. A master of Apache's answers with its offsets again."""
        ext = {WHICH_TABLE: ORDERED_BATCHES}
        answer = await self._master.call(Command.request(RequestCode.GET_ALL_CONSUMER_OFFSET, ext=ext))
        with contextlib.suppress(ProtocolError):
            self._tables.batches.replace_all(ConsumerOrderTable.decode(answer.body))

    async def _tell(self, topic: str, group: str, queue_id: int, offset: int) -> None:
        try:
            await self._master.call(commit_offset(group, topic, queue_id, offset).command)
        except PeerRefused as refused:
            log.info("the master does not take the offset of %s in %s: %s", group, topic, refused)

    async def keep_deliveries(self) -> None:
        """The part that moves all the time, more often than the rest."""
        if self.synced and self.may_copy:
            with contextlib.suppress(PyroMQError):  # `keep` complains
                if self._tables.offsets.unshared or self._offset_keys <= FEW_OFFSETS:
                    await self._sync_offsets()
                await self.sync_deliveries()

    async def sync_deliveries(self) -> None:
        """Copy how far deliveries have come, or what was copied before and is due now. Raises PyroMQError."""
        if self._core.role.working:
            return  # this slave delivers itself: the master will ask how far it got
        if self._waiting is None:
            self._waiting = await self._ask_deliveries()
        found = self._waiting
        if self._core.store.progress.confirmed < found.end:
            return
        self._waiting = None
        delays = self._tables.delays
        delays.replace_all(found.delays)
        self._timer.follow(found.timer)
        self._timer.counts.replace_all(found.counts)
        await asyncio.to_thread(delays.persist, delays.table())

    async def _ask_deliveries(self) -> _Deliveries:
        delays = await self._master.fetch(RequestCode.GET_ALL_DELAY_OFFSET, DelayOffsetTable.decode)
        timer, counts = TimerCheckpoint(), TimerMetrics()
        with contextlib.suppress(PeerRefused, ProtocolError):  # before 5.0 there was no timer
            timer = await self._master.fetch(RequestCode.GET_TIMER_CHECK_POINT, TimerCheckpoint.decode)
            counts = await self._master.fetch(RequestCode.GET_TIMER_METRICS, TimerMetrics.decode)
        master = await self._verdict.log()  # after the tables: all they speak of is below the end
        self._link.look(master)
        return _Deliveries(master.end, delays, timer, counts)
