"""POP_MESSAGE: check, gather from the queues of a topic and of its retries, answer with slices of the log, or hold."""

import itertools
from functools import partial

from pyromq.broker.admin.stats import Stat
from pyromq.broker.core import Core
from pyromq.broker.errors import Refused
from pyromq.broker.pop.longpoll import PopPark
from pyromq.broker.pop.queues import Grant, PopQueues, QueueTurns, Wish
from pyromq.broker.pop.records import MAX_MESSAGES
from pyromq.broker.pop.request import PopRequest, check_names, check_role
from pyromq.broker.refusals import answer
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command, encode_head
from pyromq.protocol.handles.pop import ORDERED_QUEUE, encode_offsets, encode_starts
from pyromq.protocol.headers.pop import PopMessageHeader, PopMessageResponseHeader
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Answer, Handler

LATE_MS = 500
"""A pop that took this much longer than it was willing to wait found nobody waiting any more."""


class Pops:
    """Serves pops; `park` has those that found nothing."""

    def __init__(self, core: Core, queues: PopQueues, turns: QueueTurns, park: PopPark) -> None:
        self._core = core
        self._queues = queues
        self._turns = turns
        self._park = park
        self._revive_queue = itertools.count()

    def handlers(self) -> dict[int, Handler]:
        """The request codes served here."""
        return {RequestCode.POP_MESSAGE: self._serve}

    def _serve(self, request: Command, connection: Connection) -> Answer | None:
        return self._run(self._check(request, connection, request.header(PopMessageHeader)))

    def _run(self, pop: PopRequest) -> Answer | None:
        wish, core = pop.wish, self._core
        revive_queue = ORDERED_QUEUE if wish.ordered else next(self._revive_queue) % core.config.revive_queue_num
        grant = Grant(core.clock(), revive_queue, pop.most)
        for topic, queue_id in self._turns(wish.topic, wish.group, pop.queue_id, retries=not wish.ordered):
            self._queues.take(wish, topic, queue_id, grant)
        if not grant.count:
            return self._hold(pop, grant)
        if grant.rest > 0:
            self._park.notify(*pop.key)
        return self._answer(pop, grant)

    def _hold(self, pop: PopRequest, grant: Grant) -> Command | None:
        deadline = pop.deadline(self._core.clock())
        if deadline is None or self._park.stopped:
            return pop.request.reply(ResponseCode.POLLING_TIMEOUT)
        if self._park.full(pop.key, pop.party):
            return pop.request.reply(
                ResponseCode.POLLING_FULL,
                remark=f"too many pops are held: {len(self._park)} in all, {self._park.held(pop.key)} of them for "
                f"{pop.wish.group} on queue {pop.queue_id} of {pop.wish.topic} (maxPopPollingSize, "
                "popPollingSize); try again in a second",
            )
        due = deadline if grant.blocked_until is None else min(deadline, grant.blocked_until)
        self._park.hold(pop.held(due, partial(self._resume, pop)))
        if grant.more:
            self._park.notify(*pop.key)
        return None

    def _resume(self, pop: PopRequest) -> None:
        if not pop.connection.is_open:
            self._park.notify(*pop.key)  # what it was woken for may be for another
            return
        try:
            outcome = self._run(pop)
        except Refused as refused:
            outcome = answer(pop.request, refused)
        if outcome is not None:
            pop.connection.send(outcome)

    def _answer(self, pop: PopRequest, grant: Grant) -> Answer:
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
        stats, key = self._core.stats, f"{pop.wish.topic}@{pop.wish.group}"
        stats.add(Stat.GROUP_GET_NUMS, key, grant.count)
        stats.add(Stat.GROUP_GET_SIZE, key, grant.size)
        stats.add(Stat.GROUP_CK_NUMS, key, len(grant.starts))
        stats.add(Stat.BROKER_GET_NUMS, self._core.config.broker_cluster_name, grant.count)
        return [encode_head(reply, grant.size), *grant.chunks]

    def _check(self, request: Command, connection: Connection, header: PopMessageHeader) -> PopRequest:
        """Everything that can forbid a pop, in RocketMQ's order. Raises Refused."""
        config, now = self._core.config, self._core.clock()
        born = header.born_time or now
        if now - born - header.poll_time > LATE_MS:
            raise Refused(
                ResponseCode.POLLING_TIMEOUT,
                f"the broker[{config.broker_name}] got this pop too late: do clocks agree?",
            )
        check_role(self._core)
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
        check_names(self._core, request, connection, header.topic, header.consumer_group, header.queue_id)
        wish = Wish(
            header.topic,
            header.consumer_group,
            header.invisible_time,
            header.init_mode,
            self._core.tables.filters.inline(header.topic, header.exp, header.exp_type),
            bool(header.order),
            header.attempt_id,
        )
        return PopRequest(request, connection, wish, header.queue_id, born, header.poll_time, header.max_msg_nums)
