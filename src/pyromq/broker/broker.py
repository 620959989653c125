"""`Broker`: a store, ports, the core made of them, and its parts. It knows no capability by name: it asks all parts."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from pyromq.auth.needs import Scene
from pyromq.broker.access import topic_at
from pyromq.broker.admin.reload import reread_file
from pyromq.broker.cluster.addresses import check_reachable, numeric_host
from pyromq.broker.config import BrokerConfig
from pyromq.broker.core import Core
from pyromq.broker.part import Part, Told, all_followers, all_handlers
from pyromq.broker.parts import check_parts, make_parts
from pyromq.broker.periodic import Timers
from pyromq.broker.ports import Ports
from pyromq.broker.refusals import guarded
from pyromq.broker.tables.tables import Tables
from pyromq.clock import steady_for, wall_clock
from pyromq.protocol.records.host import Host
from pyromq.remoting.address import Address
from pyromq.remoting.client import Client
from pyromq.remoting.connection import Connection
from pyromq.store.arrival import Arrival
from pyromq.store.messagestore import MessageStore

if TYPE_CHECKING:
    from pyromq.auth.gate import Gate

log = logging.getLogger(__name__)

P = TypeVar("P", bound=Part)


class Broker:
    """One broker: a store, the requests on it, and its place in the cluster.

        broker = Broker(BrokerConfig(listen_port=0, store_path_root_dir=path, namesrv_addr=("127.0.0.1:9876",)))
        await broker.start()
        print(broker.address)
        await broker.stop()

    `clock` gives Unix milliseconds; with one of a test's own, all time is by it. `make` gives the parts.
    """

    def __init__(
        self,
        config: BrokerConfig,
        clock: Callable[[], int] = wall_clock,
        make: Callable[[Core], list[Part]] = make_parts,
    ) -> None:
        self.config = config
        self.clock = clock
        self._make = make
        self._core: Core | None = None
        self.parts: list[Part] = []
        """What it is made of, in the order of the start."""
        self._timers = Timers()
        self._undo = contextlib.AsyncExitStack()

    @property
    def core(self) -> Core:
        """What its parts work with. Raises RuntimeError before it was started."""
        if self._core is None:
            raise RuntimeError("the broker has not been started")
        return self._core

    def part(self, kind: type[P]) -> P:
        """The part of a kind. Raises LookupError."""
        for part in self.parts:
            if isinstance(part, kind):
                return part
        raise LookupError(f"this broker has no {kind.__name__}")

    @property
    def store(self) -> MessageStore:
        """Its messages."""
        return self.core.store

    @property
    def address(self) -> str:
        """What clients are told, as `host:port`."""
        return self.core.address

    @property
    def listens_on(self) -> str:
        """What its main port is bound to, which need not be what clients are told."""
        return str(self.core.ports.server.addresses[0])

    @property
    def request_codes(self) -> frozenset[int]:
        """What it serves, once started."""
        return frozenset(self.core.ports.handlers)

    @property
    def http_address(self) -> str | None:
        """Where metrics and health are served, None when they are not."""
        address = self._core.ports.http_address if self._core is not None else None
        return str(address) if address is not None else None

    @property
    def grpc_address(self) -> str | None:
        """Where gRPC clients are served, None when they are not."""
        address = self._core.ports.grpc_address if self._core is not None else None
        return str(address) if address is not None else None

    async def start(self) -> None:
        """Load and recover, listen, register. When this returns, the broker accepts messages.

        Raises ConfigError, StoreError, ProtocolError for files that cannot be read, and ConnectError when an address
        cannot be listened on; nothing is left running then.
        """
        config = self.config
        config.check_exposure(authenticated=config.is_authenticated)
        scene = Scene(
            config.broker_cluster_name,
            lambda offset: topic_at(self.store, offset),
            name=config.broker_name,
            address=lambda: self.address,
        )
        gate = config.gate(config.config_dir / "auth", scene, self.clock)
        check_parts(config)
        tables = Tables(config, self.clock)
        tables.load()
        try:
            self._core = await self._open(tables, gate)
            await self._start_parts(self._core)
        except BaseException:
            await self.stop()
            raise
        log.info("broker %s listens on %s and tells clients %s", config.broker_name, self.listens_on, self.address)

    async def reload(self) -> None:
        """Read the configuration file again."""
        await reread_file(self.core)

    async def stop(self) -> None:
        """Leave the name servers, answer what was accepted, save everything. Does nothing when not started."""
        await self._undo.aclose()

    async def _open(self, tables: Tables, gate: "Gate | None") -> Core:
        """Recover the store, then bind the ports; each with how to close it again."""
        config, undo = self.config, self._undo
        store = MessageStore(
            config.store_config(), clock=self.clock, post=asyncio.get_running_loop().call_soon_threadsafe
        )
        store.open()
        undo.push_async_callback(self._close, store, tables)
        if gate is not None:
            undo.callback(gate.close)
        client = Client({}, tls=config.client_tls(), hooks=config.signing())
        undo.push_async_callback(client.close)
        ports = Ports(config, gate, self.clock, steady_for(self.clock), self._connection_closed)
        undo.push_async_callback(ports.close)
        identity = await ports.listen(store)
        address = Address.parse(identity.address)
        store.store_host = Host(await numeric_host(address.host), address.port)
        return Core.make(config, self.clock, store, client, ports, identity, tables, gate)

    async def _start_parts(self, core: Core) -> None:
        """One after the other, then let requests in, then have others told; undone in the reverse order."""
        undo, parts = self._undo, self.parts
        core.positions.hold()
        parts[:] = self._make(core)
        handlers = inner = guarded(all_handlers(parts))
        self._listen(core.store, all_followers(parts))
        for part in parts:
            undo.push_async_callback(part.stop)
            await part.start()
        if core.gate is not None:
            handlers = core.gate.table(handlers | core.gate.handlers())
        core.ports.serve(handlers, inner)
        undo.push_async_callback(self._timers.stop)
        for part in parts:
            for work in part.every():
                self._timers.every(work.seconds, work.work, at_once=work.at_once)
        for part in parts:
            undo.push_async_callback(part.leave)
            await part.join()
        self._timers.soon(check_reachable(Address.parse(core.address)))

    def _listen(self, store: MessageStore, followers: dict[str, Told]) -> None:
        """Have parts told what is stored in their topics, and those who wait what arrives."""

        def follow(message: Arrival) -> None:
            followers[message.topic](message)

        store.add_listener(follow, followers)
        for part in self.parts:
            for park in part.parks():
                store.add_watcher(park.heard, park.topics)

    async def _close(self, store: MessageStore, tables: Tables) -> None:
        await tables.save()
        store.close()
        log.info("broker %s stopped", self.config.broker_name)

    def _connection_closed(self, connection: Connection) -> None:
        for part in self.parts:
            part.connection_closed(connection)
