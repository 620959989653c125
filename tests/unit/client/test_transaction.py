"""Transactions: half message, local transaction, end, check-back."""

import asyncio
import threading
from typing import Any

import pytest

from pyromq.client.errors import ClientError
from pyromq.client.hooks import EndTransactionContext
from pyromq.client.producer.results import LocalTransactionState, SendStatus, TransactionSendResult
from pyromq.client.producer.transaction import TransactionListener, TransactionProducer
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.callbacks import CheckTransactionStateHeader
from pyromq.protocol.headers.send import EndTransactionHeader, SendMessageV2Header
from pyromq.protocol.message import Message, ReceivedMessage
from pyromq.protocol.properties import decode_properties
from pyromq.protocol.records import sysflag
from pyromq.remoting.errors import SendError
from tests.unit.client.fakes import FakeCluster, asyncio_test, settle

COMMIT, ROLLBACK, UNKNOWN = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK, LocalTransactionState.UNKNOWN


class Listener:
    """Answers with `outcome`, or raises it."""

    def __init__(self, outcome: Any = COMMIT) -> None:
        self.outcome = outcome
        self.executed: list[tuple[Message, Any]] = []
        self.checked: list[ReceivedMessage] = []
        self.threads: list[str] = []

    def execute(self, message: Message, arg: Any) -> LocalTransactionState | None:
        self.executed.append((message, arg))
        return self._answer()

    def check(self, message: ReceivedMessage) -> LocalTransactionState | None:
        self.checked.append(message)
        return self._answer()

    def _answer(self) -> LocalTransactionState | None:
        self.threads.append(threading.current_thread().name)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        result: LocalTransactionState | None = self.outcome
        return result


def cluster_of_one() -> FakeCluster:
    cluster = FakeCluster("a")
    cluster.add_topic("T")
    return cluster


async def transactional(
    cluster: FakeCluster, listener: TransactionListener | None, group: str = "PG", **options: Any
) -> TransactionProducer:
    producer = TransactionProducer(
        group,
        listener,
        namesrv="ns1:9876",
        clock=cluster.clock,
        transport=cluster.transport,
        client_ip="10.1.1.1",
        **options,
    )
    await producer.start()
    return producer


def ends(cluster: FakeCluster) -> list[tuple[str, Command, EndTransactionHeader]]:
    return [
        (address, command, command.header(EndTransactionHeader))
        for address, command in cluster.transport.oneways
        if command.code == RequestCode.END_TRANSACTION
    ]


async def ended(cluster: FakeCluster, number: int = 1) -> tuple[str, Command, EndTransactionHeader]:
    """The answer to a check, which comes from another thread."""
    while len(ends(cluster)) < number:
        cluster.transport.sent_oneway.clear()
        await cluster.transport.sent_oneway.wait()
    return ends(cluster)[number - 1]


@pytest.mark.parametrize(
    ("outcome", "state", "command"),
    [
        (COMMIT, COMMIT, sysflag.COMMIT),
        (ROLLBACK, ROLLBACK, sysflag.ROLLBACK),
        (UNKNOWN, UNKNOWN, 0),
        (None, UNKNOWN, 0),
        (ValueError("no funds"), UNKNOWN, 0),
    ],
)
@asyncio_test
async def test_outcomes_of_the_local_transaction(outcome: Any, state: LocalTransactionState, command: int) -> None:
    # P-116
    cluster = cluster_of_one()
    listener = Listener(outcome)
    producer = await transactional(cluster, listener)
    message = Message("T", b"x", delay_level=3)
    result = await producer.send_in_transaction(message, {"order": 1})
    assert isinstance(result, TransactionSendResult)
    assert result.local_state is state
    assert result.status is SendStatus.SEND_OK
    header, _ = cluster.brokers["a"].stored[0]
    properties = decode_properties(header.properties or "")
    assert (properties["TRAN_MSG"], properties["PGROUP"]) == ("true", "PG")
    assert "DELAY" not in properties
    assert header.sys_flag == sysflag.PREPARED
    assert listener.executed == [(message, {"order": 1})]
    # P-20
    assert message.transaction_id == message.unique_id
    assert message.properties["__transactionId__"] == "TX"
    ((address, sent, end),) = ends(cluster)
    assert address == cluster.brokers["a"].address
    assert sent.remark == ("ValueError: no funds" if isinstance(outcome, Exception) else None)
    assert (end.topic, end.producer_group, end.bname) == ("T", "PG", "a")
    assert (end.tran_state_table_offset, end.commit_log_offset) == (result.queue_offset, 0)
    assert (end.commit_or_rollback, end.from_transaction_check) == (command, False)
    assert (end.msg_id, end.transaction_id) == (result.message_id, "TX")
    await producer.close()


@pytest.mark.parametrize("code", [10, 11, 12])
@asyncio_test
async def test_half_message_not_stored_safely_is_rolled_back(code: int) -> None:
    # P-116
    cluster = cluster_of_one()
    listener = Listener()
    producer = await transactional(cluster, listener)
    broker = cluster.brokers["a"]
    broker.script = [lambda command: broker.store(command, code)]
    result = await producer.send_in_transaction(Message("T", b"x"))
    assert result.local_state is ROLLBACK
    assert listener.executed == []
    assert ends(cluster)[0][2].commit_or_rollback == sysflag.ROLLBACK


