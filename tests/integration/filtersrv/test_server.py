"""A filter server in this process: its bond with the broker, and who may upload."""

import asyncio
from pathlib import Path

import pytest

from pyromq.broker.filter.filterservers import FilterServers
from pyromq.filtersrv import server as filter_server
from pyromq.filtersrv.config import FilterServerConfig
from pyromq.filtersrv.errors import FilterServerError
from pyromq.filtersrv.server import FilterServer
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.headers.filtersrv import RegisterMessageFilterClassHeader
from pyromq.remoting.connection import Connection
from pyromq.remoting.errors import RemotingError
from tests.integration.client.clusters import asyncio_test, standalone
from tests.integration.client.inbox import eventually
from tests.integration.filtersrv.serving import EVEN, FilterClient


@asyncio_test
async def test_it_leaves_when_its_broker_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # F-02
    monkeypatch.setattr(filter_server, "REGISTER_INTERVAL", 0.05)
    gone = asyncio.Event()
    async with standalone(tmp_path, filter_server_nums="1") as server:
        config = FilterServerConfig(connect_which_broker=server.broker_address)
        filters = FilterServer(config, gave_up=lambda _reason: gone.set())
        await filters.start()
        broker = server.broker
        assert broker is not None
        assert broker.part(FilterServers).addresses == [filters.address]
    await gone.wait()
    await filters.stop()


@asyncio_test
async def test_it_does_not_start_without_a_broker_that_wants_it(tmp_path: Path) -> None:
    # F-02
    async with standalone(tmp_path) as server:
        with pytest.raises(FilterServerError, match="filterServerNums is 0"):
            await FilterServer(FilterServerConfig(connect_which_broker=server.broker_address)).start()
        address = server.broker_address
    with pytest.raises(RemotingError):
        await FilterServer(FilterServerConfig(connect_which_broker=address)).start()


@asyncio_test
async def test_who_may_upload_can_be_ruled(tmp_path: Path) -> None:
    # F-06
    def rule(header: RegisterMessageFilterClassHeader, connection: Connection) -> str | None:
        assert connection.peer.host == "127.0.0.1"
        return None if header.consumer_group == "trusted" else f"{header.consumer_group} may not upload"

    async with standalone(tmp_path, filter_server_nums="1") as server:
        config = FilterServerConfig(
            connect_which_broker=server.broker_address, client_upload_filter_class_enable=True, max_filter_classes=1
        )
        filters = FilterServer(config, may_upload=rule)
        await filters.start()
        client = FilterClient(filters.address)
        refused = await client.upload("stranger", "numbers", "Even", EVEN)
        assert (refused.code, refused.remark) == (ResponseCode.NO_PERMISSION, "stranger may not upload")
        assert len(filters.classes) == 0
        assert (await client.upload("trusted", "numbers", "Even", EVEN)).code == ResponseCode.SUCCESS
        assert (await client.upload("trusted", "others", "Even", EVEN)).code == ResponseCode.SYSTEM_BUSY
        bad = await client.upload("trusted", "no such/topic", "Even", EVEN)
        assert bad.code == ResponseCode.INVALID_PARAMETER
        await client.client.close()
        await filters.stop()
        broker = server.broker
        assert broker is not None
        await eventually(lambda: len(broker.part(FilterServers)) == 0)
