"""PULL_MESSAGE and LITE_PULL_MESSAGE: check, read, answer with slices of the log, or wait for an arrival.

Records go from the mapped log to the socket without being decoded or copied. A pull that finds nothing is parked and
runs again, with parking off, when something it wants arrives or its time is over.
"""

from collections.abc import Iterable
from functools import partial

import msgspec

from pyromq.broker.consume.longpoll import ParkedPull, PullPark
from pyromq.broker.consume.pullrights import PullRights
from pyromq.broker.consume.pullruns import MAX_STREAM_BYTES, PullRuns
from pyromq.broker.core import Core
from pyromq.broker.errors import Refused
from pyromq.broker.filter.filters import Filter, wanted_arrivals
from pyromq.broker.part import Every, Figure, Park, Part, gauge, limit
from pyromq.broker.replication.link import MasterLink
from pyromq.broker.tables.positions import within
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command, encode_head
from pyromq.protocol.headers.consume import (
    COMMIT_OFFSET,
    STREAM,
    SUSPEND,
    PullMessageHeader,
    PullMessageResponseHeader,
    pull_head,
)
from pyromq.protocol.release import CURRENT
from pyromq.protocol.routes import MASTER_ID
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Handler
from pyromq.remoting.handler import Grouped
from pyromq.store.config import BrokerRole
from pyromq.store.queue.read import GetResult, GetStatus

MAX_NAMED = 100
"""Damaged messages that an answer names at most."""
MAX_HOLD_MS = 120_000
PARK_TICK = 0.1

# A look-up in an enum's class is a call into Python; these are asked for with every pull.
_SLAVE = BrokerRole.SLAVE
_FOUND = GetStatus.FOUND
_FOUND_REMARK = GetStatus.FOUND.name
_SUCCESS = ResponseCode.SUCCESS
_NOT_FOUND = ResponseCode.PULL_NOT_FOUND
_MOVED = ResponseCode.PULL_OFFSET_MOVED

_CODES = {
    GetStatus.FOUND: ResponseCode.SUCCESS,
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_RESET: ResponseCode.PULL_OFFSET_MOVED,
}

_ELSEWHERE = frozenset(
    {
        GetStatus.OFFSET_OVERFLOW_BADLY,
        GetStatus.OFFSET_TOO_SMALL,
        GetStatus.NO_MATCHED_LOGIC_QUEUE,
        GetStatus.NO_MESSAGE_IN_QUEUE,
    }
)
"""What a slave does not have, its master may."""

Answer = Command | bytes | list[bytes | memoryview]


class _Pull(msgspec.Struct, gc=False):
    """One request that passed the checks."""

    request: Command
    connection: Connection
    header: PullMessageHeader
    topic: TopicConfig
    group: SubscriptionGroupConfig
    filter: Filter


def _stream_bytes(header: PullMessageHeader) -> int | None:
    """What a stream can take at once, in place of the limits that keep interactive consumers from each other's way."""
    if header.request_type != STREAM or header.max_msg_bytes is None:
        return None
    return min(header.max_msg_bytes, MAX_STREAM_BYTES)


