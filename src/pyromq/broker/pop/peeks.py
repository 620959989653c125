"""Questions about pops, which give nothing out: NOTIFICATION, PEEK_MESSAGE, POLLING_INFO, POP_ROLLBACK."""

from functools import partial

from pyromq.broker.core import Core
from pyromq.broker.filter.filters import PASS_ALL
from pyromq.broker.pop.longpoll import PopPark
from pyromq.broker.pop.queues import FROM_OLDEST, PopQueues, QueueTurns, Wish
from pyromq.broker.pop.request import PopRequest, check_names, check_role
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command, encode_head
from pyromq.protocol.headers.pop import (
    NotificationHeader,
    NotificationResponseHeader,
    PeekMessageHeader,
    PollingInfoHeader,
    PollingInfoResponseHeader,
    PopMessageResponseHeader,
)
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Answer, Handler
from pyromq.store.queue.read import GetStatus

_MISPLACED = frozenset({GetStatus.OFFSET_TOO_SMALL, GetStatus.OFFSET_OVERFLOW_BADLY})


class Peeks:
    """`pops` holds those who want messages, `questions` those who only want to know whether there are any."""

    def __init__(self, core: Core, queues: PopQueues, turns: QueueTurns, pops: PopPark, questions: PopPark) -> None:
        self._core = core
        self._store = core.store
        self._queues = queues
        self._turns = turns
        self._pops = pops
        self._questions = questions

    def handlers(self) -> dict[int, Handler]:
        """The request codes served here."""
        return {
            RequestCode.NOTIFICATION: self._notification,
            RequestCode.PEEK_MESSAGE: self._peek,
            RequestCode.POLLING_INFO: self._polling_info,
            # State in another engine would be written to the revive topic; all state is there already.
            RequestCode.POP_ROLLBACK: lambda request, _: request.reply(),
        }

    def _notification(self, request: Command, connection: Connection) -> Command | None:
        header = request.header(NotificationHeader)
        self._check(request, connection, header.topic, header.consumer_group, header.queue_id)
        wish = Wish(
            header.topic, header.consumer_group, 0, FROM_OLDEST, PASS_ALL, bool(header.order), header.attempt_id
        )
        born = header.born_time or self._core.clock()
        return self._tell(PopRequest(request, connection, wish, header.queue_id, born, header.poll_time))

    def _tell(self, question: PopRequest) -> Command | None:
        wish, reply = question.wish, question.request.reply
        blocked: int | None = None
        for topic, queue_id in self._turns(wish.topic, wish.group, question.queue_id, every_retry=True):
            until = self._queues.blocked_until(wish, topic, queue_id)
            if until is not None:
                blocked = min(until, blocked or until)
            elif self._queues.backlog(topic, wish.group, queue_id) > 0:
                return reply(header=NotificationResponseHeader(has_msg=True))
        deadline = question.deadline(self._core.clock())
        if deadline is None or self._questions.stopped:
            return reply(header=NotificationResponseHeader(has_msg=False))
        if self._questions.full(question.key, question.party):
            return reply(header=NotificationResponseHeader(has_msg=False, polling_full=True))
        due = deadline if blocked is None else min(deadline, blocked)
        self._questions.hold(question.held(due, partial(self._resume, question)))
        return None

    def _resume(self, question: PopRequest) -> None:
        outcome = self._tell(question) if question.connection.is_open else None
        if outcome is not None:
            question.connection.send(outcome)

    def _peek(self, request: Command, connection: Connection) -> Answer:
        header = request.header(PeekMessageHeader)
        self._check(request, connection, header.topic, header.consumer_group, header.queue_id)
        chunks: list[memoryview] = []
        count = size = rest = 0
        for topic, queue_id in self._turns(header.topic, header.consumer_group, header.queue_id):
            rest += self._queues.backlog(topic, header.consumer_group, queue_id)
            if count >= header.max_msg_nums:
                continue
            offset = self._queues.position(topic, header.consumer_group, queue_id)
            if offset is None:
                offset = self._store.min_offset(topic, queue_id)
            result = self._store.get(topic, queue_id, offset, header.max_msg_nums - count)
            if result.status in _MISPLACED:
                result = self._store.get(topic, queue_id, result.next_offset, header.max_msg_nums - count)
            chunks += result.chunks
            count += result.count
            size += result.size
        answer = PopMessageResponseHeader(pop_time=self._core.clock(), invisible_time=0, revive_qid=0, rest_num=rest)
        if not count:
            return request.reply(ResponseCode.PULL_NOT_FOUND, answer, remark=GetStatus.NO_MESSAGE_IN_QUEUE.name)
        reply = request.reply(ResponseCode.SUCCESS, answer, remark=GetStatus.FOUND.name)
        return [encode_head(reply, size), *chunks]

    def _polling_info(self, request: Command, connection: Connection) -> Command:
        header = request.header(PollingInfoHeader)
        self._check(request, connection, header.topic, header.consumer_group, header.queue_id)
        held = self._pops.held((header.topic, header.consumer_group, header.queue_id))
        return request.reply(header=PollingInfoResponseHeader(polling_num=held))

    def _check(self, request: Command, connection: Connection, topic: str, group: str, queue_id: int) -> None:
        check_role(self._core)
        check_names(self._core, request, connection, topic, group, queue_id)
