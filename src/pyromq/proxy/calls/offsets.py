"""UpdateOffset, GetOffset, QueryOffset and PullMessage: for consumers that keep count themselves."""

import asyncio
import logging
from typing import Any

from pyromq.protocol import requests
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.consume import PullMessageResponseHeader
from pyromq.protocol.message import MessageQueue
from pyromq.protocol.records.salvage import salvage_records
from pyromq.protocol.requests import NOTHING_PULLED, Request
from pyromq.proxy.caller import Caller
from pyromq.proxy.calls.deadline import MARGIN, batch_size, poll_time, seconds_left
from pyromq.proxy.calls.served import parsed, refusal_status, unary
from pyromq.proxy.core import Core
from pyromq.proxy.grpc.method import Call, Method, ServerStream
from pyromq.proxy.limits import DEFAULT, Limits
from pyromq.proxy.messages.delivery import fill
from pyromq.proxy.messages.filters import filter_of
from pyromq.proxy.messages.moments import millis
from pyromq.proxy.messages.names import group_name, topic_name
from pyromq.proxy.schema import messages
from pyromq.proxy.schema.enums import Code, QueryOffsetPolicy
from pyromq.proxy.status import Refusal, refused_by, status

log = logging.getLogger(__name__)


class Offsets:
    """Serves consumers that keep count themselves."""

    def __init__(self, core: Core, limits: Limits = DEFAULT) -> None:
        self._core = core
        self._limits = limits

    def methods(self) -> dict[str, Method]:
        """By path."""
        calls = {"UpdateOffset": self._update, "GetOffset": self._get, "QueryOffset": self._query}
        methods: dict[str, Method] = {
            f"/{messages.SERVICE}/{name}": unary(
                self._core, getattr(messages, f"{name}Request"), getattr(messages, f"{name}Response"), serve
            )
            for name, serve in calls.items()
        }
        methods[f"/{messages.SERVICE}/PullMessage"] = ServerStream(self._pull)
        return methods

    async def _update(self, request: Any, caller: Caller, call: Call) -> Any:
        group, queue, offset = group_name(caller, request.group), _queue(request, caller), _offset(request)
        committed = requests.commit_offset(group, queue.topic, queue.queue_id, offset, broker=queue.broker_name)
        await self._answer(caller, call, queue, committed)
        return messages.UpdateOffsetResponse(status=status())

    async def _get(self, request: Any, caller: Caller, call: Call) -> Any:
        group, queue = group_name(caller, request.group), _queue(request, caller)
        asked = requests.consumer_offset(
            group, queue.topic, queue.queue_id, zero_if_absent=False, broker=queue.broker_name
        )
        offset: int | None = await self._answer(caller, call, queue, asked)
        if offset is None:
            raise Refusal(Code.OFFSET_NOT_FOUND, f"group {group!r} has no offset in {queue}")
        return messages.GetOffsetResponse(status=status(), offset=offset)

    async def _query(self, request: Any, caller: Caller, call: Call) -> Any:
        queue, policy = _queue(request, caller), request.query_offset_policy
        if policy == QueryOffsetPolicy.BEGINNING:
            asked = requests.min_offset(queue.topic, queue.queue_id)
        elif policy == QueryOffsetPolicy.END:
            asked = requests.max_offset(queue.topic, queue.queue_id)
        elif policy == QueryOffsetPolicy.TIMESTAMP and request.HasField("timestamp"):
            asked = requests.search_offset(queue.topic, queue.queue_id, millis(request.timestamp))
        else:
            raise Refusal(Code.BAD_REQUEST, "ask for BEGINNING or END, or for TIMESTAMP with a time")
        offset = await self._answer(caller, call, queue, asked)
        return messages.QueryOffsetResponse(status=status(), offset=max(offset, 0))

    async def _answer(self, caller: Caller, call: Call, queue: MessageQueue, asked: Request[Any]) -> Any:
        """What a broker answers. Raises Refusal."""
        response = await self._core.ask(caller, queue.broker_name, asked.command, seconds_left(call))
        if not asked.is_answer(response):
            raise refused_by(response)
        return asked.read(response)

    async def _pull(self, data: bytes, call: Call) -> None:
        """The status, the messages, and where to continue."""
        request = parsed(messages.PullMessageRequest.FromString, data)
        try:
            await self._pulled(request, self._core.doorkeeper.caller(call), call)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever goes wrong is answered, and must not reach others
            _send(call, status=refusal_status(error, call))

    async def _pulled(self, request: Any, caller: Caller, call: Call) -> None:
        group, queue, wanted = (
            group_name(caller, request.group),
            _queue(request, caller),
            filter_of(request.filter_expression),
        )
        poll = poll_time(request, call, self._limits)
        command = requests.pull_messages(
            group,
            queue.topic,
            queue.queue_id,
            _offset(request),
            batch_size(request, self._limits),
            hold_ms=poll,
            subscription=wanted.expression,
            expression_type=wanted.kind,
        )
        response = await self._core.ask(caller, queue.broker_name, command, poll / 1000 + MARGIN)
        if response.code not in NOTHING_PULLED and response.code != ResponseCode.SUCCESS:
            raise refused_by(response)
        header = response.header(PullMessageResponseHeader)
        found = [each for each in _messages(response, header) if wanted.wants(each)]
        if response.code == ResponseCode.PULL_OFFSET_MOVED:
            bounds = f"{header.min_offset} to {header.max_offset}"
            _send(call, status=status(Code.ILLEGAL_OFFSET, f"{queue} has messages from {bounds}, not {request.offset}"))
        elif not found:
            _send(call, status=status(Code.MESSAGE_NOT_FOUND, "no message came in time"))
        else:
            _send(call, status=status())
        for each in found:
            answer = messages.PullMessageResponse()
            fill(answer.message, each, request.message_queue.topic)
            call.send(answer.SerializeToString())
            await call.drained()
        _send(call, next_offset=header.next_begin_offset)


def _messages(response: Command, header: PullMessageResponseHeader) -> list[Any]:
    """Those that can be read; of the others only the log tells, since the next pull is to go on behind them."""
    if response.code != ResponseCode.SUCCESS:
        return []
    found = salvage_records(response.body, delta=header.offset_delta or 0).messages
    for each in found:
        if each.fault is not None:
            log.warning("%r is passed over: %s", each, each.fault)
    return [each for each in found if each.fault is None]


def _send(call: Call, **content: Any) -> None:
    call.send(messages.PullMessageResponse(**content).SerializeToString())


def _queue(request: Any, caller: Caller) -> MessageQueue:
    """The queue that a request names. Raises Refusal."""
    queue = request.message_queue
    topic = topic_name(caller, queue.topic)
    if queue.id < 0 or not queue.broker.name:
        raise Refusal(Code.BAD_REQUEST, "name one queue, by its id and the name of its broker")
    return MessageQueue(topic, queue.broker.name, queue.id)


def _offset(request: Any) -> int:
    if request.offset < 0:
        raise Refusal(Code.ILLEGAL_OFFSET, f"an offset is 0 or more, not {request.offset}")
    offset: int = request.offset
    return offset
