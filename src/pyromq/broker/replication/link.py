"""The slave's side: connect to the master, check what comes, write it, say how far it is; again whenever that ends.

What is reported is on disk if this slave flushes synchronously; the topics of all messages in it are in any case.
Nothing unchecked is written, and nothing is cut off: a slave whose log is not the master's stops following and says so,
for it may hold the better copy. So does one that cannot find out: without a verdict there is no session, as a log of
the right length proves nothing.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple, cast

from pyromq.broker.cluster.registration import Registration
from pyromq.broker.core import Core
from pyromq.broker.replication.records import RecordStream, Suspect
from pyromq.broker.replication.unsavedtopics import UnsavedTopics
from pyromq.broker.replication.verdict import Astray, MasterLog, MasterVerdict, NoVerdict
from pyromq.broker.replication.wire import REPORT, Blocks
from pyromq.errors import PyroMQError
from pyromq.protocol.bodies.replication import HAClientInfo, HARuntimeInfo
from pyromq.protocol.errors import FrameError
from pyromq.remoting.address import Address

log = logging.getLogger(__name__)

PAUSE = 1.0
"""Between two attempts to connect."""
CONNECT_TIMEOUT = 5.0
FLUSH_TIMEOUT = 30.0
LOOK_AGAIN = 0.02


class Greeting(NamedTuple):
    """What a slave says first: where it begins and, to a master that gave one, its ticket."""

    first_report: int
    ticket: int | None = None


class _Session(asyncio.Protocol):
    """One connection to the master. `ended` is done, with the reason, once it is over."""

    def __init__(self, core: Core, greeting: Greeting, suspect: Suspect, unsaved: UnsavedTopics) -> None:
        store = self._store = core.store
        self._config = core.config
        self._clock = core.clock
        self._greeting = greeting
        self._suspect = suspect
        self._unsaved = unsaved
        self._blocks = Blocks()
        self._records: RecordStream | None = None
        if store.max_physical_offset:
            self._records = RecordStream(store.max_physical_offset, store.commit_log.file_size, suspect)
        self._transport: asyncio.Transport | None = None
        self._flushing = False
        self._reported = -1
        self.received = 0
        self.heard = self.told = core.clock()
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self._greeting.ticket is not None:
            self._transport.write(REPORT.pack(self._greeting.ticket))
        self._report(self._greeting.first_report)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if not self.ended.done():
            self.ended.set_result(str(error) if error is not None else "the master closed the connection")

    def close(self, reason: str) -> None:
        """End it."""
        if not self.ended.done():
            self.ended.set_result(reason)
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self.ended.done():
            return
        self.heard = self._clock()
        self.received += len(data)
        try:
            for offset, block in self._blocks.feed(data):
                self._take(offset, block)
        except (PyroMQError, OSError) as error:
            self.close(str(error))
            return
        self._acknowledge()

    def _take(self, offset: int, block: bytes) -> None:
        records = self._records
        if records is None:
            if not block:
                return
            records = self._records = RecordStream(offset, self._store.commit_log.file_size, self._suspect)
        if offset != records.end:
            raise FrameError(f"the master sends from {offset} on, but this log continues at {records.end}")
        place = records.position
        sound = records.take(block)
        if sound:
            self._store.replica.append(place, sound)

    def _acknowledge(self) -> None:
        """Report what is written, once it is as safe as this slave's flush type has it."""
        end = self._store.max_physical_offset
        if end <= self._reported:
            return
        if self._store.progress.seen >= end:
            self._report_safe()
        elif not self._flushing:
            self._flushing = True
            self._store.when_flushed(end, self._flushed)

    def _flushed(self, on_disk: bool) -> None:
        self._flushing = False
        self._report_safe()
        if on_disk and self._store.progress.seen < self._store.max_physical_offset:
            self._acknowledge()  # more may have come meanwhile; after a failure the next tick looks again

    def _safe(self) -> int:
        """Up to where a master made of this store could serve everything, and no less than was reported."""
        unsaved = self._unsaved.first()
        seen = self._store.progress.seen
        return max(self._reported, seen if unsaved is None else min(seen, unsaved))

    def _report_safe(self) -> None:
        if (safe := self._safe()) > self._reported:
            self._report(safe)

    def _report(self, offset: int) -> None:
        self._reported = offset
        self.told = self._clock()
        if self._transport is not None:
            self._transport.write(REPORT.pack(offset))

    def tick(self, now: int) -> None:
        """Signs of life; and the end when the master gives none."""
        if now - self.heard > self._config.ha_housekeeping_interval:
            self.close(f"nothing heard for {self._config.ha_housekeeping_interval} ms")
        elif now - self.told >= self._config.ha_send_heartbeat_interval:
            self._report(self._safe() if self._records is not None else self._greeting.first_report)
        else:
            self._acknowledge()


