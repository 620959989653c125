"""Connections that are slow, half open, silent or far too many. Who behaves is served as usual."""

import asyncio
import resource
import struct
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.remoting.client import Client
from pyromq.remoting.limits import Limits
from tests.hostile.targets import TIMEOUT, client, dial, is_well, request, run, target

MANY = 10_000
SOME = 600


async def served(server: str, peer: Client, rounds: int) -> None:
    """Every one of so many requests is answered, one after the other."""
    for _ in range(rounds):
        answer = await peer.call(server, Command.request(RequestCode.GET_BROKER_RUNTIME_INFO), TIMEOUT)
        assert answer.code == ResponseCode.SUCCESS


@asynccontextmanager
async def swarm(address: str, count: int) -> AsyncIterator[None]:
    """So many connections from another process, for a process may not have files without end."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.hostile.swarm", address, str(count)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert int(await process.stdout.readline()) == count
        yield
    finally:
        process.stdin.close()
        await process.wait()


@pytest.mark.parametrize("count", [SOME, MANY])
def test_silent_connections_are_bounded_cost_little_and_end(tmp_path: Path, count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + 1_000
    if hard < wanted:
        pytest.skip(f"{wanted} open files are needed, {hard} are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))

    async def scenario() -> None:
        bound = str(count)
        async with (
            target(tmp_path, auth=True, max_connections=bound, max_connections_per_peer=bound) as server,
            client(auth=True) as peer,
        ):
            assert server.broker is not None
            broker = server.broker.core.ports.server
            await is_well(server, peer)
            async with swarm(server.broker_address, count + 50):
                await served(server.broker_address, peer, 50)
                assert broker.stats.connections_refused + broker.stats.connections_refused_per_peer >= 49
                # Nobody proved who they are in time: they go, the polite client stays.
                limit = max(Limits().stranger_timeout, Limits().idle_timeout) + 1
                broker.sweep(time.monotonic() + limit)
                await until_cut(lambda: broker.stats.connections <= 2)
            assert broker.stats.closed_strangers > 0
            assert broker.stats.stranger_bytes == 0
            await is_well(server, peer)

    try:
        run(scenario())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_unfinished_frames_of_strangers_have_a_bound_in_all(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with target(tmp_path, auth=True) as server, client(auth=True) as peer:
            assert server.broker is not None
            stats = server.broker.core.ports.server.stats
            writers = []
            piece = struct.pack(">II", 15 << 20, 100) + b"x" * (4 << 20)
            for _ in range(12):
                _, writer = await dial(server.broker_address)
                writer.write(piece)
                writers.append(writer)
            await until_cut(lambda: stats.closed_slow >= 3)
            assert stats.stranger_bytes <= Limits().stranger_bytes_total + len(piece)
            await is_well(server, peer)
            for writer in writers:
                writer.close()

    run(scenario())


async def until_cut(condition: object) -> None:
    assert callable(condition)
    while not condition():  # noqa: ASYNC110 - counters set no event
        await asyncio.sleep(0.01)


def test_a_peer_that_does_not_read_is_cut_off(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with target(tmp_path, auth=True) as server, client(auth=True) as peer:
            assert server.broker is not None
            stats = server.broker.core.ports.server.stats
            ask = request(RequestCode.GET_ALL_TOPIC_CONFIG, {}, auth=True) * 200
            _, writer = await dial(server.broker_address)
            writer.transport.pause_reading()  # type: ignore[attr-defined]  # a socket transport
            for _ in range(200):
                writer.write(ask)
                if writer.transport.get_write_buffer_size() > 1 << 20:
                    break  # the server does not read either, as it should
                await asyncio.sleep(0)
            await is_well(server, peer)
            assert stats.reads_paused >= 1
            writer.transport.abort()
            await until_cut(lambda: stats.reads_paused == 0)

    run(scenario())


def test_guessing_secrets_is_slowed_down_and_costs_others_nothing(tmp_path: Path) -> None:
    from pyromq.remoting.hooks import Signing  # noqa: PLC0415 - for this test only

    async def scenario() -> None:
        async with target(tmp_path, auth=True) as server, client(auth=True) as peer:
            assert server.broker is not None
            await is_well(server, peer)
            codes = []
            for number in range(120):
                guesser = Client(hooks=(Signing("root", f"guess-{number}"),))
                call = Command.request(RequestCode.GET_BROKER_RUNTIME_INFO)
                codes.append((await guesser.call(server.broker_address, call, TIMEOUT)).code)
                await guesser.close()
            assert set(codes) == {ResponseCode.NO_PERMISSION, ResponseCode.SYSTEM_BUSY}
            assert server.broker.core.gate is not None
            assert server.broker.core.gate.guard is not None
            assert server.broker.core.gate.guard.stats.limited > 0
            await is_well(server, peer)

    run(scenario())


def test_rates_of_an_address(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with target(tmp_path, request_rate="5", connection_rate="5") as server:
            peer = Client()
            call = Command.request(RequestCode.GET_BROKER_RUNTIME_INFO)
            codes = [(await peer.call(server.broker_address, call, TIMEOUT)).code for _ in range(60)]
            assert set(codes) == {ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY}
            await peer.close()
            for _ in range(30):
                _, writer = await dial(server.broker_address)
                writer.close()
            assert server.broker is not None
            stats = server.broker.core.ports.server.stats
            await until_cut(lambda: stats.connections_refused_rate > 0)

    run(scenario())
