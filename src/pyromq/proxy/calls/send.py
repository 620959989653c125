"""SendMessage: one message, or several of one topic.

One plain message to a topic that was sent to a moment ago is most of what there is, and goes the short way: read it,
choose a queue, ask its broker, and write the answer when that one's is here; no task is made for it. All else, and all
that goes wrong before a broker has it, goes the long way.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

from google.protobuf.message import DecodeError

from pyromq.errors import PyroMQError
from pyromq.protocol import names
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.handles.ids import parse_offset_message_id
from pyromq.protocol.headers.send import STORED
from pyromq.protocol.message import MessageQueue
from pyromq.protocol.receipts import ReceiptHeader
from pyromq.protocol.routes import writable_queues
from pyromq.proxy.caller import Caller
from pyromq.proxy.calls.deadline import seconds_left
from pyromq.proxy.calls.promise import promised
from pyromq.proxy.calls.served import refusal_status, unary
from pyromq.proxy.catalogue import Catalogue
from pyromq.proxy.core import Core
from pyromq.proxy.grpc.method import Call, Method, Unary
from pyromq.proxy.limits import DEFAULT, Limits
from pyromq.proxy.messages.answers import stored
from pyromq.proxy.messages.names import topic_name
from pyromq.proxy.messages.outlet import Outlet
from pyromq.proxy.messages.publish import Outgoing, batch_command, outgoing, send_command
from pyromq.proxy.messages.transactionid import TransactionId, encode_transaction_id
from pyromq.proxy.messages.types import accepted_types
from pyromq.proxy.schema import messages
from pyromq.proxy.schema.enums import Code, MessageType
from pyromq.proxy.status import Refusal, code_of, refused_by, status, unreachable
from pyromq.remoting.errors import ConnectError, InFlightLimitReached, RemotingError, SendError

OUTLET_SECONDS: Final = 2.0
MAX_OUTLETS: Final = 10_000

_SUCCESS: Final = int(ResponseCode.SUCCESS)
_NORMAL, _TRANSACTION = MessageType.NORMAL, MessageType.TRANSACTION
_PLAIN: Final = (MessageType.NORMAL, MessageType.FIFO)
"""Types whose answers tell nothing but an offset."""
_NOT_SENT = (ConnectError, SendError, InFlightLimitReached)
"""The broker did not get the message, so that another one can have it."""


class Sends:
    """Serves SendMessage."""

    def __init__(self, core: Core, catalogue: Catalogue, limits: Limits = DEFAULT) -> None:
        self._core = core
        self._catalogue = catalogue
        self._limits = limits
        self._outlets: dict[str, Outlet] = {}
        self._parse = messages.SendMessageRequest.FromString
        self._long_way = unary(core, messages.SendMessageRequest, messages.SendMessageResponse, self._send)

    def methods(self) -> dict[str, Method]:
        """By path."""
        return {f"/{messages.SERVICE}/SendMessage": Unary(self._serve)}

    def _serve(self, data: bytes, call: Call) -> bytes | Awaitable[bytes]:
        return self._plain(data, call) or self._long_way.serve(data, call)

    def _plain(self, data: bytes, call: Call) -> "asyncio.Future[bytes] | None":
        """The short way. None when it is not for this one, and nothing was done."""
        core = self._core
        try:
            given = self._parse(data).messages
            caller = core.doorkeeper.caller(call)
            topic = caller.name_of(given[0].topic) if len(given) == 1 else ""
            outlet = self._outlets.get(topic)
            if outlet is None or outlet.expires < core.monotonic():
                return None
            message = outgoing(given[0], topic, caller.peer.host, core.clock(), self._limits)
            queue = outlet.queue_of(message.group) if message.group else outlet.queue()
            if message.kind not in _PLAIN or not outlet.takes(message.kind) or queue is None:
                return None
            command = send_command(message, topic, queue.broker_name, queue.queue_id)
            asked = core.ask(caller, queue.broker_name, command, seconds_left(call))
        except (DecodeError, Refusal, *_NOT_SENT):
            return None
        return promised(asked, partial(self._answered, message, queue, data, call))

    def _answered(
        self, message: Outgoing, queue: MessageQueue, data: bytes, call: Call, answer: "asyncio.Future[Command]"
    ) -> bytes | Awaitable[bytes]:
        try:
            response = answer.result()
            if response.code == _SUCCESS:
                return stored(message.message_id, response.header(ReceiptHeader).queue_offset)
            said = _answer([_entry(message, queue, response)])
        except _NOT_SENT:
            return self._long_way.serve(data, call)  # to another broker
        except PyroMQError as error:
            said = messages.SendMessageResponse(status=refusal_status(error, call))
        told: bytes = said.SerializeToString()
        return told

    def _send(self, request: Any, caller: Caller, call: Call) -> Awaitable[Any]:
        given = request.messages
        if not given:
            raise Refusal(Code.MESSAGE_CORRUPTED, "the request has no message")
        first = given[0]
        topic = topic_name(caller, first.topic)
        peer, now, limits, seconds = caller.peer.host, self._core.clock(), self._limits, seconds_left(call)
        if len(given) == 1:
            return self._one(topic, outgoing(first, topic, peer, now, limits), caller, seconds)
        if any(caller.name_of(each.topic) != topic for each in given[1:]):
            raise Refusal(Code.MESSAGE_CORRUPTED, "the messages of one request have one topic")
        return self._several(topic, [outgoing(each, topic, peer, now, limits) for each in given], caller, seconds)

    async def _one(self, topic: str, message: Outgoing, caller: Caller, seconds: float) -> Any:
        outlet = await self._opened(topic)
        outlet.check(message.kind)
        if message.kind is _TRANSACTION:
            await self._core.expect_half(caller, topic)
        queue, response = await self._ask(outlet, partial(send_command, message, topic), message.group, caller, seconds)
        return _answer([_entry(message, queue, response)])

    async def _several(self, topic: str, ready: list[Outgoing], caller: Caller, seconds: float) -> Any:
        """As one batch if they are plain; else one after the other, so that those of a group stay in order."""
        outlet = await self._opened(topic)
        for message in ready:
            outlet.check(message.kind)
            if message.kind is _TRANSACTION:
                await self._core.expect_half(caller, topic)
        plain = all(message.kind is _NORMAL and not message.sys_flag for message in ready)
        if plain and sum(len(message.body) for message in ready) < self._limits.max_body:
            write = partial(batch_command, ready, outlet.topic)
            return _answer(_batch_entries(ready, (await self._ask(outlet, write, "", caller, seconds))[1]))
        entries = []
        for message in ready:
            write = partial(send_command, message, outlet.topic)
            try:
                entries.append(_entry(message, *await self._ask(outlet, write, message.group, caller, seconds)))
            except (Refusal, RemotingError) as error:
                refusal = error if isinstance(error, Refusal) else unreachable(error)
                said = status(refusal.code, str(refusal))
                entries.append(messages.SendResultEntry(status=said, message_id=message.message_id))
        return _answer(entries)

    async def _ask(
        self, outlet: Outlet, write: Callable[[str, int], Command], group: str, caller: Caller, seconds: float
    ) -> tuple[MessageQueue, Command]:
        """Have it stored; by another broker if the first could not be asked, unless it is of a group.

        `write` makes the request for a queue of a broker. Raises Refusal and RemotingError.
        """
        failed: set[str] = set()
        queue = outlet.queue_of(group) if group else outlet.queue()
        while queue is not None:
            command = write(queue.broker_name, queue.queue_id)
            try:
                return queue, await self._core.ask(caller, queue.broker_name, command, seconds)
            except _NOT_SENT as error:
                failed.add(queue.broker_name)
                reason: RemotingError = error
                queue = None if group else outlet.queue(without=failed)
        if isinstance(reason, InFlightLimitReached):
            raise Refusal(Code.TOO_MANY_REQUESTS, str(reason))
        raise reason

    async def _opened(self, topic: str) -> Outlet:
        """Where messages of a topic go. Raises Refusal when nowhere."""
        before = self._outlets.get(topic)
        if before is not None and before.expires >= self._core.monotonic():
            return before
        route = await self._core.route(topic)
        if route is None:
            raise Refusal(Code.TOPIC_NOT_FOUND, f"no broker has topic {topic!r}; create it first")
        queues = writable_queues(topic, route)
        if not queues:
            raise Refusal(Code.FORBIDDEN, f"topic {topic!r} has no queue that may be written to")
        free = names.is_retry_topic(topic) or names.is_dlq_topic(topic)
        accepts = None if free else accepted_types(await self._catalogue.topic(topic))
        while len(self._outlets) >= MAX_OUTLETS:
            del self._outlets[next(iter(self._outlets))]
        self._outlets.pop(topic, None)
        expires = self._core.monotonic() + OUTLET_SECONDS
        outlet = self._outlets[topic] = Outlet(topic, queues, accepts, expires, before.turn if before else None)
        return outlet


def _entry(message: Outgoing, queue: MessageQueue, response: Command) -> Any:
    """What became of one message. Raises Refusal when it is not stored."""
    if response.code not in STORED:
        raise refused_by(response)
    receipt = response.header(ReceiptHeader)
    code = code_of(response)
    entry = messages.SendResultEntry(
        status=status(code, response.remark or ""), message_id=message.message_id, offset=receipt.queue_offset
    )
    if receipt.recall_handle:
        entry.recall_handle = receipt.recall_handle
    if message.kind is _TRANSACTION:
        place = parse_offset_message_id(receipt.msg_id).physical_offset
        entry.transaction_id = encode_transaction_id(TransactionId(queue.broker_name, receipt.queue_offset, place))
    return entry


def _batch_entries(ready: Sequence[Outgoing], response: Command) -> list[Any]:
    """One for each message of a batch; their offsets follow each other. Raises Refusal when nothing is stored."""
    if response.code not in STORED:
        raise refused_by(response)
    first = response.header(ReceiptHeader).queue_offset
    said = status(code_of(response), response.remark or "")
    return [
        messages.SendResultEntry(status=said, message_id=message.message_id, offset=first + index)
        for index, message in enumerate(ready)
    ]


def _answer(entries: list[Any]) -> Any:
    """The code is that of all entries, if they have one."""
    codes = {entry.status.code for entry in entries}
    overall = entries[0].status if len(codes) == 1 else status(Code.MULTIPLE_RESULTS)
    return messages.SendMessageResponse(status=overall, entries=entries)
