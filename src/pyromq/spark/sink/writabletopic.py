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
from pyromq.protocol.headers.consume import PullMessageResponseHeader
from pyromq.protocol.message import MessageQueue, ReceivedMessage
from pyromq.protocol.records.salvage import salvage_records
from pyromq.protocol.requests import (
    NOTHING_PULLED,
    Request,
    commit_offset,
    consumer_offset,
    max_offset,
    pull_messages,
)
from pyromq.protocol.routes import masters, writable_queues
from pyromq.spark.errors import RouteError, SinkError
from pyromq.spark.net.wire import Wire, succeeded

TIMEOUT = 10.0
PATIENCE = 30.0
PAUSE = 0.01
SCAN_MESSAGES = 1024

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


def find_topic(wire: Wire, topic: str) -> WritableTopic:
    """Where a topic can be written to. Raises RouteError when nobody takes messages for it."""
    name = wire.options.wire_name(topic)
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
    asked = target.queues if queues is None else queues
    return _ask(wire, target, asked, lambda queue: max_offset(queue.topic, queue.queue_id, committed=False))


def committed(wire: Wire, target: WritableTopic, group: str) -> dict[MessageQueue, int]:
    """The group's offsets; queues without one are left out. Raises as `max_offsets`."""
    found = _ask(
        wire,
        target,
        target.queues,
        lambda queue: consumer_offset(group, queue.topic, queue.queue_id, zero_if_absent=False),
    )
    return {queue: offset for queue, offset in found.items() if offset is not None}


def commit(wire: Wire, target: WritableTopic, group: str, offsets: Mapping[MessageQueue, int]) -> None:
    """Store the group's offsets, and make the group where a broker asks for that. Raises as `max_offsets`."""

    def request(queue: MessageQueue) -> Request[bool]:
        unknown = ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        command = commit_offset(group, queue.topic, queue.queue_id, offsets[queue]).command
        return Request(command, lambda answer: answer.code == unknown, absent=unknown)

    unknown = [queue for queue, missing in _ask(wire, target, offsets, request).items() if missing]
    if not unknown:
        return
    for broker in {queue.broker_name for queue in unknown}:
        body = SubscriptionGroupConfig(group_name=group).encode()
        command = Command.request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
        succeeded(wire.call(target.addresses[broker], command, TIMEOUT), f"creating group {group}", broker=broker)
    if any(_ask(wire, target, unknown, request).values()):
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
        pull = pull_messages(group, queue.topic, queue.queue_id, start, min(SCAN_MESSAGES, end - start))
        answer = wire.call(target.address(queue), pull, TIMEOUT)
        if answer.code == ResponseCode.SUCCESS:
            for message in salvage_records(answer.body, inflate=False).messages:
                if start <= message.queue_offset < end:
                    yield message
        elif answer.code not in NOTHING_PULLED:
            raise BrokerError(answer.code, answer.remark, broker=queue.broker_name, request=pull.name)
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


def _ask(
    wire: Wire,
    target: WritableTopic,
    queues: Iterable[MessageQueue],
    request: Callable[[MessageQueue], Request[T]],
) -> dict[MessageQueue, T]:
    """One question for each queue, those for one broker in one go."""
    by_broker: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        by_broker.setdefault(queue.broker_name, []).append(queue)
    found: dict[MessageQueue, T] = {}
    for broker, asked in by_broker.items():
        requests = [request(queue) for queue in asked]
        found.update(zip(asked, wire.ask(target.addresses[broker], requests, TIMEOUT, broker=broker), strict=True))
    return found
