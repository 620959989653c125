"""What a slave copies besides the log: topics, groups, offsets, request modes, how far delays and timer have come.

Each table is taken whole, when its version differs. What consumers committed here while the master was away, or not
known to them, is told to the master first, where it is further on. How far deliveries have come waits until the log has
caught up: what it speaks of must be here before, or it would be lost with the master.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from pyromq.broker.admin.offsets import ORDERED_BATCHES, WHICH_TABLE
from pyromq.broker.core import Core
from pyromq.broker.delay.timer import TimerDelivery
from pyromq.broker.replication.slave import MasterLink, MasterLog
from pyromq.broker.replication.verdict import MasterVerdict
from pyromq.errors import PyroMQError
from pyromq.protocol import names
from pyromq.protocol.bodies.base import Body
from pyromq.protocol.bodies.groups import SubscriptionGroupTable
from pyromq.protocol.bodies.offsets import ConsumerOffsetTable, DelayOffsetTable
from pyromq.protocol.bodies.pop import ConsumerOrderTable
from pyromq.protocol.bodies.queues import MessageRequestModeTable
from pyromq.protocol.bodies.stats import TimerMetrics
from pyromq.protocol.bodies.topics import TopicConfigTable
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.errors import ProtocolError
from pyromq.protocol.requests import commit_offset
from pyromq.store.arrival import Arrival
from pyromq.store.timer.checkpoint import TimerCheckpoint

log = logging.getLogger(__name__)

INTERVAL = 10.0
DELIVERY_INTERVAL = 3.0
CALL_TIMEOUT = 5.0
FEW_OFFSETS = 1_000
"""Groups and topics up to which all offsets are copied as often as what is delivered."""
MAX_TOLD = 5_000
"""Offsets that the master is told at a time."""

_OWN_GROUPS = frozenset({names.TRANSACTION_GROUP, names.REVIVE_GROUP})
"""Of brokers themselves: a master reads these at its start only."""

Table = TypeVar("Table", bound=Body)


class MasterRefused(PyroMQError):  # noqa: N818 - the name says what happened
    """The master answered with an error."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class _Deliveries(NamedTuple):
    """How far a master's deliveries had come when its log ended at `end`."""

    end: int
    delays: DelayOffsetTable
    timer: TimerCheckpoint
    counts: TimerMetrics


class _Newcomer(NamedTuple):
    """A topic that is not on disk: where its first message lies, how many queues it has at least."""

    place: int
    queues: int


