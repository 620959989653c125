"""Who is connected, and questions that only a client can answer: those are passed on to it and its answer back."""

import asyncio
import logging

from pyromq.broker.cluster.clients import Client
from pyromq.broker.core import Core
from pyromq.broker.errors import Refused
from pyromq.broker.part import Part
from pyromq.protocol.bodies.clients import (
    ConnectionInfo,
    ConsumerConnection,
    ProducerConnection,
    ProducerInfo,
    ProducerTable,
)
from pyromq.protocol.bodies.offsets import ConsumerStatusBody
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.errors import MessageError, ProtocolError
from pyromq.protocol.handles.ids import parse_offset_message_id
from pyromq.protocol.headers.admin import (
    ConsumeMessageDirectlyHeader,
    GetConsumerConnectionListHeader,
    GetConsumerRunningInfoHeader,
    GetProducerConnectionListHeader,
    InvokeBrokerToGetConsumerStatusHeader,
)
from pyromq.protocol.headers.base import Header
from pyromq.protocol.headers.callbacks import GetConsumerStatusFromClientHeader
from pyromq.protocol.message import MessageQueue
from pyromq.protocol.release import V3_0_7_SNAPSHOT, V3_1_8_SNAPSHOT, version_name
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Handler
from pyromq.remoting.errors import CallTimeout, RemotingError

log = logging.getLogger(__name__)

RELAY_TIMEOUT = 10.0
STATUS_TIMEOUT = 5.0


class ClientAdmin(Part):
    """Connections and relayed questions."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.GET_CONSUMER_CONNECTION_LIST: self._consumers,
            RequestCode.GET_PRODUCER_CONNECTION_LIST: self._producers,
            RequestCode.GET_ALL_PRODUCER_INFO: self._all_producers,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self._running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self._consume_directly,
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: self._status,
        }

    def _consumers(self, request: Command, _connection: Connection) -> Command:
        name = request.header(GetConsumerConnectionListHeader).consumer_group
        group = self._core.consumers.get(name)
        if group is None:
            raise Refused(ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{name}] not online")
        body = ConsumerConnection(
            connection_set=[_info(member) for member in group.members.values()],
            subscription_table=dict(group.subscriptions),
            consume_type=group.consume_type,
            message_model=group.message_model,
            consume_from_where=group.consume_from_where,
        )
        return request.reply(body=body.encode())

    def _producers(self, request: Command, _connection: Connection) -> Command:
        name = request.header(GetProducerConnectionListHeader).producer_group
        members = self._core.producers.get(name)
        if not members:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"the producer group[{name}] not exist")
        return request.reply(
            body=ProducerConnection(connection_set=[_info(each) for each in members.values()]).encode()
        )

    def _all_producers(self, request: Command, _connection: Connection) -> Command:
        table = {
            group: [
                ProducerInfo(
                    client_id=member.client_id,
                    language=_language(member),
                    last_update_timestamp=member.last_seen,
                    remote_ip=f"/{member.connection.peer}",  # Java's way to show an address, and mqadmin's
                    version=member.version,
                )
                for member in members
            ]
            for group, members in self._core.producers.items()
        }
        return request.reply(body=ProducerTable(data=table).encode())

    async def _running_info(self, request: Command, _connection: Connection) -> Command:
        header = request.header(GetConsumerRunningInfoHeader)
        client = self._find(header.consumer_group, header.client_id)
        return await self._relay(request, header, client)

    async def _consume_directly(self, request: Command, _connection: Connection) -> Command:
        header = request.header(ConsumeMessageDirectlyHeader)
        header.broker_name = self._core.config.broker_name
        client = self._find(header.consumer_group, header.client_id or "")
        try:
            place = parse_offset_message_id(header.msg_id or "")
        except MessageError as error:
            raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from None
        record = self._core.store.lookup.record_at(place.physical_offset)
        if record is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"there is no message {header.msg_id} here")
        topic = self._core.topics.get(header.topic or "")
        header.topic_sys_flag = topic.topic_sys_flag if topic is not None else None
        return await self._relay(request, header, client, bytes(record))

    async def _relay(self, request: Command, header: Header, client: Client, body: bytes = b"") -> Command:
        """Ask the client the same question; its answer is ours."""
        if client.version < V3_1_8_SNAPSHOT:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"the client {client.client_id} has version {version_name(client.version)}, which is too old for this",
            )
        question = Command.request(request.code, header, body=body)
        try:
            answer = await client.connection.request(question, RELAY_TIMEOUT)
        except CallTimeout:
            raise Refused(
                ResponseCode.CONSUME_MSG_TIMEOUT, f"client {client.client_id} did not answer within {RELAY_TIMEOUT} s"
            ) from None
        except RemotingError as error:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"client {client.client_id}: {error}") from None
        return request.reply(answer.code, remark=answer.remark, body=bytes(answer.body), ext=answer.ext or None)

    async def _status(self, request: Command, _connection: Connection) -> Command:
        header = request.header(InvokeBrokerToGetConsumerStatusHeader)
        group = self._core.consumers.get(header.group)
        if group is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"no any consumer of group {header.group} is online")
        wanted = header.client_addr
        asked = [member for member in group.members.values() if not wanted or member.client_id == wanted]
        for member in asked:
            if member.version < V3_0_7_SNAPSHOT:
                raise Refused(
                    ResponseCode.SYSTEM_ERROR,
                    f"the client {member.client_id} does not support this, its version is too old",
                )
        question = GetConsumerStatusFromClientHeader(topic=header.topic, group=header.group)
        answers = await asyncio.gather(*(self._status_of(member, question) for member in asked))
        table = {member.client_id: answer for member, answer in zip(asked, answers, strict=True) if answer is not None}
        return request.reply(body=ConsumerStatusBody(consumer_table=table).encode())

    @staticmethod
    async def _status_of(member: Client, question: Header) -> dict[MessageQueue, int] | None:
        """What one member answers; None when it does not, or not sensibly: the others shall be heard all the same."""
        try:
            request = Command.request(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, question)
            answer = await member.connection.request(request, STATUS_TIMEOUT)
            if answer.code == ResponseCode.SUCCESS and answer.body:
                return ConsumerStatusBody.decode(answer.body).message_queue_table
        except (RemotingError, ProtocolError) as error:
            log.info("client %s did not tell its status: %s", member.client_id, error)
        return None

    def _find(self, group: str, client_id: str) -> Client:
        live = self._core.consumers.get(group)
        client = live.find(client_id) if live is not None else None
        if client is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online")
        return client


def _language(client: Client) -> str:
    return client.language.name if client.language is not None else "OTHER"


def _info(client: Client) -> ConnectionInfo:
    return ConnectionInfo(
        client_id=client.client_id,
        client_addr=str(client.connection.peer),
        language=_language(client),
        version=client.version,
    )
