"""Which name server to ask: stick to one while it is healthy, move on when it fails, remember what each answered."""

import random
import time
from collections.abc import Callable, Iterable

from pyromq.protocol.codes import ResponseCode, response_name
from pyromq.protocol.command import Command
from pyromq.remoting.address import Address
from pyromq.remoting.client import Client
from pyromq.remoting.errors import ConnectError, InFlightLimitReached, RemotingError


class NameServers:
    """A list of name servers behind a client.

    `answers` tells for each address, in words, how its last request ended; put it into errors about missing routes.
    """

    def __init__(
        self,
        client: Client,
        addresses: Iterable[str] = (),
        *,
        shuffle: Callable[[list[str]], None] = random.shuffle,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._shuffle = shuffle
        self._clock = clock
        self._addresses: list[str] = []
        self._next = 0
        self._answers: dict[str, str] = {}
        self.update(addresses)

    @property
    def addresses(self) -> tuple[str, ...]:
        """All name servers, in the order in which they are tried."""
        return tuple(self._addresses)

    @property
    def current(self) -> str | None:
        """The one that the next request goes to first."""
        return self._addresses[self._next % len(self._addresses)] if self._addresses else None

    @property
    def answers(self) -> dict[str, str]:
        """Address to how the last request to it ended; "not asked yet" where none went."""
        return {address: self._answers.get(address, "not asked yet") for address in self._addresses}

    def update(self, addresses: Iterable[str]) -> bool:
        """Replace the list; False when it is the same. Connections to those that vanished are closed.

        Raises AddressError.
        """
        wanted = list(dict.fromkeys(str(Address.parse(address)) for address in addresses))
        if set(wanted) == set(self._addresses):
            return False
        current = self.current
        for address in self._addresses:
            if address not in wanted:
                self._client.disconnect(address, "no longer a name server")
                self._answers.pop(address, None)
        self._shuffle(wanted)
        self._addresses = wanted
        self._next = wanted.index(current) if current in wanted else 0
        return True

    async def call(self, command: Command, timeout: float = 3.0) -> Command:  # noqa: ASYNC109 - as Client.call
        """Ask the current name server, and the others in turn when it does not answer, within one time-out.

        Returns the first answer, whatever its code. Raises the last RemotingError when nobody answers, with
        what became of each in its text.
        """
        addresses = self._addresses
        deadline = self._clock() + timeout
        first = self._next
        failure: type[RemotingError] = ConnectError
        for tried in range(len(addresses)):
            address = addresses[(first + tried) % len(addresses)]
            # A server that does not answer must leave time for the others.
            share = (deadline - self._clock()) / (len(addresses) - tried)
            try:
                response = await self._client.call(address, command, max(share, 0.0))
            except InFlightLimitReached:
                # The bound is ours; other servers would not help.
                raise
            except RemotingError as error:
                self._answers[address] = str(error)
                self._move_on(address)
                failure = type(error)
                continue
            self._answers[address] = _describe(response)
            return response
        if not addresses:
            raise ConnectError("no name server address is set; set namesrv or NAMESRV_ADDR to host:port;host:port")
        raise failure(f"no name server answered: {'; '.join(f'{name}: {how}' for name, how in self.answers.items())}")

    def _move_on(self, address: str) -> None:
        # Only from the one that failed: several requests that fail together move on by one.
        if address == self.current:
            self._next = (self._next + 1) % len(self._addresses)


def _describe(response: Command) -> str:
    if response.code == ResponseCode.SUCCESS:
        return "answered"
    return f"{response_name(response.code)} {response.remark or ''}".rstrip()
