"""Pop consumers on a broker that is killed (-9) in the middle: what is not acknowledged comes again, each and every."""

import asyncio
import contextlib
from pathlib import Path

from pyromq.configfile import read_config
from pyromq.protocol.bodies.offsets import ConsumerOffsetTable
from pyromq.remoting.errors import RemotingError
from tests.faults.test_delivery_kill import kill, start
from tests.integration.broker.pops import ack, acked, pop, pop_until, renew
from tests.integration.broker.servers import Peer, until
from tests.unit.broker.pop.speaking import Popped

ROUNDS = 3
GROUP = "g"


def saved_position(data: Path) -> int | None:
    """Where the group stands in the first queue, as it would be known after a kill."""
    table = read_config(data / "config" / "consumerOffset.json", ConsumerOffsetTable.decode)
    return None if table is None else table.offset_table.get(f"orders@{GROUP}", {}).get(0)


async def consume(peer: Peer, done: set[bytes], unsure: set[bytes], limit: int) -> None:
    """Pop and acknowledge; leave some messages alone and renew others, until so many are done or the broker is gone.

    A broker may be killed between an acknowledgement and its answer: of that message it is `unsure` whether it is done.
    """
    handled = 0
    with contextlib.suppress(RemotingError):
        while handled < limit:
            for number, each in enumerate(await pop(peer, count=8, invisible=2_000, hold=1_000)):
                if number % 4 == 3:
                    continue
                current = await renew(peer, each, 3_000) if number % 4 == 2 else each
                unsure.add(each.body)
                answer = await ack(peer, current)
                unsure.discard(each.body)
                if answer.code == 0:
                    done.add(each.body)
                handled += 1


async def test_nothing_is_lost(tmp_path: Path) -> None:
    sent: set[bytes] = set()
    done: set[bytes] = set()
    unsure: set[bytes] = set()
    for number in range(ROUNDS):
        process, address = await start(tmp_path)
        try:
            async with Peer(address) as peer, Peer(address) as second:
                for index in range(60):
                    body = f"{number}-{index}".encode()
                    answer = await peer.send("orders", body, queue=index % 4)
                    assert answer.code == 0, answer.remark
                    sent.add(body)
                consumers = [asyncio.create_task(consume(each, done, unsure, 25)) for each in (peer, second)]
                # One round is killed while requests are under way, the others between two of them.
                if number == 1:
                    await asyncio.wait(consumers, return_when=asyncio.FIRST_COMPLETED)
                    await kill(process)
                await asyncio.gather(*consumers)
        finally:
            if process.returncode is None:
                await kill(process)
    process, address = await start(tmp_path)
    try:
        async with Peer(address) as peer:
            while not sent - unsure <= done:
                for each in await pop_until(peer, 1, invisible=60_000):
                    assert each.body in sent
                    await acked(peer, each)
                    done.add(each.body)
    finally:
        await kill(process)


async def test_what_was_acknowledged_before_the_kill_does_not_come_back(tmp_path: Path) -> None:
    process, address = await start(tmp_path)
    popped: list[Popped] = []
    try:
        async with Peer(address) as peer:
            for index in range(20):
                await peer.stored("orders", str(index).encode())
            popped = await pop(peer, count=20, invisible=20_000)
            assert len(popped) == 20
            await acked(peer, *popped[:10])
            # Once its position is saved, a kill does not give a group the same messages out again.
            await until(lambda: saved_position(tmp_path) == 20)
    finally:
        await kill(process)
    process, address = await start(tmp_path)
    try:
        async with Peer(address) as peer:
            await acked(peer, *popped[10:15])
            again = await pop_until(peer, 5, invisible=60_000)
            assert {each.body for each in again} == {str(index).encode() for index in range(15, 20)}
            assert all(each.message.reconsume_times == 1 for each in again)
            await acked(peer, *again)
            assert await pop(peer, hold=4_000) == []
    finally:
        await kill(process)


async def test_what_was_acknowledged_never_comes_again(tmp_path: Path, long_run: bool) -> None:
    # Positions are saved every five seconds, and no life is that long: what was popped is known from the log alone.
    done: set[bytes] = set()
    expected = {str(number).encode() for number in range(200)}
    for life in range(20 if long_run else 6):
        process, address = await start(tmp_path)
        try:
            async with Peer(address) as peer:
                if life == 0:
                    for number, name in enumerate(sorted(expected)):
                        answer = await peer.send("orders", name, queue=number % 4)
                        assert answer.code == 0, answer.remark
                for each in await pop(peer, count=16, invisible=60_000, hold=1_000):
                    assert each.body not in done, "acknowledged, and given out again"
                    await acked(peer, each)
                    done.add(each.body)
        finally:
            await kill(process)
    assert done


async def test_an_ordered_group_goes_on_where_it_acknowledged(tmp_path: Path) -> None:
    expected = [str(number).encode() for number in range(20)]
    done: list[bytes] = []
    for life in range(4):
        process, address = await start(tmp_path)
        try:
            async with Peer(address) as peer:
                if life == 0:
                    for name in expected:
                        await peer.stored("orders", name)
                for each in await pop(peer, count=5, queue=0, hold=10_000, order=True):
                    await acked(peer, each)
                    done.append(each.body)
        finally:
            await kill(process)
    assert done == expected
