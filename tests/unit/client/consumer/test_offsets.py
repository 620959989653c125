"""Offset stores and where a group begins."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from pyromq.client.consumer.offsets import NONE_STORED, NOT_READABLE, LocalOffsets, OffsetTable, Read, RemoteOffsets
from pyromq.client.consumer.rebalance.startoffset import StartOffsets, consume_time
from pyromq.client.errors import ClientError
from pyromq.client.instance.instance import ClientInstance
from pyromq.client.queries import Queries
from pyromq.configfile import backup_of
from pyromq.protocol.bodies.enums import ConsumeFromWhere
from pyromq.protocol.codes import RequestCode
from tests.unit.client.consumer.fakes import ConsumeCluster, queue
from tests.unit.client.fakes import WALL, ManualClock, asyncio_test
from tests.unit.syncs import Syncs


async def instance_of(cluster: ConsumeCluster) -> ClientInstance:
    consumer = cluster.pull()
    await consumer.start()
    instance = consumer._instance
    await instance.routes.refresh("T")
    return instance


def run(work: Callable[[], None]) -> "asyncio.Future[None]":
    """In place of a thread."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    try:
        work()
        future.set_result(None)
    except (ClientError, OSError) as error:
        future.set_exception(error)
    return future


def test_increase_only_and_frozen_offsets() -> None:
    table = OffsetTable()
    table.update(queue(), 5)
    table.update(queue(), 3, increase_only=True)
    assert table.known(queue()) == 5
    table.update(queue(), 3)
    assert table.known(queue()) == 3
    table.freeze(queue(), 9)
    table.update(queue(), 100)
    assert table.table("T") == {queue(): 9}
    assert table.table("other") == {}
    table.remove(queue())
    table.update(queue(), 1)
    assert table.known(queue()) == 1


@asyncio_test
async def test_remote_offsets() -> None:  # C-03
    cluster = ConsumeCluster(2)
    instance = await instance_of(cluster)
    store = RemoteOffsets(instance, "CG")
    assert await store.read(queue()) == NONE_STORED
    store.update(queue(0), 7)
    store.update(queue(1), 8)
    await store.persist_all([queue(0)])
    assert cluster.broker.offsets == {("T", 0): 7}
    assert store.known(queue(1)) is None  # no longer mine: forgotten
    await store.persist_all([])
    assert store.known(queue(0)) == 7
    cluster.broker.offsets["T", 0] = 11
    assert await store.read(queue()) == 7
    assert await store.read(queue(), Read.STORE) == 11
    assert store.known(queue()) == 11
    del cluster.broker.answers[RequestCode.QUERY_CONSUMER_OFFSET]
    assert await store.read(queue(1)) == NOT_READABLE
    await instance.stop()


@asyncio_test
async def test_local_offsets(tmp_path_factory: pytest.TempPathFactory) -> None:  # C-04
    folder = tmp_path_factory.mktemp("offsets") / "client" / "group"
    store = LocalOffsets(folder, run)
    await store.load()
    assert await store.read(queue()) == NONE_STORED
    store.update(queue(0), 7)
    store.update(queue(1), 8)
    await store.persist_all([queue(0), queue(1)])
    assert store.path.read_bytes() == (
        b'{\n\t"offsetTable":{{\n\t\t\t"brokerName":"broker-a",\n\t\t\t"queueId":0,\n\t\t\t"topic":"T"\n\t\t}:7,{\n'
        b'\t\t\t"brokerName":"broker-a",\n\t\t\t"queueId":1,\n\t\t\t"topic":"T"\n\t\t}:8\n\t}\n}'
    )
    store.update(queue(0), 9)
    await store.persist(queue(0))
    again = LocalOffsets(folder, run)
    await again.load()
    assert again.table() == {queue(0): 9, queue(1): 8}
    again.remove(queue(1))
    assert await again.read(queue(1)) == 8


