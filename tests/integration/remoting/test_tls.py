"""TLS and plain text on one port, mutual TLS, reloading, and what comes before the first frame."""

import asyncio
import shutil
import ssl
import struct
from typing import Any

import pytest

from pyromq.protocol.command import Command, encode
from pyromq.remoting.accept.proxyheader import V2_SIGNATURE
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Answer
from pyromq.remoting.errors import ConnectError, RemotingError, TlsError
from pyromq.remoting.limits import Limits
from pyromq.remoting.server import Server
from pyromq.remoting.tls import ClientTls, ServerTls, TlsMode
from tests.integration.remoting.conftest import Authority, Run
from tests.integration.remoting.peers import ECHO, Gate, RawPeer, calling, echo, raw_peer, raw_server, serving, until


def who(command: Command, connection: Connection) -> Answer:
    certificate = connection.peer_certificate
    name = certificate["subject"][0][0][1] if certificate else "nobody"
    return command.reply(remark=f"{name} secure={connection.secure}")


def server_tls(authority: Authority, mode: TlsMode = TlsMode.PERMISSIVE) -> ServerTls:
    mine = authority.issue("server")
    return ServerTls(mine.certificate, mine.key, mode=mode)


def test_tls_and_plain_on_one_port(run: Run, authority: Authority) -> None:
    async def main() -> None:
        trust = ClientTls(ca=authority.certificate)
        async with (
            serving({ECHO: who}, tls=server_tls(authority)) as (server, address),
            calling() as plain,
            calling(tls=trust) as secure,
        ):
            for _ in range(3):
                answers = await asyncio.gather(
                    plain.call(address, Command.request(ECHO), 30), secure.call(address, Command.request(ECHO), 30)
                )
                assert [answer.remark for answer in answers] == ["nobody secure=False", "nobody secure=True"]
            assert server.stats.connections == 2

    run(main())


def test_large_frames_through_tls(run: Run, authority: Authority) -> None:
    async def main() -> None:
        body = bytes(range(256)) * 4096 * 15
        async with (
            serving(tls=server_tls(authority)) as (_, address),
            calling(tls=ClientTls(ca=authority.certificate)) as client,
        ):
            answers = await asyncio.gather(
                *(client.call(address, Command.request(ECHO, body=body), 60) for _ in range(3))
            )
            assert all(answer.body == body for answer in answers)

    run(main())


def test_modes(run: Run, authority: Authority) -> None:
    async def main() -> None:
        trust = ClientTls(ca=authority.certificate)
        for tls in (None, server_tls(authority, TlsMode.DISABLED)):
            async with serving(tls=tls) as (server, address), calling() as plain, calling(tls=trust) as secure:
                assert (await plain.call(address, Command.request(ECHO), 30)).code == 0
                with pytest.raises(ConnectError, match=address):
                    await secure.call(address, Command.request(ECHO), 30)
                assert server.stats.handshakes_failed == 1
        async with (
            serving(tls=server_tls(authority, TlsMode.ENFORCING)) as (_, address),
            calling() as plain,
            calling(tls=trust) as secure,
        ):
            assert (await secure.call(address, Command.request(ECHO), 30)).code == 0
            with pytest.raises(RemotingError, match=address):
                await plain.call(address, Command.request(ECHO), 30)

    run(main())


def test_servers_are_verified_unless_told_otherwise(run: Run, authority: Authority, stranger: Authority) -> None:
    async def main() -> None:
        async with serving(tls=server_tls(stranger)) as (_, address):
            for tls in (ClientTls(), ClientTls(ca=authority.certificate)):
                async with calling(tls=tls) as client:
                    with pytest.raises(ConnectError, match="certificate verify failed"):
                        await client.call(address, Command.request(ECHO), 30)
            async with calling(tls=ClientTls(verify=False)) as client:
                assert (await client.call(address, Command.request(ECHO), 30)).code == 0

        async with serving(tls=server_tls(authority)) as (_, address):
            wrong_name = ClientTls(ca=authority.certificate, server_name="elsewhere")
            async with calling(tls=wrong_name) as client:
                with pytest.raises(ConnectError, match="not valid for"):
                    await client.call(address, Command.request(ECHO), 30)
            any_name = ClientTls(ca=authority.certificate, server_name="elsewhere", check_hostname=False)
            async with calling(tls=any_name) as client:
                assert (await client.call(address, Command.request(ECHO), 30)).code == 0

    run(main())


