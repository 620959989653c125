"""Calls to another broker of this name: a slave's to its master, a master's to the slave that acted for it."""

from collections.abc import Callable
from typing import TypeVar

from pyromq.errors import PyroMQError
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.remoting.client import Client

CALL_TIMEOUT = 5.0

Table = TypeVar("Table")


class PeerRefused(PyroMQError):  # noqa: N818 - the name says what happened
    """It answered with an error; `answer` has that in words."""

    def __init__(self, request: Command, response: Command) -> None:
        self.answer = f"{response.name}, {response.remark}"
        super().__init__(f"{request.name}: {self.answer}")


class Peer:
    """`find` gives the address of its main port, empty while it is not known."""

    def __init__(self, client: Client, find: Callable[[], str]) -> None:
        self._client = client
        self._find = find

    @property
    def address(self) -> str:
        """Its main port; empty while it is not known."""
        return self._find()

    async def call(self, request: Command, *meaningful: int) -> Command:
        """Its answer, successful or with a code that means something. Raises PeerRefused, RemotingError."""
        answer = await self._client.call(self.address, request, CALL_TIMEOUT)
        if answer.code != ResponseCode.SUCCESS and answer.code not in meaningful:
            raise PeerRefused(request, answer)
        return answer

    async def fetch(self, code: RequestCode, decode: Callable[[bytes | bytearray | memoryview], Table]) -> Table:
        """One of its tables. Raises as `call`, and whatever `decode` does."""
        return decode((await self.call(Command.request(code))).body)
