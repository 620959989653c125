"""What push and pull consumers for threads share: their life on the background loop."""

import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from pyromq.client.blocking import loop as background
from pyromq.client.blocking.queries import BlockingQueryMethods
from pyromq.client.consumer.base import Consumer as AsyncConsumer
from pyromq.client.errors import ServiceStateError
from pyromq.client.state import ServiceState

T = TypeVar("T")


class BlockingConsumer(BlockingQueryMethods):
    """Base of the consumers for threads; not used by itself."""

    def __init__(self, consumer: AsyncConsumer) -> None:
        self._consumer_base = consumer
        self._loop: background.BackgroundLoop | None = None
        self._life = threading.Lock()

    @property
    def group(self) -> str:
        return self._consumer_base.group

    @property
    def client_id(self) -> str:
        """What brokers know this client as. Raises ServiceStateError before it was started."""
        return self._consumer_base.client_id

    @property
    def state(self) -> ServiceState:
        return self._consumer_base.state

    def start(self) -> None:
        """Join the group and begin. Raises ServiceStateError unless it was just made, ClientError else."""
        with self._life:
            loop = self._loop or background.acquire()
            try:
                loop.call(self._consumer_base.start)
            except BaseException:
                if self._loop is None:
                    background.release(loop)
                raise
            self._loop = loop

    def close(self) -> None:
        """Finish what is being consumed, within `close_timeout`, write offsets and leave the group."""
        with self._life:
            loop, self._loop = self._loop, None
            if loop is None:
                return
            loop.check_process()
            try:
                loop.call(self._consumer_base.close)
            finally:
                background.release(loop)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _query(self) -> AsyncConsumer:
        return self._consumer_base

    def _running(self) -> background.BackgroundLoop:
        loop = self._loop
        if loop is None:
            raise ServiceStateError(f"consumer {self.group!r} is {self.state}: start() it, or use it in a with block")
        loop.check_process()
        return loop

    def _run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self._running().call(make)

    def _on_loop(self, work: Callable[[], T]) -> T:
        """Run a plain function where the consumer lives: on its loop, or right here while it has none."""
        if self._loop is None:
            return work()

        async def run() -> T:
            return work()

        return self._run(run)
