"""Transactions end to end: a real producer, a real broker, and what consumers see of it."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pyromq.aio import LocalTransactionState, Message, ReceivedMessage, TransactionProducer
from pyromq.broker.admin.metrics import BrokerMetrics
from pyromq.broker.broker import Broker
from pyromq.broker.transaction.halfmessages import DISCARDED, HALF
from pyromq.broker.transaction.transactions import Transactions
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.handles.ids import parse_offset_message_id
from pyromq.protocol.headers.callbacks import CheckTransactionStateHeader
from pyromq.protocol.headers.send import EndTransactionHeader, SendMessageResponseHeader
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.record import decode_record
from tests.integration.broker.servers import Peer, routed, standalone, until

COMMIT, ROLLBACK, UNKNOWN = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK, LocalTransactionState.UNKNOWN
GROUP = "orders-service"
SOON = {"transaction_time_out": "200", "transaction_check_interval": "200", "transaction_check_max": "10000"}


class Listener:
    """Says what the test decided; `checks` has what it was asked later."""

    def __init__(self, at_once: LocalTransactionState, later: LocalTransactionState = UNKNOWN) -> None:
        self.at_once = at_once
        self.later = later
        self.checks: list[ReceivedMessage] = []

    def execute(self, _message: Message, _arg: object) -> LocalTransactionState:
        return self.at_once

    async def check(self, message: ReceivedMessage) -> LocalTransactionState:
        self.checks.append(message)
        return self.later


@asynccontextmanager
async def producing(broker: Broker, listener: Listener) -> AsyncIterator[TransactionProducer]:
    await routed(broker, "TBW102")
    async with TransactionProducer(GROUP, listener, namesrv=broker.config.namesrv_addr[0]) as producer:
        yield producer


async def seen(broker: Broker, peer: Peer, topic: str = "orders") -> list[bytes]:
    """Bodies of everything in the topic."""
    found = [await peer.messages(topic, queue=queue) for queue in broker.store.queues.queue_ids(topic)]
    return sorted(message.body for messages in found for message in messages)


async def test_commit_rollback_and_unknown(tmp_path: Path) -> None:
    # P-116
    listener = Listener(COMMIT)
    async with standalone(tmp_path) as (broker, peer), producing(broker, listener) as producer:
        result = await producer.send_in_transaction(Message("orders", b"kept", tags="a", keys=["k"]))
        assert result.local_state is COMMIT
        assert result.transaction_id == result.message_id
        await until(lambda: broker.part(Transactions).committed["orders"] == 1)
        listener.at_once = ROLLBACK
        await producer.send_in_transaction(Message("orders", b"dropped"))
        await until(lambda: broker.part(Transactions).rolled_back["orders"] == 1)
        listener.at_once = UNKNOWN
        await producer.send_in_transaction(Message("orders", b"open"))
        await until(lambda: broker.store.max_offset("orders", result.queue.queue_id) == 1)
        assert await seen(broker, peer) == [b"kept"]
        (message,) = await peer.messages("orders", queue=result.queue.queue_id)
        assert (message.unique_id, message.tags, message.keys) == (result.message_id, "a", ("k",))
        assert broker.part(Transactions).halves.counts() == {"orders": 1}
        page = BrokerMetrics(broker.core, broker.parts).page().decode()
        for name, value in (("half_messages", 1), ("commit_messages_total", 1), ("rollback_messages_total", 1)):
            assert re.search(rf'^rocketmq_{name}{{[^}}]*topic="orders"[^}}]*}} {value}\.0$', page, re.MULTILINE), name


async def test_a_producer_of_the_group_is_asked_and_its_answer_counts(tmp_path: Path) -> None:
    # P-117
    listener = Listener(UNKNOWN, COMMIT)
    async with standalone(tmp_path, **SOON) as (broker, peer), producing(broker, listener) as producer:
        await producer.send_in_transaction(Message("orders", b"one"))
        await until(lambda: broker.part(Transactions).committed["orders"] == 1)
        asked = listener.checks[0]
        assert (asked.topic, asked.body, asked.transaction_id) == ("orders", b"one", asked.unique_id)
        await until(lambda: sum(broker.store.max_offset("orders", queue) for queue in range(4)) == 1)
        assert await seen(broker, peer) == [b"one"]


async def test_another_instance_answers_after_the_first_is_gone(tmp_path: Path) -> None:
    # P-117: any instance of the group must be able to answer
    async with standalone(tmp_path, **SOON) as (broker, peer):
        async with producing(broker, Listener(UNKNOWN)) as producer:
            await producer.send_in_transaction(Message("orders", b"one"))
        assert broker.part(Transactions).halves.counts() == {"orders": 1}
        heir = Listener(UNKNOWN, COMMIT)
        async with producing(broker, heir) as producer:
            await producer.send(Message("orders", b"two"))  # so that it knows the broker, and the broker it
            await until(lambda: broker.part(Transactions).committed["orders"] == 1)
            assert heir.checks[0].body == b"one"
        assert await seen(broker, peer) == [b"one", b"two"]


async def test_what_nobody_knows_is_given_up_and_can_be_resumed(tmp_path: Path) -> None:
    listener = Listener(UNKNOWN)
    async with (
        standalone(tmp_path, **(SOON | {"transaction_check_max": "2"})) as (broker, peer),
        producing(broker, listener) as producer,
    ):
        await producer.send_in_transaction(Message("orders", b"one"))
        await until(lambda: broker.store.max_offset(DISCARDED, 0) == 1)
        await until(lambda: len(listener.checks) == 2)
        assert broker.part(Transactions).halves.counts() == {}
        (lost,) = await peer.messages(DISCARDED)
        listener.later = COMMIT
        answer = await peer.call(RequestCode.RESUME_CHECK_HALF_MESSAGE, ext={"msgId": lost.offset_message_id})
        assert answer.code == ResponseCode.SUCCESS
        await until(lambda: broker.part(Transactions).committed["orders"] == 1)


async def half(peer: Peer, **properties: str) -> SendMessageResponseHeader:
    everything = {"TRAN_MSG": "true", "PGROUP": GROUP, "UNIQ_KEY": "u"} | properties
    answer = await peer.send("orders", queue=3, **everything)  # type: ignore[arg-type]  # properties only
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return answer.header(SendMessageResponseHeader)


def ending(answer: SendMessageResponseHeader, outcome: int, *, from_check: bool = False) -> EndTransactionHeader:
    return EndTransactionHeader(
        producer_group=GROUP,
        tran_state_table_offset=answer.queue_offset,
        commit_log_offset=parse_offset_message_id(answer.msg_id).physical_offset,
        commit_or_rollback=outcome,
        from_transaction_check=from_check,
        msg_id=answer.msg_id,
    )


async def test_the_wire(tmp_path: Path) -> None:
    # P-116, P-117: what clients in other languages rely on
    async with (
        standalone(tmp_path, **SOON) as (_, peer),
        Peer(peer.address, notes=(RequestCode.CHECK_TRANSACTION_STATE,)) as producer,
    ):
        await producer.heartbeat("c1", producer=GROUP)
        answer = await half(producer)
        assert (answer.queue_id, answer.queue_offset, answer.transaction_id) == (3, 0, "u")
        check = await producer.received.get()
        assert check.is_oneway
        header = check.header(CheckTransactionStateHeader)
        assert (header.topic, header.msg_id, header.transaction_id) == (HALF, "u", "u")
        assert (header.offset_msg_id, header.bname) == (answer.msg_id, "broker-a")
        message = decode_record(check.body)
        assert (message.topic, message.queue_id, message.body) == ("orders", 3, b"hello")
        end = ending(answer, sysflag.COMMIT, from_check=True)
        assert (await producer.call(RequestCode.END_TRANSACTION, end)).code == ResponseCode.SUCCESS
        (committed,) = await peer.messages("orders", queue=3)
        assert committed.prepared_transaction_offset == header.commit_log_offset
        again = await producer.call(RequestCode.END_TRANSACTION, end)
        assert again.code == ResponseCode.SYSTEM_ERROR
        assert len(await peer.messages("orders", queue=3)) == 1


async def test_open_transactions_survive_a_restart(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (_, peer):
        first, second = await half(peer), await half(peer)
        assert (await peer.call(RequestCode.END_TRANSACTION, ending(first, sysflag.ROLLBACK))).code == 0
    async with standalone(tmp_path) as (broker, peer):
        assert broker.part(Transactions).halves.counts() == {"orders": 1}
        for end in (ending(first, sysflag.COMMIT), ending(second, sysflag.COMMIT), ending(second, sysflag.COMMIT)):
            await peer.call(RequestCode.END_TRANSACTION, end)
        assert [message.queue_offset for message in await peer.messages("orders", queue=3)] == [0]


async def test_a_retried_transactional_message_is_an_ordinary_one(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        await peer.stored("orders")
        properties = {"TRAN_MSG": "true", "PGROUP": GROUP, "DELAY": "1"}
        answer = await peer.send("orders", reconsume_times=1, **properties)  # type: ignore[arg-type]  # properties only
        assert answer.code == ResponseCode.SUCCESS
        assert broker.store.max_offset(HALF, 0) == 0


async def test_transactions_can_be_forbidden(tmp_path: Path) -> None:
    async with standalone(tmp_path, reject_transaction_message="true") as (_, peer):
        answer = await peer.send("orders", TRAN_MSG="true", PGROUP=GROUP)
        assert answer.code == ResponseCode.NO_PERMISSION
