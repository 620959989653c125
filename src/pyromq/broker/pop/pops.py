"""POP_MESSAGE: check, gather from the queues of a topic and of its retries, answer with slices of the log, or hold."""

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from pyromq.broker.admin.stats import BrokerStats, Stat
from pyromq.broker.config import BrokerConfig
from pyromq.broker.errors import Refused, topic_not_exist
from pyromq.broker.filter.filters import Filters
from pyromq.broker.pop.longpoll import HeldPop, PopPark, WaitKey
from pyromq.broker.pop.queues import Grant, PopQueues, Wish
from pyromq.broker.pop.revivelog import MAX_MESSAGES
from pyromq.broker.refusals import answer
from pyromq.broker.tables.groups import Groups
from pyromq.broker.tables.newnames import party_of
from pyromq.broker.tables.topics import Topics
from pyromq.protocol import names
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command, encode_head
from pyromq.protocol.handles.pop import ORDERED_QUEUE, encode_offsets, encode_starts
from pyromq.protocol.headers.pop import PopMessageHeader, PopMessageResponseHeader
from pyromq.protocol.routes import is_readable
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Answer, Handler
from pyromq.store.config import BrokerRole

LATE_MS = 500
"""A pop that took this much longer than it was willing to wait found nobody waiting any more."""
EARLIER_MS = 50
"""A held pop is answered this long before its time is over, so that the answer is in time."""
MAX_HOLD_MS = 120_000


def check_readable(config: BrokerConfig) -> None:
    """What rules out popping altogether. Raises Refused."""
    if config.broker_role is BrokerRole.SLAVE:
        raise Refused(
            ResponseCode.SYSTEM_BUSY,
            "[REJECTREQUEST]system busy, start flow control for a while: this is a slave, pop from its master",
        )
    if not is_readable(config.broker_permission):
        raise Refused(ResponseCode.NO_PERMISSION, f"the broker[{config.broker_name}] popping message is forbidden")


def check_queue(topics: Topics, name: str, queue_id: int, *, code: ResponseCode) -> int:
    """How many queues of a topic may be popped. Raises Refused, with `code` for a queue that it does not have."""
    topic = topics.get(name)
    if topic is None:
        raise topic_not_exist(name)
    if not is_readable(topic.perm):
        raise Refused(ResponseCode.NO_PERMISSION, f"the topic[{name}] popping message is forbidden")
    if queue_id >= topic.read_queue_nums:
        raise Refused(code, f"queueId[{queue_id}] is illegal, topic:[{name}] has {topic.read_queue_nums} read queues")
    return topic.read_queue_nums


def check_group(groups: Groups, name: str, party: str) -> None:
    """Raises Refused for a group that may not consume, and Unsaved for one that is created for the party."""
    if not groups.require(name, party).consume_enable:
        raise Refused(ResponseCode.NO_PERMISSION, f"subscription group no permission, {name}: consumeEnable is false")


def hold_until(born: int, poll_time: int, now: int) -> int | None:
    """How long a request may be held; None when it must be answered at once."""
    if poll_time <= 0:
        return None
    deadline = min(born + poll_time - EARLIER_MS, now + MAX_HOLD_MS)
    return deadline if deadline > now else None


@dataclass(frozen=True, slots=True)
class _Pop:
    """One request that passed the checks."""

    request: Command
    connection: Connection
    header: PopMessageHeader
    wish: Wish
    born: int

    @property
    def key(self) -> WaitKey:
        return self.wish.topic, self.wish.group, self.header.queue_id


class QueueTurns:
    """In which order topics and queues are read, a little different each time so that none is left behind."""

    def __init__(self, config: BrokerConfig, topics: Topics, rng: random.Random) -> None:
        self._config = config
        self._topics = topics
        self._rng = rng
        # Whether a form of retry topics joins group and topic with a plus sign.
        self._forms = [False]
        if config.enable_retry_topic_v2:
            self._forms = [False, True] if config.retrieve_message_from_pop_retry_topic_v1 else [True]

    def __call__(
        self, topic: str, group: str, queue_id: int, *, retries: bool = True, every_retry: bool = False
    ) -> Iterator[tuple[str, int]]:
        """Topics and queue ids; retry topics come first now and then, else last.

        Where retry topics of both forms are in use, a turn has one of them, unless `every_retry`.
        """
        turn = self._rng.randrange(100)
        own = self._queues(topic, turn) if queue_id < 0 else iter([(topic, queue_id)])
        if not retries:
            return own
        forms = self._forms if every_retry else self._forms[turn % len(self._forms) :][:1]
        again = itertools.chain.from_iterable(
            self._queues(names.pop_retry_topic(group, topic, plus=plus), turn) for plus in forms
        )
        if turn < self._config.pop_from_retry_probability:
            return itertools.chain(again, own)
        return itertools.chain(own, again)

    def _queues(self, topic: str, turn: int) -> Iterator[tuple[str, int]]:
        known = self._topics.get(topic)
        count = known.read_queue_nums if known is not None else 0
        return ((topic, (turn + number) % count) for number in range(count))


