"""`Renewal`: keeps messages hidden while push consumers work on them.

They were popped for a minute, and a listener may take hours. What is renewed has a new handle at the broker; consumers
go on naming the message by the one they were given, which stands for the latest here. Whoever settles a message takes
it out first, and waits for a renewal that is under way, so that the two never name it by different handles.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from pyromq.errors import PyroMQError
from pyromq.proxy.core import Core
from pyromq.proxy.limits import HOUR, MINUTE, SECOND
from pyromq.proxy.messages.receipt import Receipt
from pyromq.proxy.messages.settlement import Given
from pyromq.proxy.schema.enums import Code
from pyromq.proxy.status import Refusal

log = logging.getLogger(__name__)

SCAN_SECONDS: Final = 5.0
AHEAD: Final = 10 * SECOND
"""What has less time left than this is renewed."""
STEPS: Final = tuple(minutes * MINUTE for minutes in (1, 3, 5, 10, 30, 60))
LONGEST: Final = 3 * HOUR
MAX_FAILURES: Final = 3
MAX_HELD: Final = 200_000
AT_ONCE: Final = 64
RELEASED: Final = SECOND
"""How long a message stays hidden whose consumer is gone."""
TIMEOUT: Final = 3.0

Key = tuple[str, str, str]
"""Group, topic, and the handle that the consumer has."""


class Held:
    """A message that a consumer works on."""

    __slots__ = ("began", "client_id", "failures", "given", "key", "renewals", "under_way")

    def __init__(self, client_id: str, key: Key, given: Given, began: int) -> None:
        self.client_id = client_id
        self.key = key
        self.given = given
        self.began = began
        self.failures = 0
        self.renewals = 0
        self.under_way: asyncio.Task[None] | None = None


class Renewal:
    """Made once; `run` is a task of the proxy, and `release` is called when a client has ended or was lost."""

    def __init__(
        self, core: Core, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep, most: int = MAX_HELD
    ) -> None:
        self._core = core
        self._sleep = sleep
        self._most = most
        self._held: dict[str, dict[Key, Held]] = {}
        self._count = 0
        self._releases: set[asyncio.Task[None]] = set()
        self.refused = 0
        """Messages that found no place here, and are hidden for a minute only."""

    def __len__(self) -> int:
        return self._count

    def add(self, client_id: str, given: Given, handle: str) -> None:
        """A consumer is being given a message; it stays hidden until it is taken out, for a few hours at most."""
        if self._count >= self._most:
            self.refused += 1
            return
        self._put(Held(client_id, (given.group, given.topic, handle), given, self._core.clock()))

    def discard(self, client_id: str, given: Given, handle: str) -> None:
        """The consumer did not get it after all."""
        held = self.find(client_id, given.group, given.topic, handle)
        if held is not None:
            self.drop(held)

    def find(self, client_id: str, group: str, topic: str, handle: str) -> Held | None:
        """A message, by the handle that its consumer has."""
        return self._held.get(client_id, {}).get((group, topic, handle))

    async def take(self, client_id: str, group: str, topic: str, handle: str) -> Held | None:
        """Take a message out, to settle it; None when it is not renewed here."""
        held = self.find(client_id, group, topic, handle)
        if held is None:
            return None
        self.drop(held)
        if held.under_way is not None:
            await asyncio.wait([held.under_way])
        return held

    def put_back(self, held: Held) -> None:
        """It could not be settled: its consumer tries again."""
        if self.find(held.client_id, *held.key) is None:
            self._put(held)

    def release(self, client_id: str) -> None:
        """The client is gone: let others have its messages soon."""
        gone = list(self._held.get(client_id, {}).values())
        for held in gone:
            self.drop(held)
        if gone:
            task = asyncio.get_running_loop().create_task(self._release(gone))
            self._releases.add(task)
            task.add_done_callback(self._releases.discard)

    async def run(self) -> None:
        """Renew what is due, until cancelled."""
        while True:
            await self._sleep(SCAN_SECONDS)
            await self.step()

    async def step(self) -> None:
        """Renew what is due now."""
        now = self._core.clock()
        due = [
            held
            for messages in self._held.values()
            for held in messages.values()
            if held.given.receipt.handle.due - now < AHEAD
        ]
        for start in range(0, len(due), AT_ONCE):
            await asyncio.gather(*[self._start(held) for held in due[start : start + AT_ONCE]])

    async def _start(self, held: Held) -> None:
        if self.find(held.client_id, *held.key) is not held:
            return  # settled in the meantime
        now = self._core.clock()
        left = LONGEST - (now - held.began)
        if left <= AHEAD or held.failures >= MAX_FAILURES or held.given.receipt.handle.due <= now:
            log.info("%s is not renewed any more and comes again", held.key)
            self.drop(held)
            return
        held.under_way = asyncio.get_running_loop().create_task(self._renew(held, left))
        try:
            await held.under_way
        finally:
            held.under_way = None

    async def _renew(self, held: Held, left: int) -> None:
        span = min(STEPS[min(held.renewals, len(STEPS) - 1)], left)
        try:
            held.given = held.given.hidden(await self._ask(held.given, span))
            held.renewals += 1
            held.failures = 0
        except PyroMQError as error:
            held.failures = MAX_FAILURES if _is_stale(error) else held.failures + 1
            log.info("%s was not renewed (%d): %s", held.key, held.failures, error)

    async def _release(self, gone: list[Held]) -> None:
        for start in range(0, len(gone), AT_ONCE):
            await asyncio.gather(*[self._give_back(held) for held in gone[start : start + AT_ONCE]])

    async def _give_back(self, held: Held) -> None:
        if held.under_way is not None:
            await asyncio.wait([held.under_way])
        try:
            held.given.check(await self._ask(held.given, RELEASED))
        except PyroMQError as error:
            log.info("%s could not be given back and comes again later: %s", held.key, error)

    def _ask(self, given: Given, span: int) -> Awaitable[Any]:
        """As the proxy itself: the client may be gone."""
        return self._core.cluster.ask(None, given.broker, given.hide(span), TIMEOUT)

    def _put(self, held: Held) -> None:
        messages = self._held.setdefault(held.client_id, {})
        self._count += held.key not in messages
        messages[held.key] = held

    def drop(self, held: Held) -> None:
        """Renew it no longer."""
        if self.find(held.client_id, *held.key) is not held:
            return
        messages = self._held[held.client_id]
        del messages[held.key]
        self._count -= 1
        if not messages:
            del self._held[held.client_id]


def current(held: Held | None, handle: str, now: int) -> Receipt:
    """The handle that brokers know a message by now. Raises Refusal when there is none any more."""
    receipt = held.given.receipt if held is not None else Receipt.decode(handle)
    receipt.check_due(now)
    return receipt


def _is_stale(error: PyroMQError) -> bool:
    return isinstance(error, Refusal) and error.code == Code.INVALID_RECEIPT_HANDLE