def test_mutual_tls(run: Run, authority: Authority, stranger: Authority) -> None:
    async def main() -> None:
        mine = authority.issue("server")
        tls = ServerTls(mine.certificate, mine.key, client_ca=authority.certificate)
        known, unknown = authority.issue("alice"), stranger.issue("mallory")
        async with serving({ECHO: who}, tls=tls) as (server, address):
            alice = ClientTls(ca=authority.certificate, certificate=known.certificate, key=known.key)
            async with calling(tls=alice) as client:
                assert (await client.call(address, Command.request(ECHO), 30)).remark == "alice secure=True"
            for refused in (
                ClientTls(ca=authority.certificate),
                ClientTls(ca=authority.certificate, certificate=unknown.certificate, key=unknown.key),
            ):
                # With TLS 1.3 a client hears of the refusal only after its own part of the handshake.
                async with calling(tls=refused) as client:
                    with pytest.raises(RemotingError):
                        await client.call(address, Command.request(ECHO), 30)
            assert server.stats.requests == 1
            assert server.stats.connections_opened == 1

    run(main())


def test_stopping_answers_what_came_through_tls(run: Run, authority: Authority) -> None:
    async def main() -> None:
        gate = Gate()
        server = Server({ECHO: gate}, tls=server_tls(authority))
        address = await server.listen("127.0.0.1", 0)
        async with calling(tls=ClientTls(ca=authority.certificate)) as client:
            calls = [asyncio.ensure_future(client.call(address, Command.request(ECHO), 30)) for _ in range(20)]
            await gate.crowd(20)
            stopping = asyncio.ensure_future(server.stop(30))
            await until(lambda: server.addresses == ())
            gate.open()
            assert {(await call).code for call in calls} == {0}
            await stopping
            await until(lambda: not client.connections)

    run(main())


def test_certificates_are_reloaded(run: Run, authority: Authority, stranger: Authority) -> None:
    async def main() -> None:
        mine = authority.issue("server")
        tls = ServerTls(mine.certificate, mine.key)
        async with serving(tls=tls) as (_, address):
            async with calling(tls=ClientTls(ca=authority.certificate)) as old:
                assert (await old.call(address, Command.request(ECHO), 30)).code == 0
                other = stranger.issue("server")
                shutil.copy(other.certificate, mine.certificate)
                # Half a change must not take the server down.
                with pytest.raises(TlsError, match="cannot load certificate"):
                    tls.reload()
                shutil.copy(other.key, mine.key)
                tls.reload()
                assert (await old.call(address, Command.request(ECHO), 30)).code == 0
            async with calling(tls=ClientTls(ca=stranger.certificate)) as new:
                assert (await new.call(address, Command.request(ECHO), 30)).code == 0

    run(main())


def test_files_that_are_no_certificates(authority: Authority) -> None:
    mine = authority.issue("server")
    for bad in (mine.key, mine.key.with_name("missing")):
        with pytest.raises(TlsError, match=bad.name):
            ServerTls(bad, mine.key)
        with pytest.raises(TlsError, match=bad.name):
            ServerTls(mine.certificate, mine.key, client_ca=bad)
        with pytest.raises(TlsError, match=bad.name):
            ClientTls(ca=bad)


def test_slow_handshakes_time_out_on_both_sides(run: Run, authority: Authority) -> None:
    async def main() -> None:
        limits = Limits(handshake_timeout=0.1)
        async with serving(tls=server_tls(authority), limits=limits) as (server, address):
            async with raw_peer(address) as peer:
                peer.writer.write(b"\x16\x03\x01")
                await peer.closed()
            assert server.stats.handshakes_failed == 1
            assert server.stats.connections_opened == 0

        async def silent(peer: RawPeer) -> None:
            await peer.closed()

        tls = ClientTls(verify=False)
        async with raw_server(silent) as address, calling(tls=tls, limits=Limits(connect_timeout=0.1)) as client:
            with pytest.raises(ConnectError, match=address):
                await client.call(address, Command.request(ECHO), 30)
            with pytest.raises(ConnectError, match="time of the request"):
                await client.call(address, Command.request(ECHO), 0.001)

    run(main())


