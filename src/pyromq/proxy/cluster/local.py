"""`LocalCluster`: the broker that the proxy runs in, asked over connections without sockets.

Each client has a connection of its own, known to the broker by the client's address; so limits, lists of connections
and what brokers ask of clients are as for those who speak remoting. The broker checks no signature there: the proxy
did, and says who signed.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from pyromq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.command import Command
from pyromq.protocol.routes import MASTER_ID
from pyromq.protocol.signature import ACCESS_KEY
from pyromq.proxy.caller import Caller
from pyromq.proxy.cluster.memory import join
from pyromq.proxy.schema.enums import Code
from pyromq.proxy.status import Refusal
from pyromq.remoting.address import Address
from pyromq.remoting.calls import SendCall
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Endpoint, Handler
from pyromq.remoting.limits import Limits
from pyromq.remoting.server import Server

Create = Callable[[str, str], Awaitable[bool]]
"""Makes a topic for a party, if the broker lets clients do so."""


@dataclass(frozen=True, slots=True)
class Host:
    """The broker around the proxy. `handlers` are those behind its checks of signatures."""

    name: str
    cluster: str
    address: Address
    server: Server
    handlers: Mapping[int, Handler]
    topic: Callable[[str], TopicConfig | None]
    permission: Callable[[], int]
    create: Create


@dataclass(frozen=True, slots=True)
class Link:
    """The connection of one client: our end of it, and the broker's."""

    near: Connection
    far: Connection
    user: str


class LocalCluster:
    """`callbacks` serve what the broker asks of clients; the `context` of the connection is the client's id.

    About `most` clients are connected at a time; the proxy itself always is.
    """

    has_links = True

    def __init__(self, host: Host, callbacks: Mapping[int, Handler], most: int, limits: Limits | None = None) -> None:
        self._host = host
        self._callbacks = callbacks
        self._most = most
        limits = limits or Limits()
        self._endpoint = Endpoint(limits, time.monotonic, is_server=False, max_calls=limits.calls)
        self._links: dict[str, Link] = {}

    @property
    def links(self) -> int:
        """Clients that have a connection now."""
        return len(self._links)

    async def route(self, topic: str) -> TopicRouteData | None:
        """The broker's own queues of a topic."""
        host, config = self._host, self._host.topic(topic)
        if config is None:
            return None
        queues = QueueData(
            broker_name=host.name,
            perm=config.perm & host.permission(),
            read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums,
            topic_sys_flag=config.topic_sys_flag,
        )
        broker = BrokerData(broker_addrs={MASTER_ID: str(host.address)}, broker_name=host.name, cluster=host.cluster)
        return TopicRouteData(broker_datas=[broker], queue_datas=[queues])

    async def brokers(self) -> list[str]:
        """This one."""
        return [self._host.name]

    def ask(self, caller: Caller | None, broker: str, command: Command, timeout: float) -> "asyncio.Future[Command]":
        """Ask the broker on the connection of a client, which is made if need be."""
        if broker != self._host.name:
            raise Refusal(Code.BAD_REQUEST, f"there is no broker {broker} here; this proxy serves {self._host.name}")
        if caller is None:
            return self._link("", self._host.address, "").near.asker.open(command, timeout).future
        link = self._links.get(caller.client_id)
        if link is None or not link.near.is_open:
            link = self._link(caller.client_id, caller.peer, caller.user)
        elif link.far.peer != caller.peer:
            link.far.peer = caller.peer  # it has connected anew: lists of connections show where it is now
        if caller.user:
            if link.user != caller.user:
                raise Refusal(
                    Code.UNAUTHORIZED, f"the client id {caller.client_id} belongs to a client of another user"
                )
            command.ext[ACCESS_KEY] = caller.user
        return link.near.asker.open(command, timeout, SendCall).future

    async def create(self, caller: Caller, topic: str) -> bool:
        """Make a topic, if the broker lets clients do so."""
        return await self._host.create(topic, caller.user or caller.peer.host)

    def forget(self, client_id: str) -> None:
        """End the connection of a client."""
        link = self._links.pop(client_id, None)
        if link is not None:
            link.near.close("the client has left")

    async def stop(self) -> None:
        """End all connections."""
        await self._endpoint.cut_off("the proxy stopped")

    def _link(self, client_id: str, peer: Address, user: str) -> Link:
        known = self._links.get(client_id)
        if known is not None and known.near.is_open:
            return known
        if client_id and len(self._links) >= self._most:
            raise Refusal(
                Code.TOO_MANY_REQUESTS,
                f"{len(self._links)} clients are connected, the limit grpcMaxClients: try again when some left",
            )
        host = self._host
        link = Link(
            Connection(self._endpoint, self._callbacks, host.address), host.server.attach(peer, host.handlers), user
        )
        link.near.context = client_id
        self._links[client_id] = link
        join(link.near, link.far, peer, host.address)
        link.near.on_close(self._closed)
        return link

    def _closed(self, connection: Connection) -> None:
        client_id = str(connection.context)
        link = self._links.get(client_id)
        if link is not None and link.near is connection:
            del self._links[client_id]
