"""Messages with a time of their own against a real broker, and taking them back."""

import asyncio
import time
from pathlib import Path

import pytest

from pyromq.broker.broker import Broker
from pyromq.protocol.bodies.stats import TimerMetrics
from pyromq.protocol.bodies.tables import KVTable
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.handles.recall import RecallHandle, decode_recall_handle, encode_recall_handle
from pyromq.protocol.headers.send import RecallMessageHeader, RecallMessageResponseHeader, SendMessageResponseHeader
from pyromq.protocol.message import Message
from pyromq.protocol.names import TIMER_TOPIC
from pyromq.protocol.records.batch import encode_batch
from pyromq.store.timer.checkpoint import TimerCheckpoint
from tests.integration.broker.servers import Peer, standalone, until

HOLD = 20_000


def now() -> int:
    return time.time_ns() // 1_000_000


def figure(broker: Broker, name: str) -> object:
    """One of the broker's runtime figures."""
    return {key: value for part in broker.parts for key, value in part.runtime().items()}[name]


async def recall(peer: Peer, topic: str, handle: str) -> Command:
    header = RecallMessageHeader(topic=topic, recall_handle=handle, producer_group="p")
    return await peer.call(RequestCode.RECALL_MESSAGE, header)


@pytest.mark.parametrize("name", ["TIMER_DELIVER_MS", "TIMER_DELAY_MS", "TIMER_DELAY_SEC"])
async def test_a_timed_message_is_delivered_at_its_time(tmp_path: Path, name: str) -> None:
    # P-19
    async with standalone(tmp_path) as (_, peer):
        due = now() + 1_000
        value = {"TIMER_DELIVER_MS": due, "TIMER_DELAY_MS": 1_000, "TIMER_DELAY_SEC": 1}[name]
        header = await peer.stored("orders", b"timed", UNIQ_KEY="u", TAGS="t", **{name: str(value)})
        assert header.queue_id == 0
        handle = decode_recall_handle(header.recall_handle or "")
        assert (handle.topic, handle.broker_name, handle.unique_id) == ("orders", "broker-a", "u")
        (message,) = await peer.messages("orders", hold=HOLD)
        assert message.store_timestamp >= due
        assert (message.body, message.tags, message.unique_id) == (b"timed", "t", "u")
        slot = int(message.properties["TIMER_OUT_MS"])
        assert slot % 1000 == 0
        assert handle.deliver_time == slot + 1
        assert {"TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS", "REAL_TOPIC", "REAL_QID", name} <= message.properties.keys()


async def test_a_finer_precision_delivers_within_a_tenth_of_a_second(tmp_path: Path) -> None:
    async with standalone(tmp_path, timer_precision_ms="100") as (_, peer):
        due = now() + 350
        await peer.stored("orders", TIMER_DELIVER_MS=str(due))
        (message,) = await peer.messages("orders", hold=HOLD)
        assert message.store_timestamp >= due
        assert int(message.properties["TIMER_OUT_MS"]) == (due - 1) // 100 * 100


