"""`RemoteCluster`: brokers behind name servers, PyroMQ's or Apache's, asked over connections of the proxy's own.

Requests are signed with the proxy's credentials; what a client's user may do, the proxy has checked before. Routes and
addresses are asked for again after a while, and at once when a broker cannot be reached.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, TypeVar

from pyromq.protocol import names
from pyromq.protocol.bodies.route import TopicRouteData
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.admin import UpdateAndCreateTopicHeader
from pyromq.protocol.requests import Request, cluster_info, topic_route
from pyromq.protocol.routes import READ_WRITE, is_inherited, masters
from pyromq.proxy.caller import Caller
from pyromq.proxy.messages.types import ATTRIBUTE, MIXED
from pyromq.proxy.schema.enums import Code
from pyromq.proxy.status import Refusal, refused_by
from pyromq.remoting.client import Client
from pyromq.remoting.connect.nameservers import NameServers
from pyromq.remoting.endpoint import Handler
from pyromq.remoting.errors import ConnectError, ConnectionLost, RemotingError
from pyromq.remoting.hooks import RequestHook
from pyromq.remoting.limits import Limits
from pyromq.remoting.tls import ClientTls

log = logging.getLogger(__name__)

T = TypeVar("T")

KEPT: Final = 30.0
"""Seconds for which a route is believed."""
MISSING_KEPT: Final = 1.0
DOUBTED: Final = 1.0
"""Seconds after which an address that does not answer is asked for again."""
MAX_ROUTES: Final = 10_000
TIMEOUT: Final = 3.0
CREATE_TRIES: Final = 20
CREATE_PAUSE: Final = 0.1
QUEUES: Final = 8


class RemoteCluster:
    """`monotonic` gives seconds. `callbacks` serve what brokers ask of clients."""

    has_links = False

    def __init__(
        self,
        name_servers: Iterable[str],
        callbacks: Mapping[int, Handler],
        monotonic: Callable[[], float],
        *,
        limits: Limits | None = None,
        tls: ClientTls | None = None,
        hooks: tuple[RequestHook, ...] = (),
    ) -> None:
        self._client = Client(callbacks, limits=limits, tls=tls, hooks=hooks)
        self._name_servers = NameServers(self._client, name_servers)
        self._monotonic = monotonic
        self._routes: dict[str, tuple[float, TopicRouteData | None]] = {}
        self._masters: dict[str, str] = {}
        self._masters_at = -KEPT
        self._asking: dict[str, asyncio.Task[None]] = {}

    async def route(self, topic: str) -> TopicRouteData | None:
        """What a name server says; for a moment what it said last, when none answers."""
        kept = self._routes.get(topic)
        if kept is not None and kept[0] > self._monotonic():
            return kept[1]
        await self._once(f"route {topic}", lambda: self._learn(topic))
        found = self._routes.get(topic)
        return found[1] if found is not None else None

    async def brokers(self) -> list[str]:
        """All brokers that name servers know."""
        await self._know_masters()
        return sorted(self._masters)

    async def ask(self, caller: Caller | None, broker: str, command: Command, timeout: float) -> Command:  # noqa: ARG002, ASYNC109 - as `Cluster`
        """Ask the master of this name."""
        address = self._masters.get(broker)
        if address is None:
            await self._know_masters(anew=True)
            address = self._masters.get(broker)
            if address is None:
                raise Refusal(Code.BAD_REQUEST, f"no name server knows a master of broker {broker!r}")
        try:
            return await self._client.call(address, command, timeout)
        except (ConnectError, ConnectionLost):
            self._doubt(broker)
            raise

    async def create(self, caller: Caller, topic: str) -> bool:  # noqa: ARG002 - as `Cluster`
        """Make a topic on the brokers that let producers do so, which their template of new topics tells."""
        template = await self.route(names.DEFAULT_TOPIC)
        if template is None:
            return False
        known = masters(template.broker_datas)
        wanted = [data for data in template.queue_datas if is_inherited(data.perm) and data.broker_name in known]
        for data in wanted:
            await self._make(data.broker_name, topic, min(QUEUES, data.write_queue_nums))
        for _ in range(CREATE_TRIES if wanted else 0):
            self._routes.pop(topic, None)
            if await self.route(topic) is not None:
                return True
            await asyncio.sleep(CREATE_PAUSE)  # brokers tell name servers by and by
        return False

    def forget(self, client_id: str) -> None:
        """Brokers know no single clients."""

    async def stop(self) -> None:
        """End all connections."""
        for task in tuple(self._asking.values()):
            task.cancel()
        await self._client.close()

    async def _make(self, broker: str, topic: str, queues: int) -> None:
        """For every kind of message if the broker has such topics, else for plain ones. Raises Refusal."""
        for attributes in (f"+{ATTRIBUTE}={MIXED}", None):
            header = UpdateAndCreateTopicHeader(
                topic=topic,
                default_topic=names.DEFAULT_TOPIC,
                read_queue_nums=queues,
                write_queue_nums=queues,
                perm=READ_WRITE,
                topic_filter_type="SINGLE_TAG",
                order=False,
                attributes=attributes,
            )
            command = Command.request(RequestCode.UPDATE_AND_CREATE_TOPIC, header)
            response = await self.ask(None, broker, command, TIMEOUT)
            if response.code == ResponseCode.SUCCESS:
                return
        raise refused_by(response)

    async def _know_masters(self, *, anew: bool = False) -> None:
        if anew or not self._masters or self._monotonic() - self._masters_at >= KEPT:
            await self._once("masters", self._learn_masters)

    async def _learn(self, topic: str) -> None:
        try:
            route = await self._told(topic_route(topic))
        except RemotingError as error:
            if topic not in self._routes:
                raise
            log.warning("the route of %s stays as it was: %s", topic, error)
            route = self._routes[topic][1]
        if route is not None:
            self._masters.update(masters(route.broker_datas))
        self._routes.pop(topic, None)
        while len(self._routes) >= MAX_ROUTES:
            del self._routes[next(iter(self._routes))]
        self._routes[topic] = self._monotonic() + (MISSING_KEPT if route is None else KEPT), route

    async def _learn_masters(self) -> None:
        info = await self._told(cluster_info())
        self._masters = masters(info.broker_addr_table.values())
        self._masters_at = self._monotonic()

    async def _told(self, request: Request[T]) -> T:
        """What a name server answers. Raises RemotingError and Refusal."""
        response = await self._name_servers.call(request.command, TIMEOUT)
        if not request.is_answer(response):
            raise refused_by(response)
        return request.read(response)

    async def _once(self, what: str, learn: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Ask for it; those who want the same meanwhile share the answer."""
        task = self._asking.get(what)
        if task is None:
            task = self._asking[what] = asyncio.get_running_loop().create_task(learn())
            task.add_done_callback(lambda _task: self._asking.pop(what, None))
        await asyncio.shield(task)

    def _doubt(self, broker: str) -> None:
        """A broker may have moved, or another be master: look for it again when it is next needed."""
        now = self._monotonic()
        if now - self._masters_at >= DOUBTED:
            self._masters.pop(broker, None)
            self._routes = {topic: (min(until, now), route) for topic, (until, route) in self._routes.items()}
