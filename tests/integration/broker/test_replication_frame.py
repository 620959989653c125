"""A record without a frame on the master: its slaves stop there, and how they get past it."""

import shutil
from pathlib import Path

from tests.integration.broker.servers import until
from tests.integration.broker.test_replication import caught_up, master_of, name_server, slave_of
from tests.integration.broker.test_replication_proof import trouble
from tests.poison import damage, records_with


async def test_a_slave_stops_at_a_record_without_a_frame_and_follows_from_a_copy(tmp_path: Path) -> None:
    async with name_server(tmp_path) as namesrv:
        async with master_of(tmp_path, namesrv) as (_, peer):
            for number in range(3):
                await peer.stored("orders", b"body %d" % number)
        (offset,) = records_with(tmp_path / "master", b"body 1")
        damage(tmp_path / "master", offset + 4, b"\x00")
        async with master_of(tmp_path, namesrv), slave_of(tmp_path, namesrv) as (slave, _):
            await until(lambda: f"the record for {offset} is damaged" in trouble(slave))
            assert slave.store.max_physical_offset <= offset
        shutil.rmtree(tmp_path / "slave1")
        shutil.copytree(tmp_path / "master", tmp_path / "slave1")
        async with master_of(tmp_path, namesrv) as (master, peer), slave_of(tmp_path, namesrv) as (slave, _):
            await peer.stored("orders", b"body 3")
            await caught_up(master, slave)
            assert slave.store.max_offset("orders", 0) == 4
