"""Looks things up: offsets of a queue, single messages by id, messages by key."""

from pyromq.broker.core import Core
from pyromq.broker.errors import Refused
from pyromq.broker.part import Part
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command, encode_head
from pyromq.protocol.headers.consume import (
    GetEarliestMsgStoretimeHeader,
    GetEarliestMsgStoretimeResponseHeader,
    GetMaxOffsetHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetHeader,
    GetMinOffsetResponseHeader,
    SearchOffsetByTimestampHeader,
    SearchOffsetByTimestampResponseHeader,
)
from pyromq.protocol.headers.query import QueryMessageHeader, QueryMessageResponseHeader, ViewMessageByIdHeader
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Handler
from pyromq.store.queue.offsettime import Boundary


class Queries(Part):
    """Answers from the store alone."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.QUERY_MESSAGE: self._by_key,
            RequestCode.VIEW_MESSAGE_BY_ID: self._by_id,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self._by_time,
            RequestCode.GET_MAX_OFFSET: self._max_offset,
            RequestCode.GET_MIN_OFFSET: self._min_offset,
            RequestCode.GET_EARLIEST_MSG_STORETIME: self._earliest,
        }

    def _by_key(self, request: Command, _connection: Connection) -> list[bytes | memoryview]:
        header = request.header(QueryMessageHeader)
        limit = self._core.config.default_query_max_num if header.unique_key_query else header.max_num
        found = self._core.store.lookup.by_key(
            header.topic, header.key, limit, header.begin_timestamp, header.end_timestamp
        )
        answer = QueryMessageResponseHeader(
            index_last_update_timestamp=found.index_last_timestamp,
            index_last_update_phyoffset=found.index_last_offset,
        )
        if not found.records:
            raise Refused(ResponseCode.QUERY_NOT_FOUND, "can not find message, maybe time range not correct")
        size = sum(map(len, found.records))
        return [encode_head(request.reply(header=answer), size), *found.records]

    def _by_id(self, request: Command, _connection: Connection) -> list[bytes | memoryview]:
        offset = request.header(ViewMessageByIdHeader).offset
        record = self._core.store.lookup.record_at(offset)
        if record is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {offset}")
        return [encode_head(request.reply(), len(record)), record]

    def _by_time(self, request: Command, _connection: Connection) -> Command:
        header = request.header(SearchOffsetByTimestampHeader)
        boundary = Boundary.UPPER if (header.boundary_type or "").upper() == "UPPER" else Boundary.LOWER
        offset = self._core.store.lookup.offset_by_time(header.topic, header.queue_id, header.timestamp, boundary)
        return request.reply(header=SearchOffsetByTimestampResponseHeader(offset=offset))

    def _max_offset(self, request: Command, _connection: Connection) -> Command:
        header = request.header(GetMaxOffsetHeader)
        high = self._core.store.max_offset(header.topic, header.queue_id, committed=header.committed is not False)
        return request.reply(header=GetMaxOffsetResponseHeader(offset=high))

    def _min_offset(self, request: Command, _connection: Connection) -> Command:
        header = request.header(GetMinOffsetHeader)
        low = self._core.store.min_offset(header.topic, header.queue_id)
        return request.reply(header=GetMinOffsetResponseHeader(offset=low))

    def _earliest(self, request: Command, _connection: Connection) -> Command:
        header = request.header(GetEarliestMsgStoretimeHeader)
        timestamp = self._core.store.lookup.earliest_time(header.topic, header.queue_id)
        return request.reply(header=GetEarliestMsgStoretimeResponseHeader(timestamp=timestamp))
