"""What takes more than one message: transactions, requests with replies, recalls."""

import asyncio
from pathlib import Path
from typing import Any

from pyromq.aio import (
    LocalTransactionState,
    Message,
    MessageQueue,
    Producer,
    ReceivedMessage,
    TransactionProducer,
    create_reply,
)
from tests.integration.client.clusters import LIMIT, asyncio_test, standalone


class Orders:
    """Commits and rolls back as the message says; leaves `unsure` ones to the check."""

    def __init__(self) -> None:
        self.checked: list[str] = []

    def execute(self, message: Message, arg: Any) -> LocalTransactionState:
        assert arg == "argument"
        return LocalTransactionState.UNKNOWN if message.tags == "unsure" else LocalTransactionState[message.tags or ""]

    def check(self, message: ReceivedMessage) -> LocalTransactionState:
        self.checked.append(message.topic)
        return LocalTransactionState.COMMIT


async def visible(producer: Producer, topic: str, count: int) -> int:
    """Wait until a topic has that many messages in all its queues."""
    while True:
        queues = await producer.publish_queues(topic)
        total = sum([await producer.max_offset(queue) for queue in queues])
        if total >= count:
            return total
        await asyncio.sleep(0.01)


@asyncio_test
async def test_transactions(tmp_path: Path) -> None:
    # P-116, P-117
    settings = {"transaction_time_out": "1", "transaction_check_interval": "100"}
    listener = Orders()
    async with (
        standalone(tmp_path, **settings) as server,
        TransactionProducer("PG", listener, namesrv=server.namesrv_address, send_timeout=LIMIT) as producer,
    ):
        await producer.create_topic("TBW102", "orders", 1)
        while not await _exists(producer, "orders"):  # noqa: ASYNC110 - only the name server knows
            await asyncio.sleep(0.01)
        committed = await producer.send_in_transaction(Message("orders", b"1", tags="COMMIT"), "argument")
        assert committed.local_state is LocalTransactionState.COMMIT
        assert await visible(producer, "orders", 1) == 1
        rolled_back = await producer.send_in_transaction(Message("orders", b"2", tags="ROLLBACK"), "argument")
        assert rolled_back.local_state is LocalTransactionState.ROLLBACK
        unsure = await producer.send_in_transaction(Message("orders", b"3", tags="unsure"), "argument")
        assert unsure.local_state is LocalTransactionState.UNKNOWN
        assert await visible(producer, "orders", 2) == 2
        assert listener.checked[0] == "orders"


async def _exists(producer: Producer, topic: str) -> bool:
    route, _ = await producer._instance.routes.fetch(topic)
    return route is not None


@asyncio_test
async def test_request_and_reply(tmp_path: Path) -> None:
    # P-07
    async with (
        standalone(tmp_path) as server,
        Producer("ASK", namesrv=server.namesrv_address) as asking,
        Producer("ANSWER", namesrv=server.namesrv_address) as answering,
    ):
        await answering.send(Message("questions", b"warm up"), queue=None, timeout=LIMIT)
        queue = MessageQueue("questions", "broker-a", 0)
        before = await answering.max_offset(queue)
        request = Message("questions", b"ping", keys="question-1")
        pending = asyncio.ensure_future(asking.request(request, LIMIT, queue=queue))
        while await answering.max_offset(queue) == before:  # noqa: ASYNC110 - only the broker knows
            await asyncio.sleep(0.005)
        (question,) = await answering.query_message("questions", "question-1")
        await answering.send(create_reply(question, b"pong"), timeout=LIMIT)
        assert (await pending).body == b"pong"


@asyncio_test
async def test_recall(tmp_path: Path) -> None:
    # section 4.11
    async with (
        standalone(tmp_path, recall_message_enable="true") as server,
        Producer("PG", namesrv=server.namesrv_address) as producer,
    ):
        result = await producer.send(Message("orders", b"later", delay_seconds=600), timeout=LIMIT)
        assert result.recall_handle is not None
        assert await producer.recall("orders", result.recall_handle) == result.message_id