def test_garbage_instead_of_a_handshake(run: Run, authority: Authority) -> None:
    async def main() -> None:
        options: dict[str, Any] = {"tls": server_tls(authority), "limits": Limits(connections=1)}
        async with serving(**options) as (server, address), calling() as client:

            async def fail(times: int) -> None:
                async with raw_peer(address) as peer:
                    peer.writer.write(b"\x16" + b"garbage" * 100)
                    await peer.closed()
                await until(lambda: server.stats.handshakes_failed == times)

            for times in (1, 2, 3):
                await fail(times)
            # None of them still counts as a connection.
            assert (await client.call(address, Command.request(ECHO), 30)).code == 0

    run(main())


V1 = b"PROXY TCP4 203.0.113.7 127.0.0.1 40000 10911\r\n"
V2 = V2_SIGNATURE + struct.pack(">BBH4B4BHH", 0x21, 0x11, 12, 203, 0, 113, 7, 127, 0, 0, 1, 40000, 10911)


def peer_name(command: Command, connection: Connection) -> Answer:
    return command.reply(remark=str(connection.peer))


@pytest.mark.parametrize("header", [V1, V2])
def test_a_trusted_proxy_announces_its_client(run: Run, authority: Authority, header: bytes) -> None:
    async def main() -> None:
        options: dict[str, Any] = {"trusted_proxies": ["127.0.0.0/8"], "tls": server_tls(authority)}
        request = encode(Command.request(ECHO))
        async with serving({ECHO: peer_name}, **options) as (_, address):
            async with raw_peer(address) as peer:
                peer.writer.write(header + request)
                assert (await peer.receive()).remark == "203.0.113.7:40000"
            async with raw_peer(address) as peer:
                for byte in header:
                    peer.writer.write(bytes([byte]))
                    await peer.writer.drain()
                peer.writer.write(request)
                assert (await peer.receive()).remark == "203.0.113.7:40000"
            async with raw_peer(address) as peer:
                # The header may be left out, and TLS may follow it.
                peer.writer.write(request)
                assert ((await peer.receive()).remark or "").startswith("127.0.0.1:")
            async with raw_peer(address) as peer:
                peer.writer.write(header)
                await peer.writer.start_tls(
                    ssl.create_default_context(cafile=authority.certificate), server_hostname="localhost"
                )
                peer.writer.write(request)
                assert (await peer.receive()).remark == "203.0.113.7:40000"

    run(main())


def test_proxy_headers_are_not_taken_from_anybody(run: Run) -> None:
    async def main() -> None:
        request = encode(Command.request(ECHO))
        async with serving() as (server, address), raw_peer(address) as peer:
            peer.writer.write(V1 + request)
            await peer.closed()
            assert server.stats.handshakes_failed == 1
        async with serving(trusted_proxies=["127.0.0.1/32"]) as (server, address), raw_peer(address) as peer:
            peer.writer.write(b"PROXY nonsense\r\n" + request)
            await peer.closed()
            assert server.stats.handshakes_failed == 1

    run(main())


def test_half_a_proxy_header_times_out(run: Run) -> None:
    async def main() -> None:
        limits = Limits(handshake_timeout=0.05)
        async with serving(trusted_proxies=["127.0.0.1/32"], limits=limits) as (server, address):
            async with raw_peer(address) as peer:
                peer.writer.write(V1[:20])
                await peer.closed()
            assert server.stats.handshakes_failed == 1

    run(main())


def test_clients_behind_a_proxy_are_counted_one_by_one(run: Run) -> None:
    async def main() -> None:
        options: dict[str, Any] = {"trusted_proxies": ["127.0.0.1/32"], "limits": Limits(connections_per_peer=1)}
        request = encode(Command.request(ECHO))
        async with serving({ECHO: echo}, **options) as (server, address):
            async with raw_peer(address) as first, raw_peer(address) as second, raw_peer(address) as third:
                first.writer.write(V1 + request)
                await first.receive()
                second.writer.write(V1.replace(b"113.7", b"113.8") + request)
                await second.receive()
                third.writer.write(V1 + request)
                await third.closed()
            assert server.stats.connections_refused_per_peer == 1
            await until(lambda: server.stats.connections == 0)

    run(main())
