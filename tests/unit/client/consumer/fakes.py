"""A broker without sockets that consumers can talk to: queues, offsets, locks, members, and pulls that wait."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

from pyromq.client.consumer.pull.consumer import PullConsumer
from pyromq.client.consumer.push.consumer import PushConsumer
from pyromq.protocol.bodies.clients import ConsumerList
from pyromq.protocol.bodies.enums import ConsumeFromWhere
from pyromq.protocol.bodies.queues import (
    LockBatchRequest,
    LockBatchResponse,
    MessageQueueAssignment,
    QueryAssignmentResponse,
)
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.consume import (
    GetMaxOffsetHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetHeader,
    GetMinOffsetResponseHeader,
    PullMessageHeader,
    PullMessageResponseHeader,
    QueryConsumerOffsetHeader,
    QueryConsumerOffsetResponseHeader,
    SearchOffsetByTimestampResponseHeader,
    UpdateConsumerOffsetHeader,
)
from pyromq.protocol.headers.send import ConsumerSendMsgBackHeader
from pyromq.protocol.message import MessageQueue, ReceivedMessage
from pyromq.protocol.records.record import encode_record
from tests.unit.client.consumer.messages import received
from tests.unit.client.fakes import Answer, FakeBroker, FakeCluster, FakeTransport

Key = tuple[str, int]


class ConsumeBroker(FakeBroker):
    """Answers what consumers ask. `pull_script` holds answers for the next pulls, before it goes on as usual."""

    def __init__(self, name: str, address: str) -> None:
        super().__init__(name, address)
        self.log: dict[Key, list[ReceivedMessage]] = defaultdict(list)
        self.first: dict[Key, int] = defaultdict(int)
        self.offsets: dict[Key, int] = {}
        self.members: list[str] = []
        self.locks: dict[MessageQueue, str] = {}
        self.pulls: list[PullMessageHeader] = []
        self.pull_script: list[Callable[[Command], Answer]] = []
        self.sent_back: list[ConsumerSendMsgBackHeader] = []
        self.refuse_send_back = False
        self.assignment: QueryAssignmentResponse | None = None
        self._parked: list[tuple[Key, asyncio.Event]] = []
        code = RequestCode
        self.answers.update({
            code.GET_CONSUMER_LIST_BY_GROUP: self._member_list,
            code.QUERY_CONSUMER_OFFSET: self._query_offset,
            code.UPDATE_CONSUMER_OFFSET: self.update_offset,
            code.GET_MAX_OFFSET: self._max_offset,
            code.GET_MIN_OFFSET: self._min_offset,
            code.SEARCH_OFFSET_BY_TIMESTAMP: lambda c: c.reply(header=SearchOffsetByTimestampResponseHeader(offset=77)),
            code.LOCK_BATCH_MQ: self._lock,
            code.UNLOCK_BATCH_MQ: self.unlock,
            code.CONSUMER_SEND_MSG_BACK: self._send_back,
            code.CHECK_CLIENT_CONFIG: lambda command: command.reply(),
            code.QUERY_ASSIGNMENT: self._assign,
        })  # fmt: skip

    def __call__(self, command: Command) -> Answer | Awaitable[Answer]:
        if command.code in (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE):
            return self._pull(command)
        return super().__call__(command)

    def arrive(self, queue_id: int, *bodies: bytes, topic: str = "T", **properties: str) -> None:
        """Messages come in."""
        key = (topic, queue_id)
        for body in bodies:
            message = received(self.first[key] + len(self.log[key]), body, topic, **properties)
            message.queue_id = queue_id
            self.log[key].append(message)
        for waiting, event in self._parked:
            if waiting == key:
                event.set()

    def high(self, key: Key) -> int:
        return self.first[key] + len(self.log[key])

    async def _pull(self, command: Command) -> Answer:
        header = command.header(PullMessageHeader)
        self.pulls.append(header)
        if self.pull_script:
            return self.pull_script.pop(0)(command)
        key = (header.topic, header.queue_id)
        if header.sys_flag & 1:
            self.offsets[key] = header.commit_offset
        while header.queue_offset == self.high(key):
            event = asyncio.Event()
            self._parked.append((key, event))
            try:
                await event.wait()
            finally:
                self._parked.remove((key, event))
        low, high = self.first[key], self.high(key)
        if not low <= header.queue_offset < high:
            return self.pull_answer(command, ResponseCode.PULL_OFFSET_MOVED, low if header.queue_offset < low else high)
        start = header.queue_offset - low
        found = self.log[key][start : start + header.max_msg_nums]
        answer = self.pull_answer(command, ResponseCode.SUCCESS, header.queue_offset + len(found))
        answer.body = b"".join(encode_record(message) for message in found)
        return answer

    def pull_answer(self, command: Command, code: int, next_offset: int, **more: Any) -> Command:
        header = command.header(PullMessageHeader)
        key = (header.topic, header.queue_id)
        fields = {"suggest_which_broker_id": 0, "min_offset": self.first[key], "max_offset": self.high(key)} | more
        return command.reply(code, PullMessageResponseHeader(next_begin_offset=next_offset, **fields))

    def _member_list(self, command: Command) -> Answer:
        if not self.members:
            return command.reply(ResponseCode.SYSTEM_ERROR, remark="no consumer for this group")
        return command.reply(body=ConsumerList(consumer_id_list=self.members).encode())

    def _query_offset(self, command: Command) -> Answer:
        header = command.header(QueryConsumerOffsetHeader)
        offset = self.offsets.get((header.topic, header.queue_id))
        if offset is None:
            return command.reply(ResponseCode.QUERY_NOT_FOUND, remark="Not found")
        return command.reply(header=QueryConsumerOffsetResponseHeader(offset=offset))

    def update_offset(self, command: Command) -> Answer:
        header = command.header(UpdateConsumerOffsetHeader)
        self.offsets[header.topic, header.queue_id] = header.commit_offset
        return command.reply()

    def _max_offset(self, command: Command) -> Answer:
        header = command.header(GetMaxOffsetHeader)
        return command.reply(header=GetMaxOffsetResponseHeader(offset=self.high((header.topic, header.queue_id))))

    def _min_offset(self, command: Command) -> Answer:
        header = command.header(GetMinOffsetHeader)
        return command.reply(header=GetMinOffsetResponseHeader(offset=self.first[header.topic, header.queue_id]))

    def _lock(self, command: Command) -> Answer:
        body = LockBatchRequest.decode(command.body)
        granted = [queue for queue in body.mq_set if self.locks.setdefault(queue, body.client_id) == body.client_id]
        return command.reply(body=LockBatchResponse(lock_ok_mq_set=granted).encode())

    def unlock(self, command: Command) -> Answer:
        body = LockBatchRequest.decode(command.body)
        for queue in body.mq_set:
            if self.locks.get(queue) == body.client_id:
                del self.locks[queue]
        return command.reply()

    def _send_back(self, command: Command) -> Answer:
        if self.refuse_send_back:
            return command.reply(ResponseCode.SYSTEM_ERROR, remark="no such message")
        self.sent_back.append(command.header(ConsumerSendMsgBackHeader))
        return command.reply()

    def _assign(self, command: Command) -> Answer:
        if self.assignment is None:
            return command.reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        return command.reply(body=self.assignment.encode())


class _Transport(FakeTransport):
    """One-way requests that consumers rely on are carried out too."""

    async def oneway(self, address: str, command: Command, timeout: float) -> None:  # noqa: ASYNC109 - as Client
        await super().oneway(address, command, timeout)
        broker = self.peers.get(address)
        if isinstance(broker, ConsumeBroker) and command.code in broker.answers:
            broker.answers[command.code](command)


class ConsumeCluster(FakeCluster):
    """One broker, topic T with a few queues, and consumers whose client id is `10.1.1.1@me`."""

    def __init__(self, queues: int = 1) -> None:
        super().__init__("broker-a")
        peers = self.transport.peers
        self.transport = _Transport()
        self.transport.peers = peers
        address = self.brokers["broker-a"].address
        self.broker = ConsumeBroker("broker-a", address)
        self.brokers["broker-a"] = self.broker
        peers[address] = self.broker
        self.broker.members = ["10.1.1.1@me"]
        self.add_topic("T", queues)

    def push(self, listener: Any, *, orderly: bool = False, batch: bool = False, **options: Any) -> PushConsumer:
        consumer = PushConsumer("CG", **self._options(options))
        consumer.subscribe("T")
        consumer.listen(listener, orderly=orderly, batch=batch)
        return consumer

    def pull(self, **options: Any) -> PullConsumer:
        return PullConsumer("CG", **self._options(options))

    def _options(self, options: dict[str, Any]) -> dict[str, Any]:
        defaults = {
            "namesrv": "ns1:9876",
            "clock": self.clock,
            "transport": self.transport,
            "client_ip": "10.1.1.1",
            "instance_name": "me",
            "consume_from": ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        }
        return defaults | options


def queue(number: int = 0, topic: str = "T") -> MessageQueue:
    return MessageQueue(topic, "broker-a", number)


def assigned(*queues: MessageQueue) -> QueryAssignmentResponse:
    return QueryAssignmentResponse(
        message_queue_assignments=[MessageQueueAssignment(message_queue=each) for each in queues]
    )
