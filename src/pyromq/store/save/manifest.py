"""What was certainly on disk at some moment: a log offset, and how long each queue was when everything below it was
dispatched. Written after queues and index were synced; recovery starts there and sees which queues lost entries since.

RocketMQ has no such file and ignores it. Without one, or with a damaged one, recovery goes by the checkpoint's times.
"""

import logging
from contextlib import suppress
from pathlib import Path
from zlib import crc32

import msgspec

from pyromq import durable
from pyromq.store.log.damage import Stretch

log = logging.getLogger(__name__)

FILE_NAME = "pyromq.manifest"


class Manifest(msgspec.Struct):
    """Everything below `offset` is in log, queues and index on disk.

    `queues` has, by topic and queue id, the offset with which the first file begins and the end of each queue;
    `indexed` is the last record that has a key in the index, -1 without one. `kept` is where the log itself ended on
    disk, which stays known while queues are made anew; `damaged` is what was found broken in it, as far as it fits.
    """

    offset: int
    queues: dict[str, dict[int, tuple[int, int]]]
    indexed: int = -1
    kept: int = 0
    damaged: list[Stretch] = []

    def write(self, root: Path) -> None:
        """Replace the file in one step and make it durable. Raises OSError."""
        body = msgspec.json.encode(self)
        durable.write_file(root / FILE_NAME, f"{crc32(body):08x}\n".encode() + body)

    @classmethod
    def read(cls, root: Path) -> "Manifest | None":
        """None when there is no file, or none that can be believed."""
        try:
            check, _, body = (root / FILE_NAME).read_bytes().partition(b"\n")
        except FileNotFoundError:
            return None
        if check == f"{crc32(body):08x}".encode():
            with suppress(msgspec.MsgspecError):
                return msgspec.json.decode(body, type=cls)
        log.warning("%s is damaged and ignored", root / FILE_NAME)
        return None
