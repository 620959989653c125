"""Retries and dead letters: what a consumer could not process comes back later, or ends in `%DLQ%<group>`.

Two ways lead here, with RocketMQ's two limits: CONSUMER_SEND_MSG_BACK names a stored message and fails for good when it
was retried as often as the limit; a message sent to `%RETRY%<group>` itself only when it was retried more often.
"""

import asyncio
import logging
import random

from pyromq.broker.admin.stats import Stat
from pyromq.broker.consume.locks import QueueLocks
from pyromq.broker.core import Core
from pyromq.broker.delay.detour import copy_of, read_record
from pyromq.broker.errors import Refused
from pyromq.broker.part import Part
from pyromq.broker.replication.succession.escape import Escape
from pyromq.broker.replication.succession.onward import Onward
from pyromq.broker.tables.newnames import party_of
from pyromq.protocol import names
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.errors import MessageError
from pyromq.protocol.headers.send import ConsumerSendMsgBackHeader, SendMessageHeader
from pyromq.protocol.properties import Property, decode_properties, encode_properties
from pyromq.protocol.records.record import RecordSummary
from pyromq.protocol.release import V3_4_9
from pyromq.protocol.routes import is_writable
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Answer, Handler
from pyromq.store.config import BrokerRole
from pyromq.store.log.put import PutMessage, PutStatus

log = logging.getLogger(__name__)

FIRST_LEVEL = 3
"""Delay level of the first retry; each further one is a level higher."""
DLQ_QUEUES = 1


