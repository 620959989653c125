"""QueryRoute and QueryAssignment: where a topic's queues are, as gRPC clients have it.

The endpoints of every queue are those that the client itself used, word for word: it can reach them, whatever stands
between, and keeps one connection. Queue 0 stays readable and writable as long as there is one of both kinds, since one
client never names another queue.
"""

from collections.abc import Iterator
from typing import Any

from pyromq.protocol.bodies.route import QueueData, TopicRouteData
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command
from pyromq.protocol.routes import MAX_QUEUES, is_readable, is_writable, masters
from pyromq.proxy.caller import Caller
from pyromq.proxy.calls.served import unary
from pyromq.proxy.catalogue import Catalogue
from pyromq.proxy.clients.roster import publication
from pyromq.proxy.core import Core
from pyromq.proxy.grpc.method import Call, Method
from pyromq.proxy.messages.names import group_name, topic_name
from pyromq.proxy.messages.types import accepted_types
from pyromq.proxy.schema import messages
from pyromq.proxy.schema.enums import AddressScheme, Code, MessageType, Permission
from pyromq.proxy.status import Refusal, status
from pyromq.remoting.address import Address

ANY_QUEUE = -1


class Routes:
    """Serves both calls."""

    def __init__(self, core: Core, catalogue: Catalogue) -> None:
        self._core = core
        self._catalogue = catalogue

    def methods(self) -> dict[str, Method]:
        """By path."""
        core, service = self._core, messages.SERVICE
        return {
            f"/{service}/QueryRoute": unary(core, messages.QueryRouteRequest, messages.QueryRouteResponse, self._route),
            f"/{service}/QueryAssignment": unary(
                core, messages.QueryAssignmentRequest, messages.QueryAssignmentResponse, self._assignment
            ),
        }

    async def _route(self, request: Any, caller: Caller, call: Call) -> Any:
        topic = topic_name(caller, request.topic)
        self._core.doorkeeper.permit(caller, Command.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext={"topic": topic}))
        route = await self._core.route(topic) or await self._created(caller, topic)
        endpoints = _endpoints(request.endpoints, call.local)
        accepts = accepted_types(await self._catalogue.topic(topic))
        queues = [
            _queue(request.topic, data.broker_name, number, permission, endpoints, accepts)
            for data in _with_master(route)
            for number, permission in enumerate(permissions(data))
        ]
        if not queues:
            raise _unknown(topic)
        return messages.QueryRouteResponse(status=status(), message_queues=queues)

    async def _assignment(self, request: Any, caller: Caller, call: Call) -> Any:
        topic, group = topic_name(caller, request.topic), group_name(caller, request.group)
        self._core.doorkeeper.permit(
            caller, Command.request(RequestCode.POP_MESSAGE, ext={"topic": topic, "consumerGroup": group})
        )
        route = await self._core.route(topic)
        if route is None:
            raise _unknown(topic)
        orderly = (await self._catalogue.group(group, topic)).consume_message_orderly
        endpoints = _endpoints(request.endpoints, call.local)
        assignments = [
            messages.Assignment(
                message_queue=_queue(request.topic, data.broker_name, number, Permission.READ, endpoints)
            )
            for data in _with_master(route)
            if is_readable(data.perm)
            for number in (range(min(data.read_queue_nums, MAX_QUEUES)) if orderly else (ANY_QUEUE,))
        ]
        if not assignments:
            raise Refusal(Code.FORBIDDEN, f"topic {topic!r} has no queue that may be read")
        return messages.QueryAssignmentResponse(status=status(), assignments=assignments)

    async def _created(self, caller: Caller, topic: str) -> TopicRouteData:
        """The route of a topic that a producer is about to send the first message to. Raises Refusal."""
        try:
            self._core.doorkeeper.permit(caller, publication(topic))
        except Refusal:
            raise _unknown(topic) from None
        if await self._core.cluster.create(caller, topic):
            route = await self._core.route(topic)
            if route is not None:
                return route
        raise _unknown(topic)


def permissions(data: QueueData) -> list[Permission]:
    """What each queue of a broker permits, by its number."""
    reads = min(data.read_queue_nums, MAX_QUEUES) if is_readable(data.perm) else 0
    writes = min(data.write_queue_nums, MAX_QUEUES) if is_writable(data.perm) else 0
    both = min(reads, writes)
    surplus = Permission.READ if reads > writes else Permission.WRITE
    return [Permission.READ_WRITE] * both + [surplus] * (max(reads, writes) - both)


def _with_master(route: TopicRouteData) -> Iterator[QueueData]:
    known = masters(route.broker_datas)
    return (data for data in sorted(route.queue_datas, key=lambda data: data.broker_name) if data.broker_name in known)


def _queue(
    topic: Any,
    broker: str,
    number: int,
    permission: Permission,
    endpoints: Any,
    accepts: tuple[MessageType, ...] = (),
) -> Any:
    return messages.MessageQueue(
        topic=topic,
        id=number,
        permission=permission,
        broker=messages.Broker(name=broker, id=0, endpoints=endpoints),
        accept_message_types=accepts,
    )


def _endpoints(asked: Any, local: Address) -> Any:
    """What the client used, or where its call arrived if it does not say."""
    if asked.addresses and asked.scheme in (AddressScheme.IPv4, AddressScheme.IPv6, AddressScheme.DOMAIN_NAME):
        return asked
    scheme = AddressScheme.IPv6 if ":" in local.host else AddressScheme.IPv4
    return messages.Endpoints(scheme=scheme, addresses=[messages.Address(host=local.host, port=local.port)])


def _unknown(topic: str) -> Refusal:
    return Refusal(
        Code.TOPIC_NOT_FOUND,
        f"no broker has topic {topic!r}: create it (pyromq admin updateTopic -t {topic} …), or let brokers do so "
        "(autoCreateTopicEnable)",
    )
