"""The uploaded filter classes: one for each topic and group, each with a jail of its own, started when needed.

A class that failed rests before its jail is started again, longer each time; until then everybody who uses it is told
why. Replacing a class ends its jail. Classes that nobody uploads or uses any more are forgotten.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from pyromq.clock import pause_after
from pyromq.filtersrv.errors import JailError, RequestRefused
from pyromq.filtersrv.frames import FilterContext, FilterMessage, Load
from pyromq.filtersrv.worker import JailLimits, Worker
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.headers.filtersrv import RegisterMessageFilterClassHeader

log = logging.getLogger(__name__)

FIRST_REST = 1.0
LONGEST_REST = 60.0
STARTS_AT_A_TIME = 2
REPLACED = "it was replaced by another class, or is no longer used"

StartWorker = Callable[[], Awaitable[Worker]]


class UploadedClass:
    """One filter class, its jail, and how it fared."""

    def __init__(
        self, header: RegisterMessageFilterClassHeader, source: str, start: StartWorker, clock: Callable[[], float]
    ) -> None:
        self.class_name = header.class_name
        self.crc = header.class_crc
        self.used_at = clock()
        self.failure = ""
        self._load = Load(header.class_name, source, FilterContext(header.consumer_group, header.topic))
        self._start = start
        self._clock = clock
        self._worker: Worker | None = None
        self._turn = asyncio.Lock()
        self._failures = 0
        self._rests_until = 0.0
        self._closed = False

    def is_same(self, header: RegisterMessageFilterClassHeader) -> bool:
        """Whether an upload brings nothing new; a CRC of 0 says so by itself."""
        return header.class_crc in (0, self.crc) and header.class_name == self.class_name

    async def prepare(self) -> None:
        """Have it compiled, if it is not. Raises JailError with what is wrong with it."""
        async with self._turn:
            await self._working()

    async def match(self, messages: list[FilterMessage]) -> Sequence[bool]:
        """Which messages pass. Raises JailError when it failed now, or rests because it failed before."""
        self.used_at = self._clock()
        async with self._turn:
            worker = await self._working()
            try:
                decided = await worker.match(messages)
            except JailError as error:
                if self._closed:
                    raise JailError(REPLACED) from error
                self._failed(error)
                raise
            except BaseException:
                self._worker = None  # it did not survive that
                raise
            self._failures, self.failure = 0, ""
            return decided

    async def close(self) -> None:
        """End its jail, at once."""
        self._closed = True
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.kill()

    async def _working(self) -> Worker:
        if self._closed:
            raise JailError(REPLACED)
        if self._worker is not None:
            return self._worker
        if self._clock() < self._rests_until:
            raise JailError(self.failure)
        try:
            worker = await self._start()
            await worker.load(self._load)
        except JailError as error:
            self._failed(error)
            raise
        if self._closed:
            await worker.kill()
            raise JailError(REPLACED)
        self._worker = worker
        return worker

    def _failed(self, error: JailError) -> None:
        self._worker = None
        self.failure = str(error)
        self._failures += 1
        self._rests_until = self._clock() + pause_after(self._failures, first=FIRST_REST, longest=LONGEST_REST)
        context = self._load.context
        log.warning(
            "filter class %s of %s@%s: %s", self.class_name, context.topic, context.consumer_group, self.failure
        )


class FilterClasses:
    """All of them. `clock` gives seconds."""

    def __init__(
        self,
        limits: JailLimits,
        clock: Callable[[], float],
        *,
        capacity: int,
        idle: float,
        start: Callable[[JailLimits], Awaitable[Worker]] = Worker.start,
    ) -> None:
        self._limits = limits
        self._clock = clock
        self._capacity = capacity
        self._idle = idle
        self._start = start
        self._starts = asyncio.Semaphore(STARTS_AT_A_TIME)
        self._table: dict[tuple[str, str], UploadedClass] = {}

    def __len__(self) -> int:
        return len(self._table)

    async def upload(self, header: RegisterMessageFilterClassHeader, source: str) -> None:
        """Take a class over unless it is known already. Raises RequestRefused with what is wrong with it."""
        key = (header.topic, header.consumer_group)
        known = self._table.get(key)
        if known is None and len(self._table) >= self._capacity:
            raise RequestRefused(
                ResponseCode.SYSTEM_BUSY,
                f"this filter server has {self._capacity} classes, which is maxFilterClasses; try again later",
            )
        if known is None or not known.is_same(header):
            fresh = UploadedClass(header, source, self._start_worker, self._clock)
            self._table[key] = fresh
            if known is not None:
                await known.close()
            known = fresh
        known.used_at = self._clock()
        try:
            await known.prepare()
        except JailError as error:
            raise failed(known, error) from error

    def get(self, topic: str, group: str) -> UploadedClass:
        """The class of a group. Raises RequestRefused when it uploaded none."""
        known = self._table.get((topic, group))
        if known is None:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                f"no filter class of group {group} for topic {topic} is known here; its consumers upload one with "
                "each heartbeat",
            )
        return known

    async def forget_idle(self) -> None:
        """Drop what nobody uploaded or used for long."""
        horizon = self._clock() - self._idle
        for key in [key for key, each in self._table.items() if each.used_at < horizon]:
            await self._table.pop(key).close()

    async def close(self) -> None:
        """End all jails."""
        table, self._table = self._table, {}
        await asyncio.gather(*(each.close() for each in table.values()))

    async def _start_worker(self) -> Worker:
        async with self._starts:
            return await self._start(self._limits)


def failed(uploaded: UploadedClass, error: JailError) -> RequestRefused:
    """What a consumer is told about its class."""
    return RequestRefused(ResponseCode.SYSTEM_ERROR, f"filter class {uploaded.class_name} failed: {error}")
