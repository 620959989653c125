"""`Fleet`: keeps the brokers of a plan running, each in a process, and shows how they are.

The start is as strict as that of one broker: if one of them cannot start, none runs. From then on a broker that falls
is started again; see `restarts`.
"""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from pyromq.broker.config import BrokerConfig
from pyromq.broker.fleet import pages
from pyromq.broker.fleet.errors import FleetError
from pyromq.broker.fleet.facts import Facts
from pyromq.broker.fleet.plan import Member, derived
from pyromq.broker.fleet.restarts import Restarts
from pyromq.broker.httpserver import HttpServer, Page
from pyromq.broker.ports import NO_HTTP
from pyromq.clock import steady_clock
from pyromq.remoting.address import Address
from pyromq.settings.declaration import options
from pyromq.settings.errors import ConfigError

log = logging.getLogger(__name__)

STOP_BOUND: Final = 45.0
"""Within the minute that service managers give; a broker that takes longer is killed, which loses nothing kept."""
_OWN: Final = ("http_port", "http_host")


class Runs(Protocol):
    """What is needed of a process that runs; `process.Run` is one."""

    last_words: str

    @property
    def pid(self) -> int: ...

    async def up(self) -> Facts | None: ...

    async def ask(self, path: str) -> Page: ...

    def stop(self) -> None: ...

    def signal(self, number: signal.Signals) -> None: ...

    async def ended(self) -> int: ...


Launch = Callable[[Member], Awaitable[Runs]]


