"""A log that rotted while the broker was stopped, and records that no broker should meet: everything goes on."""

import time
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from pyromq.broker.admin.metrics import BrokerMetrics
from pyromq.broker.broker import Broker
from pyromq.broker.transaction.halfmessages import HALF
from pyromq.broker.transaction.transactions import Transactions
from pyromq.protocol.bodies.tables import KVTable
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.headers.consume import PullMessageResponseHeader
from pyromq.protocol.headers.query import QueryMessageHeader, ViewMessageByIdHeader
from pyromq.protocol.headers.send import ConsumerSendMsgBackHeader
from pyromq.protocol.names import TIMER_TOPIC, dlq_topic, pop_retry_topic
from pyromq.protocol.properties import Property
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.salvage import salvage_records
from tests.integration.broker import servers
from tests.integration.broker.pops import acked, pop_until
from tests.integration.broker.servers import Peer, until
from tests.poison import damage, records_with, send_raw

HOLD = 20_000
FILE = str(1 << 20)
BODY, MAGIC, SIZE = (88, b"\xff"), (4, b"\x00"), (0, b"\x00\x00\x00\x00")
ROT = pytest.mark.parametrize(("at", "value"), [BODY, MAGIC, SIZE], ids=["body", "magic", "size"])


def standalone(path: Path, **settings: str) -> AbstractAsyncContextManager[tuple[Broker, Peer]]:
    """With a log that is quickly searched."""
    return servers.standalone(path, mapped_file_size_commit_log=FILE, **settings)


async def filled(path: Path, at: int, value: bytes, **properties: str) -> None:
    """A stopped store with five messages, the third of which is damaged."""
    async with standalone(path) as (_, peer):
        for number in range(5):
            await peer.stored("orders", b"body %d" % number, KEYS="k", TAGS="a", **properties)
    rot(path, b"body 2", at, value)


def rot(path: Path, body: bytes, at: int, value: bytes) -> None:
    for offset in records_with(path, body):
        damage(path, offset + at, value)


@ROT
@pytest.mark.parametrize("expression", [("*", "TAG"), ("a", "TAG"), ("TAGS = 'a'", "SQL92")], ids=["all", "tag", "sql"])
async def test_a_pull_goes_on_behind_a_damaged_record(
    tmp_path: Path, at: int, value: bytes, expression: tuple[str, str]
) -> None:
    await filled(tmp_path, at, value)
    async with standalone(tmp_path, enable_property_filter="true") as (broker, peer):
        tags, kind = expression
        answer = await peer.pull("orders", tags=tags, expression_type=kind)
        header = answer.header(PullMessageResponseHeader)
        assert (answer.code, header.next_begin_offset) == (ResponseCode.SUCCESS, 5)
        found = salvage_records(answer.body).messages
        sound = [message.body for message in found if not message.damaged]
        assert sound == [b"body 0", b"body 1", b"body 3", b"body 4"]
        framed = (at, value) == BODY
        assert [message.queue_offset for message in found if message.damaged] == ([2] if framed else [])
        assert header.left_out() == ([] if framed else [2])
        assert len(broker.store.damage) == 1
        last = await peer.pull("orders", 2, count=1, tags=tags, expression_type=kind)
        assert last.header(PullMessageResponseHeader).next_begin_offset == (3 if framed else 4)


