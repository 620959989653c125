"""Blocking connections to name servers and brokers, for Spark's tasks and its driver: few threads, no event loop.

One connection per address. Requests can be handed over one after another before the first answer is awaited, and
answers are matched by their number, so many questions cost one round trip. Not safe for threads; not across a fork.
"""

import itertools
import select
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Self, TypeVar

from pyromq.client.errors import BrokerError
from pyromq.protocol.bodies.route import TopicRouteData
from pyromq.protocol.bodies.topics import TopicList
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.errors import FrameError, ProtocolError
from pyromq.protocol.requests import Request, topic_route
from pyromq.protocol.signature import signed
from pyromq.remoting.errors import ConnectionLost, RemotingError
from pyromq.spark.errors import RouteError
from pyromq.spark.net.channel import CONNECT_TIMEOUT, Channel
from pyromq.spark.net.talk import Talk
from pyromq.spark.options import ConnectionOptions

T = TypeVar("T")


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
        found = self.exchange_all({address: commands}, timeout)[address]
        if isinstance(found, Exception):
            raise found
        return found

    def exchange_all(
        self, asked: Mapping[str, Sequence[Command]], timeout: float
    ) -> dict[str, list[Command] | RemotingError | ProtocolError]:
        """Questions to several peers, all at work at the same time; for each the answers or what went wrong.

        As with `exchange`, a connection from before that is dead is replaced once.
        """
        known = [address for address in asked if address in self._channels]
        found = self._exchange_all(asked, timeout)
        lost = {address: asked[address] for address in known if isinstance(found[address], ConnectionLost)}
        return found | self._exchange_all(lost, timeout) if lost else found

    def _exchange_all(
        self, asked: Mapping[str, Sequence[Command]], timeout: float
    ) -> dict[str, list[Command] | RemotingError | ProtocolError]:
        deadline = self._clock() + timeout
        found: dict[str, list[Command] | RemotingError | ProtocolError] = {address: [] for address in asked}
        talks = {address: Talk(commands) for address, commands in asked.items() if commands}

        def step(address: str, work: Callable[[], None]) -> None:
            try:
                work()
                if talks[address].is_over:
                    found[address] = talks.pop(address).answers
            except (RemotingError, ProtocolError) as error:
                self.disconnect(address)
                del talks[address]
                found[address] = error

        for address in list(talks):
            step(address, partial(self._say, address, talks[address], deadline))
        while talks:
            left = deadline - self._clock()
            # With one peer there is nobody to choose from, and once the time is over each is told so.
            ready = self.heard(list(talks), left) if len(talks) > 1 and left > 0 else list(talks)
            for address in ready or list(talks):
                if address in talks:
                    step(address, partial(self._hear, address, talks[address], deadline))
        return found

    def _say(self, address: str, talk: Talk, deadline: float) -> None:
        for command in talk.next():
            talk.sent(self.send(address, command, max(deadline - self._clock(), 0.001)))

    def _hear(self, address: str, talk: Talk, deadline: float) -> None:
        talk.take(self.receive(address, max(deadline - self._clock(), 0.0)))
        self._say(address, talk, deadline)

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

    def ask(self, address: str, requests: Sequence[Request[T]], timeout: float, *, broker: str) -> Iterator[T]:
        """What a broker answers to each of many questions. Raises as `call`, and BrokerError at the first refusal."""
        answers = self.exchange(address, [request.command for request in requests], timeout)
        return (read_answer(request, answer, broker) for request, answer in zip(requests, answers, strict=True))

    def ask_name_servers(self, request: Request[T], timeout: float = CONNECT_TIMEOUT) -> T:
        """What the first name server that answers says. Raises RouteError with the fault of each, BrokerError."""
        servers = self.options.name_server
        faults = []
        for turn in range(len(servers)):
            index = (self._name_server + turn) % len(servers)
            try:
                answer = self.call(servers[index], request.command, timeout)
            except (RemotingError, ProtocolError) as error:
                faults.append(f"{servers[index]}: {error}")
                continue
            self._name_server = index
            return read_answer(request, answer, None)
        raise RouteError(f"no name server answered: {'; '.join(faults) or 'none is configured'}")

    def route(self, topic: str, timeout: float = CONNECT_TIMEOUT) -> TopicRouteData | None:
        """Where a topic lives, by its name on the wire; None when nobody has it. Raises RouteError, BrokerError."""
        return self.ask_name_servers(topic_route(topic), timeout)

    def topics(self, timeout: float = CONNECT_TIMEOUT) -> list[str]:
        """All topics that the name servers know. Raises RouteError or BrokerError."""
        command = Command.request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        return self.ask_name_servers(
            Request(command, lambda answer: sorted(TopicList.decode(answer.body).topic_list)), timeout
        )

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


def read_answer(request: Request[T], answer: Command, broker: str | None) -> T:
    """What an answer says. Raises BrokerError for a refusal, ProtocolError for what cannot be read."""
    if not request.is_answer(answer):
        raise BrokerError(answer.code, answer.remark, broker=broker, request=request.command.name)
    return request.read(answer)


def succeeded(answer: Command, request: str, *, broker: str, also: Iterable[int] = ()) -> Command:
    """The answer itself. Raises BrokerError when its code means failure."""
    if answer.code != ResponseCode.SUCCESS and answer.code not in also:
        raise BrokerError(answer.code, answer.remark, broker=broker, request=request)
    return answer
