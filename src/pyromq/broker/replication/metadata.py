"""What a slave copies besides the log: topics, groups, offsets, delay offsets, request modes, from its master's port.

Each table is taken whole, when its version differs; what the slave's own clients committed meanwhile stays where the
master knows nothing. Delay offsets wait until the log has caught up with them: a delivery that they speak of must be
here before they are, or it would be lost with the master.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from pyromq.broker.replication.slave import MasterLog
from pyromq.errors import PyroMQError
from pyromq.protocol.bodies import (
    Body,
    ConsumerOffsetTable,
    DelayOffsetTable,
    KVTable,
    MessageRequestModeTable,
    SubscriptionGroupTable,
    TopicConfigTable,
)
from pyromq.protocol.codes import RequestCode, ResponseCode, request_name, response_name
from pyromq.protocol.command import Command
from pyromq.protocol.headers import Header, ViewMessageByIdHeader
from pyromq.store import Dispatch

if TYPE_CHECKING:
    from pyromq.broker.broker import Broker

log = logging.getLogger(__name__)

INTERVAL = 10.0
CALL_TIMEOUT = 5.0

Table = TypeVar("Table", bound=Body)


class MasterRefused(PyroMQError):  # noqa: N818 - the name says what happened
    """The master answered with an error."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class MasterTables:
    """Asks the master of a slave."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._waiting_delays: tuple[int, DelayOffsetTable] | None = None
        self._wake = asyncio.Event()
        self._failing = False
        self.log_seen: Callable[[MasterLog], None] = lambda _log: None
        """Told where the master's log is, whenever it was asked."""
        self.synced = 0
        """How often everything was copied."""

    @property
    def address(self) -> str:
        """The master's main port; empty while it is not known."""
        return self._broker.registration.master.address

    def arrived(self, message: Dispatch) -> None:
        """A message came over: one of a topic that is not known here means that there is news."""
        if message.topic not in self._broker.topics:
            self._wake.set()

    async def keep(self) -> None:
        """Copy everything now and then, and soon after a new topic showed up."""
        while True:
            try:
                if self.address:
                    await self.sync()
                self._failing = False
            except PyroMQError as error:
                if not self._failing:
                    log.warning("tables cannot be copied from the master at %s: %s", self.address, error)
                self._failing = True
            except Exception:
                log.exception("copying tables from the master failed")
            await asyncio.sleep(1.0 if self._failing or not self.address else 0.1)
            try:
                async with asyncio.timeout(INTERVAL if self.synced else 1.0):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()

    async def sync(self) -> None:
        """Copy all tables once. Raises PyroMQError."""
        broker = self._broker
        topics = await self._fetch(RequestCode.GET_ALL_TOPIC_CONFIG, TopicConfigTable)
        if topics.data_version != broker.topics.version:
            broker.topics.replace_all(topics)
        groups = await self._fetch(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, SubscriptionGroupTable)
        if groups.data_version != broker.groups.version:
            broker.groups.replace_all(groups)
        broker.offsets.merge(await self._fetch(RequestCode.GET_ALL_CONSUMER_OFFSET, ConsumerOffsetTable))
        broker.request_modes.replace_all(
            await self._fetch(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE, MessageRequestModeTable)
        )
        await self._sync_delays()
        self.synced += 1

    async def _sync_delays(self) -> None:
        broker = self._broker
        fresh = await self._fetch(RequestCode.GET_ALL_DELAY_OFFSET, DelayOffsetTable)
        master = await self.log()  # after the table: all it speaks of is below the end
        if master is None:
            return
        self.log_seen(master)
        if self._waiting_delays is None:
            self._waiting_delays = master.end, fresh
        needed, table = self._waiting_delays
        if broker.store.confirm_offset >= needed:
            self._waiting_delays = None
            broker.delay_offsets.replace_all(table)
            await asyncio.to_thread(broker.delay_offsets.persist, broker.delay_offsets.table())

    async def log(self) -> MasterLog | None:
        """Where the master's log begins and ends; None when it cannot be asked."""
        if not self.address:
            return None
        try:
            info = (await self._fetch(RequestCode.GET_BROKER_RUNTIME_INFO, KVTable)).table
            return MasterLog(max(0, int(info["commitLogMinOffset"])), int(info["commitLogMaxOffset"]))
        except (PyroMQError, KeyError, ValueError) as error:
            log.debug("the master at %s does not tell where its log is: %r", self.address, error)
            return None

    async def agrees(self, master: MasterLog) -> bool:
        """Whether the newest message in a queue here is the same, byte for byte, at the master; True if unknown.

        What the master no longer keeps cannot be compared.
        """
        store = self._broker.store
        newest = max(store.queues, key=lambda queue: queue.max_physical_offset, default=None)
        entry = newest.entry(newest.max_offset - 1) if newest is not None else None
        mine = store.record_at(entry[0], entry[1]) if entry is not None else None
        if entry is None or mine is None or entry[0] < master.begin:
            return True
        try:
            answer = await self._call(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageByIdHeader(offset=entry[0]))
        except MasterRefused as refused:
            return refused.code != ResponseCode.SYSTEM_ERROR  # which it answers when no record begins there
        except PyroMQError:
            return True
        return bytes(answer.body) == bytes(mine)

    async def _fetch(self, code: RequestCode, kind: type[Table]) -> Table:
        return kind.decode((await self._call(code)).body)

    async def _call(self, code: RequestCode, header: Header | None = None) -> Command:
        answer = await self._broker.client.call(self.address, Command.request(code, header), CALL_TIMEOUT)
        if answer.code != ResponseCode.SUCCESS:
            raise MasterRefused(answer.code, f"{request_name(code)}: {response_name(answer.code)}, {answer.remark}")
        return answer
