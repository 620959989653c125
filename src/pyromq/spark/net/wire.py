"""Blocking connections to name servers and brokers, for Spark's tasks and its driver: few threads, no event loop.

One connection per address. Requests can be handed over one after another before the first answer is awaited, and
answers are matched by their number, so many questions cost one round trip. Not safe for threads; not across a fork.
"""

import contextlib
import itertools
import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Self

from pyromq.client.errors import BrokerError
from pyromq.protocol.bodies.route import TopicRouteData
from pyromq.protocol.bodies.topics import TopicList
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command, encode
from pyromq.protocol.errors import FrameError, ProtocolError
from pyromq.protocol.frame import MAX_FRAME, FrameReader
from pyromq.protocol.headers.namesrv import GetRouteInfoByTopicHeader
from pyromq.protocol.signature import signed
from pyromq.remoting.address import Address
from pyromq.remoting.errors import CallTimeout, ConnectError, ConnectionLost, RemotingError
from pyromq.spark.errors import RouteError
from pyromq.spark.options import ConnectionOptions

CONNECT_TIMEOUT = 3.0
RECEIVE = 1 << 20
"""Bytes asked of a socket at a time."""
WINDOW = 64
"""Requests of one `exchange` that are under way at a time."""


class Channel:
    """One connection. Any error leaves it closed: what was under way is unknown then."""

    def __init__(self, address: str, tls: ssl.SSLContext | None, clock: Callable[[], float]) -> None:
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


class Wire:
    """Connections by address, and the questions that name servers answer.

    >>> with Wire(options) as wire:
    ...     wire.call("127.0.0.1:10911", Command.request(code, header), timeout=3.0)
    """

    def __init__(self, options: ConnectionOptions, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.options = options
        self._clock = clock
        tls = options.client_tls()
        self._tls = None if tls is None else tls.context
        self._channels: dict[str, Channel] = {}
        self._opaque = itertools.count(1)
        self._name_server = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def call(self, address: str, command: Command, timeout: float) -> Command:
        """One question and its answer, whatever its code. Raises RemotingError or ProtocolError."""
        return self.exchange(address, [command], timeout)[0]

    def exchange(self, address: str, commands: Sequence[Command], timeout: float) -> list[Command]:
        """Many questions to one peer, pipelined; answers in the order of the questions. Raises as `call` does.

        A connection kept from before that turns out to be dead is replaced once, since servers close idle ones. So
        these are for questions that may be asked twice; for messages to be stored use `send` and `receive`.
        """
        known = address in self._channels
        try:
            return self._exchange(address, commands, timeout)
        except ConnectionLost:
            if not known:
                raise
            return self._exchange(address, commands, timeout)

    def _exchange(self, address: str, commands: Sequence[Command], timeout: float) -> list[Command]:
        deadline = self._clock() + timeout
        places: dict[int, int] = {}
        answers: list[Command | None] = [None] * len(commands)
        sent = 0
        try:
            while sent < len(commands) or places:
                if sent < len(commands) and len(places) < WINDOW:
                    places[self.send(address, commands[sent], max(deadline - self._clock(), 0.001))] = sent
                    sent += 1
                    continue
                answer = self.receive(address, max(deadline - self._clock(), 0.0))
                if (place := places.pop(answer.opaque, None)) is not None:
                    answers[place] = answer
        except (RemotingError, ProtocolError):
            self.disconnect(address)
            raise
        return [answer for answer in answers if answer is not None]

    def send(self, address: str, command: Command, timeout: float) -> int:
        """Hand a request over without waiting; returns the number its answer will carry. Raises RemotingError."""
        command.opaque = next(self._opaque)
        if self.options.credentials is not None:
            signed(command, *self.options.credentials)
        self._channel(address).send(command, timeout)
        return command.opaque

    def receive(self, address: str, timeout: float) -> Command:
        """The next answer from a peer that was asked something. Raises RemotingError or ProtocolError."""
        channel = self._channels.get(address)
        if channel is None:
            raise ConnectionLost(f"connection to {address} was lost")
        try:
            return channel.receive(timeout)
        except (ConnectionLost, FrameError):
            self.disconnect(address)
            raise

    def heard(self, addresses: Sequence[str], timeout: float) -> list[str]:
        """Of the peers that were asked something, those from which anything has come, or comes within the time."""
        channels = {address: channel for address in addresses if (channel := self._channels.get(address)) is not None}
        if len(channels) < len(set(addresses)):
            return list(addresses)  # a lost connection has its answer: there will be none
        if arrived := [address for address, channel in channels.items() if channel.has_answers]:
            return arrived
        ready, _, _ = select.select(list(channels.values()), [], [], timeout)
        return [address for address, channel in channels.items() if channel in ready]

    def ask_name_servers(self, command: Command, timeout: float) -> Command:
        """The answer of the first name server that gives one. Raises RouteError with what each of them said."""
        servers = self.options.name_server
        faults = []
        for turn in range(len(servers)):
            index = (self._name_server + turn) % len(servers)
            try:
                answer = self.call(servers[index], command, timeout)
            except (RemotingError, ProtocolError) as error:
                faults.append(f"{servers[index]}: {error}")
                continue
            self._name_server = index
            return answer
        raise RouteError(f"no name server answered: {'; '.join(faults) or 'none is configured'}")

    def route(self, topic: str, timeout: float = CONNECT_TIMEOUT) -> TopicRouteData | None:
        """Where a topic lives, by its name on the wire; None when nobody has it. Raises RouteError, BrokerError."""
        header = GetRouteInfoByTopicHeader(topic=topic)
        answer = self.ask_name_servers(Command.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header), timeout)
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        return TopicRouteData.decode(succeeded(answer, "route query").body)

    def topics(self, timeout: float = CONNECT_TIMEOUT) -> list[str]:
        """All topics that the name servers know. Raises RouteError or BrokerError."""
        command = Command.request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        answer = succeeded(self.ask_name_servers(command, timeout), "topic list")
        return sorted(TopicList.decode(answer.body).topic_list)

    def disconnect(self, address: str) -> None:
        """Close the connection to an address; the next request opens another."""
        channel = self._channels.pop(address, None)
        if channel is not None:
            channel.close()

    def close(self) -> None:
        for address in list(self._channels):
            self.disconnect(address)

    def _channel(self, address: str) -> Channel:
        channel = self._channels.get(address)
        if channel is None or not channel.is_open:
            channel = self._channels[address] = Channel(address, self._tls, self._clock)
        return channel


def succeeded(answer: Command, request: str, *, broker: str | None = None, also: Iterable[int] = ()) -> Command:
    """The answer itself. Raises BrokerError when its code means failure."""
    if answer.code != ResponseCode.SUCCESS and answer.code not in also:
        raise BrokerError(answer.code, answer.remark, broker=broker, request=request)
    return answer
