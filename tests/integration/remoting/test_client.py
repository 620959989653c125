"""The client over real sockets: sharing, matching, time-outs, reconnecting, hooks, permits."""

import asyncio

import pytest

from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.command import Command, encode
from pyromq.remoting.address import Address
from pyromq.remoting.connect.nameservers import NameServers
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Answer
from pyromq.remoting.errors import (
    AddressError,
    CallTimeout,
    ConnectError,
    ConnectionLost,
    InFlightLimitReached,
    RemotingError,
    SendError,
)
from pyromq.remoting.limits import Limits
from pyromq.remoting.server import Server
from tests.integration.remoting.conftest import Run
from tests.integration.remoting.peers import (
    ECHO,
    SINK,
    WAIT,
    Clock,
    Gate,
    RawPeer,
    calling,
    echo,
    raw_server,
    serving,
    until,
)


async def free_address() -> str:
    """An address where nobody listens."""
    async with serving() as (_, address):
        return address


def test_concurrent_callers_share_one_connection(run: Run) -> None:
    async def main() -> None:
        async with serving() as (server, address), calling() as client:
            answers = await asyncio.gather(
                *(client.call(address, Command.request(ECHO, body=b"%d" % n), 30) for n in range(500))
            )
            assert [bytes(answer.body) for answer in answers] == [b"%d" % n for n in range(500)]
            assert server.stats.connections_opened == 1
            assert client.is_connected(address)
            assert list(client.connections) == [address]
            assert client.stats.calls_in_flight == 0

    run(main())


def test_answers_in_any_order(run: Run) -> None:
    async def main() -> None:
        async def backwards(peer: RawPeer) -> None:
            requests = [await peer.receive() for _ in range(50)]
            for request in reversed(requests):
                # Another endpoint's numbers mean nothing here, and a stray answer harms nobody.
                peer.send(request.reply(body=bytes(request.body)), Command(0, flag=1, opaque=1_000_000))
            await peer.closed()

        async with raw_server(backwards) as address, calling() as client:
            answers = await asyncio.gather(
                *(client.call(address, Command.request(ECHO, body=b"%d" % n), 30) for n in range(50))
            )
            assert [bytes(answer.body) for answer in answers] == [b"%d" % n for n in range(50)]
            await until(lambda: client.stats.replies_unmatched == 50)

    run(main())


def test_opaques_are_unique_over_all_connections(run: Run) -> None:
    async def main() -> None:
        seen: list[int] = []

        def note(command: Command, connection: Connection) -> Answer:
            seen.append(command.opaque)
            return command.reply()

        async with serving({ECHO: note}) as (_, first), serving({ECHO: note}) as (_, second), calling() as client:
            for _ in range(20):
                await client.call(first, Command.request(ECHO), 30)
                await client.call(second, Command.request(ECHO), 30)
        assert len(set(seen)) == 40

    run(main())


def test_nobody_listens(run: Run) -> None:
    async def main() -> None:
        address = await free_address()
        async with calling() as client:
            for _ in range(3):
                with pytest.raises(ConnectError, match=address):
                    await client.call(address, Command.request(ECHO), 30)
            with pytest.raises(ConnectError, match=address):
                await client.oneway(address, Command.request(ECHO), 30)
            with pytest.raises(AddressError):
                await client.call("no address", Command.request(ECHO), 30)
            assert client.stats.calls == 0

    run(main())


def test_retries_are_held_back_more_and_more(run: Run) -> None:
    async def main() -> None:
        address = await free_address()
        clock = Clock()
        async with calling(limits=Limits(reconnect_backoff=0.1), clock=clock) as client:
            failures = client._connector._failures
            pauses = []
            for _ in range(4):
                with pytest.raises(ConnectError):
                    await client.call(address, Command.request(ECHO), 30)
                pauses.append(round(failures[address].not_before - clock.now, 3))
            assert pauses == [0.04, 0.08, 0.1, 0.1]
            host, port = Address.parse(address)
            server = Server({ECHO: echo})
            await server.listen(host, port)
            assert (await client.call(address, Command.request(ECHO), 30)).code == 0
            assert not failures
            await server.stop(30)

    run(main())


def test_nobody_has_to_wait_for_an_attempt_that_fails(run: Run) -> None:
    async def main() -> None:
        address = await free_address()
        async with calling() as client:
            waiting = asyncio.ensure_future(client.call(address, Command.request(ECHO), 30))
            await asyncio.sleep(0)
            assert client._connector._attempts
            waiting.cancel()
            await until(lambda: not client._connector._attempts)
            with pytest.raises(asyncio.CancelledError):
                await waiting

    run(main())


def test_no_answer_in_time(run: Run) -> None:
    async def main() -> None:
        async def silent(peer: RawPeer) -> None:
            await peer.closed()

        async with raw_server(silent) as address, calling() as client:
            await client.oneway(address, Command.request(ECHO), 30)
            with pytest.raises(CallTimeout, match="SEND_MESSAGE"):
                await client.call(address, Command.request(ECHO), 0.01)
            assert client.stats.calls_timed_out == 1
            # So short a time proves nothing about the connection.
            assert client.is_connected(address)

    run(main())