@asyncio_test
async def test_local_offsets_survive_a_power_cut(tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("offsets")
    with pytest.MonkeyPatch.context() as patch:
        syncs = Syncs(patch, root)
        store = LocalOffsets(root / "client" / "group", run)
        for offset in (7, 8):
            store.update(queue(), offset)
            await store.persist(queue())
        for path in (store.path, backup_of(store.path)):
            assert syncs.survives(path)
            assert path.stat().st_ino in syncs.files


@asyncio_test
async def test_damaged_local_offsets(tmp_path_factory: pytest.TempPathFactory) -> None:  # C-04
    folder = tmp_path_factory.mktemp("offsets")
    store = LocalOffsets(folder, run)
    store.update(queue(), 7)
    await store.persist_all([queue()])
    store.update(queue(), 8)
    await store.persist_all([queue()])
    for content in (b"", b"{broken"):
        store.path.write_bytes(content)
        again = LocalOffsets(folder, run)
        await again.load()
        assert again.table() == {queue(): 7}
    backup_of(store.path).write_bytes(b"{broken")
    with pytest.raises(ClientError, match="no other copy"):
        await LocalOffsets(folder, run).load()
    assert await LocalOffsets(folder, run).read(queue()) == NOT_READABLE
    # An empty file is no new one: beginning anew would skip or repeat everything without a word.
    backup_of(store.path).unlink()
    store.path.write_bytes(b"")
    with pytest.raises(ClientError, match="is empty"):
        await LocalOffsets(folder, run).load()


LAST, FIRST, TIME = (
    ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
    ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    ConsumeFromWhere.CONSUME_FROM_TIMESTAMP,
)
RETRY = "%RETRY%CG"


@pytest.mark.parametrize(
    ("where", "topic", "stored", "expected"),
    [
        (LAST, "T", 5, 5),
        (FIRST, "T", 5, 5),
        (TIME, "T", 5, 5),
        (LAST, "T", None, 3),
        (ConsumeFromWhere.CONSUME_FROM_MAX_OFFSET, "T", None, 3),
        (LAST, RETRY, None, 0),
        (FIRST, "T", None, 0),
        (TIME, "T", None, 77),
        (TIME, RETRY, None, 2),
    ],
)
@asyncio_test
async def test_where_a_group_begins(where: ConsumeFromWhere, topic: str, stored: int | None, expected: int) -> None:
    cluster = ConsumeCluster()
    cluster.add_topic(RETRY, 1)
    cluster.broker.arrive(0, b"a", b"b", b"c")
    cluster.broker.arrive(0, b"a", b"b", topic=RETRY)
    if stored is not None:
        cluster.broker.offsets[topic, 0] = stored
    instance = await instance_of(cluster)
    offsets = RemoteOffsets(instance, "CG")
    starts = StartOffsets(where, WALL, offsets, Queries(instance))
    assert await starts.find(queue(0, topic)) == expected
    assert offsets.known(queue(0, topic)) == expected
    assert cluster.broker.offsets[topic, 0] == expected
    await instance.stop()


@asyncio_test
async def test_an_unreadable_offset_is_no_reason_to_begin_anywhere() -> None:
    cluster = ConsumeCluster()
    instance = await instance_of(cluster)
    del cluster.broker.answers[RequestCode.QUERY_CONSUMER_OFFSET]
    starts = StartOffsets(FIRST, WALL, RemoteOffsets(instance, "CG"), Queries(instance))
    with pytest.raises(ClientError, match="cannot be read"):
        await starts.find(queue())
    await instance.stop()


def test_start_times() -> None:
    clock = ManualClock()
    assert consume_time(None, clock) == WALL - 30 * 60 * 1000
    assert consume_time(datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC), clock) == 1704164645000
    local = datetime(2024, 1, 2, 3, 4, 5).astimezone()
    assert consume_time("20240102030405", clock) == int(local.timestamp() * 1000)
    with pytest.raises(ClientError, match="yyyyMMddHHmmss"):
        consume_time("yesterday", clock)
