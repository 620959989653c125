"""The network between machines: a relay in front of every server that knows who talks to whom, and can come between.

Each machine has two addresses of loopback: one of its own, where its server listens and from which it connects, and a
public one, which all others are told. Here is what listens at the public ones. A link is one direction between two
machines. What a cut link does not pass is kept, as TCP would send it again, and goes on when the link is whole.
"""

import asyncio
import ipaddress
import random
from collections import deque
from typing import NamedTuple, cast

ROOM = 1 << 20
"""Bytes kept of one direction of a connection before its source is made to wait."""
CONNECT_TIMEOUT = 5.0


class Machine(NamedTuple):
    """Addresses of a machine."""

    name: str
    own: str
    public: str


class Link:
    """One direction between two machines."""

    def __init__(self) -> None:
        self.cut = False
        self.refused = False
        """Cut, and connections are reset instead of left hanging."""
        self.delay = (0.0, 0.0)
        self.loss = 0.0
        """How likely a piece of data ends its connection."""
        self.pipes: set[_Pipe] = set()

    def changed(self) -> None:
        """Apply what was set to the connections there are."""
        for pipe in list(self.pipes):
            if self.refused:
                pipe.relay.abort()
            else:
                pipe.pump()


class _Pipe:
    """One direction of a connection: what was read and not passed on yet."""

    def __init__(self, relay: "_Relay", link: Link, rng: random.Random) -> None:
        self.relay = relay
        self.link = link
        self.source: asyncio.Transport | None = None
        self.sink: asyncio.Transport | None = None
        self._rng = rng
        self._kept: deque[tuple[float, bytes]] = deque()
        self._size = 0
        self._sink_full = False
        self._closing = False
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        link.pipes.add(self)

    def feed(self, data: bytes) -> None:
        link = self.link
        if link.loss and self._rng.random() < link.loss:
            self.relay.abort()
            return
        due = 0.0
        if link.delay[1]:
            due = self._loop.time() + self._rng.uniform(*link.delay)
        self._kept.append((due, data))
        self._size += len(data)
        self.pump()

    def end(self) -> None:
        """The source is through; so will the sink be, once it has everything."""
        self._closing = True
        self.pump()

    def hold(self, full: bool) -> None:
        self._sink_full = full
        self.pump()

    def pump(self) -> None:
        """Pass on whatever may go."""
        if self.sink is None or self.sink.is_closing() or self.link.cut:
            self._throttle()
            return
        now = self._loop.time()
        while self._kept and not self._sink_full and self._kept[0][0] <= now:
            _, data = self._kept.popleft()
            self._size -= len(data)
            self.sink.write(data)
        if self._kept and not self._sink_full and self._timer is None:
            self._timer = self._loop.call_at(self._kept[0][0], self._due)
        if self._closing and not self._kept:
            self.relay.close()
        self._throttle()

    def _due(self) -> None:
        self._timer = None
        self.pump()

    def _throttle(self) -> None:
        if self.source is not None and not self.source.is_closing():
            if self._size > ROOM:
                self.source.pause_reading()
            else:
                self.source.resume_reading()

    def stop(self) -> None:
        self.link.pipes.discard(self)
        if self._timer is not None:
            self._timer.cancel()


class _End(asyncio.Protocol):
    """One of the two connections of a relay: reads into one pipe, writes what comes out of the other."""

    def __init__(self, incoming: _Pipe, outgoing: _Pipe) -> None:
        self._incoming = incoming
        self._outgoing = outgoing

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._incoming.source = self._outgoing.sink = cast("asyncio.Transport", transport)
        self._outgoing.pump()

    def data_received(self, data: bytes) -> None:
        self._incoming.feed(data)

    def pause_writing(self) -> None:
        self._outgoing.hold(True)

    def resume_writing(self) -> None:
        self._outgoing.hold(False)

    def connection_lost(self, _error: Exception | None) -> None:
        self._incoming.end()


