"""ReceiveMessage: pops as a stream: the status, the messages, and when they were delivered.

What was popped belongs to the caller only once it has the whole answer. When it goes away before, whether the broker
still holds the pop or half of the answer is written, others may have the messages a second later.
"""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from pyromq.errors import PyroMQError
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.errors import HeaderError, MessageError
from pyromq.protocol.handles.popped import attach_handles
from pyromq.protocol.headers.pop import PopMessageHeader, PopMessageResponseHeader
from pyromq.protocol.message import ReceivedMessage
from pyromq.protocol.records.salvage import salvage_records
from pyromq.protocol.routes import is_readable
from pyromq.proxy.caller import Caller
from pyromq.proxy.calls.deadline import MARGIN, batch_size, poll_time
from pyromq.proxy.calls.served import parsed, refusal_status
from pyromq.proxy.catalogue import Catalogue
from pyromq.proxy.core import Core
from pyromq.proxy.grpc.method import Call, Method, ServerStream
from pyromq.proxy.limits import DEFAULT, Limits
from pyromq.proxy.messages.delivery import fill
from pyromq.proxy.messages.filters import Filter, filter_of
from pyromq.proxy.messages.moments import millis, timestamp
from pyromq.proxy.messages.names import group_name, topic_name
from pyromq.proxy.messages.receipt import Receipt
from pyromq.proxy.messages.settlement import Given
from pyromq.proxy.renewal import RELEASED, TIMEOUT, Renewal
from pyromq.proxy.schema import messages
from pyromq.proxy.schema.enums import Code
from pyromq.proxy.status import Refusal, refused_by, status

log = logging.getLogger(__name__)

FROM_NEWEST: Final = 1
"""Where a group begins that is new."""
ALL_QUEUES: Final = -1
_EMPTY: Final = frozenset({ResponseCode.PULL_NOT_FOUND, ResponseCode.POLLING_TIMEOUT})


@dataclass(frozen=True, slots=True)
class _Wish:
    """A request that passed the checks. Times are milliseconds."""

    group: str
    topic: str
    broker: str
    queue_id: int
    filter: Filter
    most: int
    invisible: int
    poll: int
    renewed: bool
    ordered: bool
    attempts: int
    """How often a message may be delivered."""
    attempt_id: str | None


@dataclass(frozen=True, slots=True)
class _Popped:
    """A message, and how it is named when it is settled."""

    message: ReceivedMessage
    given: Given
    receipt_handle: str


