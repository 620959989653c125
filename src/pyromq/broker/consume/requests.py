"""What consumers ask besides messages: who else is in the group, where to start, how far they are, queue locks."""

from collections.abc import Iterable, Iterator

from pyromq.broker.cluster.heartbeats import Heartbeats
from pyromq.broker.consume.locks import QueueLocks
from pyromq.broker.core import Core
from pyromq.broker.errors import Refused, topic_not_exist
from pyromq.broker.part import Part
from pyromq.broker.tables.newnames import party_of
from pyromq.broker.tables.positions import within
from pyromq.broker.tables.topics import MAX_QUEUES
from pyromq.protocol.bodies.clients import ConsumerList
from pyromq.protocol.bodies.queues import LockBatchRequest, LockBatchResponse, UnlockBatchRequest
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.consume import (
    GetConsumerListByGroupHeader,
    LockBatchMqHeader,
    QueryConsumerOffsetHeader,
    QueryConsumerOffsetResponseHeader,
    UpdateConsumerOffsetHeader,
)
from pyromq.protocol.message import MessageQueue
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Handler


class ConsumerRequests(Part):
    """Group members, offsets and locks."""

    def __init__(self, core: Core, heartbeats: Heartbeats, locks: QueueLocks) -> None:
        self._core = core
        self._heartbeats = heartbeats
        self._locks = locks

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self._members,
            RequestCode.QUERY_CONSUMER_OFFSET: self._query_offset,
            RequestCode.UPDATE_CONSUMER_OFFSET: self._update_offset,
            RequestCode.LOCK_BATCH_MQ: self._lock,
            RequestCode.UNLOCK_BATCH_MQ: self._unlock,
        }

    def _members(self, request: Command, _connection: Connection) -> Command:
        group = request.header(GetConsumerListByGroupHeader).consumer_group
        live = self._core.consumers.get(group)
        if live is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {group}")
        return request.reply(body=ConsumerList(consumer_id_list=live.client_ids).encode())

    def _query_offset(self, request: Command, _connection: Connection) -> Command:
        header = request.header(QueryConsumerOffsetHeader)
        offset = self._core.offsets.get(header.consumer_group, header.topic, header.queue_id)
        if offset is None and header.set_zero_if_not_found is not False:
            # A young queue that still holds its first message: a new group begins there, whatever it asks for.
            low = self._core.store.min_offset(header.topic, header.queue_id)
            if low <= 0 and self._core.store.in_memory(header.topic, header.queue_id, 0):
                offset = 0
        if offset is None:
            raise Refused(ResponseCode.QUERY_NOT_FOUND, "Not found, maybe this group consumer boot first")
        return request.reply(header=QueryConsumerOffsetResponseHeader(offset=offset))

    def _update_offset(self, request: Command, connection: Connection) -> Command:
        header = request.header(UpdateConsumerOffsetHeader)
        if header.consumer_group not in self._core.groups:
            self._core.groups.require(header.consumer_group, party_of(self._core.config, request, connection))
        if header.topic not in self._core.topics:
            raise topic_not_exist(header.topic)
        # Not compared with the topic's own queues: those may have been taken away with messages still in them.
        if not 0 <= header.queue_id < MAX_QUEUES or header.commit_offset < 0:
            raise Refused(
                ResponseCode.INVALID_PARAMETER,
                f"queue {header.queue_id} must be from 0 to {MAX_QUEUES - 1}, offset {header.commit_offset} 0 or more",
            )
        offset = within(self._core.store, header.topic, header.queue_id, header.commit_offset)
        stored = self._core.offsets.commit(header.consumer_group, header.topic, header.queue_id, offset)
        return request.reply(remark=None if stored else "the offset was reset meanwhile, this commit is ignored")

    def _lock(self, request: Command, connection: Connection) -> Command:
        body = LockBatchRequest.of_request(request.body)
        self._heartbeats.check_client_id(body.client_id, request)
        queues = self._there(body.mq_set) if body.consumer_group in self._core.groups else ()
        tied = bool(request.header(LockBatchMqHeader).ends_with_connection)
        held = self._locks.lock(body.consumer_group, body.client_id, queues, connection, tied=tied)
        return request.reply(body=LockBatchResponse(lock_ok_mq_set=sorted(held)).encode())

    def _there(self, queues: Iterable[MessageQueue]) -> Iterator[MessageQueue]:
        """Those of the queues that this broker has: a lock on any other would guard nothing and cost memory."""
        name, topics = self._core.config.broker_name, self._core.topics
        for queue in queues:
            topic = topics.get(queue.topic) if queue.broker_name == name else None
            if topic is not None and 0 <= queue.queue_id < max(topic.read_queue_nums, topic.write_queue_nums):
                yield queue

    def _unlock(self, request: Command, _connection: Connection) -> Command:
        body = UnlockBatchRequest.of_request(request.body)
        self._heartbeats.check_client_id(body.client_id, request)
        self._locks.unlock(body.consumer_group, body.client_id, body.mq_set)
        return request.reply()
