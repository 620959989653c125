"""AckMessage, ChangeInvisibleDuration and ForwardMessageToDeadLetterQueue: what consumers say about their messages.

A handle that names nothing (any more) is always told as INVALID_RECEIPT_HANDLE: on every other code push consumers try
again each second, for ever.

Consumers acknowledge one message in a call, mostly; that goes the short way, as a plain message does when it is sent.
"""

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Any

from google.protobuf.message import DecodeError

from pyromq.errors import PyroMQError
from pyromq.protocol.command import Command
from pyromq.protocol.errors import BodyError
from pyromq.proxy.caller import Caller
from pyromq.proxy.calls.deadline import seconds_left
from pyromq.proxy.calls.promise import promised
from pyromq.proxy.calls.served import refusal_status, unary
from pyromq.proxy.core import Core
from pyromq.proxy.grpc.method import Call, Method, Unary
from pyromq.proxy.limits import DEFAULT, Limits
from pyromq.proxy.messages.answers import acknowledged
from pyromq.proxy.messages.moments import millis
from pyromq.proxy.messages.names import group_name, topic_name
from pyromq.proxy.messages.settlement import Given, ack_together
from pyromq.proxy.renewal import Held, Renewal, current
from pyromq.proxy.schema import messages
from pyromq.proxy.schema.enums import Code
from pyromq.proxy.status import Refusal, status

log = logging.getLogger(__name__)


class _Entry:
    """One message to acknowledge, and what became of it."""

    __slots__ = ("given", "handle", "held", "message_id", "status")

    def __init__(self, message_id: str, handle: str) -> None:
        self.message_id = message_id
        self.handle = handle
        self.held: Held | None = None
        self.given: Given | None = None
        self.status: Any = None


