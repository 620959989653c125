"""A slave does not acknowledge a message before its topic is on disk: nobody could read it if the master were lost."""

import threading
from pathlib import Path

import pytest

from pyromq.broker.broker import Broker
from pyromq.broker.replication import peer as peers
from pyromq.broker.tables.topics import Topics
from pyromq.protocol.codes import RequestCode, ResponseCode
from tests.integration.broker.servers import until
from tests.integration.broker.test_replication import in_sync, master_of, name_server, slave_of
from tests.integration.broker.test_replication_proof import Pause


def on_disk(broker: Broker) -> Topics:
    """The topics that a start would find."""
    topics = Topics(broker.config, broker.clock)
    topics.load()
    return topics


def hold_saves(slave: Broker, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Have saves of the topics wait until they are released."""
    released, file = threading.Event(), slave.core.topics.saved._file
    write = file.write

    def slow(*args: object) -> None:
        released.wait()
        write(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(file, "write", slow)
    return released


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
async def test_a_message_waits_for_its_topic_to_be_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flush: str
) -> None:
    async with (
        name_server(tmp_path) as namesrv,
        master_of(tmp_path, namesrv, "SYNC_MASTER", slave_timeout="300") as (master, peer),
        slave_of(tmp_path, namesrv, flush_disk_type=flush) as (slave, _),
    ):
        await in_sync(master)
        assert (await peer.send("known")).code == ResponseCode.SUCCESS
        await until(lambda: slave.core.topics.version == master.core.topics.version)
        released = hold_saves(slave, monkeypatch)
        try:
            assert (await peer.send("orders")).code == ResponseCode.FLUSH_SLAVE_TIMEOUT
            assert slave.store.max_physical_offset == master.store.max_physical_offset
            assert "orders" not in on_disk(slave)
        finally:
            released.set()
        await in_sync(master)
        assert "orders" in on_disk(slave)
        assert (await peer.send("orders")).code == ResponseCode.SUCCESS


async def test_a_message_that_comes_before_the_first_table_waits_for_it(tmp_path: Path) -> None:
    async with (
        name_server(tmp_path) as namesrv,
        master_of(tmp_path, namesrv, "SYNC_MASTER", slave_timeout="300") as (master, peer),
    ):
        pause = Pause(master, RequestCode.GET_ALL_TOPIC_CONFIG)
        async with slave_of(tmp_path, namesrv) as (slave, _):
            await in_sync(master)
            await until(lambda: pause.asked > 0)
            assert (await peer.send("orders")).code == ResponseCode.FLUSH_SLAVE_TIMEOUT
            assert slave.store.max_physical_offset == master.store.max_physical_offset
            pause.released.set()
            await in_sync(master)
            assert "orders" in on_disk(slave)
            assert (await peer.send("orders")).code == ResponseCode.SUCCESS


async def test_a_topic_that_was_deleted_meanwhile_holds_up_nothing(tmp_path: Path) -> None:
    async with name_server(tmp_path) as namesrv, master_of(tmp_path, namesrv, "SYNC_MASTER") as (master, peer):
        await peer.send("orders")
        await master.core.topics.delete("orders")
        async with slave_of(tmp_path, namesrv) as (slave, _):
            await in_sync(master)
            assert slave.store.max_offset("orders", 0) == 1
            assert (await peer.send("bills")).code == ResponseCode.SUCCESS


async def test_topics_beyond_the_bound_hold_up_nothing_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "CALL_TIMEOUT", 0.5)
    async with name_server(tmp_path) as namesrv, master_of(tmp_path, namesrv, "SYNC_MASTER") as (master, peer):
        pause = Pause(master, RequestCode.GET_ALL_TOPIC_CONFIG)  # the table never comes
        async with slave_of(tmp_path, namesrv) as (slave, _):
            slave.config.max_topics = 1
            await in_sync(master)
            await peer.send("orders")
            await in_sync(master)
            assert "orders" not in slave.core.topics
            pause.released.set()
            await until(lambda: "orders" in slave.core.topics)
