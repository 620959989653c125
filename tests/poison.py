"""Records that no client of ours writes: sent by hand to a broker, or made by damaging the log of a stopped one."""

import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.send import SendMessageResponseHeader, SendMessageV2Header
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.compression import CompressionType, compress
from pyromq.remoting.client import Client

LIMIT = 60.0
BOMB = 80 << 20
"""More than clients inflate unless they are told to."""


class Poison(NamedTuple):
    """A message that a broker takes and that cannot be read as it claims to be."""

    name: str
    body: bytes
    sys_flag: int


POISONS = (
    Poison("no zlib stream", b"this is no stream", sysflag.COMPRESSED),
    Poison("no lz4 frame", b"this is no stream", CompressionType.LZ4.flag),
    Poison("no zstd frame", b"this is no stream", CompressionType.ZSTD.flag),
    Poison("unknown compression", b"this is no stream", sysflag.COMPRESSED | 0x700),
    Poison("cut stream", zlib.compress(b"text " * 1000)[:-5], sysflag.COMPRESSED),
    Poison("zlib bomb", compress(bytes(BOMB), CompressionType.ZLIB), CompressionType.ZLIB.flag),
    Poison("zstd bomb", compress(bytes(BOMB), CompressionType.ZSTD), CompressionType.ZSTD.flag),
)


async def send_raw(
    address: str, topic: str, body: bytes, *, queue: int = 0, sys_flag: int = 0, properties: str = ""
) -> SendMessageResponseHeader:
    """Store a message whose system flag and properties say what they are told to."""
    header = SendMessageV2Header(
        producer_group="poisoner",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=1,
        queue_id=queue,
        sys_flag=sys_flag,
        born_timestamp=1_700_000_000_000,
        flag=0,
        properties=properties,
        batch=False,
    )
    client = Client()
    try:
        answer = await client.call(address, Command.request(RequestCode.SEND_MESSAGE_V2, header, body=body), LIMIT)
    finally:
        await client.close()
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return answer.header(SendMessageResponseHeader)


async def send_around(address: str, topic: str, poisons: Iterable[Poison] = POISONS) -> tuple[list[bytes], list[bytes]]:
    """Sound messages with poisonous ones between them, in one queue: the bodies of both."""
    sound, bad = [], []
    for number, poison in enumerate(poisons):
        sound.append(b"sound %d" % number)
        bad.append(poison.body)
        await send_raw(address, topic, sound[-1], properties="TAGS\x01a\x02")
        await send_raw(address, topic, poison.body, sys_flag=poison.sys_flag, properties="TAGS\x01a\x02")
    sound.append(b"the last one")
    await send_raw(address, topic, sound[-1], properties="TAGS\x01a\x02")
    return sound, bad


def log_files(store: Path) -> list[Path]:
    """The files of a commit log, in order."""
    return sorted(path for path in (store / "commitlog").iterdir() if path.name.isdigit())


def records_with(store: Path, text: bytes) -> list[int]:
    """Where the records lie whose body begins with a text; for logs of records with IPv4 hosts."""
    found = []
    for path in log_files(store):
        data = path.read_bytes()
        at = data.find(text)
        while at >= 0:
            if data[at - 84 : at - 80] == b"\xda\xa3\x20\xa7":
                found.append(int(path.name) + at - 88)
            at = data.find(text, at + 1)
    return found


def damage(store: Path, offset: int, value: bytes) -> None:
    """Write over bytes of a stopped store's log."""
    for path in reversed(log_files(store)):
        if int(path.name) <= offset:
            with path.open("r+b") as file:
                file.seek(offset - int(path.name))
                file.write(value)
            return
    raise AssertionError(f"the log has no offset {offset}")
