"""How admin calls reach brokers and name servers: one of them, those of a topic or cluster, or all in parallel.

Names are those on the wire: nothing here adds or strips a namespace. Every fault leaves as `ClientError` or a child;
when several servers are asked, `PartialFailureError` keeps what the others answered.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from pyromq.client.errors import BrokerError, ClientError, ErrorCode, NoRouteError, PartialFailureError, transport_error
from pyromq.client.instance.instance import ClientInstance
from pyromq.client.queries import Queries
from pyromq.protocol.bodies.base import Body
from pyromq.protocol.bodies.route import BrokerData, ClusterInfo, TopicRouteData
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.errors import ProtocolError
from pyromq.protocol.headers.base import Header
from pyromq.protocol.requests import Request
from pyromq.protocol.routes import MASTER_ID, any_address
from pyromq.remoting.errors import RemotingError

T = TypeVar("T")
B = TypeVar("B", bound=Body)

PARALLEL = 64
"""Requests of one admin client that are under way at a time."""


class Server(NamedTuple):
    """A broker process: the name that results show it under, and its address."""

    name: str
    address: str


@contextmanager
def as_client_errors(peer: str) -> Iterator[None]:
    """Turn faults of the transport and of what a peer wrote into errors of the client's family."""
    try:
        yield
    except RemotingError as error:
        raise transport_error(error, peer) from error
    except ProtocolError as error:
        raise ClientError(f"answer of {peer} cannot be read: {error}", broker=peer) from error


