"""The transactional producer: a half message, the local transaction, its end, and the broker's check-back.

The broker keeps a half message to itself until it learns how the local transaction ended. When that news is lost it
asks any live producer of the group, so every instance of a group must be able to answer for all of them.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple, Protocol, Unpack

from pyromq.client.clock import Clock
from pyromq.client.config import ProducerConfig
from pyromq.client.errors import ClientError
from pyromq.client.hooks import EndTransactionContext, run_hooks
from pyromq.client.instance.transport import Transport
from pyromq.client.options import ProducerOptions
from pyromq.client.pool import BoundedPool, PoolFull
from pyromq.client.producer.producer import Producer
from pyromq.client.producer.publish_table import Choice
from pyromq.client.producer.results import LocalTransactionState, SendResult, SendStatus, TransactionSendResult
from pyromq.errors import PyroMQError
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command
from pyromq.protocol.handles.ids import parse_offset_message_id
from pyromq.protocol.headers.callbacks import CheckTransactionStateHeader
from pyromq.protocol.headers.send import EndTransactionHeader
from pyromq.protocol.message import Message, MessageQueue, ReceivedMessage
from pyromq.protocol.properties import Property
from pyromq.protocol.records import sysflag

log = logging.getLogger(__name__)

CHECK_ANSWER_TIMEOUT = 3.0

COMMANDS = {
    LocalTransactionState.COMMIT: sysflag.COMMIT,
    LocalTransactionState.ROLLBACK: sysflag.ROLLBACK,
    LocalTransactionState.UNKNOWN: sysflag.NOT_TRANSACTIONAL,
}

State = LocalTransactionState | None


class TransactionListener(Protocol):
    """What the application does in a transaction; coroutine functions are welcome in both places.

    None, or raising, leaves the outcome open: the broker asks again later.
    """

    def execute(self, message: Message, arg: Any) -> State | Awaitable[State]:
        """Run the local transaction that belongs to a half message."""

    def check(self, message: ReceivedMessage) -> State | Awaitable[State]:
        """Find out how the local transaction of a message ended. May be asked in any process of the group."""


class Outcome(NamedTuple):
    """How a local transaction ended, and a word for the broker's log."""

    state: LocalTransactionState
    remark: str | None = None


def judge(state: State, error: Exception | None = None) -> Outcome:
    """What a listener said, or that it said nothing usable."""
    if error is not None:
        return Outcome(LocalTransactionState.UNKNOWN, f"{type(error).__name__}: {error}")
    return Outcome(state or LocalTransactionState.UNKNOWN)