class Puller(Part):
    """Serves consumers."""

    def __init__(self, core: Core, link: MasterLink | None) -> None:
        self._config = core.config
        self._offsets = core.offsets
        self._store = core.store
        self._stats = core.stats
        self._clock = core.steady
        self._role = core.role
        self._link = link
        self._rights = PullRights(core)
        self._runs = PullRuns(core, self._rights)
        self.park = PullPark(core.steady, core.store.max_offset, capacity=core.config.max_parked_pulls)

    @property
    def _lags_behind(self) -> bool:
        """Whether this is a slave, which may lag and must not make consumers rewrite their offsets."""
        return self._config.broker_role is _SLAVE and not self._config.offset_check_in_slave

    def handlers(self) -> dict[int, Handler]:
        """The request codes served here; not on the fast port."""
        # A slave's answers depend on its master, too, so there each is looked at.
        serve = Grouped(self._serve, None, self._runs.serve if self._link is None else None)
        return {RequestCode.PULL_MESSAGE: serve, RequestCode.LITE_PULL_MESSAGE: serve}

    def parks(self) -> Iterable[Park]:
        """Pulls that found nothing."""
        return [self.park]

    def every(self) -> Iterable[Every]:
        """Answer those that waited long enough."""
        return [Every(PARK_TICK, self.park.tick)]

    def metrics(self) -> Iterable[Figure]:
        """How many wait."""
        yield gauge("pyromq_parked_pulls", "Pulls that wait for an arrival.", len(self.park))
        yield limit("parked_pulls", self.park.refused)

    def connection_closed(self, connection: Connection) -> None:
        """Nobody waits there any more."""
        self.park.forget(connection)

    def role_changed(self) -> None:
        """From now on nobody has what is beyond this log, or somebody else serves it."""
        self.park.resume_all()

    async def stop(self) -> None:
        """Answer all."""
        self.park.resume_all()

    def _master_alive(self, link: MasterLink) -> bool:
        """On a slave: whether consumers are better off with its master."""
        return link.connected and not self._role.acting

    def _serve(self, request: Command, connection: Connection) -> Answer | None:
        header = request.header(PullMessageHeader)
        topic, group, wanted = self._rights.check(request.code, connection, header, request)
        pull = _Pull(request, connection, header, topic, group, wanted)
        reset = self._offsets.take_reset(header.consumer_group, header.topic, header.queue_id)
        if reset is not None:
            low = self._store.min_offset(header.topic, header.queue_id)
            high = self._store.max_offset(header.topic, header.queue_id)
            return self._answer(pull, GetResult(GetStatus.OFFSET_RESET, reset, low, high))
        if header.sys_flag & COMMIT_OFFSET and header.commit_offset >= 0:
            offset = within(self._store, header.topic, header.queue_id, header.commit_offset)
            self._offsets.commit(header.consumer_group, header.topic, header.queue_id, offset)
        return self._run(pull, may_park=bool(header.sys_flag & SUSPEND))

    def _run(self, pull: _Pull, *, may_park: bool) -> Answer | None:
        header = pull.header
        result = self._store.get(
            header.topic,
            header.queue_id,
            header.queue_offset,
            header.max_msg_nums,
            max_bytes=_stream_bytes(header),
            tag_filter=pull.filter.entry,
            record_filter=pull.filter.record,
            sliced=False,
        )
        if result.status is _FOUND and self._link is None:
            return self._found(pull, result)
        if may_park and self._waits(self._code(header, result), result):
            self._suspend(pull)
            return None
        return self._answer(pull, result)

    def _waits(self, code: ResponseCode, result: GetResult) -> bool:
        """Whether to hold a pull: there may be more here soon, and nowhere else now."""
        if self._link is not None and self._master_alive(self._link):
            return False
        return code is _NOT_FOUND or (self._lags_behind and result.status in _ELSEWHERE)

    def _suspend(self, pull: _Pull) -> None:
        header = pull.header
        config = self._config
        hold = header.suspend_timeout_millis if config.long_polling_enable else config.short_polling_time_mills
        deadline = self._clock() + min(max(hold, 0), MAX_HOLD_MS)
        key = (header.topic, header.queue_id)
        resume = partial(self._resume, pull)
        parked = ParkedPull(
            key,
            header.queue_offset,
            deadline,
            wanted_arrivals(pull.filter),
            resume,
            pull.connection,
            pull.connection.peer.host,
        )
        if not self.park.park(parked):
            # Not "nothing found": the client would ask again at once, and again.
            raise Refused(
                ResponseCode.SYSTEM_BUSY,
                f"[TOO_MANY_WAITING]system busy: {len(self.park)} pulls wait for messages, which is maxParkedPulls "
                "or, for this address, three quarters of it; try again in a second, or raise it",
            )

    def _resume(self, pull: _Pull) -> None:
        if not pull.connection.is_open:
            return
        answer = self._run(pull, may_park=False)
        if answer is not None:
            pull.connection.send(answer)

    def _code(self, header: PullMessageHeader, result: GetResult) -> ResponseCode:
        code = _CODES.get(result.status)
        if code is not None:
            return code
        # An empty or unknown queue: offset 0 is where its first message will be.
        return ResponseCode.PULL_NOT_FOUND if header.queue_offset == 0 else ResponseCode.PULL_OFFSET_MOVED

    def _answer(self, pull: _Pull, result: GetResult) -> Answer:
        header = pull.header
        code = self._code(header, result)
        suggestion = self._suggest(pull.group, result)
        if code is _MOVED and self._lags_behind:
            code = ResponseCode.PULL_RETRY_IMMEDIATELY
            suggestion = pull.group.broker_id
        if self._link is not None and not result.suggest_slave and self._master_alive(self._link):
            suggestion = MASTER_ID
            if code is not _SUCCESS:
                code = ResponseCode.PULL_RETRY_IMMEDIATELY
        answer = PullMessageResponseHeader(
            suggest_which_broker_id=suggestion,
            next_begin_offset=result.next_offset,
            min_offset=result.min_offset,
            max_offset=result.max_offset,
        )
        if pull.topic.topic_sys_flag or pull.group.group_sys_flag:
            answer.topic_sys_flag = pull.topic.topic_sys_flag
            answer.group_sys_flag = pull.group.group_sys_flag
        if result.damaged:
            answer.damaged_offsets = ",".join(map(str, result.damaged[:MAX_NAMED]))
        reply = pull.request.reply(code, answer, remark=result.status.name)
        self._offsets.pulled(header.consumer_group, header.topic, header.queue_id, result.next_offset)
        if code is not _SUCCESS:
            return reply
        self._stats.add_get(f"{header.topic}@{header.consumer_group}", result.count, result.size)
        return self._store.framed(encode_head(reply, result.size), result)

    def _found(self, pull: _Pull, result: GetResult) -> Answer:
        """What `_answer` says where there are messages, and no master to be preferred."""
        topic, group = pull.topic, pull.group
        if topic.topic_sys_flag or group.group_sys_flag or result.damaged:
            return self._answer(pull, result)
        header, request = pull.header, pull.request
        following, size = result.next_offset, result.size
        numbers = self._suggest(group, result), following, result.min_offset, result.max_offset
        head = pull_head(bool(request.serialization), 0, request.opaque, CURRENT, _FOUND_REMARK, numbers, size)
        key = f"{header.topic}@{header.consumer_group}"
        self._offsets.pulled_at(key, header.queue_id, following)
        self._stats.add_get(key, result.count, size)
        return self._store.framed(head, result)

    def _suggest(self, group: SubscriptionGroupConfig, result: GetResult) -> int:
        if not self._config.slave_read_enable:
            return 0
        return group.which_broker_when_consume_slowly if result.suggest_slave else group.broker_id
