"""The server over real sockets: many peers, bad peers, slow peers, limits."""

import asyncio
import errno
import resource
import socket
from typing import Any

import pytest

from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.command import Command, encode
from pyromq.protocol.frame import MAX_FRAME
from pyromq.remoting import server as server_module
from pyromq.remoting.accept import acceptor
from pyromq.remoting.address import Address
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Answer
from pyromq.remoting.errors import SendError
from pyromq.remoting.limits import Limits
from pyromq.remoting.server import Server
from tests.integration.remoting.conftest import Run
from tests.integration.remoting.peers import ECHO, SINK, WAIT, Clock, Gate, calling, echo, raw_peer, serving, until


def frame_of(size: int) -> bytes:
    """A request that takes exactly `size` bytes on the wire."""
    body = size - len(encode(Command.request(ECHO)))
    return encode(Command.request(ECHO, body=b"x" * body))


def test_pipelined_frames_are_answered_in_order(run: Run) -> None:
    async def main() -> None:
        async with serving() as (_, address), raw_peer(address) as peer:
            peer.send(*(Command.request(ECHO, opaque=n, body=b"%d" % n) for n in range(1000)))
            for n in range(1000):
                answer = await peer.receive()
                assert (answer.opaque, bytes(answer.body)) == (n, b"%d" % n)

    run(main())


def test_frames_may_arrive_byte_by_byte(run: Run) -> None:
    async def main() -> None:
        async with serving() as (_, address), raw_peer(address) as peer:
            for position, byte in enumerate(stream := encode(Command.request(ECHO, opaque=7, body=b"abc")) * 2):
                peer.writer.write(bytes([byte]))
                await peer.writer.drain()
                if position == len(stream) // 2 - 1:
                    assert (await peer.receive()).opaque == 7
            assert bytes((await peer.receive()).body) == b"abc"

    run(main())


def test_the_largest_frame_passes_and_one_byte_more_closes(run: Run) -> None:
    async def main() -> None:
        async with serving() as (server, address):
            async with raw_peer(address) as peer:
                request = frame_of(MAX_FRAME)
                assert len(request) == MAX_FRAME
                peer.writer.write(request)
                answer = await peer.receive()
                assert answer.body == memoryview(request)[-len(answer.body) :]

            async with raw_peer(address) as peer:
                peer.send(Command.request(ECHO, opaque=5))
                peer.writer.write(frame_of(MAX_FRAME + 1))
                assert (await peer.receive()).opaque == 5
                with pytest.raises(EOFError):
                    await peer.receive()
            assert server.stats.closed_malformed == 1

    run(main())


def test_large_views_arrive_whole(run: Run) -> None:
    async def main() -> None:
        stored = memoryview(bytes(range(256)) * 4096 * 8)

        def slices(command: Command, connection: Connection) -> Answer:
            head = encode(command.reply(body=b"x" * len(stored)))[: -len(stored)]
            return [head, stored[:100], stored[100:5_000_000], stored[5_000_000:]]

        async with serving({ECHO: slices}) as (_, address), calling() as client:
            answers = await asyncio.gather(*(client.call(address, Command.request(ECHO), 30) for _ in range(8)))
            assert all(answer.body == stored for answer in answers)

    run(main())


def test_a_thousand_connections(run: Run) -> None:
    async def main() -> None:
        peers = 1000
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft < 4 * peers:
            # Both ends of each connection live in this process.
            if hard < 4 * peers:
                pytest.skip(f"needs {4 * peers} open files, the limit is {hard}")
            resource.setrlimit(resource.RLIMIT_NOFILE, (4 * peers, hard))
        async with serving() as (server, address):
            host, port = Address.parse(address)
            loop = asyncio.get_running_loop()
            sockets = [socket.socket() for _ in range(peers)]
            try:
                for sock in sockets:
                    sock.setblocking(False)
                    await loop.sock_connect(sock, (host, port))
                request = encode(Command.request(ECHO, body=b"hello"))

                async def exchange(sock: socket.socket) -> bytes:
                    await loop.sock_sendall(sock, request)
                    return await loop.sock_recv(sock, 4096)

                answers = await asyncio.gather(*map(exchange, sockets))
                assert all(answer.endswith(b"hello") for answer in answers)
                assert server.stats.connections == len(server.connections) == peers
            finally:
                for sock in sockets:
                    sock.close()
            await until(lambda: server.stats.connections == 0)
            assert server.stats.connections_opened == peers

    run(main())


