"""Connected clients: who is there, what consumers are doing, what they did with one message."""

from collections.abc import Sequence

from pyromq.client.admin.offsets import OffsetMethods
from pyromq.client.admin.reach import Server, Subject, as_client_errors
from pyromq.client.admin.topics import TopicMethods
from pyromq.client.admin.track import MessageTrack, TrackType, judge
from pyromq.client.errors import BrokerError, ClientError, PartialFailureError
from pyromq.protocol.bodies.clients import (
    ConsumeDirectlyResult,
    ConsumerConnection,
    ConsumerRunningInfo,
    ProducerConnection,
    ProducerTable,
)
from pyromq.protocol.bodies.offsets import ConsumerStatusBody
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.handles.ids import parse_offset_message_id
from pyromq.protocol.headers.admin import (
    ConsumeMessageDirectlyHeader,
    GetConsumerConnectionListHeader,
    GetConsumerRunningInfoHeader,
    GetProducerConnectionListHeader,
    InvokeBrokerToGetConsumerStatusHeader,
)
from pyromq.protocol.message import MessageQueue, ReceivedMessage

RELAY_PATIENCE = 3.0
"""A broker passes the question on and waits up to 10 s for the client."""


class ClientMethods(Subject):
    """What `Admin` knows about connected producers and consumers."""

    async def consumer_connections(self, group: str, *, broker: str | None = None) -> ConsumerConnection:
        """Members of a consumer group and what they subscribe to, as all brokers together (or one) know them.

        Raises BrokerError CONSUMER_NOT_ONLINE when nobody is there.
        """
        reach = self._reach()
        found = await reach.read_owners(
            f"looking for members of group {group!r}",
            await reach.masters(broker=broker),
            RequestCode.GET_CONSUMER_CONNECTION_LIST,
            ConsumerConnection,
            GetConsumerConnectionListHeader(consumer_group=group),
            ResponseCode.CONSUMER_NOT_ONLINE,
            f"no member of consumer group {group} is online",
        )
        return _merged(list(found.values()))

    async def producer_connections(self, group: str, topic: str) -> ProducerConnection:
        """Members of a producer group, as the brokers of a topic know them. Raises BrokerError when there is none."""
        reach = self._reach()
        header = GetProducerConnectionListHeader(producer_group=group)
        code = RequestCode.GET_PRODUCER_CONNECTION_LIST

        async def one(server: Server) -> ProducerConnection:
            try:
                return await reach.read(server, code, ProducerConnection, header)
            except BrokerError as error:
                if error.code != ResponseCode.SYSTEM_ERROR:
                    raise
                return ProducerConnection()

        answers = await reach.each(f"looking for producers of {group!r}", await reach.serving(topic), one)
        members = {each.client_id: each for answer in answers.values() for each in answer.connection_set}
        if not members:
            remark = f"no member of producer group {group} is online"
            raise BrokerError(ResponseCode.SYSTEM_ERROR, remark, broker=", ".join(answers))
        return ProducerConnection(connection_set=[members[name] for name in sorted(members)])

    async def producers(self, *, broker: str | None = None, cluster: str | None = None) -> dict[str, ProducerTable]:
        """All producers of each broker, by group."""
        reach = self._reach()
        masters = await reach.masters(broker=broker, cluster=cluster)
        return await reach.read_each("listing producers", masters, RequestCode.GET_ALL_PRODUCER_INFO, ProducerTable)

    async def running_info(self, group: str, client_id: str, *, jstack: bool = False) -> ConsumerRunningInfo:
        """What one consumer is doing, in its own words; with `jstack` also what its threads are.

        The first broker that the consumer is connected to passes the question on. Raises PartialFailureError.
        """
        reach = self._reach()
        header = GetConsumerRunningInfoHeader(consumer_group=group, client_id=client_id, jstack_enable=jstack)
        code = RequestCode.GET_CONSUMER_RUNNING_INFO
        failed: dict[str, ClientError] = {}
        for server in await reach.masters():
            try:
                return await reach.read(server, code, ConsumerRunningInfo, header, patience=RELAY_PATIENCE)
            except ClientError as error:
                failed[server.name] = error
        raise PartialFailureError(f"asking consumer {client_id!r} of group {group!r}", {}, failed)

    async def consumer_status(
        self, group: str, topic: str, *, client_id: str | None = None
    ) -> dict[str, dict[MessageQueue, int]]:
        """Offsets in the memory of each consumer of a group, by client id."""
        reach = self._reach()
        header = InvokeBrokerToGetConsumerStatusHeader(topic=topic, group=group, client_addr=client_id or "")
        code = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
        brokers = await reach.serving(topic)
        parts = await reach.read_each(
            f"asking consumers of group {group!r}", brokers, code, ConsumerStatusBody, header, patience=RELAY_PATIENCE
        )
        merged: dict[str, dict[MessageQueue, int]] = {}
        for part in parts.values():
            for client, offsets in part.consumer_table.items():
                merged.setdefault(client, {}).update(offsets)
        return merged

    async def consume_directly(
        self, group: str, client_id: str, topic: str, offset_message_id: str
    ) -> ConsumeDirectlyResult:
        """Have one consumer process a stored message now and say how that went; the broker that stores it asks."""
        with as_client_errors(offset_message_id):
            address = str(parse_offset_message_id(offset_message_id).host)
        header = ConsumeMessageDirectlyHeader(
            consumer_group=group, client_id=client_id, msg_id=offset_message_id, topic=topic
        )
        code = RequestCode.CONSUME_MESSAGE_DIRECTLY
        server = Server(address, address)
        return await self._reach().read(server, code, ConsumeDirectlyResult, header, patience=RELAY_PATIENCE)

    async def message_track(self, message: ReceivedMessage) -> list[MessageTrack]:
        """What each group that reads the topic did with a message; one that cannot be judged is UNKNOWN, with why."""
        queue = await self._queue_of(message)
        groups = await TopicMethods(self._reach()).groups_of_topic(message.topic)
        return [await self._track(message, queue, group) for group in groups]

    async def _queue_of(self, message: ReceivedMessage) -> MessageQueue:
        """A message looked up by its place does not say which broker it is from, but its address does."""
        if message.broker_name:
            return message.queue
        route = await self._reach().route(message.topic)
        address = str(message.store_host)
        names = [data.broker_name for data in route.broker_datas if address in data.broker_addrs.values()]
        return MessageQueue(message.topic, names[0] if names else "", message.queue_id)

    async def _track(self, message: ReceivedMessage, queue: MessageQueue, group: str) -> MessageTrack:
        try:
            connection = await self.consumer_connections(group)
            stats = await OffsetMethods(self._reach()).consume_stats(group, message.topic)
        except ClientError as error:
            if error.code == ResponseCode.CONSUMER_NOT_ONLINE:
                return MessageTrack(group, TrackType.NOT_ONLINE)
            return MessageTrack(group, TrackType.UNKNOWN, str(error))
        return MessageTrack(group, judge(message, connection, stats.offset_table.get(queue)))


def _merged(parts: Sequence[ConsumerConnection]) -> ConsumerConnection:
    """One group as several brokers see it: all members; of each subscription the newest version."""
    whole = parts[0]
    members = {each.client_id: each for part in parts for each in part.connection_set}
    whole.connection_set = [members[name] for name in sorted(members)]
    for part in parts[1:]:
        for topic, data in part.subscription_table.items():
            known = whole.subscription_table.get(topic)
            if known is None or known.sub_version < data.sub_version:
                whole.subscription_table[topic] = data
    return whole