def test_a_silent_connection_is_given_up_after_a_long_time_out(run: Run) -> None:
    async def main() -> None:
        connections = 0

        async def silent_once(peer: RawPeer) -> None:
            nonlocal connections
            connections += 1
            if connections == 1:
                await peer.closed()
            while True:
                peer.send((await peer.receive()).reply())

        async with raw_server(silent_once) as address, calling(limits=Limits(silence=0.1)) as client:
            await client.oneway(address, Command.request(ECHO), 30)
            with pytest.raises(CallTimeout):
                await client.call(address, Command.request(ECHO), 0.2)
            assert (await client.call(address, Command.request(ECHO), 30)).code == 0
            assert connections == 2

    run(main())


def test_reconnects_on_the_next_call(run: Run) -> None:
    async def main() -> None:
        server = Server({ECHO: echo})
        address = await server.listen("127.0.0.1", 0)
        async with calling() as client:
            assert (await client.call(address, Command.request(ECHO), 30)).code == 0
            await server.stop(30)
            await until(lambda: not client.is_connected(address))
            with pytest.raises(ConnectError):
                await client.call(address, Command.request(ECHO), 30)
            server = Server({ECHO: echo})
            await server.listen(address.host, address.port)
            assert (await client.call(address, Command.request(ECHO), 30)).code == 0
            await server.stop(30)

    run(main())


def test_calls_fail_at_once_when_their_connection_dies(run: Run) -> None:
    async def main() -> None:
        async def hang_up(peer: RawPeer) -> None:
            for _ in range(10):
                await peer.receive()
            peer.writer.transport.abort()

        async with raw_server(hang_up) as address, calling() as client:
            outcomes = await asyncio.gather(
                *(client.call(address, Command.request(ECHO), 1000) for _ in range(10)), return_exceptions=True
            )
            assert all(isinstance(outcome, ConnectionLost) for outcome in outcomes)
            assert client.connections == {}

    run(main())


def test_half_an_answer_and_then_nothing(run: Run) -> None:
    async def main() -> None:
        async def half(peer: RawPeer) -> None:
            answer = encode((await peer.receive()).reply(body=b"x" * 1000))
            peer.writer.write(answer[:-1])

        async with raw_server(half) as address, calling() as client:
            with pytest.raises(ConnectionLost, match="closed by the peer"):
                await client.call(address, Command.request(ECHO), 1000)

    run(main())


def test_closing_the_client_fails_what_waits(run: Run) -> None:
    async def main() -> None:
        gate = Gate()
        async with serving({WAIT: gate}) as (_, address), calling() as client:
            waiting = asyncio.ensure_future(client.call(address, Command.request(WAIT), 1000))
            await gate.crowd(1)
            await client.close()
            with pytest.raises(ConnectionLost, match="client closed"):
                await waiting
            with pytest.raises(ConnectError, match="client is closed"):
                await client.call(address, Command.request(WAIT), 1000)
            gate.open()

    run(main())


def test_closing_the_client_while_it_connects(run: Run) -> None:
    async def main() -> None:
        async with serving() as (_, address), calling() as client:
            waiting = asyncio.ensure_future(client.call(address, Command.request(ECHO), 1000))
            await asyncio.sleep(0)
            await client.close()
            with pytest.raises(RemotingError):
                await waiting

    run(main())


def test_a_caller_that_gives_up_does_not_spoil_the_attempt_of_others(run: Run) -> None:
    async def main() -> None:
        async with serving() as (server, address), calling() as client:
            impatient = asyncio.ensure_future(client.call(address, Command.request(ECHO), 1000))
            patient = asyncio.ensure_future(client.call(address, Command.request(ECHO), 1000))
            await asyncio.sleep(0)
            impatient.cancel()
            assert (await patient).code == 0
            with pytest.raises(asyncio.CancelledError):
                await impatient
            assert server.stats.connections_opened == 1

    run(main())


def test_oneway(run: Run) -> None:
    async def main() -> None:
        seen = asyncio.Event()
        commands: list[Command] = []

        def sink(command: Command, connection: Connection) -> Answer:
            commands.append(command)
            if len(commands) == 100:
                seen.set()
            return command.reply()

        async with serving({SINK: sink}) as (server, address), calling() as client:
            for n in range(100):
                await client.oneway(address, Command.request(SINK, body=b"%d" % n), 30)
            await seen.wait()
            assert [bytes(command.body) for command in commands] == [b"%d" % n for n in range(100)]
            assert all(command.is_oneway for command in commands)
            assert server.stats.responses == client.stats.bytes_received == 0

    run(main())


