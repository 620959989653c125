"""`Worker`: the keeper of one jail. It starts it, asks it, and kills it as soon as it misbehaves.

A jail that does not answer in time, answers too much or nonsense, or says that its filter failed, is dead when the
call returns. A worker is used by one call at a time and never again after it failed.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass

import msgspec

from pyromq.filtersrv import frames
from pyromq.filtersrv.errors import JailError
from pyromq.filtersrv.frames import Answer, Batch, FilterMessage, Load, Question


@dataclass(frozen=True, slots=True, kw_only=True)
class JailLimits:
    """What a filter may use: bytes of memory; processor and wall seconds for each batch; seconds to come up."""

    memory: int
    cpu: float
    wall: float
    start: float = 30.0

    def command(self) -> Sequence[str]:
        """How the jail is started: no shell, nothing of the working folder or the user's packages."""
        return (
            *(sys.executable, "-P", "-s", "-B", "-m", "pyromq.filtersrv.jail"),
            *(str(self.memory), str(max(int(self.cpu * 1000), 1))),
        )


class Worker:
    """Make one with `Worker.start`. After a JailError the process is gone."""

    def __init__(self, process: asyncio.subprocess.Process, limits: JailLimits) -> None:
        self._process = process
        self.limits = limits

    @classmethod
    async def start(cls, limits: JailLimits, command: Sequence[str] | None = None) -> "Worker":
        """A jail that is locked up and ready. Raises JailError."""
        try:
            process = await asyncio.create_subprocess_exec(
                *(limits.command() if command is None else command),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                limit=frames.MAX_ANSWER,
                env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        except OSError as error:
            raise JailError(f"no process for it could be started: {error}") from error
        worker = cls(process, limits)
        await worker._guarded(worker._receive(), limits.start, "did not come up")
        return worker

    @property
    def pid(self) -> int:
        return self._process.pid

    async def load(self, question: Load) -> None:
        """Have the class compiled. Raises JailError with what is wrong with it."""
        await self._ask(question)

    async def match(self, messages: list[FilterMessage]) -> Sequence[bool]:
        """Which of the messages pass. Raises JailError when the filter failed; nothing was decided then."""
        answer = await self._ask(Batch(messages))
        if len(answer.matched) != len(messages):
            await self.kill()
            raise JailError(f"it decided on {len(answer.matched)} messages of {len(messages)}")
        return [bool(each) for each in answer.matched]

    async def kill(self) -> None:
        """End the process at once, whatever it does."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        if self._process.stdin is not None:
            self._process.stdin.close()
        await self._drain()
        await self._process.wait()

    async def _drain(self) -> None:
        """Read what a dead process left: its end shows only after that of its output, which a full buffer holds up."""
        stdout = self._process.stdout
        assert stdout is not None  # noqa: S101 - a pipe, as asked for
        with contextlib.suppress(RuntimeError):  # somebody is reading already, and will meet the end
            while await stdout.read(frames.MAX_ANSWER):
                pass

    async def _ask(self, question: Question) -> Answer:
        data = frames.pack(question)

        async def exchange() -> Answer:
            stdin = self._process.stdin
            assert stdin is not None  # noqa: S101 - a pipe, as asked for
            stdin.write(data)
            with contextlib.suppress(ConnectionError):  # it died; how, shows when reading
                await stdin.drain()
            return await self._receive()

        return await self._guarded(exchange(), self.limits.wall, "did not finish")

    async def _guarded(self, exchange: Coroutine[object, object, Answer], seconds: float, what: str) -> Answer:
        """The answer, or the jail's end."""
        try:
            async with asyncio.timeout(seconds):
                answer = await exchange
        except TimeoutError:
            await self.kill()
            raise JailError(f"it {what} within {seconds:g} s and was stopped") from None
        except BaseException:
            await self.kill()
            raise
        if answer.error:
            await self.kill()
            raise JailError(answer.error)
        return answer

    async def _receive(self) -> Answer:
        stdout = self._process.stdout
        assert stdout is not None  # noqa: S101 - a pipe, as asked for
        try:
            size = int.from_bytes(await stdout.readexactly(frames.LENGTH_SIZE))
            if size > frames.MAX_ANSWER:
                raise JailError(f"it wrote {size} bytes where at most {frames.MAX_ANSWER} are taken, and was stopped")
            return frames.answer(await stdout.readexactly(size))
        except asyncio.IncompleteReadError:
            raise JailError(self._how_it_ended(await self._process.wait())) from None
        except msgspec.MsgspecError as error:
            raise JailError(f"its process answers nonsense and was stopped: {error}") from error

    def _how_it_ended(self, code: int) -> str:
        if code == -signal.SIGPROF:
            return f"it used more than {self.limits.cpu:g} s of processor time for one batch and was stopped"
        if code < 0:
            return f"its process was ended by {signal.Signals(-code).name}"
        return f"its process ended with {code}"