@asyncio_test
async def test_half_message_that_cannot_be_sent() -> None:
    # P-116
    cluster = cluster_of_one()
    listener = Listener()
    producer = await transactional(cluster, listener)
    cluster.brokers["a"].script = [lambda _: SendError("x")] * 3
    with pytest.raises(ClientError):
        await producer.send_in_transaction(Message("T", b"x"))
    assert listener.executed == []
    assert ends(cluster) == []


@asyncio_test
async def test_lost_end_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    # P-116
    cluster = cluster_of_one()
    producer = await transactional(cluster, Listener())
    cluster.transport.oneway_error = SendError("lost")
    result = await producer.send_in_transaction(Message("T", b"x"))
    assert result.local_state is COMMIT
    assert "the broker will ask" in caplog.text


@asyncio_test
async def test_listener_is_required() -> None:
    # P-116
    producer = await transactional(cluster_of_one(), None)
    with pytest.raises(ClientError, match="listener"):
        await producer.send_in_transaction(Message("T", b"x"))


@asyncio_test
async def test_coroutine_listener() -> None:
    class Async:
        async def execute(self, message: Message, arg: Any) -> LocalTransactionState:
            await asyncio.sleep(0)
            assert (message.topic, arg) == ("T", None)
            return COMMIT

        async def check(self, message: ReceivedMessage) -> LocalTransactionState:
            await asyncio.sleep(0)
            assert message.topic == "T"
            return ROLLBACK

    cluster = cluster_of_one()
    producer = await transactional(cluster, Async())
    assert (await producer.send_in_transaction(Message("T", b"x"))).local_state is COMMIT
    producer.check_transaction("10.0.0.1:10911", half(), check_header())
    await settle()
    assert ends(cluster)[1][2].commit_or_rollback == sysflag.ROLLBACK


def half() -> ReceivedMessage:
    return ReceivedMessage("T", b"x", {"UNIQ_KEY": "U1", "PGROUP": "PG", "TRAN_MSG": "true"}, broker_name="a")


def check_header() -> CheckTransactionStateHeader:
    return CheckTransactionStateHeader(
        topic="RMQ_SYS_TRANS_HALF_TOPIC",
        tran_state_table_offset=7,
        commit_log_offset=99,
        msg_id="U1",
        transaction_id="U1",
        offset_msg_id="OFF",
        bname="a",
    )


@pytest.mark.parametrize(
    ("outcome", "command"), [(COMMIT, 8), (ROLLBACK, 12), (UNKNOWN, 0), (None, 0), (ValueError("x"), 0)]
)
@asyncio_test
async def test_check_back(outcome: Any, command: int) -> None:
    # P-117: on a pool of its own, everything but the outcome echoed
    cluster = cluster_of_one()
    listener = Listener(outcome)
    producer = await transactional(cluster, listener)
    contexts: list[EndTransactionContext] = []

    class Hook:
        name = "hook"

        def end_transaction(self, context: EndTransactionContext) -> None:
            contexts.append(context)

    producer.end_transaction_hooks.append(Hook())
    producer.check_transaction("10.0.0.9:10911", half(), check_header())
    address, sent, end = await ended(cluster)
    assert address == "10.0.0.9:10911"
    assert listener.threads[0].startswith("pyromq-check")
    assert (end.topic, end.producer_group) == ("RMQ_SYS_TRANS_HALF_TOPIC", "PG")
    assert (end.tran_state_table_offset, end.commit_log_offset, end.bname) == (7, 99, "a")
    assert (end.msg_id, end.transaction_id, end.from_transaction_check) == ("U1", "U1", True)
    assert end.commit_or_rollback == command
    assert (sent.remark is not None) is isinstance(outcome, Exception)
    assert contexts[0].from_check
    assert contexts[0].message_id == "U1"
    await producer.close()
    assert not any(thread.name.startswith("pyromq-check") for thread in threading.enumerate())


@asyncio_test
async def test_checks_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    # P-117 with checkRequestHoldMax
    cluster = cluster_of_one()
    go = threading.Event()

    class Slow(Listener):
        def check(self, message: ReceivedMessage) -> LocalTransactionState | None:
            go.wait(30)
            return super().check(message)

    listener = Slow()
    producer = await transactional(cluster, listener, check_threads=1, check_queue=2)
    for _ in range(5):
        producer.check_transaction("10.0.0.1:10911", half(), check_header())
    assert caplog.text.count("are under way") == 2
    go.set()
    await ended(cluster, 3)
    assert len(listener.checked) == 3
    await producer.close()


@asyncio_test
async def test_check_without_a_listener_is_ignored() -> None:
    # P-117
    cluster = cluster_of_one()
    producer = await transactional(cluster, None)
    producer.check_transaction("10.0.0.1:10911", half(), check_header())
    plain = await cluster.producer("PLAIN")
    plain.check_transaction("10.0.0.1:10911", half(), check_header())
    await settle()
    assert ends(cluster) == []


@asyncio_test
async def test_namespace_in_transactions() -> None:
    cluster = FakeCluster("a")
    cluster.add_topic("N%T")
    producer = await transactional(cluster, Listener(), namespace="N")
    await producer.send_in_transaction(Message("T", b"x"))
    header = cluster.brokers["a"].stored[0][0]
    assert isinstance(header, SendMessageV2Header)
    assert decode_properties(header.properties or "")["PGROUP"] == "N%PG"
    end = ends(cluster)[0][2]
    assert (end.topic, end.producer_group) == ("N%T", "N%PG")