class TransactionProducer(Producer):
    """A producer whose messages become visible only when a local transaction commits.

    class Orders:
        def execute(self, message, arg): ...   # returns LocalTransactionState.COMMIT, ROLLBACK or UNKNOWN
        def check(self, message): ...

    async with TransactionProducer("orders-service", Orders(), namesrv="127.0.0.1:9876") as producer:
        result = await producer.send_in_transaction(Message("orders", b"..."))
    """

    def __init__(
        self,
        group: str,
        listener: TransactionListener | None,
        *,
        namesrv: str | None = None,
        config: ProducerConfig | None = None,
        clock: Clock | None = None,
        transport: Transport | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        super().__init__(group, namesrv=namesrv, config=config, clock=clock, transport=transport, **options)
        self.listener = listener
        waiting = self.config.check_threads + self.config.check_queue
        self._checks = BoundedPool("pyromq-check", self.config.check_threads, waiting)
        self._checking = 0

    async def close(self) -> None:
        """Close as any producer does; checks that run may finish within `close_timeout`."""
        running = self.state
        await super().close()
        if running is not self.state:
            await self._checks.close(self._instance.clock, self.config.close_timeout)

    async def send_in_transaction(self, message: Message, arg: Any = None) -> TransactionSendResult:
        """Store a half message, run the local transaction, tell the broker how it ended.

        When the half message is not stored safely the transaction is rolled back without being run. Raises
        ClientError when the half message could not be sent; a lost end is not an error, the broker will ask.
        """
        half = await self.send_half(message)
        if half.status is not SendStatus.SEND_OK:
            return await self.end(message, half, Outcome(LocalTransactionState.ROLLBACK))
        assert self.listener is not None  # noqa: S101 - send_half asked for it
        try:
            outcome = judge(await self._call(self._instance.callbacks, partial(self.listener.execute, message, arg)))
        except Exception as error:
            log.exception("local transaction of message %s failed", half.message_id)
            outcome = judge(None, error)
        return await self.end(message, half, outcome)

    async def send_half(self, message: Message) -> SendResult:
        """The first step of `send_in_transaction`: store the message where no consumer sees it."""
        self.check_running()
        if self.listener is None:
            raise ClientError("a transactional send needs a listener; give one to TransactionProducer")
        message.properties.pop(Property.DELAY, None)
        message.properties[Property.TRANSACTION_PREPARED] = "true"
        message.properties[Property.PRODUCER_GROUP] = self._wire_group
        half = await self._sends.sync(message, self.config.send_timeout, Choice())
        if half.status is SendStatus.SEND_OK:
            if half.transaction_id:
                message.properties[Property.TRANSACTION_ID] = half.transaction_id
            message.transaction_id = message.unique_id
        return half

    async def end(self, message: Message, half: SendResult, outcome: Outcome) -> TransactionSendResult:
        """The last step of `send_in_transaction`: tell the broker. A failure is only logged."""
        try:
            await self._end(message, half, outcome)
        except (PyroMQError, OSError) as error:
            log.warning("end of transaction %s not told, the broker will ask: %s", half.message_id, error)
        fields = {name: getattr(half, name) for name in SendResult.__struct_fields__}
        return TransactionSendResult(**fields, local_state=outcome.state)

    def check_transaction(self, address: str, message: ReceivedMessage, header: CheckTransactionStateHeader) -> None:
        """The broker asks; answered by `listener.check` on a pool of its own, or not at all when that is full."""
        if self.listener is None:
            log.warning("transaction check from %s ignored: there is no listener", address)
        elif self._checking >= self._checks.capacity:
            log.warning("transaction check from %s ignored: %d are under way", address, self._checking)
        else:
            self._checking += 1
            _ = self._instance.spawn(self._check(self.listener, address, message, header), "transaction check")

    async def _check(
        self,
        listener: TransactionListener,
        address: str,
        message: ReceivedMessage,
        header: CheckTransactionStateHeader,
    ) -> None:
        try:
            outcome = judge(await self._call(self._checks, partial(listener.check, message)))
        except PoolFull:
            log.warning("transaction check from %s ignored: the producer is closing", address)
            return
        except Exception as error:
            log.exception("transaction check of message %s failed", message.message_id)
            outcome = judge(None, error)
        finally:
            self._checking -= 1
        answer = EndTransactionHeader(
            topic=header.topic,
            producer_group=self._wire_group,
            tran_state_table_offset=header.tran_state_table_offset,
            commit_log_offset=header.commit_log_offset,
            commit_or_rollback=COMMANDS[outcome.state],
            from_transaction_check=True,
            msg_id=message.message_id,
            transaction_id=header.transaction_id,
            bname=header.bname,
        )
        await self._tell(address, answer, message, outcome, CHECK_ANSWER_TIMEOUT)

    async def _end(self, message: Message, half: SendResult, outcome: Outcome) -> None:
        topic = self._wire(message.topic)
        topology = self._instance.topology
        broker = topology.broker_of(MessageQueue(topic, half.queue.broker_name, half.queue.queue_id))
        address = topology.publish_address(broker)
        if address is None:
            raise ClientError(f"broker {broker!r} has no master in the routes", broker=broker)
        address = self._instance.vip(address)
        place = parse_offset_message_id(half.offset_message_id or half.message_id)
        header = EndTransactionHeader(
            topic=topic,
            producer_group=self._wire_group,
            tran_state_table_offset=half.queue_offset,
            commit_log_offset=place.physical_offset,
            commit_or_rollback=COMMANDS[outcome.state],
            from_transaction_check=False,
            msg_id=half.message_id,
            transaction_id=half.transaction_id,
            bname=broker,
        )
        await self._tell(address, header, message, outcome, self.config.send_timeout)

    async def _tell(
        self, address: str, header: EndTransactionHeader, message: Message, outcome: Outcome, seconds: float
    ) -> None:
        """Tell the hooks, then the broker, how a transaction ended."""
        if self.end_transaction_hooks:
            context = EndTransactionContext(
                group=self._wire_group,
                message=message,
                broker_address=address,
                message_id=header.msg_id or "",
                transaction_id=header.transaction_id,
                state=outcome.state,
                from_check=bool(header.from_transaction_check),
            )
            run_hooks(self.end_transaction_hooks, lambda hook: hook.end_transaction(context), "end-transaction")
        command = Command.request(RequestCode.END_TRANSACTION, header, oneway=True)
        command.remark = outcome.remark
        await self._instance.oneway(address, command, seconds)

    @staticmethod
    async def _call(pool: BoundedPool, function: "Callable[[], State | Awaitable[State]]") -> State:
        """Run a listener's method: a coroutine function here, a plain one on a thread. Raises PoolFull."""
        if inspect.iscoroutinefunction(getattr(function, "func", function)):
            answer = function()
        else:
            answer = await asyncio.wrap_future(pool.submit(function))
        return await answer if inspect.isawaitable(answer) else answer