def test_oneway_waits_for_a_peer_that_does_not_read(run: Run) -> None:
    async def main() -> None:
        read = asyncio.Event()
        received = 0

        async def lazy(peer: RawPeer) -> None:
            nonlocal received
            peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await read.wait()
            peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
            while True:
                await peer.receive()
                received += 1

        limits = Limits(unsent_high=100_000)
        async with raw_server(lazy) as address, calling(limits=limits) as client:
            await client.oneway(address, Command.request(SINK), 30)
            sent = 1

            async def send_on() -> None:
                nonlocal sent
                while sent < 10_000:
                    await client.oneway(address, Command.request(SINK, body=b"x" * 50_000), 0.05)
                    sent += 1

            with pytest.raises(SendError, match="does not read"):
                await send_on()
            with pytest.raises(SendError, match="does not read"):
                await client.call(address, Command.request(SINK), 0.05)
            read.set()
            await until(lambda: received == sent)

    run(main())


def test_permits_bound_what_is_in_flight(run: Run) -> None:
    async def main() -> None:
        gate = Gate()
        async with serving({WAIT: gate}) as (_, address), calling(limits=Limits(calls=2)) as client:
            first = [asyncio.ensure_future(client.call(address, Command.request(WAIT), 1000)) for _ in range(2)]
            await gate.crowd(2)
            with pytest.raises(InFlightLimitReached):
                await client.call(address, Command.request(WAIT), 0.01)
            third = asyncio.ensure_future(client.call(address, Command.request(WAIT), 1000))
            gate.open()
            assert [(await call).code for call in (*first, third)] == [0, 0, 0]
            assert gate.entered == 3

    run(main())


def test_go_away_is_answered_with_a_new_connection_once(run: Run) -> None:
    async def main() -> None:
        peers: list[RawPeer] = []

        async def leave(peer: RawPeer) -> None:
            peers.append(peer)
            code = ResponseCode.GO_AWAY if len(peers) != 2 else ResponseCode.SUCCESS
            while True:
                peer.send((await peer.receive()).reply(code))

        async with raw_server(leave) as address, calling() as client:
            assert (await client.call(address, Command.request(ECHO), 30)).code == 0
            assert len(peers) == 2
            client.disconnect(address)
            await until(lambda: not client.connections)
            with pytest.raises(SendError, match="going away"):
                await client.call(address, Command.request(ECHO), 30)
            assert len(peers) == 4
            await until(lambda: client.stats.connections == 0)

    run(main())


def test_hooks_see_requests_and_answers(run: Run) -> None:
    async def main() -> None:
        class Sign:
            def __init__(self) -> None:
                self.seen: list[tuple[str, str, int]] = []

            def before(self, command: Command, address: str) -> None:
                if command.code == SINK:
                    raise PermissionError("no key")
                command.ext["Signature"] = f"for {address}"

            def after(self, command: Command, response: Command, address: str) -> None:
                self.seen.append((command.name, address, response.code))

        def check(command: Command, connection: Connection) -> Answer:
            return command.reply(remark=command.ext.get("Signature"))

        hook = Sign()
        async with serving({ECHO: check}) as (_, address), calling(hooks=[hook]) as client:
            assert (await client.call(address, Command.request(ECHO), 30)).remark == f"for {address}"
            with pytest.raises(PermissionError):
                await client.call(address, Command.request(SINK), 30)
            assert hook.seen == [("SEND_MESSAGE", address, 0)]
            assert client.stats.calls == 1

    run(main())


def test_idle_connections_are_closed(run: Run) -> None:
    async def main() -> None:
        clock = Clock()
        limits = Limits(idle_timeout=0.05)
        async with serving() as (server, address), calling(limits=limits, clock=clock) as client:
            await client.call(address, Command.request(ECHO), 30)

            def gone_by_now() -> bool:
                clock.now += 0.01
                return not client.connections and server.stats.connections == 0

            await until(gone_by_now)
            assert client.stats.closed_idle == 1
            assert (await client.call(address, Command.request(ECHO), 30)).code == 0

    run(main())


def test_both_sides_hear_of_connections(run: Run) -> None:
    async def main() -> None:
        events: list[str] = []
        async with serving() as (_, address):
            async with calling(
                on_open=lambda c: events.append(f"open {c.peer}"), on_close=lambda c: events.append(f"close {c.peer}")
            ) as client:
                await client.call(address, Command.request(ECHO), 30)
            assert events == [f"open {address}", f"close {address}"]

    run(main())


def test_name_servers_fail_over(run: Run) -> None:
    async def main() -> None:
        dead = await free_address()
        first = Server({ECHO: echo})
        first_address = str(await first.listen("127.0.0.1", 0))
        async with serving() as (_, second_address), calling() as client:
            servers = NameServers(client, [dead, first_address, second_address], shuffle=lambda _: None)
            assert (await servers.call(Command.request(ECHO), 30)).code == 0
            assert servers.current == first_address
            await first.stop(30)
            assert (await servers.call(Command.request(ECHO), 30)).code == 0
            assert servers.current == second_address
            answers = servers.answers
            assert "cannot connect" in answers[dead]
            assert answers[second_address] == "answered"
            servers.update([dead])
            await until(lambda: not client.connections)
            with pytest.raises(ConnectError, match=f"no name server answered: {dead}"):
                await servers.call(Command.request(ECHO), 30)

    run(main())