class Reach:
    """The servers that one admin client can ask."""

    def __init__(self, instance: ClientInstance, timeout: float) -> None:
        self.instance = instance
        self.timeout = timeout
        self._room = asyncio.Semaphore(PARALLEL)

    async def ask(
        self,
        server: Server,
        code: RequestCode,
        header: Header | None = None,
        *,
        body: bytes = b"",
        patience: float = 1.0,
    ) -> Command:
        """A broker's successful answer; `patience` multiplies the time-out. Raises BrokerError, TransportError."""
        command = Command.request(code, header, body=body)
        with as_client_errors(server.name):
            return await self.instance.invoke(
                self.instance.vip(server.address), command, self.timeout * patience, broker=server.name
            )

    async def read(
        self,
        server: Server,
        code: RequestCode,
        answer: type[B],
        header: Header | None = None,
        *,
        patience: float = 1.0,
    ) -> B:
        """`ask`, and the body of the answer."""
        response = await self.ask(server, code, header, patience=patience)
        with as_client_errors(server.name):
            return answer.decode(response.body)

    async def answer(self, server: Server, request: Request[T]) -> T:
        """What a server answers to a request. Raises BrokerError for a refusal, TransportError."""
        with as_client_errors(server.name):
            return await self.instance.answer(
                self.instance.vip(server.address), request, self.timeout, broker=server.name
            )

    async def ask_name_server(self, code: RequestCode, header: Header | None = None) -> Command:
        """The successful answer of whichever name server answers first."""
        command = Command.request(code, header)
        with as_client_errors("name server"):
            response = await self.instance.call_name_server(command)
        if response.code != ResponseCode.SUCCESS:
            broker = self.instance.name_servers.current
            raise BrokerError(response.code, response.remark, broker=broker, request=command.name)
        return response

    async def read_name_server(self, code: RequestCode, answer: type[B], header: Header | None = None) -> B:
        """`ask_name_server`, and the body of the answer."""
        response = await self.ask_name_server(code, header)
        with as_client_errors("name server"):
            return answer.decode(response.body)

    async def each(self, what: str, servers: Iterable[Server], work: Callable[[Server], Awaitable[T]]) -> dict[str, T]:
        """Do the work for all servers in parallel; the results by server name.

        Raises PartialFailureError when some failed, or the very error when the only server did.
        """
        done, failed = await self.try_each(servers, work)
        if failed:
            if not done and len(failed) == 1:
                raise next(iter(failed.values()))
            raise PartialFailureError(what, done, failed)
        return done

    async def ask_each(
        self,
        what: str,
        servers: Iterable[Server],
        code: RequestCode,
        header: Header | None = None,
        *,
        body: bytes = b"",
        patience: float = 1.0,
    ) -> dict[str, Command]:
        """`ask` of each server."""
        return await self.each(
            what, servers, lambda server: self.ask(server, code, header, body=body, patience=patience)
        )

    async def read_each(
        self,
        what: str,
        servers: Iterable[Server],
        code: RequestCode,
        answer: type[B],
        header: Header | None = None,
        *,
        patience: float = 1.0,
    ) -> dict[str, B]:
        """`read` of each server."""
        return await self.each(what, servers, lambda server: self.read(server, code, answer, header, patience=patience))

    async def read_owners(
        self,
        what: str,
        servers: Iterable[Server],
        code: RequestCode,
        answer: type[B],
        header: Header,
        absent: ResponseCode,
        remark: str,
    ) -> dict[str, B]:
        """`read` of those servers that have something; the others answer `absent`, as this does when none has it."""

        async def one(server: Server) -> B | None:
            try:
                return await self.read(server, code, answer, header)
            except BrokerError as error:
                if error.code != absent:
                    raise
                return None

        answers = await self.each(what, servers, one)
        found = {name: value for name, value in answers.items() if value is not None}
        if not found:
            raise BrokerError(absent, remark, broker=", ".join(answers))
        return found

    async def try_each(
        self, servers: Iterable[Server], work: Callable[[Server], Awaitable[T]]
    ) -> tuple[dict[str, T], dict[str, ClientError]]:
        """What `each` does, with the failures beside the results instead of raised."""
        done: dict[str, T] = {}
        failed: dict[str, ClientError] = {}

        async def one(server: Server) -> None:
            async with self._room:
                try:
                    with as_client_errors(server.name):
                        done[server.name] = await work(server)
                except ClientError as error:
                    failed[server.name] = error

        ordered = sorted(set(servers))
        await asyncio.gather(*map(one, ordered))
        names = [server.name for server in ordered]
        return {n: done[n] for n in names if n in done}, {n: failed[n] for n in names if n in failed}

    async def each_name_server(
        self, what: str, code: RequestCode, header: Header | None = None, *, body: bytes = b""
    ) -> dict[str, Command]:
        """Ask all name servers, since they do not tell each other anything; the answers by address."""
        addresses = self.instance.name_servers.addresses
        if not addresses:
            raise ClientError("no name server address is known", code=ErrorCode.NO_NAME_SERVER)

        async def one(server: Server) -> Command:
            command = Command.request(code, header, body=body)
            with as_client_errors(server.name):
                return await self.instance.invoke(server.address, command, self.timeout)

        return await self.each(what, (Server(address, address) for address in addresses), one)

    async def cluster(self) -> ClusterInfo:
        """All brokers that the name servers know."""
        return await self.read_name_server(RequestCode.GET_BROKER_CLUSTER_INFO, ClusterInfo)

    async def masters(self, *, broker: str | None = None, cluster: str | None = None) -> list[Server]:
        """The master of a broker (by name or `host:port`), those of a cluster, or with neither all there are.

        Raises ClientError for both at once, and when there is none.
        """
        if broker is not None and cluster is not None:
            raise ClientError(f"give a broker ({broker!r}) or a cluster ({cluster!r}), not both")
        if broker is not None and ":" in broker:
            return [Server(broker, broker)]
        found = chosen_masters(await self.cluster(), broker=broker, cluster=cluster)
        if not found:
            wanted = f"broker {broker!r}" if broker else f"cluster {cluster!r}" if cluster else "any cluster"
            raise ClientError(
                f"the name servers know no master of {wanted}", code=ErrorCode.BROKER_NOT_EXIST, broker=broker
            )
        return found

    async def master(self, broker: str) -> Server:
        """The one master of a broker name, or the process at an address."""
        return (await self.masters(broker=broker))[0]

    async def route(self, topic: str) -> TopicRouteData:
        """Where a topic is. Raises NoRouteError."""
        with as_client_errors("name server"):
            route, answers = await self.instance.routes.fetch(topic)
        if route is None:
            raise NoRouteError(topic, answers)
        return route

    async def queries(self, topic: str) -> Queries:
        """The basic calls, after a look at the route: nothing else keeps the routes of an admin client fresh."""
        await self.instance.routes.refresh(topic)
        return Queries(self.instance)

    async def serving(self, topic: str) -> list[Server]:
        """A process of every broker that has the topic: the master, or while there is none the first slave."""
        return [
            Server(broker.broker_name, address)
            for broker in (await self.route(topic)).broker_datas
            if (address := any_address(broker.broker_addrs)) is not None
        ]


def chosen_masters(info: ClusterInfo, *, broker: str | None = None, cluster: str | None = None) -> list[Server]:
    """The masters that a broker name or a cluster name selects, in order of their names."""

    def wanted(data: BrokerData) -> bool:
        if broker is not None:
            return data.broker_name == broker
        return cluster is None or data.broker_name in info.cluster_addr_table.get(cluster, ())

    return sorted(
        Server(data.broker_name, data.broker_addrs[MASTER_ID])
        for data in info.broker_addr_table.values()
        if MASTER_ID in data.broker_addrs and wanted(data)
    )


class Subject:
    """Base of the subjects: each is a set of methods of `Admin`; one that needs another makes it of its own reach."""

    def __init__(self, reach: Reach) -> None:
        self._servers = reach

    def _reach(self) -> Reach:
        """Where requests go. Of `Admin` it raises ServiceStateError unless it runs."""
        return self._servers