def test_a_peer_that_vanishes_in_the_middle_of_a_frame(run: Run) -> None:
    async def main() -> None:
        async with serving() as (server, address), calling() as client:
            async with raw_peer(address) as peer:
                peer.writer.write(encode(Command.request(ECHO, body=b"x" * 1000))[:-1])
                await until(lambda: server.stats.partial_bytes > 0)
            await until(lambda: server.stats.connections == 0)
            assert server.stats.partial_bytes == server.stats.requests == 0
            assert (await client.call(address, Command.request(ECHO), 30)).code == 0

    run(main())


def test_a_peer_that_vanishes_before_its_answer(run: Run) -> None:
    async def main() -> None:
        gate = Gate()
        async with serving({WAIT: gate}) as (server, address):
            async with raw_peer(address) as peer:
                peer.send(Command.request(WAIT))
                await gate.crowd(1)
            await until(lambda: server.stats.connections == 0)
            assert server.stats.requests_in_flight == 1
            gate.open()
            await until(lambda: server.stats.requests_in_flight == 0)

    run(main())


def test_a_slow_reader_is_not_read_from_and_loses_nothing(run: Run) -> None:
    async def main() -> None:
        requests, size = 1000, 100_000
        limits = Limits(unsent_high=200_000)

        def large(command: Command, connection: Connection) -> Answer:
            return command.reply(body=b"x" * size)

        async with serving({ECHO: large}, limits=limits) as (server, address):
            async with raw_peer(address, limit=2**14) as peer, calling() as other:
                peer.send(*(Command.request(ECHO, opaque=n) for n in range(requests)))
                await until(lambda: server.stats.reads_paused == 1)
                # Somebody else is not held up; the slow one is served only as far as the system's buffers go.
                for _ in range(50):
                    assert len((await other.call(address, Command.request(ECHO), 30)).body) == size
                assert server.stats.requests - 50 < requests
                assert server.stats.reads_paused == 1

                for n in range(requests):
                    answer = await peer.receive()
                    assert (answer.opaque, len(answer.body)) == (n, size)
            assert server.stats.reads_paused == 0

    run(main())


def test_a_peer_that_never_reads_is_cut_off_by_what_it_is_sent(run: Run) -> None:
    async def main() -> None:
        opened: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
        limits = Limits(unsent_high=100_000, unsent_max=1_000_000)
        async with (
            serving({}, limits=limits, on_open=opened.set_result) as (server, address),
            raw_peer(address, limit=2**14) as peer,
        ):
            peer.send(Command.request(ECHO))
            connection = await opened
            note = Command.request(40, body=b"x" * 100_000, oneway=True)
            await until(lambda: not connection.send(note))
            await until(lambda: server.stats.connections == 0)
            assert "unsent_max" in connection.close_reason

    run(main())


def test_connection_limits(run: Run) -> None:
    async def main() -> None:
        for limits in (Limits(connections=2), Limits(connections_per_peer=2)):
            async with serving(limits=limits) as (server, address):
                async with raw_peer(address) as first, raw_peer(address) as second, raw_peer(address) as third:
                    await third.closed()
                    for peer in (first, second):
                        peer.send(Command.request(ECHO, opaque=3))
                        assert (await peer.receive()).opaque == 3
                    assert server.stats.connections_refused + server.stats.connections_refused_per_peer == 1
                await until(lambda: server.stats.connections == 0)
                async with raw_peer(address) as fourth:
                    fourth.send(Command.request(ECHO, opaque=4))
                    assert (await fourth.receive()).opaque == 4

    run(main())