class _Relay:
    """A connection from one machine to the server of another."""

    def __init__(self, network: "Network", client: str, server: Machine, port: int) -> None:
        self._network = network
        self._there = _Pipe(self, network.link(client, server.name), network.rng)
        self._back = _Pipe(self, network.link(server.name, client), network.rng)
        self._address = (server.own, port)
        self._task: asyncio.Task[None] | None = None
        network.relays.add(self)

    def accept(self) -> asyncio.Protocol:
        if self._there.link.refused or self._back.link.refused:
            asyncio.get_running_loop().call_soon(self.abort)
        else:
            self._task = asyncio.get_running_loop().create_task(self._connect())
        return _End(self._there, self._back)

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                await loop.create_connection(lambda: _End(self._back, self._there), *self._address)
        except (OSError, TimeoutError):
            self.abort()

    def close(self) -> None:
        """One side has ended and the other has everything: let it be written out."""
        for transport in self._stop():
            transport.close()

    def abort(self) -> None:
        """End both sides at once."""
        for transport in self._stop():
            transport.abort()

    def _stop(self) -> list[asyncio.Transport]:
        if self._task is not None:
            self._task.cancel()
        self._network.relays.discard(self)
        pipes = (self._there, self._back)
        for pipe in pipes:
            pipe.stop()
        return [pipe.source for pipe in pipes if pipe.source is not None]


class Network:
    """Machines and the links between them.

    network = Network(random.Random(seed))
    machine = network.add("broker-a")
    await network.listen(machine, 10911)       # and at machine.own:10911 a server
    network.cut({"broker-a"}, {"broker-b"})
    network.heal()
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.machines: dict[str, Machine] = {}
        self.relays: set[_Relay] = set()
        self._subnet = ipaddress.ip_address(f"127.{random.randint(1, 254)}.{random.randint(0, 255)}.0")
        self._by_address: dict[str, str] = {}
        self._links: dict[tuple[str, str], Link] = {}
        self._servers: list[asyncio.Server] = []

    def add(self, name: str) -> Machine:
        """A machine with addresses that nothing else uses."""
        number = len(self.machines) + 1
        machine = Machine(name, str(self._subnet + number), str(self._subnet + 100 + number))
        self.machines[name] = machine
        self._by_address[machine.own] = name
        return machine

    async def listen(self, machine: Machine, port: int) -> None:
        """Let others reach a port of a machine."""
        loop = asyncio.get_running_loop()
        self._servers.append(await loop.create_server(lambda: _Door(self, machine, port), machine.public, port))

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        for relay in list(self.relays):
            relay.abort()
        for server in self._servers:
            await server.wait_closed()

    def name_of(self, address: str) -> str:
        """Which machine connects from there."""
        return self._by_address.get(address, "outside")

    def link(self, source: str, sink: str) -> Link:
        return self._links.setdefault((source, sink), Link())

    def cut(self, sources: set[str], sinks: set[str], *, one_way: bool = False, refuse: bool = False) -> None:
        """Pass nothing from the sources to the sinks, nor back unless `one_way`."""
        for link in self._between(sources, sinks, one_way=one_way):
            link.cut, link.refused = True, refuse
            link.changed()

    def slow(self, sources: set[str], sinks: set[str], low: float, high: float) -> None:
        """Delay what passes in either direction by so many seconds."""
        for link in self._between(sources, sinks):
            link.delay = (low, high)

    def lossy(self, sources: set[str], sinks: set[str], share: float) -> None:
        """End connections at this share of what passes."""
        for link in self._between(sources, sinks):
            link.loss = share

    def heal(self, sources: set[str], sinks: set[str]) -> None:
        """Undo everything between them."""
        for link in self._between(sources, sinks):
            link.cut = link.refused = False
            link.delay, link.loss = (0.0, 0.0), 0.0
            link.changed()

    def _between(self, sources: set[str], sinks: set[str], *, one_way: bool = False) -> list[Link]:
        pairs = [(source, sink) for source in sorted(sources) for sink in sorted(sinks) if source != sink]
        if not one_way:
            pairs += [(sink, source) for source, sink in pairs if (sink, source) not in pairs]
        return [self.link(*pair) for pair in pairs]


class _Door(asyncio.Protocol):
    """Finds out who connects and puts a relay in its place."""

    def __init__(self, network: Network, machine: Machine, port: int) -> None:
        self._network = network
        self._machine = machine
        self._port = port

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        peer = transport.get_extra_info("peername")
        relay = _Relay(self._network, self._network.name_of(peer[0]), self._machine, self._port)
        end = relay.accept()
        cast("asyncio.Transport", transport).set_protocol(end)
        end.connection_made(transport)
