"""One blocking connection: requests out, answers in, matched by their number."""

import contextlib
import socket
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyromq.protocol.command import Command, encode
from pyromq.protocol.errors import FrameError
from pyromq.protocol.frame import MAX_FRAME, FrameReader
from pyromq.remoting.address import Address
from pyromq.remoting.errors import CallTimeout, ConnectError, ConnectionLost

if TYPE_CHECKING:
    from ssl import SSLContext

CONNECT_TIMEOUT = 3.0
RECEIVE = 1 << 20
"""Bytes asked of a socket at a time."""


class Channel:
    """One connection. Any error leaves it closed: what was under way is unknown then."""

    def __init__(self, address: str, tls: "SSLContext | None", clock: Callable[[], float]) -> None:
        self.address = address
        self.pending: dict[int, int] = {}
        """Opaque to request code of what has no answer yet."""
        self._clock = clock
        self._reader = FrameReader(MAX_FRAME)
        self._arrived: deque[Command] = deque()
        host, port = Address.parse(address)
        try:
            plain = socket.create_connection((host, port), CONNECT_TIMEOUT)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = plain if tls is None else tls.wrap_socket(plain, server_hostname=host)
        except OSError as error:
            raise ConnectError(f"{address} cannot be reached: {error}") from error

    def send(self, command: Command, timeout: float) -> None:
        """Hand a request over. Raises ConnectionLost or CallTimeout."""
        try:
            self._socket.settimeout(timeout)
            self._socket.sendall(encode(command))
        except TimeoutError:
            self.close()
            raise CallTimeout(f"{self.address} took no request for {timeout} s") from None
        except OSError as error:
            self.close()
            raise ConnectionLost(f"connection to {self.address} was lost: {error}") from error
        if not command.is_oneway:
            self.pending[command.opaque] = command.code

    def receive(self, timeout: float) -> Command:
        """The next answer to anything that was asked. Raises ConnectionLost, CallTimeout or FrameError."""
        deadline = self._clock() + timeout
        while not self._arrived:
            left = deadline - self._clock()
            if left <= 0:
                raise CallTimeout(f"{self.address} did not answer within {timeout} s")
            try:
                self._socket.settimeout(left)
                data = self._socket.recv(RECEIVE)
            except TimeoutError:
                continue
            except OSError as error:
                self.close()
                raise ConnectionLost(f"connection to {self.address} was lost: {error}") from error
            if not data:
                self.close()
                raise ConnectionLost(f"{self.address} closed the connection")
            try:
                answers = self._reader.feed(data)
            except FrameError:
                self.close()
                raise
            # Requests of the server's own, and answers that nobody waits for any more, are of no interest here.
            self._arrived.extend(
                answer for answer in answers if answer.is_response and self.pending.pop(answer.opaque, None) is not None
            )
        return self._arrived.popleft()

    def fileno(self) -> int:
        """For waiting on several connections at once."""
        return self._socket.fileno()

    @property
    def has_answers(self) -> bool:
        """Whether `receive` would return at once."""
        return bool(self._arrived)

    @property
    def is_open(self) -> bool:
        return self._socket.fileno() >= 0

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.close()
