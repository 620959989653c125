"""Positions that are beyond the log: after a crash that took its end, on a slave that is made a master while behind."""

from pathlib import Path

import pytest

from pyromq.broker.admin.metrics import BrokerMetrics
from pyromq.broker.broker import Broker
from pyromq.broker.delay.timer import TimerDelivery
from pyromq.broker.pop.part import PopPart
from pyromq.protocol import names
from pyromq.protocol.bodies.offsets import ConsumerOffsetTable
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.headers.consume import (
    QueryConsumerOffsetHeader,
    QueryConsumerOffsetResponseHeader,
    UpdateConsumerOffsetHeader,
)
from tests.integration.broker.servers import Peer, until
from tests.integration.broker.test_replication import broker_of, caught_up, master_of, name_server, running, slave_of
from tests.integration.broker.test_replication_acting import group

TOPIC = "orders"


async def position(peer: Peer, owner: str = "g", topic: str = TOPIC) -> int:
    header = QueryConsumerOffsetHeader(consumer_group=owner, topic=topic, queue_id=0, set_zero_if_not_found=False)
    answer = await peer.call(RequestCode.QUERY_CONSUMER_OFFSET, header)
    assert answer.code == ResponseCode.SUCCESS
    return answer.header(QueryConsumerOffsetResponseHeader).offset


def run_ahead(broker: Broker) -> None:
    """What a broker saved whose machine then lost the end of its log."""
    offsets = broker.core.offsets
    offsets.commit("g", TOPIC, 0, 50)
    offsets.commit("in time", TOPIC, 0, 7)
    offsets.commit("g", "never stored", 0, 3)
    for topic in (names.TRANS_HALF_TOPIC, names.TRANS_OP_HALF_TOPIC):
        offsets.commit(names.TRANSACTION_GROUP, topic, 0, 9)
    offsets.commit(names.REVIVE_GROUP, broker.part(PopPart).log.topic, 0, 9)
    broker.core.tables.batches.popped(TOPIC, "g", 0, [18, 19, 20], 1, 1)
    broker.core.tables.batches.popped(TOPIC, "in time", 0, [7, 8], 1, 1)
    broker.core.tables.delays.move(2, 9)
    broker.part(TimerDelivery).queue.offset = 9


async def test_what_is_stored_after_a_crash_is_delivered_although_positions_were_ahead(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"flush_disk_type": "ASYNC_FLUSH", "message_delay_level": "10s 1s", "timer_precision_ms": "100"}
    async with running(broker_of(tmp_path, "", 0, "ASYNC_MASTER", **settings)) as (broker, peer):
        for number in range(20):
            await peer.stored(TOPIC, b"%d" % number)
        run_ahead(broker)
    async with running(broker_of(tmp_path, "", 0, "ASYNC_MASTER", **settings)) as (broker, peer):
        assert await position(peer) == 20
        assert await position(peer, "in time") == 7
        assert broker.core.offsets.get("g", "never stored", 0) == 0
        assert broker.core.offsets.get(names.TRANSACTION_GROUP, names.TRANS_HALF_TOPIC, 0) == 0
        assert broker.core.offsets.get(names.REVIVE_GROUP, broker.part(PopPart).log.topic, 0) == -1, (
            "the last one that was dealt with"
        )
        assert (
            f"the group g in queue 0 of {TOPIC} was at 50, which this log does not have: set back to 20" in caplog.text
        )
        assert broker.core.tables.batches.blocked_until(TOPIC, "g", 0) is None
        assert {key for key, queues in broker.core.tables.batches.table().table.items() if queues} == {
            f"{TOPIC}@in time"
        }
        assert b"pyromq_positions_set_back_total{" in BrokerMetrics(broker.core, broker.parts).page()
        assert set(broker.core.positions.set_back) == {"group", "delay", "ordered pop", "timer"}
        await peer.stored(TOPIC, b"delayed", DELAY="2")
        await peer.stored(TOPIC, b"timed", TIMER_DELAY_MS="300")
        for _ in range(25):
            await peer.stored(TOPIC, b"new")
        await until(lambda: broker.store.max_offset(TOPIC, 0) == 47)
        found = [
            each.body
            for offset in range(await position(peer), 47)
            for each in await peer.messages(TOPIC, offset, count=1)
        ]
        assert (found.count(b"new"), found.count(b"delayed"), found.count(b"timed")) == (25, 1, 1)


async def test_a_slave_that_is_made_a_master_while_it_is_behind_skips_nothing(tmp_path: Path) -> None:
    async with name_server(tmp_path) as namesrv:
        async with master_of(tmp_path, namesrv) as (master, peer), slave_of(tmp_path, namesrv) as (slave, _):
            for number in range(20):
                await peer.stored(TOPIC, b"%d" % number)
            await caught_up(master, slave)
            await until(lambda: TOPIC in slave.core.topics)
            slave.core.offsets.merge(ConsumerOffsetTable(offset_table={f"{TOPIC}@g": {0: 50}}))  # of 50 the log has 20
        async with running(broker_of(tmp_path / "slave1", namesrv, 0, "ASYNC_MASTER")) as (_, peer):
            assert await position(peer) == 20


async def test_a_slave_that_begins_to_act_serves_what_it_has(tmp_path: Path) -> None:
    async with group(tmp_path) as brokers:
        master, slave = await brokers.start("a"), await brokers.start("a", 1)
        async with Peer(master.address) as peer:
            await peer.stored(TOPIC, b"1")
            await caught_up(master, slave)
            await until(lambda: TOPIC in slave.core.topics)
        slave.core.offsets.merge(ConsumerOffsetTable(offset_table={f"{TOPIC}@g": {0: 50}}))
        await brokers.stop(master)
        await until(lambda: slave.core.role.acting)
        assert slave.core.offsets.get("g", TOPIC, 0) == 1


async def test_a_consumer_that_outlived_the_loss_cannot_commit_beyond_the_log(tmp_path: Path) -> None:
    async with running(broker_of(tmp_path, "", 0, "ASYNC_MASTER")) as (broker, peer):
        for number in range(20):
            await peer.stored(TOPIC, b"%d" % number)
        header = UpdateConsumerOffsetHeader(consumer_group="g", topic=TOPIC, queue_id=0, commit_offset=50)
        assert (await peer.call(RequestCode.UPDATE_CONSUMER_OFFSET, header)).code == ResponseCode.SUCCESS
        assert await position(peer) == 20
        header.commit_offset = 5
        assert (await peer.call(RequestCode.UPDATE_CONSUMER_OFFSET, header)).code == ResponseCode.SUCCESS
        assert await position(peer) == 5
        assert broker.core.offsets.get("g", TOPIC, 0) == 5
