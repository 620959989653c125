"""The queues of a topic that a sink writes to, and what their brokers know about them.

The list of queues is fetched on the driver and travels to the tasks, so that all attempts at a batch spread rows over
the same queues in the same order.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

import msgspec

from pyromq.client.errors import BrokerError
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.consume import (
    SUBSCRIPTION,
    GetMaxOffsetHeader,
    GetMaxOffsetResponseHeader,
    PullMessageHeader,
    PullMessageResponseHeader,
    QueryConsumerOffsetHeader,
    QueryConsumerOffsetResponseHeader,
    UpdateConsumerOffsetHeader,
)
from pyromq.protocol.message import MessageQueue, ReceivedMessage
from pyromq.protocol.namespace import wrap
from pyromq.protocol.records.salvage import salvage_records
from pyromq.protocol.routes import masters, writable_queues
from pyromq.spark.errors import RouteError, SinkError
from pyromq.spark.net.wire import Wire, succeeded

TIMEOUT = 10.0
PATIENCE = 30.0
PAUSE = 0.01
SCAN_MESSAGES = 1024

_NOTHING = frozenset({ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_OFFSET_MOVED, ResponseCode.PULL_RETRY_IMMEDIATELY})

T = TypeVar("T")


class UnreadableError(SinkError):
    """What a queue should hold cannot be read."""

    retryable = True


class WritableTopic(msgspec.Struct, frozen=True):
    """A topic, by its name on the wire, with its writable queues in a fixed order and their brokers' addresses."""

    topic: str
    queues: list[MessageQueue]
    addresses: dict[str, str]

    def address(self, queue: MessageQueue) -> str:
        return self.addresses[queue.broker_name]


def wire_name(wire: Wire, name: str) -> str:
    """A topic or group as the brokers know it."""
    return wrap(wire.options.namespace, name) if wire.options.namespace else name


def find_topic(wire: Wire, topic: str) -> WritableTopic:
    """Where a topic can be written to. Raises RouteError when nobody takes messages for it."""
    name = wire_name(wire, topic)
    route = wire.route(name)
    if route is None:
        raise RouteError(f"topic {name} does not exist; create it, with as many queues as writers should have room")
    queues = writable_queues(name, route)
    if not queues:
        raise RouteError(f"no broker takes messages for topic {name} at present: no master, or no permission to write")
    return WritableTopic(name, sorted(queues), masters(route.broker_datas))


def max_offsets(
    wire: Wire, target: WritableTopic, queues: Iterable[MessageQueue] | None = None
) -> dict[MessageQueue, int]:
    """One past the last message of each queue, whether readers see it yet or not.

    Raises RemotingError, ProtocolError or BrokerError.
    """

    def question(queue: MessageQueue) -> Command:
        header = GetMaxOffsetHeader(topic=queue.topic, queue_id=queue.queue_id, committed=False)
        return Command.request(RequestCode.GET_MAX_OFFSET, header)

    def reading(answer: Command, queue: MessageQueue) -> int:
        return succeeded(answer, "max offset", broker=queue.broker_name).header(GetMaxOffsetResponseHeader).offset

    return _ask_all(wire, target, target.queues if queues is None else queues, question, reading)


def committed(wire: Wire, target: WritableTopic, group: str) -> dict[MessageQueue, int]:
    """The group's offsets; queues without one are left out. Raises as `max_offsets`."""

    def question(queue: MessageQueue) -> Command:
        header = QueryConsumerOffsetHeader(
            consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, set_zero_if_not_found=False
        )
        return Command.request(RequestCode.QUERY_CONSUMER_OFFSET, header)

    def reading(answer: Command, queue: MessageQueue) -> int:
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return -1
        return succeeded(answer, "offset", broker=queue.broker_name).header(QueryConsumerOffsetResponseHeader).offset

    found = _ask_all(wire, target, target.queues, question, reading)
    return {queue: offset for queue, offset in found.items() if offset >= 0}


def commit(wire: Wire, target: WritableTopic, group: str, offsets: Mapping[MessageQueue, int]) -> None:
    """Store the group's offsets, and make the group where a broker asks for that. Raises as `max_offsets`."""

    def question(queue: MessageQueue) -> Command:
        header = UpdateConsumerOffsetHeader(
            consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offsets[queue]
        )
        return Command.request(RequestCode.UPDATE_CONSUMER_OFFSET, header)

    def reading(answer: Command, queue: MessageQueue) -> bool:
        unknown = answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        if not unknown:
            succeeded(answer, "offset update", broker=queue.broker_name)
        return unknown

    unknown = [queue for queue, missing in _ask_all(wire, target, offsets, question, reading).items() if missing]
    if not unknown:
        return
    for broker in {queue.broker_name for queue in unknown}:
        body = SubscriptionGroupConfig(group_name=group).encode()
        command = Command.request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
        succeeded(wire.call(target.addresses[broker], command, TIMEOUT), f"creating group {group}", broker=broker)
    if any(_ask_all(wire, target, unknown, question, reading).values()):
        raise SinkError(f"group {group} was created, but brokers do not know it")


def messages_between(
    wire: Wire,
    target: WritableTopic,
    queue: MessageQueue,
    start: int,
    end: int,
    group: str,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[ReceivedMessage]:
    """What [start, end) of a queue still holds, waiting for what readers cannot see yet.

    Raises as `max_offsets`, UnreadableError when the broker gets nowhere.
    """
    waited = 0.0
    while start < end:
        header = PullMessageHeader(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=start,
            max_msg_nums=min(SCAN_MESSAGES, end - start),
            sys_flag=SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription="*",
            sub_version=0,
        )
        answer = wire.call(target.address(queue), Command.request(RequestCode.PULL_MESSAGE, header), TIMEOUT)
        if answer.code == ResponseCode.SUCCESS:
            for message in salvage_records(answer.body, inflate=False).messages:
                if start <= message.queue_offset < end:
                    yield message
        elif answer.code not in _NOTHING:
            raise BrokerError(answer.code, answer.remark, broker=queue.broker_name, request="pull")
        following = answer.header(PullMessageResponseHeader).next_begin_offset
        if following > start:
            start = following
        elif waited < PATIENCE:
            waited += PAUSE
            sleep(PAUSE)
        else:
            raise UnreadableError(
                f"{queue.broker_name} does not get past offset {start} of {queue.topic} queue {queue.queue_id}"
            )


def _ask_all(
    wire: Wire,
    target: WritableTopic,
    queues: Iterable[MessageQueue],
    question: Callable[[MessageQueue], Command],
    reading: Callable[[Command, MessageQueue], T],
) -> dict[MessageQueue, T]:
    """One question for each queue, those for one broker in one go."""
    by_address: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        by_address.setdefault(target.address(queue), []).append(queue)
    found: dict[MessageQueue, T] = {}
    for address, asked in by_address.items():
        answers = wire.exchange(address, [question(queue) for queue in asked], TIMEOUT)
        found.update((queue, reading(answer, queue)) for queue, answer in zip(asked, answers, strict=True))
    return found