def test_too_many_requests_in_flight_are_answered_busy(run: Run) -> None:
    async def main() -> None:
        gate = Gate()
        limits = Limits(requests_per_connection=3)
        async with serving({WAIT: gate}, limits=limits) as (_, address), raw_peer(address) as peer:
            peer.send(*(Command.request(WAIT, opaque=n) for n in range(5)))
            for opaque in (3, 4):
                busy = await peer.receive()
                assert (busy.opaque, busy.code) == (opaque, ResponseCode.SYSTEM_BUSY)
                assert "requests_per_connection" in (busy.remark or "")
            gate.open()
            assert sorted([(await peer.receive()).opaque for _ in range(3)]) == [0, 1, 2]

    run(main())


def test_bytes_in_flight_hold_the_peer_back(run: Run) -> None:
    async def main() -> None:
        gate = Gate()
        async with serving({WAIT: gate}, limits=Limits(bytes_per_connection=1_000_000)) as (server, address):
            async with raw_peer(address) as peer:
                peer.send(*(Command.request(WAIT, opaque=n, body=b"x" * 300_000) for n in range(10)))
                await until(lambda: server.stats.reads_paused == 1)
                assert server.stats.requests_in_flight < 10
                gate.open()
                assert sorted([(await peer.receive()).opaque for _ in range(10)]) == list(range(10))
            assert server.stats.bytes_in_flight == 0

    run(main())


def test_idle_peers_are_closed_by_one_timer(run: Run) -> None:
    async def main() -> None:
        reasons: list[str] = []
        clock = Clock()
        options: dict[str, Any] = {"limits": Limits(idle_timeout=0.05), "clock": clock}
        async with serving(on_close=lambda c: reasons.append(c.close_reason), **options) as (server, address):
            async with raw_peer(address) as silent, raw_peer(address) as idle:
                idle.send(Command.request(ECHO))
                await idle.receive()
                clock.now += 1
                await silent.closed()
                clock.now += 1
                await idle.closed()
            assert reasons == ["idle for 0.05 s"]
            assert server.stats.closed_idle == server.stats.handshakes_failed == 1

    run(main())


def test_several_addresses_with_tables_of_their_own(run: Run) -> None:
    async def main() -> None:
        def slow_only(command: Command, connection: Connection) -> Answer:
            return command.reply(remark=str(connection.local.port))

        async with serving({ECHO: echo, WAIT: slow_only}) as (server, address), calling() as client:
            fast = await server.listen("127.0.0.1", 0, handlers={ECHO: echo})
            assert server.addresses == (Address.parse(address), fast)
            for target in (address, str(fast)):
                assert (await client.call(target, Command.request(ECHO, body=b"1"), 30)).body == b"1"
            answer = await client.call(address, Command.request(WAIT), 30)
            assert answer.remark == str(Address.parse(address).port)
            answer = await client.call(fast, Command.request(WAIT), 30)
            assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED

    run(main())


def test_a_taken_port_is_an_error_that_names_it(run: Run) -> None:
    async def main() -> None:
        async with serving() as (_, address):
            host, port = Address.parse(address)
            with pytest.raises(OSError, match=f"cannot listen on {address}"):
                await Server({}).listen(host, port)

    run(main())


