"""QUERY_ASSIGNMENT and the request modes: the broker, not each client, decides who consumes which queues and how.

Every broker that a member asks must come to the same answer, so it depends on nothing but the sorted queues of all
brokers, the sorted members of the group and the mode that was set for topic and group.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from pyromq.broker.cluster.clients import Consumers
from pyromq.broker.config import BrokerConfig
from pyromq.broker.consume.routes import TopicRoutes
from pyromq.broker.errors import Refused, group_not_exist, topic_not_exist
from pyromq.broker.tables.groups import Groups
from pyromq.broker.tables.savedtable import SAVED, Save, SavedTable
from pyromq.broker.tables.tablefile import TableFile
from pyromq.broker.tables.topics import Topics
from pyromq.configfile import read_config
from pyromq.protocol import names
from pyromq.protocol.bodies.enums import MessageModel, MessageRequestMode
from pyromq.protocol.bodies.queues import (
    MessageQueueAssignment,
    MessageRequestModeTable,
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
MAX_MODES = 100_000
_TABLE = "messageRequestModeMap"

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


class RequestModes:
    """Topic and group → pull or pop: `config/messageRequestMode.json` in memory, on disk before anybody sees it."""

    def __init__(self, config: BrokerConfig, path: Path | None = None) -> None:
        self._config = config
        self._path = path or config.config_dir / "messageRequestMode.json"
        self._table: dict[str, dict[str, SetMessageRequestMode]] = {}
        self.saved = SavedTable(TableFile(self._path, _TABLE), {_TABLE: self._table}, lambda: 0)

    def load(self) -> None:
        """Read the file. Raises ProtocolError when neither it nor its backup is legible."""
        stored = read_config(self._path, MessageRequestModeTable.decode)
        self.saved.load({_TABLE: stored.message_request_mode_map if stored is not None else {}})

    def table(self) -> MessageRequestModeTable:
        """The table as it is persisted and sent to slaves."""
        return MessageRequestModeTable(message_request_mode_map=dict(self._table))

    def get(self, topic: str, group: str) -> SetMessageRequestMode:
        """What was set, else the broker's default; retries are always pulled."""
        known = self._table.get(topic, {}).get(group)
        if known is not None:
            return known
        if names.is_retry_topic(topic):
            return SetMessageRequestMode(topic=topic, consumer_group=group)
        return SetMessageRequestMode(
            topic=topic,
            consumer_group=group,
            mode=self._config.default_message_request_mode,
            pop_share_queue_num=self._config.default_pop_share_queue_num,
        )

    def put(self, mode: SetMessageRequestMode) -> Save:
        """Set the mode of a topic and group. Raises Refused at the bound."""
        if sum(map(len, self._table.values())) >= MAX_MODES:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"{MAX_MODES} request modes are set already: delete topics")
        known = self.saved.planned(_TABLE, mode.topic) or {}
        return self.saved.stage({_TABLE: {mode.topic: {**known, mode.consumer_group: mode}}})

    def replace_all(self, table: MessageRequestModeTable) -> Save:
        """Take over a master's table."""
        if table.message_request_mode_map == self._table:
            return SAVED
        return self.saved.replace({_TABLE: table.message_request_mode_map})

    def forget_topic(self, topic: str) -> Save:
        """Drop what was set for a topic."""
        return SAVED if self.saved.planned(_TABLE, topic) is None else self.saved.stage({_TABLE: {topic: None}})


class Assignments:
    """Serves assignments."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: Topics,
        groups: Groups,
        consumers: Consumers,
        modes: RequestModes,
        routes: TopicRoutes,
    ) -> None:
        self._config = config
        self._topics = topics
        self._groups = groups
        self._consumers = consumers
        self._modes = modes
        self._routes = routes

    def handlers(self) -> dict[int, Handler]:
        """The request codes served here."""
        return {
            RequestCode.QUERY_ASSIGNMENT: self._query,
            RequestCode.SET_MESSAGE_REQUEST_MODE: self._set_mode,
            RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: self._all_modes,
        }

    async def _query(self, request: Command, _connection: Connection) -> Command:
        asked = QueryAssignmentRequest.of_request(request.body)
        mode = self._modes.get(asked.topic, asked.consumer_group)
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
        if not self._config.server_load_balancer_enable:
            return queues
        live = self._consumers.get(asked.consumer_group)
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
        if mode.topic not in self._topics:
            raise topic_not_exist(mode.topic)
        if mode.consumer_group not in self._groups:
            raise group_not_exist(mode.consumer_group)
        await self._modes.put(mode)
        return request.reply()

    def _all_modes(self, request: Command, _connection: Connection) -> Command:
        return request.reply(body=self._modes.table().encode())
