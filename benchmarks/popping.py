"""Pops beside pulls of the same messages, by raw frames on a broker in a process of its own.

    python -m benchmarks.popping [--json]

Each round every contender reads all that is stored, as a new group: pulls, pops that are acknowledged one by one, and
pops that are acknowledged by the batch; the latter two also on a broker with `enablePopBufferMerge`. Beside the rate
stands the processor time of the broker, which others on the machine change less.
"""

import asyncio
import itertools
import json
import os
import sys
import tempfile
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.report import Figure, arguments, show
from pyromq.protocol.bodies.pop import BatchAck, BatchAckBody, ack_bits
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command, encode
from pyromq.protocol.frame import decode
from pyromq.protocol.handles.pop import PopHandle, decode_offsets, decode_starts
from pyromq.protocol.headers.base import Header
from pyromq.protocol.headers.consume import PullMessageResponseHeader
from pyromq.protocol.headers.pop import AckMessageHeader, PopMessageHeader, PopMessageResponseHeader
from pyromq.protocol.headers.send import SendMessageV2Header
from pyromq.protocol.message import Message
from pyromq.protocol.records.batch import encode_batch
from pyromq.protocol.requests import pull_messages

TOPIC = "popped"
BROKER = "broker-a"
QUEUES = 4
STORED = 16_000
SENT_AT_ONCE = 200
READ_AT_ONCE = 32
ROUNDS = 3
OK = b'"code":0,'

SERVE = """
import json, os, sys
from pathlib import Path
from pyromq.broker.standalone import Standalone
from pyromq.cli.servers.foreground import run
settings = {"enable_pop_buffer_merge": sys.argv[2]}
server = Standalone(Path(sys.argv[1]), namesrv_port=0, broker_port=0, settings=settings)
run(server, lambda: print(json.dumps({"broker": server.broker_address, "pid": os.getpid()}), flush=True))
"""

Reader = Callable[["Remote", str], Awaitable[None]]