class MasterLink:
    """Follows a master from `start` to `stop`.

    `verdict` is asked about its log and this one. What lies behind the first message of an unsaved topic could not be
    served by a master made of this store.
    """

    def __init__(self, core: Core, registration: Registration, verdict: MasterVerdict, unsaved: UnsavedTopics) -> None:
        self._core = core
        self._config = core.config
        self._store = core.store
        self._clock = core.clock
        self._registration = registration
        self._verdict = verdict
        self._unsaved = unsaved
        self._tls = core.config.client_tls()
        self._suspect = Suspect(core.store.damage)
        self._session: _Session | None = None
        self._task: asyncio.Task[None] | None = None
        self._trouble = ""
        self.address = ""
        """Where the master was last found."""
        self.listeners: list[Callable[[], None]] = []
        """Told when a session begins."""

    @property
    def connected(self) -> bool:
        """Whether the master is there, as far as is known."""
        return self._session is not None

    def start(self) -> None:
        """Begin to follow."""
        self._task = asyncio.get_running_loop().create_task(self._follow())

    async def stop(self) -> None:
        """Follow no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def tick(self) -> None:
        """Whatever is due; a few times a second."""
        if self._session is not None:
            self._session.tick(self._clock())

    def look(self, master: MasterLog) -> None:
        """Start over when what comes next is gone at the master: Apache's keeps giving signs of life then."""
        if self._session is not None and 0 < self._store.max_physical_offset < master.begin:
            self._session.close(f"the master's log begins at {master.begin} now, beyond this one's end")

    def silence(self) -> int:
        """Milliseconds since the master was heard of; 0 while there is no connection at all."""
        return self._clock() - self._session.heard if self._session is not None else 0

    def status(self) -> HARuntimeInfo:
        """For GET_BROKER_HA_STATUS."""
        session = self._session
        info = HAClientInfo(master_addr=self.address, max_offset=self._store.max_physical_offset)
        if session is not None:
            info.last_read_timestamp, info.last_write_timestamp = session.heard, session.told
        return HARuntimeInfo(master=False, ha_client_runtime_info=info)

    def runtime(self) -> dict[str, object]:
        """For the runtime information."""
        return {"haMasterAddress": self.address, "haConnected": self.connected, "haTrouble": self._trouble}

    async def _follow(self) -> None:
        while True:
            self.address = self._config.ha_master_address or self._registration.master.ha_address or self.address
            if self.address:
                try:
                    reason = await self._one_session(Address.parse(self.address))
                except (PyroMQError, OSError, TimeoutError) as error:
                    reason = str(error) or type(error).__name__
                except Exception:
                    log.exception("following the master failed")
                    reason = "an internal error, see the log"
                if reason != self._trouble:
                    log.warning("not following the master at %s: %s; trying again and again", self.address, reason)
                self._trouble = reason
            await asyncio.sleep(PAUSE)

    async def _one_session(self, address: Address) -> str:
        """Connect and follow; returns why it ended."""
        greeting = await self._prepare()
        if self._tls is not None:
            self._tls.reload_if_changed()
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(CONNECT_TIMEOUT):
            _, session = await loop.create_connection(
                lambda: _Session(self._core, greeting, self._suspect, self._unsaved),
                address.host,
                address.port,
                ssl=self._tls.context if self._tls is not None else None,
            )
        log.info("following the master at %s from %d on", address, greeting.first_report)
        self._session, self._trouble = session, ""
        for listener in self.listeners:
            listener()
        try:
            return await session.ended
        finally:
            self._session = None
            session.close("this slave stops")

    async def _prepare(self) -> Greeting:
        """See that this log is the beginning of the master's, and return what to say first.

        Raises Astray when it is not, and NoVerdict when the master does not tell. A slave that has nothing yet can
        begin without: whatever it will have is the master's.
        """
        store = self._store
        async with asyncio.timeout(FLUSH_TIMEOUT):
            while store.progress.seen < store.max_physical_offset or self._unsaved.first() is not None:
                store.when_flushed(store.max_physical_offset, lambda _on_disk: None)
                await asyncio.sleep(LOOK_AGAIN)
        own = store.max_physical_offset
        try:
            master = await self._verdict.log()
        except NoVerdict:
            if own:
                raise
            return Greeting(0)
        if own and own < master.begin:
            log.warning(
                "this slave was away too long: its log ends at %d and its master's begins at %d. All it has is "
                "dropped, and it starts over with what the master has",
                own,
                master.begin,
            )
            store.replica.discard()
            own = 0
        if own > master.end:
            raise Astray(f"this log ends at {own}, the master's already at {master.end}")
        first_report = own or (0 if self._config.sync_from_last_file else master.begin)
        return Greeting(first_report, await self._verdict.compare(master, first_report))
