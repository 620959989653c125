"""The name server answers and never speaks first."""

import asyncio
from pathlib import Path

from pyromq.protocol.bodies.route import TopicRouteData
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command, encode
from pyromq.protocol.frame import FrameReader
from pyromq.protocol.headers.namesrv import GetRouteInfoByTopicHeader
from tests.integration.namesrv.serving import Peer, name_server


async def test_a_client_hears_of_a_change_only_when_it_asks(tmp_path: Path) -> None:
    # N-15
    async with name_server(tmp_path) as server, Peer(server.address) as broker:
        await broker.register("broker-a", "orders", "others")
        host, _, port = server.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        frames = FrameReader()
        heard: list[Command] = []

        async def ask(opaque: int) -> TopicRouteData:
            """Everything that has arrived on the connection when the answer has is in `heard`."""
            header = GetRouteInfoByTopicHeader(topic="orders")
            writer.write(encode(Command.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header, opaque=opaque)))
            while not any(command.opaque == opaque for command in heard):
                heard.extend(frames.feed(await reader.read(65536)))
            assert heard[-1].code == ResponseCode.SUCCESS
            return TopicRouteData.decode(heard[-1].body)

        assert len((await ask(1)).broker_datas) == 1
        await broker.register("broker-b", "orders", "others")
        assert len((await ask(2)).broker_datas) == 2
        assert [(command.opaque, command.is_response) for command in heard] == [(1, True), (2, True)]
        writer.close()
        await writer.wait_closed()
