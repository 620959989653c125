"""The few administrative calls that every client has: create a topic, ask for offsets, look up messages.

Names of topics are the user's, without the namespace. All raise ClientError or one of its children.
"""

import asyncio
import functools
import logging
from abc import abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from pyromq.client.errors import BrokerError, ClientError, ErrorCode, transport_error
from pyromq.client.instance.instance import ClientInstance
from pyromq.client.state import GroupClient
from pyromq.protocol import namespace as namespaces
from pyromq.protocol import requests
from pyromq.protocol.bodies.route import BrokerData
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.errors import MessageError, ProtocolError, ValidationError
from pyromq.protocol.handles.ids import parse_offset_message_id
from pyromq.protocol.headers.admin import UpdateAndCreateTopicHeader
from pyromq.protocol.headers.query import QueryMessageHeader, ViewMessageByIdHeader
from pyromq.protocol.message import MessageQueue, ReceivedMessage
from pyromq.protocol.names import check_topic, is_system_topic
from pyromq.protocol.records.salvage import salvage_record, salvage_records
from pyromq.protocol.requests import Request
from pyromq.protocol.routes import MASTER_ID, READ_WRITE
from pyromq.remoting.errors import RemotingError

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

TIMEOUT = 6.0
GUESS_TIMEOUT = 1.0
"""For an address that was read out of an id which may be no address at all."""
CREATE_TRIES = 5
UNIQUE_ID_DAYS = 3