async def test_a_time_that_has_passed_is_no_delay(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        header = await peer.stored("orders", TIMER_DELIVER_MS=str(now() - 1))
        assert header.recall_handle is None
        assert len(await peer.messages("orders")) == 1
        assert broker.store.max_offset(TIMER_TOPIC, 0) == 0


async def test_refusals(tmp_path: Path) -> None:
    async with standalone(tmp_path, timer_max_delay_sec="100") as (broker, peer):
        for text in ("soon", str(now() + 101_000), "9" * 30):
            assert (await peer.send("orders", TIMER_DELIVER_MS=text)).code == ResponseCode.MESSAGE_ILLEGAL
        body = encode_batch([Message("orders", b"a"), Message("orders", b"b")])
        answer = await peer.send(
            "orders", body, code=RequestCode.SEND_BATCH_MESSAGE, batch=True, TIMER_DELIVER_MS=str(now() + 5_000)
        )
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        broker.config.timer_wheel_enable = False
        answer = await peer.send("orders", TIMER_DELAY_SEC="5")
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "timerWheelEnable" in (answer.remark or "")


async def test_a_slot_takes_a_limited_number(tmp_path: Path) -> None:
    async with standalone(tmp_path, timer_congest_num_each_slot="5") as (broker, peer):
        due = str(now() + 60_000)
        for _ in range(10):
            await peer.send("orders", TIMER_DELIVER_MS=due)
        await until(lambda: not figure(broker, "timerOffsetBehind"))
        answers = [await peer.send("orders", TIMER_DELIVER_MS=due) for _ in range(50)]
        assert ResponseCode.SYSTEM_ERROR in {answer.code for answer in answers}


async def test_a_level_wins_over_a_time(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        await peer.stored("orders", DELAY="1", TIMER_DELIVER_MS=str(now() + 60_000))
        assert broker.store.max_offset(TIMER_TOPIC, 0) == 0
        (message,) = await peer.messages("orders", hold=HOLD)
        assert "TIMER_DELIVER_MS" not in message.properties


async def test_what_is_due_while_the_broker_is_down_comes_after_its_start(tmp_path: Path) -> None:
    due = now() + 1_500
    async with standalone(tmp_path) as (_, peer):
        for number in range(3):
            await peer.stored("orders", str(number).encode(), TIMER_DELIVER_MS=str(due))
    async with standalone(tmp_path) as (broker, peer):
        await until(lambda: broker.store.max_offset("orders", 0) == 3)
        messages = await peer.messages("orders")
        assert [message.body for message in messages] == [b"0", b"1", b"2"]
        assert min(message.store_timestamp for message in messages) >= due
    async with standalone(tmp_path) as (broker, peer):
        await peer.stored("orders", b"3", TIMER_DELAY_MS="1")
        await until(lambda: broker.store.max_offset("orders", 0) > 3)
        assert broker.store.max_offset("orders", 0) == 4, "nothing that was delivered came again"


async def test_a_message_far_away_is_written_again_on_its_way(tmp_path: Path) -> None:
    settings = {"timer_precision_ms": "100", "timer_roll_window_slot": "6"}
    async with standalone(tmp_path, **settings) as (broker, peer):
        due = now() + 2_000
        await peer.stored("orders", TIMER_DELIVER_MS=str(due))
        (message,) = await peer.messages("orders", hold=HOLD)
        assert message.store_timestamp >= due
        assert int(message.properties["TIMER_ROLL_TIMES"]) >= 2
        assert broker.store.max_offset(TIMER_TOPIC, 0) >= 3
        assert broker.store.max_offset("orders", 0) == 1


async def test_a_recalled_message_is_not_delivered(tmp_path: Path) -> None:
    # P-19: recall
    async with standalone(tmp_path, recall_message_enable="true") as (broker, peer):
        due = str(now() + 1_500)
        kept, gone = [await peer.stored("orders", name, TIMER_DELIVER_MS=due) for name in (b"kept", b"gone")]
        assert kept.recall_handle != gone.recall_handle
        answer = await recall(peer, "orders", gone.recall_handle or "")
        assert answer.code == ResponseCode.SUCCESS
        assert answer.header(RecallMessageResponseHeader).msg_id == gone.transaction_id
        assert (await recall(peer, "orders", gone.recall_handle or "")).code == ResponseCode.SUCCESS
        (message,) = await peer.messages("orders", hold=HOLD)
        assert message.body == b"kept"
        await peer.stored("orders", b"marker", TIMER_DELIVER_MS=str(now() + 1))
        await until(lambda: broker.store.max_offset("orders", 0) >= 2)
        assert [message.body for message in await peer.messages("orders")] == [b"kept", b"marker"]
        await until(lambda: figure(broker, "timerCongestNum") == 0)


async def test_recalls_that_cannot_be(tmp_path: Path) -> None:
    async with standalone(tmp_path, recall_message_enable="true") as (broker, peer):
        header = await peer.stored("orders", TIMER_DELAY_SEC="60")
        handle = decode_recall_handle(header.recall_handle or "")
        wrong = [
            RecallHandle("other", "broker-a", handle.deliver_time, "u"),
            RecallHandle("orders", "broker-b", handle.deliver_time, "u"),
            RecallHandle("orders", "broker-a", now() - 1, "u"),
            RecallHandle("orders", "broker-a", now() + 4 * 86_400_000, "u"),
        ]
        for each in [*map(encode_recall_handle, wrong), "nonsense"]:
            assert (await recall(peer, "orders", each)).code == ResponseCode.ILLEGAL_OPERATION
        assert (await recall(peer, "absent", header.recall_handle or "")).code == ResponseCode.TOPIC_NOT_EXIST
        broker.config.recall_message_enable = False
        assert (await recall(peer, "orders", header.recall_handle or "")).code == ResponseCode.NO_PERMISSION


async def test_no_handle_for_retries(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (_, peer):
        answer = await peer.send("%RETRY%g", TIMER_DELAY_SEC="60")
        assert answer.code == ResponseCode.SUCCESS
        assert answer.header(SendMessageResponseHeader).recall_handle is None


async def test_progress_can_be_asked_for(tmp_path: Path) -> None:
    async with standalone(tmp_path, timer_flush_interval_ms="10") as (broker, peer):
        await peer.stored("orders", TIMER_DELAY_SEC="60")
        await until(lambda: figure(broker, "timerCongestNum") == 1)
        check = b""
        while int.from_bytes(check[16:24]) < 1:
            check = bytes((await peer.call(RequestCode.GET_TIMER_CHECK_POINT)).body)
            await asyncio.sleep(0.01)
        assert len(check) == 56
        assert check[24:32] == check[16:24], "a broker of Apache's starts at the smaller of the two"
        metrics = TimerMetrics.decode((await peer.call(RequestCode.GET_TIMER_METRICS)).body)
        assert metrics.timing_count["orders"].count == 1
        table = KVTable.decode((await peer.call(RequestCode.GET_BROKER_RUNTIME_INFO)).body).table
        assert (table["timerOffsetBehind"], table["timerCongestNum"]) == ("0", "1")
    stored = TimerCheckpoint.load(tmp_path / "config" / "timercheck")
    assert (stored.queue_offset, stored.log_flushed) == (1, 52)