class Remote:
    """A broker that is read with raw frames, over as many connections as it has queues."""

    def __init__(self, address: str, pid: int) -> None:
        self._address = address
        self._pid = pid
        self._streams: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def connect(self) -> None:
        host, port = self._address.rsplit(":", 1)
        self._streams = [await asyncio.open_connection(host, int(port)) for _ in range(QUEUES)]

    async def ask(self, number: int, frames: list[bytes]) -> list[bytes]:
        """Send requests over one connection; the answers without their length words, in any order."""
        reader, writer = self._streams[number]
        writer.write(b"".join(frames))
        return [await reader.readexactly(int.from_bytes(await reader.readexactly(4))) for _ in frames]

    async def call(self, number: int, code: int, header: Header | None = None, body: bytes = b"") -> Command:
        (answer,) = await self.ask(number, [encode(Command.request(code, header, body=body))])
        return decode(answer)

    def cpu(self) -> float:
        """Seconds of processor time that the broker has used."""
        fields = Path(f"/proc/{self._pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def fill(self) -> None:
        body = encode_batch([Message(TOPIC, b"x" * 128) for _ in range(SENT_AT_ONCE)])
        for number in range(STORED // SENT_AT_ONCE):
            header = SendMessageV2Header(
                producer_group="p",
                topic=TOPIC,
                default_topic="TBW102",
                default_topic_queue_nums=QUEUES,
                queue_id=number % QUEUES,
                sys_flag=0,
                born_timestamp=0,
                flag=0,
                properties="",
                batch=True,
            )
            answer = await self.call(0, RequestCode.SEND_BATCH_MESSAGE, header, body)
            assert answer.code == ResponseCode.SUCCESS, answer.remark

    def close(self) -> None:
        for _, writer in self._streams:
            writer.close()


async def pull(remote: Remote, group: str) -> None:
    """One reader for each queue."""

    async def read(queue: int) -> None:
        offset = 0
        while offset < STORED // QUEUES:
            command = pull_messages(group, TOPIC, queue, offset, READ_AT_ONCE)
            answer = decode((await remote.ask(queue, [encode(command)]))[0])
            offset = answer.header(PullMessageResponseHeader).next_begin_offset

    await asyncio.gather(*map(read, range(QUEUES)))


def popping(*, batches: bool) -> Reader:
    """As many readers, who acknowledge everything before they pop again."""

    async def pop(remote: Remote, group: str) -> None:
        left = STORED

        async def read(number: int) -> None:
            nonlocal left
            while left > 0:
                header = PopMessageHeader(
                    consumer_group=group,
                    topic=TOPIC,
                    queue_id=-1,
                    max_msg_nums=READ_AT_ONCE,
                    invisible_time=60_000,
                    poll_time=0,
                    init_mode=0,
                    exp_type="TAG",
                    exp="*",
                )
                answer = await remote.call(number, RequestCode.POP_MESSAGE, header)
                if answer.code != ResponseCode.SUCCESS:
                    assert left <= 0, answer.remark
                    return
                handles = handles_of(answer.header(PopMessageResponseHeader))
                left -= len(handles)
                await (ack_batch if batches else ack_each)(remote, number, group, handles)

        await asyncio.gather(*map(read, range(QUEUES)))

    return pop


def handles_of(header: PopMessageResponseHeader) -> list[PopHandle]:
    starts = decode_starts(header.start_offset_info)
    return [
        PopHandle(
            starts[key], header.pop_time, header.invisible_time, header.revive_qid, key[0], BROKER, key[1], offset
        )
        for key, offsets in decode_offsets(header.msg_offset_info).items()
        for offset in offsets
    ]


async def ack_each(remote: Remote, number: int, group: str, handles: list[PopHandle]) -> None:
    frames = [
        encode(
            Command.request(
                RequestCode.ACK_MESSAGE,
                AckMessageHeader(
                    consumer_group=group,
                    topic=TOPIC,
                    queue_id=handle.queue_id,
                    extra_info=handle.encode(),
                    offset=handle.queue_offset,
                ),
                opaque=opaque,
            )
        )
        for opaque, handle in enumerate(handles)
    ]
    assert all(OK in answer for answer in await remote.ask(number, frames))


async def ack_batch(remote: Remote, number: int, group: str, handles: list[PopHandle]) -> None:
    acks = []
    for (queue, start), members in itertools.groupby(handles, lambda handle: (handle.queue_id, handle.start_offset)):
        offsets = list(members)
        acks.append(
            BatchAck(
                bits=ack_bits(handle.queue_offset - start for handle in offsets),
                consumer_group=group,
                invisible_time=offsets[0].invisible_time,
                pop_time=offsets[0].pop_time,
                queue_id=queue,
                revive_queue_id=offsets[0].revive_queue,
                start_offset=start,
                topic=TOPIC,
            )
        )
    body = BatchAckBody(acks=acks, broker_name=BROKER).encode()
    answer = await remote.call(number, RequestCode.BATCH_ACK_MESSAGE, body=body)
    assert answer.code == ResponseCode.SUCCESS, answer.remark


@asynccontextmanager
async def broker(*, merge: bool) -> AsyncIterator[Remote]:
    """A standalone server with all messages stored."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", SERVE, folder, str(merge).lower()]
        process = await asyncio.create_subprocess_exec(*command, stdout=PIPE)
        assert process.stdout is not None
        said = json.loads(await process.stdout.readline())
        remote = Remote(said["broker"], said["pid"])
        try:
            await remote.connect()
            await remote.fill()
            yield remote
        finally:
            remote.close()
            process.terminate()
            await process.wait()


async def pop_rates() -> dict[str, Figure]:
    """Messages a second, the best of some rounds, and their share of what pulls reach in the same rounds."""
    async with broker(merge=False) as plain, broker(merge=True) as merging:
        contenders: dict[str, tuple[Remote, Reader]] = {
            "pull": (plain, pull),
            "pop and ack": (plain, popping(batches=False)),
            "pop and batch ack": (plain, popping(batches=True)),
            "merged pop and ack": (merging, popping(batches=False)),
            "merged pop and batch ack": (merging, popping(batches=True)),
        }
        seconds = dict.fromkeys(contenders, float("inf"))
        busy = dict.fromkeys(contenders, float("inf"))
        for turn in range(ROUNDS):
            for name, (remote, read) in contenders.items():
                begin, used = time.monotonic(), remote.cpu()
                await read(remote, f"{name.replace(' ', '_')}_{turn}")
                seconds[name] = min(seconds[name], time.monotonic() - begin)
                busy[name] = min(busy[name], remote.cpu() - used)
    figures: dict[str, Figure] = {}
    for name in contenders:
        figures[f"{name} messages per second"] = round(STORED / seconds[name])
        if name != "pull":
            figures[f"{name} as a share of pull"] = seconds["pull"] / seconds[name]
        figures[f"{name} broker CPU µs per message"] = busy[name] / STORED * 1e6
    return figures


def main() -> None:
    options = arguments(__doc__ or "")
    show("popping", asyncio.run(pop_rates()), as_json=options.json)


if __name__ == "__main__":
    main()