class Acks:
    """Serves what consumers say about messages that they got."""

    def __init__(self, core: Core, renewal: Renewal, limits: Limits = DEFAULT) -> None:
        self._core = core
        self._renewal = renewal
        self._limits = limits
        self._parse = messages.AckMessageRequest.FromString
        self._long_way = unary(core, messages.AckMessageRequest, messages.AckMessageResponse, self._ack)
        self._without_batches: set[str] = set()
        """Brokers that take acknowledgements only one by one."""

    def methods(self) -> dict[str, Method]:
        """By path."""
        return {
            f"/{messages.SERVICE}/AckMessage": Unary(self._serve_ack),
            f"/{messages.SERVICE}/ChangeInvisibleDuration": unary(
                self._core,
                messages.ChangeInvisibleDurationRequest,
                messages.ChangeInvisibleDurationResponse,
                self._change,
            ),
            f"/{messages.SERVICE}/ForwardMessageToDeadLetterQueue": unary(
                self._core,
                messages.ForwardMessageToDeadLetterQueueRequest,
                messages.ForwardMessageToDeadLetterQueueResponse,
                self._forward,
            ),
        }

    def _serve_ack(self, data: bytes, call: Call) -> bytes | Awaitable[bytes]:
        return self._ack_one(data, call) or self._long_way.serve(data, call)

    def _ack_one(self, data: bytes, call: Call) -> "asyncio.Future[bytes] | None":
        """The short way. None when it is not for this one, and nothing was done."""
        core = self._core
        try:
            request = self._parse(data)
            if len(request.entries) != 1:
                return None
            caller = core.doorkeeper.caller(call)
            group, topic = group_name(caller, request.group), topic_name(caller, request.topic)
            entry = _Entry(request.entries[0].message_id, request.entries[0].receipt_handle)
            held = entry.held = self._renewal.find(caller.client_id, group, topic, entry.handle)
            if held is not None and held.under_way is not None:
                return None
            given = Given(topic, group, current(held, entry.handle, core.clock()))
            asked = core.ask(caller, given.broker, given.ack(), seconds_left(call))
        except (DecodeError, PyroMQError):
            return None
        if held is not None:
            self._renewal.drop(held)
        return promised(asked, partial(self._answered, entry, given, call))

    def _answered(self, entry: _Entry, given: Given, call: Call, answer: "asyncio.Future[Command]") -> bytes:
        try:
            given.check(answer.result())
        except PyroMQError as error:
            entry.status = refusal_status(error, call)
            self._put_back([entry.held], entry.status.code)
            told: bytes = _acknowledged([entry]).SerializeToString()
            return told
        return acknowledged(entry.message_id, entry.handle)

    async def _ack(self, request: Any, caller: Caller, call: Call) -> Any:
        group, topic = group_name(caller, request.group), topic_name(caller, request.topic)
        if not request.entries:
            raise Refusal(Code.BAD_REQUEST, "the request acknowledges no message")
        entries = [_Entry(entry.message_id, entry.receipt_handle) for entry in request.entries]
        by_broker: dict[str, list[_Entry]] = {}
        for entry in entries:
            try:
                entry.held = await self._renewal.take(caller.client_id, group, topic, entry.handle)
                entry.given = Given(topic, group, current(entry.held, entry.handle, self._core.clock()))
                by_broker.setdefault(entry.given.broker, []).append(entry)
            except Refusal as refusal:
                entry.status = status(refusal.code, str(refusal))
        for broker, members in by_broker.items():
            await self._ack_at(broker, members, caller, call)
        return _acknowledged(entries)

    async def _ack_at(self, broker: str, entries: Sequence[_Entry], caller: Caller, call: Call) -> None:
        if len(entries) > 1 and broker not in self._without_batches and await self._together(entries, caller, call):
            return
        for entry in entries:
            await self._settle([entry], caller, call)

    async def _together(self, entries: Sequence[_Entry], caller: Caller, call: Call) -> bool:
        """Acknowledge all of them at once; whether that can be done."""
        try:
            await self._settle(entries, caller, call)
        except BodyError:
            return False
        if entries[0].status.code != Code.NOT_IMPLEMENTED:
            return True
        assert entries[0].given is not None  # noqa: S101 - tells the type checker
        self._without_batches.add(entries[0].given.broker)
        return False

    async def _settle(self, entries: Sequence[_Entry], caller: Caller, call: Call) -> None:
        """Acknowledge messages of one broker with one request; a failure is that of each. Raises BodyError."""
        given = [entry.given for entry in entries if entry.given is not None]
        command = given[0].ack() if len(given) == 1 else ack_together(given)
        try:
            given[0].check(await self._core.ask(caller, given[0].broker, command, seconds_left(call)))
            said = status()
        except PyroMQError as error:
            said = refusal_status(error, call)
            self._put_back([entry.held for entry in entries], said.code)
        for entry in entries:
            entry.status = said

    async def _change(self, request: Any, caller: Caller, call: Call) -> Any:
        group, topic = group_name(caller, request.group), topic_name(caller, request.topic)
        span, handle = millis(request.invisible_duration), request.receipt_handle
        if not 0 <= span <= self._limits.max_invisible:
            raise Refusal(
                Code.ILLEGAL_INVISIBLE_TIME,
                f"the invisible duration is 0 to {self._limits.max_invisible // 1000} s, not {span / 1000:g} s",
            )
        held = await self._renewal.take(caller.client_id, group, topic, handle)
        try:
            given = Given(topic, group, current(held, handle, self._core.clock()))
            response = await self._core.ask(caller, given.broker, given.hide(span), seconds_left(call))
            said, handle = status(), given.hidden(response).receipt.encode()
        except PyroMQError as error:
            # With the handle that it has: some clients take over what they get, whatever the code.
            said = refusal_status(error, call)
            self._put_back([held], said.code)
        return messages.ChangeInvisibleDurationResponse(status=said, receipt_handle=handle)

    async def _forward(self, request: Any, caller: Caller, call: Call) -> Any:
        group, topic = group_name(caller, request.group), topic_name(caller, request.topic)
        held = await self._renewal.take(caller.client_id, group, topic, request.receipt_handle)
        try:
            given = Given(topic, group, current(held, request.receipt_handle, self._core.clock()))
            # As the proxy itself: by a handle made up, the copy could be of a message that the user may not read.
            given.check_viewed(await self._core.cluster.ask(None, given.broker, given.view(), seconds_left(call)))
            given.check(await self._core.ask(caller, given.broker, given.bury(request.message_id), seconds_left(call)))
        except PyroMQError as error:
            said = refusal_status(error, call)
            self._put_back([held], said.code)
            return messages.ForwardMessageToDeadLetterQueueResponse(status=said)
        # The dead letter is stored: to have it forwarded again would store it again.
        try:
            given.check(await self._core.ask(caller, given.broker, given.ack(), seconds_left(call)))
        except PyroMQError as error:
            log.warning("dead letter %s of group %s may come again: %s", request.message_id, group, error)
        return messages.ForwardMessageToDeadLetterQueueResponse(status=status())

    def _put_back(self, several: Sequence[Held | None], code: int) -> None:
        """Consumers try again what could not be settled, by the handle that they have."""
        if code == Code.INVALID_RECEIPT_HANDLE:
            return
        for held in several:
            if held is not None:
                self._renewal.put_back(held)


def _acknowledged(entries: Sequence[_Entry]) -> Any:
    """The code is that of all entries, if they have one."""
    codes = {entry.status.code for entry in entries}
    overall = entries[0].status if len(codes) == 1 else status(Code.MULTIPLE_RESULTS)
    results = [
        messages.AckMessageResultEntry(message_id=entry.message_id, receipt_handle=entry.handle, status=entry.status)
        for entry in entries
    ]
    return messages.AckMessageResponse(status=overall, entries=results)