class Pops:
    """Serves pops."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: Topics,
        groups: Groups,
        filters: Filters,
        queues: PopQueues,
        turns: QueueTurns,
        park: PopPark,
        stats: BrokerStats,
        clock: Callable[[], int],
    ) -> None:
        self._config = config
        self._topics = topics
        self._groups = groups
        self._filters = filters
        self._queues = queues
        self._park = park
        self._stats = stats
        self._clock = clock
        self._turns = turns
        self._revive_queue = itertools.count()
        self.stopping = False

    def handlers(self) -> dict[int, Handler]:
        """The request codes served here."""
        return {RequestCode.POP_MESSAGE: self._serve}

    def _serve(self, request: Command, connection: Connection) -> Answer | None:
        header = request.header(PopMessageHeader)
        return self._run(self._check(request, connection, header))

    def _run(self, pop: _Pop) -> Answer | None:
        header, wish, config = pop.header, pop.wish, self._config
        revive_queue = ORDERED_QUEUE if wish.ordered else next(self._revive_queue) % config.revive_queue_num
        grant = Grant(self._clock(), revive_queue, header.max_msg_nums)
        for topic, queue_id in self._turns(wish.topic, wish.group, header.queue_id, retries=not wish.ordered):
            self._queues.take(wish, topic, queue_id, grant)
        if not grant.count:
            return self._hold(pop, grant)
        if grant.rest > 0:
            self._park.notify(*pop.key)
        return self._answer(pop, grant)

    def _hold(self, pop: _Pop, grant: Grant) -> Command | None:
        deadline = hold_until(pop.born, pop.header.poll_time, self._clock())
        if deadline is None or self.stopping:
            return pop.request.reply(ResponseCode.POLLING_TIMEOUT)
        if self._park.full(pop.key, pop.connection.peer.host):
            return pop.request.reply(
                ResponseCode.POLLING_FULL,
                remark=f"too many pops are held: {len(self._park)} in all, {self._park.held(pop.key)} of them for "
                f"{pop.wish.group} on queue {pop.header.queue_id} of {pop.wish.topic} (maxPopPollingSize, "
                "popPollingSize); try again in a second",
            )
        due = deadline if grant.blocked_until is None else min(deadline, grant.blocked_until)
        self._park.hold(
            HeldPop(pop.key, due, pop.wish.filter.arrival, partial(self._resume, pop), pop.connection.peer.host)
        )
        if grant.more:
            self._park.notify(*pop.key)
        return None

    def _resume(self, pop: _Pop) -> None:
        if not pop.connection.is_open:
            self._park.notify(*pop.key)  # what it was woken for may be for another
            return
        try:
            outcome = self._run(pop)
        except Refused as refused:
            outcome = answer(pop.request, refused)
        if outcome is not None:
            pop.connection.send(outcome)

    def _answer(self, pop: _Pop, grant: Grant) -> Answer:
        header = PopMessageResponseHeader(
            pop_time=grant.pop_time,
            invisible_time=pop.wish.invisible_time,
            revive_qid=grant.revive_queue,
            rest_num=grant.rest,
            start_offset_info=encode_starts(grant.starts),
            msg_offset_info=encode_offsets(grant.offsets),
            order_count_info=";".join(grant.order_counts) or None,
        )
        reply = pop.request.reply(ResponseCode.SUCCESS, header, remark="FOUND")
        key = f"{pop.wish.topic}@{pop.wish.group}"
        self._stats.add(Stat.GROUP_GET_NUMS, key, grant.count)
        self._stats.add(Stat.GROUP_GET_SIZE, key, grant.size)
        self._stats.add(Stat.GROUP_CK_NUMS, key, len(grant.starts))
        self._stats.add(Stat.BROKER_GET_NUMS, self._config.broker_cluster_name, grant.count)
        return [encode_head(reply, grant.size), *grant.chunks]

    def _check(self, request: Command, connection: Connection, header: PopMessageHeader) -> _Pop:
        """Everything that can forbid a pop, in RocketMQ's order. Raises Refused."""
        config, now = self._config, self._clock()
        born = header.born_time or now
        if now - born - header.poll_time > LATE_MS:
            raise Refused(
                ResponseCode.POLLING_TIMEOUT,
                f"the broker[{config.broker_name}] got this pop too late: do clocks agree?",
            )
        check_readable(config)
        if not 0 < header.max_msg_nums <= MAX_MESSAGES:
            raise Refused(
                ResponseCode.INVALID_PARAMETER,
                f"the number of messages asked for is {header.max_msg_nums}, not 1 to {MAX_MESSAGES}",
            )
        if not config.timer_wheel_enable:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"the broker[{config.broker_name}] pop message is forbidden because timerWheelEnable is false",
            )
        if header.invisible_time > config.timer_max_delay_sec * 1000:
            raise Refused(
                ResponseCode.INVALID_PARAMETER,
                f"the invisible time {header.invisible_time} ms is longer than timerMaxDelaySec, "
                f"{config.timer_max_delay_sec} s",
            )
        check_queue(self._topics, header.topic, header.queue_id, code=ResponseCode.INVALID_PARAMETER)
        check_group(self._groups, header.consumer_group, party_of(config, request, connection))
        wish = Wish(
            header.topic,
            header.consumer_group,
            header.invisible_time,
            header.init_mode,
            self._filters.inline(header.topic, header.exp, header.exp_type),
            bool(header.order),
            header.attempt_id,
        )
        return _Pop(request, connection, header, wish, born)
