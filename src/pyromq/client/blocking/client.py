"""What all clients for threads share: their life on the background loop, and how a thread waits for work done there.

The client for asyncio does the work. `waiting` makes a blocking method of one of its coroutine methods, with the same
arguments and the same result, for people and for type checkers.
"""

import functools
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

from pyromq.client.blocking import loop as background
from pyromq.client.errors import ServiceStateError
from pyromq.client.state import Client, ServiceState
from pyromq.client.state import GroupClient as AsyncGroupClient

A_co = TypeVar("A_co", covariant=True)
C_co = TypeVar("C_co", bound=Client, covariant=True)
G_co = TypeVar("G_co", bound=AsyncGroupClient, covariant=True)
P = ParamSpec("P")
T = TypeVar("T")


class BlockingClient(Generic[C_co]):
    """A client for asyncio behind the background loop; threads may share it. `title` is its name in errors."""

    def __init__(self, client: C_co, title: str) -> None:
        self._client = client
        self._title = title
        self._loop: background.BackgroundLoop | None = None
        self._life = threading.Lock()

    @property
    def state(self) -> ServiceState:
        return self._client.state

    def start(self) -> None:
        """Join the client instance and begin. Raises ServiceStateError unless it was just made, ClientError else."""
        with self._life:
            loop = self._loop or background.acquire()
            try:
                loop.call(self._client.start)
            except BaseException:
                if self._loop is None:
                    background.release(loop)
                raise
            self._loop = loop

    def close(self) -> None:
        """Finish what is under way, within `close_timeout`, and leave; does nothing when it is not running."""
        with self._life:
            loop, self._loop = self._loop, None
            if loop is None:
                return
            loop.check_process()
            try:
                loop.call(self._client.close)
            finally:
                background.release(loop)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _running(self) -> background.BackgroundLoop:
        loop = self._loop
        if loop is None:
            raise ServiceStateError(f"{self._title} is {self.state}: start() it, or use it in a with block")
        return loop

    def _run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Wait for what a coroutine does on the background loop."""
        return self._running().call(make)

    def _on_loop(self, work: Callable[[], T]) -> T:
        """Run a plain function where the client lives: on its loop, or right here while it has none."""
        if self._loop is None:
            return work()

        async def run() -> T:
            return work()

        return self._run(run)


class BlockingPart(Generic[A_co]):
    """A small object that is reached from a client for threads; `part` finds the one for asyncio on the loop."""

    def __init__(self, client: BlockingClient[Client], part: Callable[[], A_co]) -> None:
        self._run = client._run
        self._on_loop = client._on_loop
        self._part = part

    @property
    def _client(self) -> A_co:
        return self._part()


class Face(Protocol[A_co]):
    """What is behind the background loop, a client or a part of one, and how to get there."""

    @property
    def _client(self) -> A_co: ...

    def _run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T: ...

    def _on_loop(self, work: Callable[[], T]) -> T: ...


def waiting(
    method: Callable[Concatenate[A_co, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Face[A_co], P], T]:
    """A coroutine method of the client for asyncio as a method for threads."""

    @functools.wraps(method)
    def call(self: Face[A_co], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(lambda: method(self._client, *args, **kwargs))

    return call


def on_loop(method: Callable[Concatenate[A_co, P], T]) -> Callable[Concatenate[Face[A_co], P], T]:
    """A plain method of the client for asyncio as a method for threads; before the start it runs in the caller's."""

    @functools.wraps(method)
    def call(self: Face[A_co], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._on_loop(lambda: method(self._client, *args, **kwargs))

    return call


class GroupClient(BlockingClient[G_co]):
    """A client that is a member of a group: a producer or a consumer."""

    @property
    def group(self) -> str:
        return self._client.group

    @property
    def client_id(self) -> str:
        """What brokers know this client as. Raises ServiceStateError before it was started."""
        return self._client.client_id
