"""One blocking connection: requests out, answers in, matched by their number."""

import contextlib
import socket
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING

from pyromq.protocol.command import Command, encode
from pyromq.protocol.errors import FrameError
from pyromq.protocol.frame import MAX_FRAME, FrameReader
from pyromq.remoting.address import Address
from pyromq.remoting.errors import CallTimeout, ConnectError, ConnectionLost

if TYPE_CHECKING:
    from ssl import SSLContext

CONNECT_TIMEOUT = 3.0
RECEIVE = 1 << 16
"""Bytes asked of a socket at a time; of a frame that is larger, all that is left."""
_LENGTH = Struct(">i")


class Channel:
    """One connection. Any error leaves it closed: what was under way is unknown then."""

    def __init__(self, address: str, tls: "SSLContext | None", clock: Callable[[], float]) -> None:
        self.address = address
        self.pending: dict[int, int] = {}
        """Opaque to request code of what has no answer yet."""
        self._clock = clock
        self._reader = FrameReader(MAX_FRAME)
        self._arrived: deque[Command] = deque()
        self._room: memoryview | None = None
        self._filled = 0
        """A large frame on its way, and how much of it is there."""
        host, port = Address.parse(address)
        try:
            plain = socket.create_connection((host, port), CONNECT_TIMEOUT)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = plain
            self._decrypted: Callable[[], int] = lambda: 0
            if tls is not None:
                self._socket = secured = tls.wrap_socket(plain, server_hostname=host)
                self._decrypted = secured.pending
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
                data = self._read()
            except TimeoutError:
                continue
            except OSError as error:
                self.close()
                raise ConnectionLost(f"connection to {self.address} was lost: {error}") from error
            if data is None:
                continue
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

    def _read(self) -> bytes | bytearray | None:
        """What arrived, nothing at the end; None when more is needed of a large frame.

        The rest of such a frame goes straight to its place: a copy of a megabyte costs more than its way here.
        """
        if self._room is None:
            data = self._socket.recv(RECEIVE)
            size = _LENGTH.unpack_from(data)[0] + _LENGTH.size if len(data) >= _LENGTH.size else 0
            if self._reader.buffered or not len(data) < size <= MAX_FRAME:
                return data
            self._room, self._filled = memoryview(bytearray(size)), len(data)
            self._room[: len(data)] = data
            return None
        arrived = self._socket.recv_into(self._room[self._filled :])
        self._filled += arrived
        if not arrived:
            return b""
        if self._filled < len(self._room):
            return None
        whole, self._room = self._room, None
        found: bytearray = whole.obj  # type: ignore[assignment]  # the one made above
        return found

    def fileno(self) -> int:
        """For waiting on several connections at once."""
        return self._socket.fileno()

    @property
    def has_answers(self) -> bool:
        """Whether `receive` has something at hand that no wait for the socket would tell of."""
        return bool(self._arrived) or self._decrypted() > 0

    @property
    def is_open(self) -> bool:
        return self._socket.fileno() >= 0

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.close()