class MasterTables:
    """Asks the master of a slave."""

    def __init__(self, core: Core, link: MasterLink, verdict: MasterVerdict, timer: TimerDelivery) -> None:
        self._core = core
        self._link = link
        self._verdict = verdict
        self._timer = timer
        self._waiting: _Deliveries | None = None
        self._wake = asyncio.Event()
        self._failing = False
        self._offset_keys = 0
        self._unsaved: dict[str, _Newcomer] = {}
        self.log_seen: Callable[[MasterLog], None] = lambda _log: None
        """Told where the master's log is, whenever it was asked."""
        self.topics_saved: Callable[[], None] = lambda: None
        """Called when there may be fewer topics that are not on disk."""
        self.synced = 0
        """How often everything was copied."""

    @property
    def address(self) -> str:
        """The master's main port; empty while it is not known."""
        return self._verdict.address

    @property
    def may_copy(self) -> bool:
        """Whether the log is being followed: a slave whose log is not the master's keeps its own tables, too."""
        return bool(self.address) and self._link.connected

    def wake(self) -> None:
        """Copy everything soon."""
        self._wake.set()

    def arrived(self, message: Arrival) -> None:
        """A message came over. The topic of one that nobody told of yet is made up until the table is there."""
        if message.topic not in self._core.topics:
            self._wake.set()
            before = self._unsaved.get(message.topic, _Newcomer(message.physical_offset, 0))
            self._unsaved[message.topic] = before._replace(queues=max(before.queues, message.queue_id + 1))
            if self.synced or self._failing:  # else the first copy may have them all
                self._assume(message.topic)

    def first_unsaved(self) -> int | None:
        """Where in the log the first message lies whose topic is not on disk: without it nobody could read it."""
        for topic in [topic for topic in self._unsaved if topic in self._core.topics]:
            del self._unsaved[topic]
        return min((each.place for each in self._unsaved.values()), default=None)

    def _assume(self, topic: str) -> bool:
        """Make up a topic; False when there are as many as may be."""
        save = self._core.topics.assume(topic, self._unsaved[topic].queues)
        if save is not None:
            save.when_saved(self.topics_saved)
        return save is not None

    def _assume_all(self) -> None:
        """Make up the topics that could not be copied: the master may not come back. Nothing waits for too many."""
        for topic in list(self._unsaved):
            if not self._assume(topic):
                del self._unsaved[topic]
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
                    log.warning("tables cannot be copied from the master at %s: %s", self.address, error)
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
        core, unsaved = self._core, list(self._unsaved)
        topics = await self._fetch(RequestCode.GET_ALL_TOPIC_CONFIG, TopicConfigTable)
        if topics.data_version != core.topics.version or core.topics.assumed:
            await core.topics.replace_all(topics)
        for topic in unsaved:  # it is in the table, or was deleted since
            self._unsaved.pop(topic, None)
        self.topics_saved()
        groups = await self._fetch(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, SubscriptionGroupTable)
        if groups.data_version != core.groups.version:
            await core.groups.replace_all(groups)
        await self._sync_offsets()
        await core.tables.modes.replace_all(
            await self._fetch(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE, MessageRequestModeTable)
        )
        await self.sync_deliveries()
        self.synced += 1

    async def _sync_offsets(self) -> None:
        offsets = self._core.offsets
        table = await self._fetch(RequestCode.GET_ALL_CONSUMER_OFFSET, ConsumerOffsetTable)
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
        answer = await self._call(Command.request(RequestCode.GET_ALL_CONSUMER_OFFSET, ext=ext))
        with contextlib.suppress(ProtocolError):
            self._core.tables.batches.replace_all(ConsumerOrderTable.decode(answer.body))

    async def _tell(self, topic: str, group: str, queue_id: int, offset: int) -> None:
        try:
            await self._call(commit_offset(group, topic, queue_id, offset).command)
        except MasterRefused as refused:
            log.info("the master does not take the offset of %s in %s: %s", group, topic, refused)

    async def keep_deliveries(self) -> None:
        """The part that moves all the time, more often than the rest."""
        core = self._core
        if self.synced and self.may_copy:
            with contextlib.suppress(PyroMQError):  # `keep` complains
                if core.offsets.unshared or self._offset_keys <= FEW_OFFSETS:
                    await self._sync_offsets()
                await self.sync_deliveries()

    async def sync_deliveries(self) -> None:
        """Copy how far deliveries have come, or what was copied before and is due now. Raises PyroMQError."""
        core = self._core
        if core.role.working:
            return  # this slave delivers itself: the master will ask how far it got
        if self._waiting is None:
            self._waiting = await self._ask_deliveries()
        found = self._waiting
        if core.store.progress.confirmed < found.end:
            return
        self._waiting = None
        core.tables.delays.replace_all(found.delays)
        self._timer.follow(found.timer)
        self._timer.counts.replace_all(found.counts)
        await asyncio.to_thread(core.tables.delays.persist, core.tables.delays.table())

    async def _ask_deliveries(self) -> _Deliveries:
        delays = await self._fetch(RequestCode.GET_ALL_DELAY_OFFSET, DelayOffsetTable)
        timer, counts = TimerCheckpoint(), TimerMetrics()
        with contextlib.suppress(MasterRefused, ProtocolError):  # before 5.0 there was no timer
            timer = TimerCheckpoint.decode((await self._call(Command.request(RequestCode.GET_TIMER_CHECK_POINT))).body)
            counts = await self._fetch(RequestCode.GET_TIMER_METRICS, TimerMetrics)
        master = await self._verdict.log()  # after the tables: all they speak of is below the end
        self.log_seen(master)
        return _Deliveries(master.end, delays, timer, counts)

    async def _fetch(self, code: RequestCode, kind: type[Table]) -> Table:
        return kind.decode((await self._call(Command.request(code))).body)

    async def _call(self, command: Command) -> Command:
        answer = await self._core.client.call(self.address, command, CALL_TIMEOUT)
        if answer.code != ResponseCode.SUCCESS:
            raise MasterRefused(answer.code, f"{command.name}: {answer.name}, {answer.remark}")
        return answer