async def test_damage_is_shown_to_operators(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    await filled(tmp_path, *MAGIC)
    async with standalone(tmp_path) as (broker, peer):
        await peer.pull("orders")
        info = KVTable.decode((await peer.call(RequestCode.GET_BROKER_RUNTIME_INFO)).body).table
        assert info["storeDamagedRecords"] == "1"
        assert info["storeDamagedPlaces"].endswith("@orders/0/2")
        assert "pyromq_store_damaged_records{" in BrokerMetrics(broker.core, broker.parts).page().decode()
        assert "message 2 of queue 0 of orders" in caplog.text


@ROT
async def test_pops_and_their_retries_go_on(tmp_path: Path, at: int, value: bytes) -> None:
    await filled(tmp_path, at, value)
    async with standalone(tmp_path) as (_, peer):
        first = await pop_until(peer, 4, invisible=100)
        assert {b"body 0", b"body 1", b"body 3", b"body 4"} <= {each.message.body for each in first}
        again = await pop_until(peer, 4, invisible=60_000)
        await acked(peer, *again)
    rot(tmp_path, b"body 3", at, value)  # now in the retry topic, too
    async with standalone(tmp_path) as (broker, peer):
        assert broker.store.max_offset(pop_retry_topic("g", "orders"), 0) >= 4
        for topic in ("orders", pop_retry_topic("g", "orders")):
            answer = await peer.pull(topic)
            assert answer.code == ResponseCode.SUCCESS


@ROT
async def test_delayed_messages_behind_a_damaged_one_are_delivered(tmp_path: Path, at: int, value: bytes) -> None:
    async with standalone(tmp_path, message_delay_level="1s 1h") as (_, peer):
        for number in range(3):
            await peer.stored("orders", b"body %d" % number, DELAY="2")
    rot(tmp_path, b"body 1", at, value)
    async with standalone(tmp_path, message_delay_level="1s 0s") as (broker, peer):
        framed = (at, value) == BODY
        await until(lambda: broker.store.max_offset("orders", 0) == (3 if framed else 2))
        found = await peer.messages("orders", hold=HOLD)
        assert [found[0].body, found[-1].body] == [b"body 0", b"body 2"]
        if framed:
            assert "checksum" in found[1].properties[Property.FAULT]


@ROT
async def test_timed_messages_behind_a_damaged_one_are_delivered(tmp_path: Path, at: int, value: bytes) -> None:
    due = str(time.time_ns() // 1_000_000 + 1_500)
    async with standalone(tmp_path, timer_precision_ms="100") as (_, peer):
        for number in range(3):
            await peer.stored("orders", b"body %d" % number, TIMER_DELIVER_MS=due)
    rot(tmp_path, b"body 1", at, value)
    async with standalone(tmp_path, timer_precision_ms="100") as (broker, peer):
        framed = (at, value) == BODY
        await until(lambda: broker.store.max_offset("orders", 0) == (3 if framed else 2))
        found = await peer.messages("orders")
        assert {b"body 0", b"body 2"} <= {message.body for message in found}


async def test_numbers_without_end_do_not_stop_the_timer(tmp_path: Path) -> None:
    async with standalone(tmp_path, timer_precision_ms="100") as (broker, peer):
        poison = f"TIMER_OUT_MS\x01{'9' * 5000}\x02REAL_TOPIC\x01orders\x02REAL_QID\x010\x02"
        await send_raw(peer.address, TIMER_TOPIC, b"poison", properties=poison)
        await peer.stored("orders", b"timed", TIMER_DELAY_MS="100")
        await until(lambda: broker.store.max_offset("orders", 0) == 1)


@ROT
async def test_a_broker_starts_with_a_damaged_half_message(tmp_path: Path, at: int, value: bytes) -> None:
    async with standalone(tmp_path) as (broker, peer):
        for number in range(3):
            await send_raw(
                peer.address,
                "orders",
                b"half %d" % number,
                sys_flag=sysflag.PREPARED,
                properties=f"TRAN_MSG\x01true\x02PGROUP\x01p\x02UNIQ_KEY\x01u{number}\x02",
            )
        assert broker.store.max_offset(HALF, 0) == 3
    rot(tmp_path, b"half 1", at, value)
    async with standalone(tmp_path) as (broker, peer):
        assert sum(broker.part(Transactions).halves.counts().values()) == (3 if (at, value) == BODY else 2)
        await peer.stored("orders", b"more")


async def test_the_dead_letter_of_a_damaged_message_says_so(tmp_path: Path) -> None:
    await filled(tmp_path, *BODY)
    async with standalone(tmp_path) as (_, peer):
        found = salvage_records((await peer.pull("orders")).body).messages
        header = ConsumerSendMsgBackHeader(offset=found[2].physical_offset, group="g", delay_level=-1)
        assert (await peer.call(RequestCode.CONSUMER_SEND_MSG_BACK, header)).code == ResponseCode.SUCCESS
        (letter,) = salvage_records((await peer.pull(dlq_topic("g"))).body).messages
        assert letter.body == found[2].body
        assert letter.fault
        assert "checksum" in letter.fault


@ROT
async def test_queries_find_the_others(tmp_path: Path, at: int, value: bytes) -> None:
    await filled(tmp_path, at, value)
    async with standalone(tmp_path) as (_, peer):
        header = QueryMessageHeader(topic="orders", key="k", max_num=32, begin_timestamp=0, end_timestamp=2**63 - 1)
        answer = await peer.call(RequestCode.QUERY_MESSAGE, header)
        found = [message.body for message in salvage_records(answer.body).messages if not message.damaged]
        assert sorted(found) == [b"body 0", b"body 1", b"body 3", b"body 4"]
        await view_all(tmp_path, peer)


async def view_all(path: Path, peer: Peer) -> None:
    for number in (0, 1, 3, 4):
        (offset,) = records_with(path, b"body %d" % number)
        answer = await peer.call(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageByIdHeader(topic="orders", offset=offset))
        assert answer.code == ResponseCode.SUCCESS
