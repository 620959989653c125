"""The life of a client: made, running, closed; or failed at its start."""

from abc import ABC, abstractmethod
from enum import StrEnum
from types import TracebackType
from typing import Self

from pyromq.client.errors import ServiceStateError


class ServiceState(StrEnum):
    CREATE_JUST = "CREATE_JUST"
    RUNNING = "RUNNING"
    SHUTDOWN_ALREADY = "SHUTDOWN_ALREADY"
    START_FAILED = "START_FAILED"


_ADVICE = {
    ServiceState.CREATE_JUST: "start() it first, or use it in a with block",
    ServiceState.RUNNING: "it runs already",
    ServiceState.SHUTDOWN_ALREADY: "it was closed; make a new one",
    ServiceState.START_FAILED: "its start failed; see the first error, then make a new one",
}


def require(state: ServiceState, wanted: ServiceState, what: str) -> None:
    """Raise ServiceStateError, naming the state, unless it is the wanted one."""
    if state is not wanted:
        raise ServiceStateError(f"{what} is {state}, not {wanted}: {_ADVICE[state]}")


class Client(ABC):
    """What producers, consumers and admin clients for asyncio have in common: they start, run and close."""

    state = ServiceState.CREATE_JUST

    @abstractmethod
    async def start(self) -> None:
        """Join the client instance and begin. Raises ServiceStateError unless it was just made, ClientError else."""

    @abstractmethod
    async def close(self) -> None:
        """Leave the client instance; does nothing when it is not running."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class GroupClient(Client):
    """A client that belongs to a group: a producer or a consumer."""

    group: str

    @property
    @abstractmethod
    def client_id(self) -> str:
        """What brokers know this client as. Raises ServiceStateError before it was started."""