class Queries:
    """The calls themselves, bound to one client instance."""

    def __init__(self, instance: ClientInstance) -> None:
        self._instance = instance
        self._clock = instance.clock

    async def create_topic(
        self, key: str, topic: str, queues: int, *, sys_flag: int = 0, attributes: dict[str, str] | None = None
    ) -> None:
        """Create or change a topic on every master that serves `key`; fails only when none of them did it."""
        try:
            check_topic(topic)
        except ValidationError as error:
            raise ClientError(f"topic cannot be created: {error}") from error
        if is_system_topic(topic):
            raise ClientError(f"topic {topic!r} is one of RocketMQ's own and cannot be created")
        route, _ = await self._instance.routes.fetch(self._wire(key))
        masters = sorted(
            (broker for broker in (route.broker_datas if route else []) if MASTER_ID in broker.broker_addrs),
            key=lambda broker: broker.broker_name,
        )
        if not masters:
            raise ClientError(f"no broker with a master serves topic {key!r}", code=ErrorCode.BROKER_NOT_EXIST)
        header = UpdateAndCreateTopicHeader(
            topic=self._wire(topic),
            default_topic=key,
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=READ_WRITE,
            topic_filter_type="SINGLE_TAG",
            topic_sys_flag=sys_flag,
            order=False,
            attributes=",".join(f"{name}={value}" for name, value in attributes.items()) if attributes else None,
        )
        errors = [await self._create_on(broker, header) for broker in masters]
        failed = [error for error in errors if error is not None]
        if len(failed) == len(masters):
            raise failed[-1]

    async def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The offset of the first message stored at or after a time."""
        return await self._ask(queue, requests.search_offset(self._wire(queue.topic), queue.queue_id, timestamp_ms))

    async def max_offset(self, queue: MessageQueue) -> int:
        """One past the last message of the queue."""
        return await self._ask(queue, requests.max_offset(self._wire(queue.topic), queue.queue_id))

    async def min_offset(self, queue: MessageQueue) -> int:
        """The first offset that the queue still has."""
        return await self._ask(queue, requests.min_offset(self._wire(queue.topic), queue.queue_id))

    async def earliest_store_time(self, queue: MessageQueue) -> int:
        """When the first message that the queue still has was stored, in Unix ms."""
        return await self._ask(queue, requests.earliest_store_time(self._wire(queue.topic), queue.queue_id))

    async def view_message(self, topic: str, message_id: str) -> ReceivedMessage:
        """A message by either of its ids: as the place it is stored at, else as the id its sender gave it."""
        try:
            return await self._view_stored(topic, message_id)
        except (ClientError, RemotingError, ProtocolError) as error:
            log.debug("%s is not the place of a message: %s", message_id, error)
        begin = self._clock.millis() - UNIQUE_ID_DAYS * 24 * 3600 * 1000
        found = await self._query(topic, message_id, 32, begin, 2**63 - 1, unique=True)
        return min(found, key=lambda message: message.store_timestamp)

    async def query_message(
        self, topic: str, key: str, max_num: int = 64, begin_ms: int = 0, end_ms: int = 2**63 - 1
    ) -> list[ReceivedMessage]:
        """Messages with a key, from all brokers of the topic. Raises ClientError NO_MESSAGE when there is none."""
        return await self._query(topic, key, max_num, begin_ms, end_ms, unique=False)

    async def messages_of_id(self, topic: str, message_id: str, max_num: int = 32) -> list[ReceivedMessage]:
        """All copies of a message by the id its sender gave it, oldest first. Raises ClientError NO_MESSAGE."""
        found = await self._query(topic, message_id, max_num, 0, 2**63 - 1, unique=True)
        return sorted(found, key=lambda message: message.store_timestamp)

    async def _query(
        self, topic: str, key: str, max_num: int, begin_ms: int, end_ms: int, *, unique: bool
    ) -> list[ReceivedMessage]:
        wire = self._wire(topic)
        route = self._instance.topology.routes.get(wire)
        if route is None:
            await self._instance.routes.refresh(wire)
            route = self._instance.topology.routes.get(wire) or (await self._instance.routes.fetch(wire))[0]
        if route is None or not route.broker_datas:
            raise ClientError(f"topic {topic!r} has no route", code=ResponseCode.TOPIC_NOT_EXIST)
        header = QueryMessageHeader(
            topic=wire,
            key=key,
            max_num=max_num,
            begin_timestamp=begin_ms,
            end_timestamp=end_ms,
            unique_key_query=unique,
        )
        answers = await asyncio.gather(*(self._query_broker(broker, header) for broker in route.broker_datas))
        found = [
            message
            for messages in answers
            for message in messages
            if message.topic == wire and (message.message_id == key if unique else key in message.keys)
        ]
        if not found:
            raise ClientError(
                f"no message of topic {topic!r} has the {'id' if unique else 'key'} {key!r}",
                code=ResponseCode.NO_MESSAGE,
            )
        for message in found:
            self._to_user(message)
        return found

    async def _query_broker(self, broker: BrokerData, header: QueryMessageHeader) -> list[ReceivedMessage]:
        """What one broker has; one that cannot be asked is logged, since others may have the message."""
        addresses = broker.broker_addrs
        if not addresses:
            return []
        address = self._instance.vip(addresses[min(addresses)])
        try:
            response = await self._instance.call(
                address, Command.request(RequestCode.QUERY_MESSAGE, header), TIMEOUT * 3
            )
            if response.code != ResponseCode.SUCCESS:
                if response.code != ResponseCode.QUERY_NOT_FOUND:
                    log.warning("broker %s: query answered %d %s", address, response.code, response.remark)
                return []
            messages = salvage_records(response.body, max_body=self._instance.config.max_body_size).messages
        except (RemotingError, ProtocolError) as error:
            log.warning("broker %s cannot be queried: %s", address, error)
            return []
        for message in messages:
            message.broker_name = broker.broker_name
        return messages

    async def _view_stored(self, topic: str, message_id: str) -> ReceivedMessage:
        place = parse_offset_message_id(message_id)
        address = str(place.host)
        seconds = TIMEOUT if self._instance.topology.is_known(address) else GUESS_TIMEOUT
        header = ViewMessageByIdHeader(topic=self._wire(topic), offset=place.physical_offset)
        response = await self._instance.invoke(
            address, Command.request(RequestCode.VIEW_MESSAGE_BY_ID, header), seconds
        )
        return self._to_user(salvage_record(response.body, max_body=self._instance.config.max_body_size))

    async def _create_on(self, broker: BrokerData, header: UpdateAndCreateTopicHeader) -> ClientError | None:
        command_code = RequestCode.UPDATE_AND_CREATE_TOPIC
        address = self._instance.vip(broker.broker_addrs[MASTER_ID])
        error: ClientError | None = None
        for _ in range(CREATE_TRIES):
            try:
                await self._instance.invoke(
                    address, Command.request(command_code, header), TIMEOUT, broker=broker.broker_name
                )
            except BrokerError as refusal:
                error = refusal
            except RemotingError as fault:
                error = transport_error(fault, broker.broker_name)
            else:
                return None
        return error

    async def _ask(self, queue: MessageQueue, request: Request[R]) -> R:
        """A question to the master of a queue."""
        topology = self._instance.topology
        wire = MessageQueue(self._wire(queue.topic), queue.broker_name, queue.queue_id)
        broker = topology.broker_of(wire)
        address = topology.publish_address(broker)
        if address is None:
            await self._instance.routes.refresh(wire.topic)
            broker = topology.broker_of(wire)
            address = topology.publish_address(broker)
        if address is None:
            raise ClientError(f"broker {broker!r} has no master", code=ErrorCode.BROKER_NOT_EXIST, broker=broker)
        try:
            return await self._instance.answer(self._instance.vip(address), request, TIMEOUT, broker=broker)
        except RemotingError as error:
            raise transport_error(error, broker) from error
        except MessageError as error:
            raise ClientError(f"answer of broker {broker} cannot be read: {error}", broker=broker) from error

    def _wire(self, topic: str) -> str:
        return namespaces.wrap(self._instance.namespace or "", topic)

    def _to_user(self, message: ReceivedMessage) -> ReceivedMessage:
        if self._instance.namespace:
            message.topic = namespaces.unwrap(message.topic, self._instance.namespace)
        return message


def _asked(
    method: Callable[Concatenate[Queries, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate["QueryMethods", P], Coroutine[Any, Any, R]]:
    """A call as a method of a client."""

    @functools.wraps(method)
    def call(self: "QueryMethods", /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        return method(self._query(), *args, **kwargs)

    return call


class QueryMethods(GroupClient):
    """The calls as methods of producers."""

    @abstractmethod
    def _query(self) -> Queries:
        """The calls themselves. Raises ServiceStateError unless the client runs."""

    create_topic = _asked(Queries.create_topic)
    search_offset = _asked(Queries.search_offset)
    max_offset = _asked(Queries.max_offset)
    min_offset = _asked(Queries.min_offset)
    earliest_store_time = _asked(Queries.earliest_store_time)
    view_message = _asked(Queries.view_message)
    query_message = _asked(Queries.query_message)
