"""One run of one broker of a fleet, as its supervisor sees it: a child process, what it says, and what can be asked."""

import asyncio
import contextlib
import logging
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from pyromq.broker.fleet.channel import Questions
from pyromq.broker.fleet.facts import Facts
from pyromq.broker.fleet.logstream import Lines
from pyromq.broker.fleet.plan import Member
from pyromq.broker.httpserver import Page

log = logging.getLogger(__name__)

CHUNK: Final = 64 * 1024
LAST_WORDS: Final = 1.0

Told = Callable[[str, str], None]
"""Gets the name of a broker and a line of its log."""


class Run:
    """From the start of a process to its end."""

    def __init__(self, process: asyncio.subprocess.Process, questions: Questions, told: Callable[[str], None]) -> None:
        self._process = process
        self._questions = questions
        self._told = told
        self.last_words = ""
        """The line it wrote last."""
        self._announced: asyncio.Future[Facts | None] = asyncio.get_running_loop().create_future()
        self._readers = asyncio.gather(
            _drain(process.stdout, Lines(self._said)), _drain(process.stderr, Lines(self._logged))
        )

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    async def up(self) -> Facts | None:
        """What it says once it accepts messages, None when it ended before."""
        return await asyncio.shield(self._announced)

    async def ask(self, path: str) -> Page:
        """One of its pages. Raises OSError and TimeoutError."""
        return await self._questions.ask(path)

    def stop(self) -> None:
        """Ask it to stop in order."""
        self._questions.stop()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; one that has ended gets none."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def ended(self) -> int:
        """Wait for its end and the end of its log; returns the exit code, negative for a signal.

        What it started itself, a filter server for example, may still have its log open: that is not waited for.
        """
        code = await self._process.wait()
        await asyncio.wait({self._readers}, timeout=LAST_WORDS)
        if self._readers.cancel():
            await asyncio.wait({self._readers})
        await self._questions.close()
        if not self._announced.done():
            self._announced.set_result(None)
        return code

    def _said(self, line: str) -> None:
        """On standard output: the announcement, and nothing else."""
        try:
            facts = msgspec.json.decode(line, type=Facts)
        except msgspec.MsgspecError:
            self._logged(line)
            return
        if not self._announced.done():
            self._announced.set_result(facts)

    def _logged(self, line: str) -> None:
        self.last_words = line
        self._told(line)


class Launcher:
    """Starts brokers by the command that also people use. `extra` are arguments for all of them."""

    def __init__(self, told: Told, extra: Sequence[str] = ()) -> None:
        self._told = told
        self._extra = extra

    async def __call__(self, member: Member) -> Run:
        """Start a process. Raises OSError.

        In a session of its own: what is typed at the supervisor's terminal is for the supervisor, which passes it on.
        """
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        questions = Questions(ours)
        with theirs:
            try:
                await questions.open()
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "pyromq", "broker", *member.arguments(), *self._extra),
                    *("--json", "--supervised", str(theirs.fileno())),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
            except BaseException:
                await questions.close()
                raise
        return Run(process, questions, lambda line: self._told(member.name, line))


async def _drain(stream: asyncio.StreamReader | None, lines: Lines) -> None:
    while stream is not None and (data := await stream.read(CHUNK)):
        lines.feed(data)
    lines.end()
