"""Connections that close, fall silent or misbehave; several name servers; notifications to brokers."""

import asyncio
import struct
from pathlib import Path
from typing import Any

import pytest

from pyromq.namesrv import NameServer, NamesrvConfig
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.namesrv import NotifyMinBrokerIdChangeHeader
from pyromq.remoting.accept.settings import ClientAuth
from pyromq.remoting.connection import Connection
from pyromq.remoting.errors import ConnectError, RemotingError
from pyromq.remoting.server import Server
from pyromq.remoting.tls import ClientTls, TlsMode
from pyromq.settings.errors import ConfigError
from tests.integration.namesrv.serving import Peer, name_server, run, until
from tests.integration.remoting.conftest import Authority


def test_a_closed_connection_takes_its_broker_along(tmp_path: Path) -> None:
    # N-08
    async def scenario() -> None:
        async with name_server(tmp_path) as server, Peer(server.address) as client:
            async with Peer(server.address) as first, Peer(server.address) as second:
                await first.register("a", "T")
                await second.register("b", "T", "onlyB")
                assert (await client.route("T")).code == ResponseCode.SUCCESS
                await second.client.close()
                await until(lambda: "b" not in server.routes.brokers)
                assert (await client.route("onlyB")).code == ResponseCode.TOPIC_NOT_EXIST
                assert (await client.route("T")).code == ResponseCode.SUCCESS
            await until(lambda: not server.routes.brokers)
            assert (await client.route("T")).code == ResponseCode.TOPIC_NOT_EXIST

    run(scenario())