def test_running_out_of_files_only_delays_accepting(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Starved(socket.socket):
        failures = 3

        def accept(self) -> tuple[socket.socket, object]:
            if self.failures:
                self.failures -= 1
                raise OSError(errno.EMFILE, "Too many open files")
            return super().accept()

    async def bind_starved(host: str, port: int) -> socket.socket:
        sock = Starved(fileno=(await acceptor.bind(host, port)).detach())
        sock.setblocking(False)
        return sock

    async def main() -> None:
        async with serving() as (server, address), calling() as client:
            assert (await client.call(address, Command.request(ECHO), 30)).code == 0
            assert server.stats.connections == 1

    monkeypatch.setattr(acceptor, "ACCEPT_PAUSE", 0.01)
    monkeypatch.setattr(server_module, "bind", bind_starved)
    run(main())


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_ipv6_and_mapped_ipv4_peers(run: Run) -> None:
    async def main() -> None:
        def who(command: Command, connection: Connection) -> Answer:
            return command.reply(remark=connection.peer.host)

        try:
            probe = socket.socket(socket.AF_INET6)
            with probe:
                probe.bind(("::1", 0))
        except OSError:
            pytest.skip("no IPv6 loopback here")
        async with serving({ECHO: who}, host="::") as (server, _), calling() as client:
            port = server.addresses[0].port
            assert (await client.call(f"[::1]:{port}", Command.request(ECHO), 30)).remark == "::1"
            assert (await client.call(f"127.0.0.1:{port}", Command.request(ECHO), 30)).remark == "127.0.0.1"

    run(main())


def test_stop_under_load_answers_everything_it_accepted(run: Run) -> None:
    async def main() -> None:
        gate = Gate()
        accepted = 200
        server = Server({WAIT: gate, ECHO: echo})
        address = await server.listen("127.0.0.1", 0)
        async with raw_peer(address) as peer, calling() as client:
            calls = [asyncio.ensure_future(client.call(address, Command.request(WAIT), 30)) for _ in range(accepted)]
            peer.send(*(Command(WAIT, opaque=n, version=475) for n in range(accepted)))
            await gate.crowd(2 * accepted)
            stopping = asyncio.ensure_future(server.stop(30))
            await until(lambda: server.addresses == ())

            # Old clients are served while the server waits for the others, new ones are sent away.
            peer.send(Command(ECHO, opaque=1000, version=475), Command(ECHO, opaque=1001, version=479))
            assert [((c := await peer.receive()).opaque, c.code) for _ in range(2)] == [(1000, 0), (1001, 1500)]
            gate.open()
            # More is on its way while the server closes; that must not cost the answers it gave.
            peer.send(*(Command(ECHO, opaque=n, body=b"x" * 1000, version=475) for n in range(2000, 2100)))
            assert {(await call).code for call in calls} == {0}
            assert {answer.opaque for answer in await peer.receive_all()} >= set(range(accepted))
            peer.writer.close()
            await stopping
        assert server.stats.connections == server.stats.requests_in_flight == 0

    run(main())


def test_stop_cuts_off_what_takes_too_long(run: Run) -> None:
    async def main() -> None:
        gate = Gate()
        server = Server({WAIT: gate, SINK: lambda _command, _connection: None})
        address = await server.listen("127.0.0.1", 0)
        async with raw_peer(address) as peer, raw_peer(address) as deaf:
            peer.send(Command.request(WAIT))
            deaf.send(Command.request(SINK))
            await gate.crowd(1)
            await until(lambda: server.stats.requests == 2)
            await server.stop(grace=0.01)
            await peer.closed()
            await deaf.closed()
        assert server.stats.connections == server.stats.requests_in_flight == 0
        with pytest.raises(OSError, match=r"."):
            async with raw_peer(address):
                pass

    run(main())


def test_server_initiated_requests(run: Run) -> None:
    async def main() -> None:
        def running_info(command: Command, connection: Connection) -> Answer:
            return command.reply(body=b"info of " + bytes(command.body))

        async def ask_back(command: Command, connection: Connection) -> Answer:
            answer = await connection.request(Command.request(307, body=command.body), 30)
            return command.reply(body=bytes(answer.body))

        noted = asyncio.Event()

        def note(command: Command, connection: Connection) -> Answer:
            noted.set()
            return None

        async with serving({ECHO: ask_back}) as (server, address), calling({307: running_info, 40: note}) as client:
            answers = await asyncio.gather(
                *(client.call(address, Command.request(ECHO, body=b"%d" % n), 30) for n in range(100))
            )
            assert [bytes(answer.body) for answer in answers] == [b"info of %d" % n for n in range(100)]
            (connection,) = server.connections
            connection.send(Command.request(40, oneway=True))
            await noted.wait()
            assert (await connection.request(Command.request(309), 30)).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            client.disconnect(address)
            await until(lambda: not server.connections)
            with pytest.raises(SendError):
                await connection.request(Command.request(307), 30)

    run(main())
