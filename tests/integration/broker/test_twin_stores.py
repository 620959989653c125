"""A store that changes hands between the native core and Python: what one wrote the other reads, and writes on.

In Python's turns the core is off, as it is after three faults.
"""

import asyncio
import itertools
import shutil
from pathlib import Path

import pytest

from pyromq import native
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.headers.query import QueryMessageHeader
from pyromq.protocol.headers.sendrun import SendRun
from pyromq.protocol.message import Message
from pyromq.protocol.records.batch import encode_batch
from pyromq.protocol.records.record import decode_records
from pyromq.store.arrival import Sends
from pyromq.store.log.appender import Appender
from tests.integration.broker.servers import Peer, standalone
from tests.unit.native.twins import needs_core

pytestmark = needs_core

TOPIC = "orders"
TOGETHER = 60
"""Messages of a burst and of a batch."""
SMALL = {"mapped_file_size_commit_log": str(64 << 10), "mapped_file_size_consume_queue": str(20 * 100)}
"""Files of which each turn needs several."""


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize("first", [True, False], ids=["core-first", "python-first"])
async def test_what_one_twin_wrote_the_other_reads_and_writes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flush: str, killed: bool, first: bool
) -> None:
    expected: dict[int, list[bytes]] = {1: [], 2: []}
    runs = record_runs(monkeypatch)
    for turn in range(4):
        monkeypatch.setattr(native.core, "on", (turn % 2 == 0) is first)
        folder = tmp_path / f"{turn}"
        async with standalone(folder, flush_disk_type=flush, **SMALL) as (_, peer):
            for queue, bodies in expected.items():
                assert await read(peer, queue) == bodies
            for body in itertools.chain.from_iterable(expected.values()):
                assert await by_key(peer, body) == [body]
            await peer.stored(TOPIC)
            runs.clear()
            for queue in expected:
                expected[queue] += await write(peer, queue, turn)
            for queue, bodies in expected.items():
                assert await read(peer, queue) == bodies
            if killed:
                shutil.copytree(folder, tmp_path / f"{turn + 1}")
        if not killed:
            folder.rename(tmp_path / f"{turn + 1}")
        if native.core.on:
            assert max(runs) > TOGETHER // 2
        else:
            assert not runs
    assert not native.core.faults


def record_runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many messages each run has that the core stores."""
    runs: list[int] = []
    put_run = Appender.put_run

    def noting(self: Appender, run: SendRun, born_host: bytes, suffix: bytes) -> Sends | None:
        stored = put_run(self, run, born_host, suffix)
        if stored is not None:
            runs.append(len(run))
        return stored

    monkeypatch.setattr(Appender, "put_run", noting)
    return runs


async def write(peer: Peer, queue: int, turn: int) -> list[bytes]:
    """Send a burst, then a batch, then a burst again: their bodies, which are their keys too."""
    written: list[bytes] = []
    for kind in ("burst", "batch", "again"):
        bodies = [f"{kind}-{turn}-{queue}-{number}".encode() for number in range(TOGETHER)]
        if kind == "batch":
            body = encode_batch(Message(TOPIC, each, keys=[each.decode()], tags="t") for each in bodies)
            answers = [await peer.send(TOPIC, body, queue=queue, code=RequestCode.SEND_BATCH_MESSAGE, batch=True)]
        else:
            sends = [
                peer.send(TOPIC, each, queue=queue, KEYS=each.decode(), UNIQ_KEY=f"id-{each.decode()}", TAGS="t")
                for each in bodies
            ]
            answers = await asyncio.gather(*sends)
        assert {answer.code for answer in answers} == {ResponseCode.SUCCESS}
        written += bodies
    return written


async def read(peer: Peer, queue: int) -> list[bytes]:
    """All bodies of a queue, in order."""
    bodies: list[bytes] = []
    while found := await peer.messages(TOPIC, len(bodies), queue=queue):
        assert [message.queue_offset for message in found] == list(range(len(bodies), len(bodies) + len(found)))
        bodies += [message.body for message in found]
    return bodies


async def by_key(peer: Peer, key: bytes) -> list[bytes]:
    """The bodies of messages with a key."""
    header = QueryMessageHeader(topic=TOPIC, key=key.decode(), max_num=32, begin_timestamp=0, end_timestamp=2**63 - 1)
    answer = await peer.call(RequestCode.QUERY_MESSAGE, header)
    return [message.body for message in decode_records(answer.body)]