class _Post:
    """The place of one broker: its present run, if any, and its past ones."""

    def __init__(self, member: Member, restarts: Restarts) -> None:
        self.member = member
        self.restarts = restarts
        self.run: Runs | None = None
        self.facts: Facts | None = None
        """What the present run announced; None until then."""
        self.ended = ""
        """How the last run ended."""
        self.reload = False
        """Whether it missed a reload while it started."""
        self.first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when it was up for the first time; has the error when it could not be."""


class Fleet:
    """`launch` starts a process, `restarts` makes the policy of one broker, `clock` is steady, in milliseconds."""

    def __init__(
        self,
        config: BrokerConfig,
        members: Sequence[Member],
        launch: Launch,
        *,
        restarts: Callable[[], Restarts] = Restarts,
        clock: Callable[[], int] = steady_clock,
        stop_bound: float = STOP_BOUND,
    ) -> None:
        self._config = config
        self._members = members
        self._launch = launch
        self._restarts = restarts
        self._clock = clock
        self._stop_bound = stop_bound
        self._posts: list[_Post] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._asked_to_stop = asyncio.Event()
        self._http = HttpServer({"/metrics": self._metrics, "/health": self._health})
        self.http_address: Address | None = None
        """Where metrics and health of all are served."""

    @property
    def facts(self) -> dict[str, Facts]:
        """What those that are up said of themselves, by name."""
        return {post.member.name: post.facts for post in self._posts if post.facts is not None}

    async def start(self) -> None:
        """Start all; when this returns, each accepts messages. Raises FleetError and ConnectError; nothing is left."""
        config = self._config
        self._posts = [_Post(member, self._restarts()) for member in self._members]
        if config.http_port != NO_HTTP:
            self.http_address = await self._http.start(config.http_host, config.http_port, config.server_tls())
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._keep(post)) for post in self._posts]
        try:
            await asyncio.gather(*(post.first for post in self._posts))
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Ask all to stop, wait for them, and kill who does not stop in time."""
        self._asked_to_stop.set()
        for post in self._posts:
            if post.run is not None:
                post.run.stop()
        _, late = await asyncio.wait(self._tasks, timeout=self._stop_bound) if self._tasks else (set(), set())
        if late:
            names = [post.member.name for post in self._posts if post.run is not None]
            log.error("%s did not stop within %g s and is killed", ", ".join(names), self._stop_bound)
            for post in self._posts:
                if post.run is not None:
                    post.run.signal(signal.SIGKILL)
            await asyncio.wait(late)
        await self._http.stop()

    async def reload(self) -> None:
        """Have each read the file again; one that starts does so as soon as it is up."""
        try:
            later = self._config.reread().later
        except ConfigError as error:
            log.error("the settings stay as they are: %s", error)  # noqa: TRY400 - one line says it all
            return
        known = options(BrokerConfig)
        kept = {known[name].key for name in (*derived(self._config, 1), *_OWN)}
        if changed := sorted(kept.intersection(later)):
            log.warning("%s changed, which counts from the next start of all on", ", ".join(changed))
        for post in self._posts:
            if post.run is not None and post.facts is not None:
                post.run.signal(signal.SIGHUP)
            else:
                post.reload = True

    async def _keep(self, post: _Post) -> None:
        """Run a broker again and again, until all are asked to stop or its first start fails."""
        while not self._asked_to_stop.is_set():
            post.restarts.begun(self._clock())
            post.ended = await self._one_run(post)
            if self._asked_to_stop.is_set():
                break
            if not post.first.done():
                member = post.member
                post.first.set_exception(
                    FleetError(f"the broker {member.name} could not be started ({member.needs}): {post.ended}")
                )
                return
            await self._pause(post)
        if not post.first.done():
            post.first.cancel()

    async def _one_run(self, post: _Post) -> str:
        """Start it and stay until its end; returns how it ended, for people."""
        try:
            run = await self._launch(post.member)
        except OSError as error:
            return str(error)
        post.run = run
        if self._asked_to_stop.is_set():
            run.stop()
        end = asyncio.ensure_future(run.ended())
        try:
            await self._up(post, run)
            code = await end
        finally:
            post.run = post.facts = None
        return _how(code, run.last_words)

    async def _up(self, post: _Post, run: Runs) -> None:
        post.facts = await run.up()
        if post.facts is None:
            return
        if post.reload:
            post.reload = False
            run.signal(signal.SIGHUP)
        if post.first.done():
            log.info("the broker %s is up again", post.member.name)
        else:
            post.first.set_result(None)

    async def _pause(self, post: _Post) -> None:
        pause = post.restarts.fell(self._clock())
        again = f", {post.restarts.in_row} times in a row" if post.restarts.in_row > 1 else ""
        log.error("the broker %s fell%s: %s; starting it again in %g s", post.member.name, again, post.ended, pause)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._asked_to_stop.wait()

    async def _health(self) -> Page:
        return pages.health(await asyncio.gather(*map(self._standing, self._posts)))

    async def _metrics(self) -> Page:
        standings = [self._known(post) for post in self._posts]
        answers = await asyncio.gather(*(self._ask(post, "/metrics") for post in self._posts))
        shown = [page for page in answers if isinstance(page, Page) and page.status.startswith("200")]
        return pages.metrics(self._config.broker_cluster_name, standings, shown)

    async def _standing(self, post: _Post) -> pages.Standing:
        known = self._known(post)
        if known.trouble:
            return known
        answer = await self._ask(post, "/health")
        if isinstance(answer, str):
            return self._known(post, answer)
        trouble = "" if answer.status.startswith("200") else " ".join(answer.body.decode(errors="replace").split())
        return self._known(post, trouble)

    def _known(self, post: _Post, trouble: str = "") -> pages.Standing:
        """How it is as far as can be told without asking it."""
        restarts = post.restarts
        if post.run is None or post.facts is None:
            trouble = "starting" if post.run is not None else "not running"
            if post.ended:
                trouble += f", {post.ended}"
            if restarts.is_failing:
                trouble += f"; it fell {restarts.in_row} times in a row: see its log"
        pid = post.run.pid if post.run is not None else None
        return pages.Standing(post.member.name, trouble, pid, restarts.total, post.facts is not None)

    async def _ask(self, post: _Post, path: str) -> Page | str:
        """The page of a broker, or why there is none."""
        if post.run is None:
            return "not running"
        try:
            return await post.run.ask(path)
        except TimeoutError:
            return "does not answer"
        except OSError as error:
            return str(error)


def _how(code: int, last_words: str) -> str:
    if code < 0:
        try:
            how = f"ended by {signal.Signals(-code).name}"
        except ValueError:
            how = f"ended by signal {-code}"
    else:
        how = f"ended with code {code}"
    return f"{how} ({last_words.removeprefix('pyromq: ')})" if last_words and code > 0 else how
