"""Two brokers under one name: the name servers keep the first, and everybody is told."""

from pathlib import Path

import pytest

from pyromq.broker.cluster.registration import Registration
from pyromq.protocol.bodies.route import TopicRouteData
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.headers.namesrv import GetRouteInfoByTopicHeader
from tests.integration.broker.servers import Peer, until
from tests.integration.broker.test_replication import master_of, name_server


async def masters(namesrv: str, topic: str) -> list[str]:
    async with Peer(namesrv) as peer:
        answer = await peer.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoByTopicHeader(topic=topic))
        return [each.broker_addrs[0] for each in TopicRouteData.decode(answer.body).broker_datas]


async def test_of_two_masters_under_one_name_the_first_stays(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with name_server(tmp_path) as namesrv, master_of(tmp_path / "a", namesrv) as (first, peer):
        await peer.stored("orders")
        await until(lambda: "orders" in first.core.topics)
        async with master_of(tmp_path / "b", namesrv) as (second, _):
            trouble = second.part(Registration).standing[namesrv]
            assert trouble is not None
            assert "NAME_TAKEN" in trouble
            assert first.address in trouble
            first.part(Registration).ask_again()
            await until(lambda: first.part(Registration).conflicts == 1)
            assert second.part(Registration).conflicts == 1
            assert first.part(Registration).standing == {namesrv: None}
            second.part(Registration).ask_again()
            assert await masters(namesrv, "orders") == [first.address]
            loud = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
            assert any("NOT REGISTERED" in each and first.address in each for each in loud)
            assert any("this one is registered" in each and second.address in each for each in loud)
            # As soon as the first one is gone, the second is let in.
            await first.stop()
            await until(lambda: second.part(Registration).standing == {namesrv: None})
            assert second.part(Registration).conflicts == 0
            assert await masters(namesrv, "TBW102") == [second.address]
