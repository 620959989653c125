"""QUERY_ASSIGNMENT and the request modes: the broker, not each client, decides who consumes which queues and how.

Every broker that a member asks must come to the same answer, so it depends on nothing but the sorted queues of all
brokers, the sorted members of the group and the mode that was set for topic and group.
"""

from collections.abc import Callable, Sequence

from pyromq.broker.consume.routes import TopicRoutes
from pyromq.broker.core import Core
from pyromq.broker.errors import Refused, group_not_exist, topic_not_exist
from pyromq.broker.part import Part
from pyromq.protocol import names
from pyromq.protocol.bodies.enums import MessageModel, MessageRequestMode
from pyromq.protocol.bodies.queues import (
    MessageQueueAssignment,
    QueryAssignmentRequest,
    QueryAssignmentResponse,
    SetMessageRequestMode,
)
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.message import MessageQueue
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Handler

ALL_QUEUES = -1

Allocation = Callable[[Sequence[MessageQueue], int, int], list[MessageQueue]]
"""The queues of member number i of n."""


def average(queues: Sequence[MessageQueue], index: int, members: int) -> list[MessageQueue]:
    """Neighbouring queues; the first members get one more when the numbers do not divide evenly."""
    base, extra = divmod(len(queues), members)
    start = index * base + min(index, extra)
    return list(queues[start : start + base + (index < extra)])


def by_circle(queues: Sequence[MessageQueue], index: int, members: int) -> list[MessageQueue]:
    """Every n-th queue."""
    return list(queues[index::members])


STRATEGIES: dict[str, Allocation] = {"AVG": average, "AVG_BY_CIRCLE": by_circle}


def allocate_pop(
    strategy: Allocation, queues: Sequence[MessageQueue], index: int, members: int, share: int
) -> list[MessageQueue]:
    """In pop mode members share queues: all of them, or their own and those of the next `share` members."""
    if share <= 0 or share >= members - 1:
        brokers = dict.fromkeys((queue.topic, queue.broker_name) for queue in queues)
        return [MessageQueue(topic, broker, ALL_QUEUES) for topic, broker in brokers]
    if members > len(queues):
        return [queues[index % len(queues)]] if queues else []
    turns = range(index, index + share + 1)
    return [queue for turn in turns for queue in strategy(queues, turn % members, members)]


class Assignments(Part):
    """Serves assignments."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._routes = TopicRoutes(core.client, core.config.namesrv_addr, core.clock)

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.QUERY_ASSIGNMENT: self._query,
            RequestCode.SET_MESSAGE_REQUEST_MODE: self._set_mode,
            RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: self._all_modes,
        }

    async def _query(self, request: Command, _connection: Connection) -> Command:
        asked = QueryAssignmentRequest.of_request(request.body)
        mode = self._core.tables.modes.get(asked.topic, asked.consumer_group)
        queues = await self._assigned(asked, mode)
        if queues is None:
            return request.reply(body=QueryAssignmentResponse().encode())
        assignments = [MessageQueueAssignment(message_queue=queue, mode=mode.mode) for queue in dict.fromkeys(queues)]
        return request.reply(body=QueryAssignmentResponse(message_queue_assignments=assignments).encode())

    async def _assigned(
        self, asked: QueryAssignmentRequest, mode: SetMessageRequestMode
    ) -> Sequence[MessageQueue] | None:
        """The client's queues; None when nobody can tell now, which lets it keep those it has."""
        if asked.strategy_name not in STRATEGIES:
            raise Refused(
                ResponseCode.INVALID_PARAMETER,
                f"unknown allocation strategy {asked.strategy_name!r}: {sorted(STRATEGIES)}",
            )
        queues = await self._routes.queues(asked.topic)
        if queues is None or asked.message_model is MessageModel.BROADCASTING:
            return queues
        if not self._core.config.server_load_balancer_enable:
            return queues
        live = self._core.consumers.get(asked.consumer_group)
        if live is None:
            return None
        members = sorted(live.client_ids)
        if asked.client_id not in members:
            return []
        strategy, index = STRATEGIES[asked.strategy_name], members.index(asked.client_id)
        if mode.mode is MessageRequestMode.POP:
            return allocate_pop(strategy, queues, index, len(members), mode.pop_share_queue_num)
        return strategy(queues, index, len(members))

    async def _set_mode(self, request: Command, _connection: Connection) -> Command:
        mode = SetMessageRequestMode.of_request(request.body)
        if names.is_retry_topic(mode.topic):
            raise Refused(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
        if mode.topic not in self._core.topics:
            raise topic_not_exist(mode.topic)
        if mode.consumer_group not in self._core.groups:
            raise group_not_exist(mode.consumer_group)
        await self._core.tables.modes.put(mode)
        return request.reply()

    def _all_modes(self, request: Command, _connection: Connection) -> Command:
        return request.reply(body=self._core.tables.modes.table().encode())
