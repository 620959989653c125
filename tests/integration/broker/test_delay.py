"""Delay levels against a real broker: parked, delivered in time and not before, across a restart."""

import asyncio
import json
import time
from pathlib import Path

from pyromq.protocol.bodies.offsets import DelayOffsetTable
from pyromq.protocol.bodies.tables import KVTable
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.headers.send import SendMessageResponseHeader
from pyromq.protocol.names import SCHEDULE_TOPIC
from tests.integration.broker.servers import standalone, until

HOLD = 20_000


async def test_a_delayed_message_is_delivered_after_its_delay(tmp_path: Path) -> None:
    # P-18
    async with standalone(tmp_path) as (broker, peer):
        answer = await peer.send("orders", b"late", queue=2, DELAY="1", TAGS="t", KEYS="k", UNIQ_KEY="u")
        assert answer.code == ResponseCode.SUCCESS
        header = answer.header(SendMessageResponseHeader)
        assert (header.queue_id, header.queue_offset, header.recall_handle) == (2, 0, None)
        stored = broker.store.lookup.store_time(SCHEDULE_TOPIC, 0, 0)
        (message,) = await peer.messages("orders", queue=2, hold=HOLD)
        assert message.store_timestamp >= stored + 1000
        assert (message.body, message.tags, message.keys, message.unique_id) == (b"late", "t", ("k",), "u")
        # As Apache stores it: the text keeps what the wait needed, and the consumer's tag filter sees the tag.
        assert {**message.properties, "REAL_TOPIC": "orders", "REAL_QID": "2", "DELAY": "1"} == message.properties
        assert await peer.messages("orders", queue=2, tags="other") == []  # type: ignore[arg-type]


async def test_a_level_beyond_the_last_is_the_last(tmp_path: Path) -> None:
    # P-18
    async with standalone(tmp_path, message_delay_level="1s 2s") as (broker, peer):
        await peer.stored("orders", DELAY="99")
        assert broker.store.max_offset(SCHEDULE_TOPIC, 1) == 1
        (message,) = await peer.messages("orders", hold=HOLD)
        assert message.properties["DELAY"] == "2"


async def test_no_level_is_no_delay(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (_, peer):
        for level in ("0", "-1", "soon"):
            await peer.stored("orders", DELAY=level)
        assert len(await peer.messages("orders")) == 3


async def test_levels_do_not_wait_for_each_other(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (_, peer):
        await peer.stored("orders", b"second", DELAY="2")
        await peer.stored("orders", b"first", DELAY="1")
        (message,) = await peer.messages("orders", hold=HOLD)
        assert message.body == b"first"


async def test_what_is_due_while_the_broker_is_down_comes_after_its_start(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (_, peer):
        for number in range(3):
            await peer.stored("orders", str(number).encode(), DELAY="1")
    async with standalone(tmp_path) as (_, peer):
        found: list[bytes] = []
        while len(found) < 3:
            found += [message.body for message in await peer.messages("orders", len(found), hold=HOLD)]
        assert found == [b"0", b"1", b"2"]
    stored = json.loads((tmp_path / "config" / "delayOffset.json").read_text().replace("1:3", '"1":3'))
    assert stored["offsetTable"] == {"1": 3}
    async with standalone(tmp_path) as (broker, peer):
        await peer.stored("orders", b"3", DELAY="1")
        await peer.messages("orders", 3, hold=HOLD)
        assert broker.store.max_offset("orders", 0) == 4, "nothing that was delivered came again"


async def test_a_backlog_lets_requests_through(tmp_path: Path) -> None:
    count = 2_000
    async with standalone(tmp_path, flush_disk_type="ASYNC_FLUSH") as (broker, peer):
        await asyncio.gather(*(peer.stored("orders", DELAY="1") for _ in range(count)))
        slowest = 0.0
        while broker.store.max_offset("orders", 0) < count:
            started = time.monotonic()
            await peer.messages("other")
            slowest = max(slowest, time.monotonic() - started)
        assert broker.store.max_offset("orders", 0) == count
        assert slowest < 5, "a request waited for the whole backlog"


async def test_progress_can_be_asked_for(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        await peer.stored("orders", DELAY="1")
        await until(lambda: broker.store.max_offset("orders", 0) == 1)
        await peer.stored("orders", DELAY="1")
        answer = await peer.call(RequestCode.GET_ALL_DELAY_OFFSET)
        assert DelayOffsetTable.decode(answer.body).offset_table == {1: 1}
        answer = await peer.call(RequestCode.GET_BROKER_RUNTIME_INFO)
        assert KVTable.decode(answer.body).table["scheduleMessageOffset_1"] == "1,2"
