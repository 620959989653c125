"""One pull: which broker, the request, and its answer as decoded, checked and completed messages."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from pyromq.client.consumer.damage import Damage
from pyromq.client.consumer.filterclass import ClassFilters
from pyromq.client.consumer.hooks import FilterContext, FilterHook
from pyromq.client.consumer.subscription import is_tag_filter, keep_wanted
from pyromq.client.errors import BrokerError, ClientError, ErrorCode
from pyromq.client.hooks import run_hooks
from pyromq.client.instance.instance import ClientInstance
from pyromq.errors import PyroMQError
from pyromq.protocol.bodies.clients import SubscriptionData
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.consume import (
    CLASS_FILTER,
    COMMIT_OFFSET,
    LITE,
    STREAM,
    SUBSCRIPTION,
    SUSPEND,
    PullMessageHeader,
    PullMessageResponseHeader,
)
from pyromq.protocol.message import MessageQueue, ReceivedMessage
from pyromq.protocol.names import is_lmq
from pyromq.protocol.properties import Property
from pyromq.protocol.records.salvage import salvage_records
from pyromq.protocol.release import V4_1_0_SNAPSHOT
from pyromq.protocol.routes import MASTER_ID

log = logging.getLogger(__name__)

PAUSED_DELAY = 1.0
"""Between looks of a loop that pulls or pops at whether it may again."""
FLOW_DELAY = 0.050
"""The same while it holds as much as it may."""
BROKER_FLOW_DELAY = 0.020
"""After a broker refused a pull to protect itself."""
HEARTBEAT_ON_ITS_WAY = frozenset({ResponseCode.SUBSCRIPTION_NOT_EXIST, ResponseCode.SUBSCRIPTION_NOT_LATEST})
"""What a broker answers until a heartbeat has told it of a new member or subscription: nothing to warn of."""


class PullStatus(StrEnum):
    """How a pull ended."""

    FOUND = "FOUND"
    NO_NEW_MESSAGE = "NO_NEW_MSG"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MSG"
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"


_STATUS: dict[int, PullStatus] = {
    ResponseCode.SUCCESS: PullStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: PullStatus.NO_NEW_MESSAGE,
    ResponseCode.PULL_RETRY_IMMEDIATELY: PullStatus.NO_MATCHED_MESSAGE,
    ResponseCode.PULL_OFFSET_MOVED: PullStatus.OFFSET_ILLEGAL,
}


@dataclass(slots=True, kw_only=True)
class PullResult:
    """What one pull found. Messages that only looked as if they matched are gone already."""

    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int
    messages: list[ReceivedMessage] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class PullRequest:
    """What to pull. `commit` is an offset to store on the way, `suspend` how long the broker may hold the request."""

    # Not frozen, though nobody changes it: that would triple its price, and there is one for each pull.

    queue: MessageQueue
    offset: int
    max_messages: int
    subscription: SubscriptionData
    version: int
    timeout: float
    max_bytes: int | None = None
    commit: int | None = None
    suspend: float = 0.0
    with_subscription: bool = False
    lite: bool = False
    stream: bool = False
    """As much at a time as `max_bytes`, which others cannot raise above the broker's own bound."""

    @property
    def flags(self) -> int:
        return (
            (COMMIT_OFFSET if self.commit is not None else 0)
            | (SUSPEND if self.suspend else 0)
            | (SUBSCRIPTION if self.with_subscription else 0)
            | (CLASS_FILTER if self.subscription.class_filter_mode else 0)
            | (LITE if self.lite else 0)
        )


