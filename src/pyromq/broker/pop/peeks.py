"""Questions about pops, which give nothing out: NOTIFICATION, PEEK_MESSAGE, POLLING_INFO, POP_ROLLBACK."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pyromq.broker.config import BrokerConfig
from pyromq.broker.filter.filters import PASS_ALL
from pyromq.broker.pop.longpoll import HeldPop, PopPark, WaitKey
from pyromq.broker.pop.pops import QueueTurns, check_group, check_queue, check_readable, hold_until
from pyromq.broker.pop.queues import FROM_OLDEST, PopQueues, Wish
from pyromq.broker.tables.groups import Groups
from pyromq.broker.tables.newnames import party_of
from pyromq.broker.tables.topics import Topics
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
from pyromq.store.messagestore import MessageStore
from pyromq.store.queue.read import GetStatus

_MISPLACED = frozenset({GetStatus.OFFSET_TOO_SMALL, GetStatus.OFFSET_OVERFLOW_BADLY})


@dataclass(frozen=True, slots=True)
class _Question:
    """Whether there is something to pop."""

    request: Command
    connection: Connection
    header: NotificationHeader
    wish: Wish
    born: int

    @property
    def key(self) -> WaitKey:
        return self.wish.topic, self.wish.group, self.header.queue_id


class Peeks:
    """`pops` holds those who want messages, `questions` those who only want to know whether there are any."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: Topics,
        groups: Groups,
        store: MessageStore,
        queues: PopQueues,
        turns: QueueTurns,
        pops: PopPark,
        questions: PopPark,
        clock: Callable[[], int],
    ) -> None:
        self._config = config
        self._topics = topics
        self._groups = groups
        self._store = store
        self._queues = queues
        self._turns = turns
        self._pops = pops
        self._questions = questions
        self._clock = clock
        self.stopping = False

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
        return self._tell(_Question(request, connection, header, wish, header.born_time or self._clock()))

    def _tell(self, question: _Question) -> Command | None:
        header, wish, reply = question.header, question.wish, question.request.reply
        blocked: int | None = None
        for topic, queue_id in self._turns(wish.topic, wish.group, header.queue_id, every_retry=True):
            until = self._queues.blocked_until(wish, topic, queue_id)
            if until is not None:
                blocked = min(until, blocked or until)
            elif self._queues.backlog(topic, wish.group, queue_id) > 0:
                return reply(header=NotificationResponseHeader(has_msg=True))
        deadline = hold_until(question.born, header.poll_time, self._clock())
        if deadline is None or self.stopping:
            return reply(header=NotificationResponseHeader(has_msg=False))
        if self._questions.full(question.key, question.connection.peer.host):
            return reply(header=NotificationResponseHeader(has_msg=False, polling_full=True))
        due = deadline if blocked is None else min(deadline, blocked)
        held = HeldPop(
            question.key,
            due,
            PASS_ALL.arrival,
            partial(self._resume, question),
            question.connection.peer.host,
        )
        self._questions.hold(held)
        return None

    def _resume(self, question: _Question) -> None:
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
        answer = PopMessageResponseHeader(pop_time=self._clock(), invisible_time=0, revive_qid=0, rest_num=rest)
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
        check_readable(self._config)
        check_queue(self._topics, topic, queue_id, code=ResponseCode.INVALID_PARAMETER)
        check_group(self._groups, group, party_of(self._config, request, connection))