class Retries(Part):
    """Takes back what consumers could not process."""

    def __init__(self, core: Core, locks: QueueLocks, onward: Onward) -> None:
        self._core = core
        self._locks = locks
        self._onward = onward

    def handlers(self) -> dict[int, Handler]:
        return {RequestCode.CONSUMER_SEND_MSG_BACK: self._send_back}

    def divert(self, header: SendMessageHeader, message: PutMessage, request: Command) -> None:
        """A step of sending: what is sent to a retry topic too often goes to the dead letters. Raises Refused."""
        if not names.is_retry_topic(header.topic):
            return
        # The form of POP retries joins group and topic with a plus sign.
        name = header.topic.removeprefix(names.RETRY_PREFIX).partition("+")[0]
        group = self._core.groups.require(name)
        times = header.reconsume_times or 0
        if times <= self._limit(group, header.max_reconsume_times, request) and not self._locks.group_holds_locks(name):
            return
        origin = (message.property_map or {}).get(Property.RETRY_TOPIC, header.topic)
        message.topic, message.queue_id = self._dead_letters(name), 0
        message.property_map = {**(message.property_map or {}), Property.DELAY: "-1"}
        message.properties = _encoded(message.property_map)
        self._core.stats.add(Stat.DLQ_PUT_NUMS, f"{origin}@{name}")

    def _send_back(self, request: Command, connection: Connection) -> Command | asyncio.Future[Answer]:
        header = request.header(ConsumerSendMsgBackHeader)
        escape = self._onward.way_out
        if self._core.config.broker_role is BrokerRole.SLAVE and escape is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, "no master available here: this is a slave, send to its master")
        group = self._core.groups.require(header.group, party_of(self._core.config, request, connection))
        if escape is not None:
            message, _ = self._again(request, header, group, 0)
            return asyncio.get_running_loop().create_task(_send_away(request, message, escape))
        if not is_writable(self._core.config.broker_permission):
            raise Refused(
                ResponseCode.NO_PERMISSION, f"the broker[{self._core.config.broker_name}] sending message is forbidden"
            )
        if group.retry_queue_nums <= 0:
            return request.reply()
        topic = names.retry_topic(header.group)
        retries = self._core.topics.ensure(topic, group.retry_queue_nums, unit=bool(header.unit_mode))
        if not is_writable(retries.perm):
            raise Refused(ResponseCode.NO_PERMISSION, f"the topic[{topic}] sending message is forbidden")
        # A queue that the topic does not have would never be read.
        queues = max(1, min(group.retry_queue_nums, retries.write_queue_nums))
        message, dead = self._again(request, header, group, random.randrange(queues))
        if dead:
            self._dead_letters(header.group)
        return self._store_again(request, header, message, dead=dead)

    def _again(
        self, request: Command, header: ConsumerSendMsgBackHeader, group: SubscriptionGroupConfig, queue_id: int
    ) -> tuple[PutMessage, bool]:
        """The retry of a stored message, and whether it is its last. Raises Refused."""
        found = read_record(self._core.store, header.offset, None)
        if found is None:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"look message by offset failed, {header.offset}: there is no message, or it was deleted",
            )
        summary, record = found
        properties = _origin_noted(summary)
        dead = header.delay_level < 0 or summary.reconsume_times >= self._limit(
            group, header.max_reconsume_times, request
        )
        if dead:
            place, level = (names.dlq_topic(header.group), 0), 0
        else:
            place = names.retry_topic(header.group), queue_id
            level = header.delay_level or FIRST_LEVEL + summary.reconsume_times
        properties[Property.DELAY] = str(level)
        message = copy_of(
            summary, record, place, _encoded(properties), properties, reconsume_times=summary.reconsume_times + 1
        )
        message.store_host = None
        return message, dead

    def _store_again(
        self, request: Command, header: ConsumerSendMsgBackHeader, message: PutMessage, *, dead: bool
    ) -> Command | asyncio.Future[Answer]:
        origin = (message.property_map or {}).get(Property.RETRY_TOPIC, "")
        result = self._core.store.put(message)
        if result.status is not PutStatus.PUT_OK:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"{result.status.name}: {result.reason}")
        if message.topic == names.SCHEDULE_TOPIC:
            self._core.stats.add(Stat.TOPIC_PUT_NUMS, message.topic)
            self._core.stats.add(Stat.TOPIC_PUT_SIZE, message.topic, result.size)
        self._core.stats.add(Stat.SNDBCK_PUT_NUMS, f"{origin}@{header.group}")
        if dead:
            self._core.stats.add(Stat.DLQ_PUT_NUMS, f"{origin}@{header.group}")
            log.info("group %s failed on a message of %s for good: now in %s", header.group, origin, message.topic)

        # WAIT=false is for the stored copy. The consumer commits its offset once it has this answer, so it waits.
        def answer(status: PutStatus) -> Command:
            refused = status not in (PutStatus.PUT_OK, PutStatus.SLAVE_NOT_AVAILABLE)  # no copy is due elsewhere
            code = ResponseCode.SYSTEM_ERROR if refused else ResponseCode.SUCCESS
            return request.reply(code, remark=status.name if refused else None)

        return self._core.durability.once_safe(result, answer)

    def _dead_letters(self, group: str) -> str:
        topic = names.dlq_topic(group)
        self._core.topics.ensure(topic, DLQ_QUEUES)
        return topic

    @staticmethod
    def _limit(group: SubscriptionGroupConfig, asked: int | None, request: Command) -> int:
        """How often a message is retried: the group's number, unless the client names one."""
        return asked if asked is not None and request.version >= V3_4_9 else group.retry_max_times


async def _send_away(request: Command, message: PutMessage, escape: Escape) -> Answer:
    """From a slave that acts for its master: another master keeps the retry."""
    result = await escape.send(message)
    return request.reply() if result.stored else request.reply(ResponseCode.SYSTEM_ERROR, remark=result.reason)


def _origin_noted(summary: RecordSummary) -> dict[str, str]:
    """A message's properties with where it came from first, which later retries keep."""
    properties = decode_properties(summary.properties)
    properties.setdefault(Property.RETRY_TOPIC, summary.topic)
    properties.setdefault(
        Property.ORIGIN_MESSAGE_ID, f"{summary.store_host.hex().upper()}{summary.physical_offset:016X}"
    )
    properties[Property.WAIT] = "false"
    return properties


def _encoded(properties: dict[str, str]) -> bytes:
    try:
        return encode_properties(properties)
    except MessageError as error:
        raise Refused(ResponseCode.MESSAGE_ILLEGAL, str(error)) from None