class Fetcher:
    """Pulls for one group (its name on the wire)."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        *,
        broker_id: int | None = None,
        filter_hooks: Sequence[FilterHook] = (),
        class_filters: ClassFilters | None = None,
        damage: Damage | None = None,
    ) -> None:
        """`damage` sets damaged messages aside; without it they are given out like the others."""
        self._instance = instance
        self._group = group
        self._broker_id = broker_id
        self._filter_hooks = filter_hooks
        self._class_filters = class_filters
        self._damage = damage
        self._suggested: dict[MessageQueue, int] = {}
        self._without_lite: set[str] = set()
        """Addresses of brokers that know no lite pulls, as those before 5.0."""

    async def fetch(self, request: PullRequest) -> PullResult:
        """Raises BrokerError for refusals, ClientError without a broker to ask, RemotingError, ProtocolError."""
        return await self._result(request, *await self.answer(request))

    async def answer(self, request: PullRequest) -> tuple[PullStatus, Command]:
        """What the broker says, with nothing decoded. Raises as `fetch`."""
        broker, address, flags = await self._target(request)
        lite = request.lite and address not in self._without_lite
        response = await self._call(request, broker, address, flags, lite=lite)
        if lite and response.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            self._without_lite.add(address)
            lite = False
            response = await self._call(request, broker, address, flags, lite=lite)
        status = _STATUS.get(response.code)
        if status is None:
            if request.subscription.class_filter_mode and self._class_filters is not None:
                self._class_filters.failed(request.queue.topic, address)
            raise BrokerError(response.code, response.remark, broker=broker, request=_code(lite).name)
        return status, response

    async def _call(self, request: PullRequest, broker: str, address: str, flags: int, *, lite: bool) -> Command:
        queue = request.queue
        header = PullMessageHeader(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=request.offset,
            max_msg_nums=request.max_messages,
            max_msg_bytes=request.max_bytes,
            request_type=STREAM if request.stream else None,
            sys_flag=flags if lite else flags & ~LITE,
            commit_offset=request.commit or 0,
            suspend_timeout_millis=int(request.suspend * 1000),
            subscription=request.subscription.sub_string if request.with_subscription else None,
            sub_version=request.version,
            expression_type=str(request.subscription.expression_type),
            bname=broker,
        )
        command = Command.request(_code(lite), header)
        return await self._instance.call_for(queue.topic, address, command, request.timeout)

    def forget(self, queue: MessageQueue) -> None:
        """What the broker last suggested for a queue that is no longer pulled."""
        self._suggested.pop(queue, None)

    async def _target(self, request: PullRequest) -> tuple[str, str, int]:
        """Broker, address and flags: the process that the last answer suggested, at first the master.

        A subscription by class goes to a filter server of that process instead.
        """
        queue = request.queue
        wanted = self._broker_id if self._broker_id is not None else self._suggested.get(queue, MASTER_ID)
        topology = self._instance.topology
        broker = topology.broker_of(queue)
        found = topology.subscribe_address(broker, wanted)
        if found is None:
            await self._instance.routes.refresh(queue.topic)
            broker = topology.broker_of(queue)
            found = topology.subscribe_address(broker, wanted)
        if found is None:
            raise ClientError(
                f"broker {broker!r} of {queue} is not in the routes",
                code=ErrorCode.BROKER_NOT_EXIST,
                broker=broker,
                retryable=True,
            )
        # A broker that has not answered a heartbeat yet has no known version; it will refuse if it must.
        if not is_tag_filter(request.subscription) and 0 < found.version < V4_1_0_SNAPSHOT:
            raise ClientError(f"broker {broker} is too old for {request.subscription.expression_type} filters")
        flags = request.flags & ~COMMIT_OFFSET if found.is_slave else request.flags
        if request.subscription.class_filter_mode and self._class_filters is not None:
            return broker, await self._class_filters.choose(queue.topic, found.address), flags
        return broker, found.address, flags

    async def _result(self, request: PullRequest, status: PullStatus, response: Command) -> PullResult:
        answer = response.header(PullMessageResponseHeader)
        self._suggested[request.queue] = answer.suggest_which_broker_id
        result = PullResult(
            status=status,
            next_offset=answer.next_begin_offset,
            min_offset=answer.min_offset,
            max_offset=answer.max_offset,
        )
        if status is PullStatus.FOUND:
            config = self._instance.config
            found = salvage_records(
                response.body,
                inflate=config.decompress_body,
                max_body=config.max_body_size,
                low=request.offset,
                # Records of a light queue carry the offsets of the queue that they were sent to.
                high=None if is_lmq(request.queue.topic) else answer.next_begin_offset,
                delta=answer.offset_delta or 0,
            )
            if not found.complete:
                result.next_offset = found.messages[-1].queue_offset + 1
            result.messages = self._complete(request, await self._sound(request, found.messages, result), answer)
        if self._damage is not None and (lost := answer.left_out()):
            self._damage.left_out(request.queue, lost)
        return result

    async def _sound(
        self, request: PullRequest, messages: list[ReceivedMessage], result: PullResult
    ) -> list[ReceivedMessage]:
        """What is left when damaged messages are set aside. Raises ClientError when the first one cannot be now."""
        if self._damage is None or not any(message.fault for message in messages):
            return messages
        wanted, waiting = await self._damage.sorted_out(request.queue, keep_wanted(request.subscription, messages))
        if waiting is not None:
            if not wanted:
                raise ClientError(f"the damaged message {waiting!r} cannot be set aside yet", retryable=True)
            result.next_offset = waiting.queue_offset
        return wanted

    def _complete(
        self, request: PullRequest, messages: Sequence[ReceivedMessage], answer: PullMessageResponseHeader
    ) -> list[ReceivedMessage]:
        queue = request.queue
        wanted = keep_wanted(request.subscription, messages)
        if self._filter_hooks:
            context = FilterContext(
                group=self._group, messages=wanted, queue=queue, unit_mode=self._instance.config.unit_mode
            )
            run_hooks(self._filter_hooks, lambda hook: hook.filter(context), "filter")
            wanted = context.messages
        low, high = str(answer.min_offset), str(answer.max_offset)
        for message in wanted:
            message.properties[Property.MIN_OFFSET] = low
            message.properties[Property.MAX_OFFSET] = high
            message.broker_name = queue.broker_name
            message.queue_id = queue.queue_id
        return wanted


def _code(lite: bool) -> RequestCode:
    return RequestCode.LITE_PULL_MESSAGE if lite else RequestCode.PULL_MESSAGE


def delay_after(error: PyroMQError, queue: MessageQueue, usual: float) -> float:
    """Log a pull that failed; how long to wait before the next one."""
    code = error.code if isinstance(error, BrokerError) else None
    if code == ResponseCode.FLOW_CONTROL:
        return BROKER_FLOW_DELAY
    log.log(
        logging.INFO if code in HEARTBEAT_ON_ITS_WAY else logging.WARNING, "%s could not be pulled: %s", queue, error
    )
    return usual