def test_a_broker_that_reconnects_keeps_its_route(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with name_server(tmp_path) as server, Peer(server.address) as old, Peer(server.address) as new:
            await old.register("a", "T")
            (old_connection,) = (live.connection for live in server.routes.live.values())
            await new.register("a", "T")
            await old.client.close()
            assert isinstance(old_connection, Connection)
            await until(lambda: not old_connection.is_open)
            assert (await new.route("T")).code == ResponseCode.SUCCESS

    run(scenario())


def test_a_silent_broker_is_removed_and_disconnected(tmp_path: Path) -> None:
    # N-11 N-12
    async def scenario() -> None:
        now = 0.0
        async with (
            name_server(tmp_path, clock=lambda: now, scan_not_active_broker_interval=10) as server,
            Peer(server.address) as broker,
            Peer(server.address) as client,
        ):
            await broker.register("a", "T")
            now += 120.0
            assert (await client.route("T")).code == ResponseCode.SUCCESS
            now += 0.1
            await until(lambda: not server.routes.brokers)
            await until(lambda: not broker.client.is_connected(server.address))
            assert (await client.route("T")).code == ResponseCode.TOPIC_NOT_EXIST

    run(scenario())


def test_name_servers_know_nothing_of_each_other(tmp_path: Path) -> None:
    # N-01
    async def scenario() -> None:
        async with (
            name_server(tmp_path / "1") as one,
            name_server(tmp_path / "2") as two,
            Peer(one.address) as first,
            Peer(two.address) as second,
        ):
            await first.register("a", "T")
            assert (await second.route("T")).code == ResponseCode.TOPIC_NOT_EXIST
            await second.register("a", "T")
            assert (await second.route("T")).code == ResponseCode.SUCCESS
            await one.stop()
            assert (await second.route("T")).code == ResponseCode.SUCCESS

    run(scenario())


def test_members_are_told_of_a_new_smallest_id(tmp_path: Path) -> None:
    async def scenario() -> None:
        told: asyncio.Queue[NotifyMinBrokerIdChangeHeader] = asyncio.Queue()

        def on_notice(command: Command, _: Connection) -> None:
            assert command.is_oneway
            told.put_nowait(command.header(NotifyMinBrokerIdChangeHeader))

        slave = Server({RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE: on_notice})
        address = str(await slave.listen("127.0.0.1", 0))
        async with (
            name_server(tmp_path, notify_min_broker_id_changed=True) as server,
            Peer(server.address) as peer,
            Peer(server.address) as master,
        ):
            await peer.register("a", "T", broker_id=1, address=address, acting=True)
            await master.register("a", "T", broker_id=0, acting=True)
            notice = await told.get()
            assert (notice.min_broker_id, notice.min_broker_addr) == (0, "a-0:10911")
            assert (notice.broker_name, notice.ha_broker_addr) == ("a", "10.0.0.1:10912")
            await master.client.close()
            notice = await told.get()
            assert (notice.min_broker_id, notice.min_broker_addr) == (1, address)
            assert notice.offline_broker_addr == "a-0:10911"
        await slave.stop()

    run(scenario())


HOSTILE = {
    "huge length": struct.pack(">i", 2**31 - 1) + b"x" * 16,
    "negative length": struct.pack(">i", -5) + b"x" * 16,
    "length too short": struct.pack(">i", 2) + b"xx",
    "header beyond the frame": struct.pack(">ii", 8, 9999) + b"x" * 4,
    "no JSON": struct.pack(">ii", 12, 8) + b"not json",
    "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_broken_frame_ends_its_connection_only(tmp_path: Path, name: str) -> None:
    async def scenario() -> None:
        async with name_server(tmp_path) as server, Peer(server.address) as peer:
            await peer.register("a", "T")
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(HOSTILE[name])
            assert await reader.read() == b""
            writer.close()
            assert (await peer.route("T")).code == ResponseCode.SUCCESS

    run(scenario())


@pytest.mark.parametrize(
    "body", [b"{", b"\xff\xff", b"[]", b"x\x9c\x00", b'{"topicConfigSerializeWrapper":5,"counter":"x"}', b"[" * 5000]
)
def test_broken_bodies_are_answered(tmp_path: Path, body: bytes) -> None:
    async def scenario() -> None:
        async with name_server(tmp_path) as server, Peer(server.address) as peer:
            ext = {"brokerName": "a", "brokerAddr": "h:1", "clusterName": "c", "haServerAddr": "h:2", "brokerId": "0"}
            for code in (RequestCode.REGISTER_BROKER, RequestCode.QUERY_DATA_VERSION):
                command = Command.request(code, ext=ext, body=body)
                response = await peer.client.call(peer.address, command, 30)
                assert response.code == ResponseCode.SYSTEM_ERROR
                assert response.remark
            assert not server.routes.brokers

    run(scenario())


@pytest.mark.parametrize(
    "ext",
    [
        {},
        {"brokerName": "../../etc", "brokerAddr": "h:1", "clusterName": "c", "haServerAddr": "h:2", "brokerId": "0"},
        {"brokerName": "a", "brokerAddr": "nowhere", "clusterName": "c", "haServerAddr": "h:2", "brokerId": "0"},
        {"brokerName": "a", "brokerAddr": "h:1", "clusterName": "c", "haServerAddr": "h:2", "brokerId": "-1"},
        {"brokerName": "a", "brokerAddr": "h:1", "clusterName": "c", "haServerAddr": "h:2", "brokerId": "many"},
    ],
)
def test_broken_headers_are_answered(tmp_path: Path, ext: dict[str, str]) -> None:
    async def scenario() -> None:
        async with name_server(tmp_path) as server, Peer(server.address) as peer:
            command = Command.request(RequestCode.REGISTER_BROKER, ext=ext)
            response = await peer.client.call(peer.address, command, 30)
            assert response.code in (ResponseCode.SYSTEM_ERROR, ResponseCode.INVALID_PARAMETER)
            assert not server.routes.brokers

    run(scenario())


def test_no_request_fails_in_an_unforeseen_way(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Every request with no header, no body and with nonsense is answered, and never by a stray exception."""

    async def scenario() -> None:
        async with name_server(tmp_path) as server, Peer(server.address) as peer:
            for code in server._handlers():
                for ext, body in (({}, b""), ({"topic": "\x00" * 1000, "key": "k"}, b"\x00\xff"), ({}, b"{}")):
                    response = await peer.client.call(peer.address, Command.request(code, ext=ext, body=body), 30)
                    assert response.is_response

    run(scenario())
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


def test_tls_is_enforced_when_asked_for(tmp_path: Path) -> None:
    async def scenario() -> None:
        authority = Authority(tmp_path)
        server_files, client_files = authority.issue("server"), authority.issue("client")
        options: dict[str, Any] = {
            "tls_mode": TlsMode.ENFORCING,
            "tls_cert_path": server_files.certificate,
            "tls_key_path": server_files.key,
            "tls_trust_cert_path": authority.certificate,
            "tls_client_auth": ClientAuth.REQUIRE,
        }
        known = ClientTls(ca=authority.certificate, certificate=client_files.certificate, key=client_files.key)
        unknown = ClientTls(ca=authority.certificate)
        async with (
            name_server(tmp_path, **options) as server,
            Peer(server.address, known) as welcome,
            Peer(server.address, unknown) as stranger,
            Peer(server.address) as plain,
        ):
            assert (await welcome.register("a", "T")).code == ResponseCode.SUCCESS
            for refused in (stranger, plain):
                with pytest.raises(RemotingError):
                    await refused.route("T")

    run(scenario())


def test_start_and_stop(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with name_server(tmp_path) as server:
            taken = NameServer(NamesrvConfig(listen_port=server.port, kv_config_path=tmp_path / "other.json"))
            with pytest.raises(ConnectError, match=f"cannot listen on 127.0.0.1:{server.port}"):
                await taken.start()
            await taken.stop()
            await server.stop()
            await server.stop()
        wide = NameServer(NamesrvConfig(host="0.0.0.0", listen_port=0, kv_config_path=tmp_path / "kv.json"))  # noqa: S104 - refused
        with pytest.raises(ConfigError, match="--insecure"):
            await wide.start()
        with pytest.raises(RuntimeError):
            _ = wide.address

    run(scenario())