class Receives:
    """Serves ReceiveMessage."""

    def __init__(self, core: Core, catalogue: Catalogue, renewal: Renewal, limits: Limits = DEFAULT) -> None:
        self._core = core
        self._catalogue = catalogue
        self._renewal = renewal
        self._limits = limits
        self._work: set[asyncio.Task[None]] = set()
        self._polls: set[asyncio.Task[Any]] = set()
        self._is_ending = False
        self._parse = messages.ReceiveMessageRequest.FromString

    def methods(self) -> dict[str, Method]:
        """By path."""
        return {f"/{messages.SERVICE}/ReceiveMessage": ServerStream(self._receive)}

    def end_polls(self) -> None:
        """The proxy stops: have those who wait told at once that there is nothing, and let nobody wait any more."""
        self._is_ending = True
        for poll in self._polls:
            poll.cancel()

    async def _receive(self, data: bytes, call: Call) -> None:
        request = parsed(self._parse, data)
        try:
            caller = self._core.doorkeeper.caller(call)
            wish = await self._wish(request, caller, call)
            popped = await self._pop(wish, caller)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever goes wrong is answered, and must not reach others
            self._end(call, refusal_status(error, call))
            return
        if popped:
            await self._deliver(call, caller, request.message_queue.topic, wish, popped)
        else:
            self._end(call, status(Code.MESSAGE_NOT_FOUND, "no message came in time"))

    async def _wish(self, request: Any, caller: Caller, call: Call) -> _Wish:
        """Raises Refusal."""
        queue = request.message_queue
        group, topic = group_name(caller, request.group), topic_name(caller, queue.topic)
        poll, invisible = poll_time(request, call, self._limits), self._invisible(request)
        wanted = filter_of(request.filter_expression)
        broker = await self._broker(topic, queue.broker.name)
        config = await self._catalogue.group(group, topic)
        ordered = config.consume_message_orderly
        return _Wish(
            group=group,
            topic=topic,
            broker=broker,
            # Consumers that take turns themselves name a queue at random, or always the first.
            queue_id=queue.id if ordered and request.auto_renew and queue.id >= 0 else ALL_QUEUES,
            filter=wanted,
            most=batch_size(request, self._limits),
            invisible=invisible,
            poll=0 if self._is_ending else poll,
            renewed=request.auto_renew,
            ordered=ordered,
            attempts=max(config.retry_max_times, 0) + 1,
            attempt_id=request.attempt_id or None,
        )

    def _invisible(self, request: Any) -> int:
        limits = self._limits
        if request.auto_renew:
            return limits.push_invisible
        span = millis(request.invisible_duration)
        if not limits.min_invisible <= span <= limits.max_invisible:
            raise Refusal(
                Code.ILLEGAL_INVISIBLE_TIME,
                f"the invisible duration is {limits.min_invisible // 1000} s to {limits.max_invisible // 1000} s, "
                f"not {span / 1000:g} s",
            )
        return span

    async def _broker(self, topic: str, named: str) -> str:
        """The broker to ask: the one named, else the first that has the topic. Raises Refusal."""
        route = await self._core.route(topic)
        if route is None:
            raise Refusal(Code.TOPIC_NOT_FOUND, f"no broker has topic {topic!r}; create it first")
        readable = [data.broker_name for data in route.queue_datas if is_readable(data.perm) and data.read_queue_nums]
        if not readable or (named and named not in readable):
            where = f" on broker {named!r}" if named else ""
            raise Refusal(Code.FORBIDDEN, f"topic {topic!r} has no queue{where} that may be read")
        return named or min(readable)

    async def _pop(self, wish: _Wish, caller: Caller) -> list[_Popped]:
        header = PopMessageHeader(
            consumer_group=wish.group,
            topic=wish.topic,
            queue_id=wish.queue_id,
            max_msg_nums=wish.most,
            invisible_time=wish.invisible,
            poll_time=wish.poll,
            born_time=self._core.clock(),
            init_mode=FROM_NEWEST,
            exp_type=wish.filter.kind,
            exp=wish.filter.expression,
            order=wish.ordered,
            attempt_id=wish.attempt_id,
            bname=wish.broker,
        )
        command = Command.request(RequestCode.POP_MESSAGE, header)
        answer = asyncio.ensure_future(self._core.ask(caller, wish.broker, command, wish.poll / 1000 + MARGIN))
        poll = cast("asyncio.Task[Any]", asyncio.current_task())
        self._polls.add(poll)
        try:
            # Not cancelled with the call: what the broker gives out all the same is not to be lost for a while.
            response = await asyncio.shield(answer)
        except asyncio.CancelledError:
            self._spawn(self._unwanted(wish, answer))
            if not self._is_ending:
                raise
            poll.uncancel()
            return []
        finally:
            self._polls.discard(poll)
        return self._sorted_out(wish, self._messages(wish, response), caller)

    def _messages(self, wish: _Wish, response: Command) -> list[_Popped]:
        """What a pop has brought. Raises Refusal."""
        if response.code in _EMPTY:
            return []
        if response.code != ResponseCode.SUCCESS:
            raise refused_by(response)
        found = salvage_records(response.body).messages
        try:
            handles = attach_handles(found, wish.broker, response.header(PopMessageResponseHeader))
        except (HeaderError, MessageError) as error:
            why = f"broker {wish.broker} sent what cannot be read: {error}"
            raise Refusal(Code.INTERNAL_SERVER_ERROR, why) from None
        receipts = [Receipt(handle, each.physical_offset) for each, handle in zip(found, handles, strict=True)]
        return [
            _Popped(each, Given(wish.topic, wish.group, receipt), receipt.encode())
            for each, receipt in zip(found, receipts, strict=True)
        ]

    def _sorted_out(self, wish: _Wish, popped: list[_Popped], caller: Caller) -> list[_Popped]:
        """Those to deliver. What is not wanted is acknowledged; what failed too often, or is damaged, is buried."""
        kept = []
        for each in popped:
            message = each.message
            if message.fault is not None or (not wish.ordered and message.reconsume_times >= wish.attempts):
                self._spawn(self._bury(each, caller))
            elif not wish.filter.wants(message):
                self._spawn(self._tell(each.given, each.given.ack()))
            else:
                kept.append(each)
        return kept

    async def _deliver(self, call: Call, caller: Caller, topic: Any, wish: _Wish, popped: Sequence[_Popped]) -> None:
        delivered = False
        if wish.renewed:  # before the consumer can have settled one
            for each in popped:
                self._renewal.add(caller.client_id, each.given, each.receipt_handle)
        try:
            call.send(_STATUS)
            for each in popped:
                answer = messages.ReceiveMessageResponse()
                fill(answer.message, each.message, topic, each.receipt_handle, wish.invisible)
                call.send(answer.SerializeToString())
                await call.drained()
            self._stamp(call)
            await call.drained()
            delivered = call.is_open
        finally:
            if not delivered:
                for each in popped:
                    self._renewal.discard(caller.client_id, each.given, each.receipt_handle)
                self._spawn(self._give_back(popped))

    def _end(self, call: Call, said: Any) -> None:
        call.send(messages.ReceiveMessageResponse(status=said).SerializeToString())
        self._stamp(call)

    def _stamp(self, call: Call) -> None:
        moment = timestamp(self._core.clock())
        call.send(messages.ReceiveMessageResponse(delivery_timestamp=moment).SerializeToString())

    async def _unwanted(self, wish: _Wish, answer: "asyncio.Future[Command]") -> None:
        """The caller went away while the broker held its pop: when that brings messages, others may have them."""
        try:
            await self._give_back(self._messages(wish, await answer))
        except PyroMQError as error:
            log.debug("a pop of %s that nobody waits for ended: %s", wish.topic, error)

    async def _give_back(self, popped: Sequence[_Popped]) -> None:
        for each in popped:
            await self._tell(each.given, each.given.hide(RELEASED))

    async def _bury(self, each: _Popped, caller: Caller) -> None:
        """Move it to the dead letters of the group; what cannot be moved comes again."""
        message, given = each.message, each.given
        try:
            command = given.bury(message.message_id)
            given.check(await self._core.ask(caller, given.broker, command, TIMEOUT))
        except PyroMQError as error:
            log.warning("%r of group %s could not become a dead letter: %s", message, given.group, error)
            return
        log.info("group %s failed on %r for good: a dead letter now", given.group, message)
        await self._tell(given, given.ack())

    async def _tell(self, given: Given, command: Command) -> None:
        """Ask a broker as the proxy itself, since the client may be gone; what fails is mended by time."""
        try:
            given.check(await self._core.cluster.ask(None, given.broker, command, TIMEOUT))
        except PyroMQError as error:
            log.info("%s of a message of %s failed: %s", command.name, given.topic, error)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)


_STATUS: Final = messages.ReceiveMessageResponse(status=status()).SerializeToString()
