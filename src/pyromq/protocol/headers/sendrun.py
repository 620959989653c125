"""A run of plain sends or batches: requests of one code, behind each other on one connection, that the native core
carries as one.

The core recognises them in a stream of frames, writes their records and their answers; between these steps Python
decides, by the values that `SendRun` shows. What is not plain never becomes part of a run, and a run that cannot be
carried goes the way of all requests: `protocol.frame.commands_of` makes them of it. So without the core there are no
runs, and the twins here say so; what a run must come to is what its requests come to one by one, which tests hold.
"""

import struct
from collections.abc import Sequence
from itertools import islice
from json.encoder import encode_basestring_ascii as quote
from mmap import mmap
from typing import Protocol

from pyromq import native
from pyromq.protocol.headers.run import Run

Place = tuple[str, int]
"""Topic and queue id."""


class SendRun(Run, Protocol):
    """Plain sends: SEND_MESSAGE or SEND_MESSAGE_V2 with properties among which are an id and no `WAIT=false`; or plain
    batches, SEND_BATCH_MESSAGE of messages that can be told apart, from nobody in particular."""

    @property
    def messages(self) -> int:
        """How many messages they bring."""

    @property
    def nameless(self) -> int:
        """How many have no unique key, which only batches may lack."""

    @property
    def sys_flags(self) -> int:
        """The system flags of all of them together."""

    @property
    def places(self) -> Sequence[Place]:
        """Each queue they go to, as they came."""

    @property
    def topics(self) -> frozenset[str]:
        """Those of the places."""

    @property
    def counts(self) -> Sequence[int]:
        """How many messages go to each place."""

    @property
    def requests(self) -> Sequence[int]:
        """How many requests go to each place."""

    @property
    def names(self) -> frozenset[str]:
        """The names of all properties that one of them has."""

    def send(self, number: int) -> tuple[int, int, str, int, bool, bool]:
        """Of one: the number of its place, how many messages it brings, unique key and opaque; oneway; binary
        header."""


class Placed(Protocol):
    """Where the records of a run are in log and queues."""

    @property
    def size(self) -> int:
        """Bytes of all records."""

    @property
    def offsets(self) -> Sequence[int]:
        """The physical offset of each."""

    @property
    def sizes(self) -> Sequence[int]: ...

    @property
    def numbers(self) -> Sequence[int]:
        """The queue offset of each."""

    @property
    def place_sizes(self) -> Sequence[int]:
        """For each place, the bytes of its records."""

    @property
    def entries(self) -> Sequence[tuple[bytes, int, int]]:
        """For each place, the entries of its queue, where its first record begins and where its last one ends."""

    @property
    def keys(self) -> bytes:
        """The keys of all records for the index: hash 4, physical offset 8, store time 8."""


@native.twin
def write_sends(
    run: SendRun,  # noqa: ARG001 - as all here: what the core needs
    file: mmap,  # noqa: ARG001
    place: tuple[int, int, int, int, int],  # noqa: ARG001
    numbers: Sequence[int],  # noqa: ARG001
    common: tuple[bytes, bytes, bytes, int],  # noqa: ARG001
) -> Placed | int | None:
    """Write the records of a run into a file of the log behind its position, which is the caller's to move.

    `place` is the position, how far may be written, the offset of the file, a size at which no record is too large, and
    one at which no batch is; `numbers` the next offset of each place; `common` born host, store host, what is added to
    the properties of a send, and the store time. Nothing has changed if it returns None, because something is larger,
    or how many bytes they take, because there is no room.
    """
    return None


Parts = tuple[bytes, bytes, bytes, bytes]
"""What answers of one broker have in common: in JSON what follows the transaction id and the opaque, in binary headers
what comes before the opaque and behind the transaction id."""


@native.twin
def answer_sends(run: SendRun, placed: Placed, host: str, parts: Parts, ids: Sequence[str]) -> bytes:
    """The answers to the sends of a run that want one, as frames: all say SUCCESS. `host` is the store's, in digits;
    `ids` are for those that have no unique key."""
    middle, end, start, tail = parts
    offsets, numbers, made = iter(placed.offsets), iter(placed.numbers), iter(ids)
    answers: list[bytes] = []
    for index in range(len(run)):
        place, messages, unique_key, opaque, oneway, binary = run.send(index)
        message_id = ",".join([f"{host}{offset:016X}" for offset in islice(offsets, messages)])
        number, *_ = islice(numbers, messages)
        unique_key = unique_key or next(made)
        if oneway:
            continue
        queue_id = run.places[place][1]
        if binary:
            fields = (
                ("msgId", message_id),
                ("queueId", queue_id),
                ("queueOffset", number),
                ("transactionId", unique_key),
            )
            block = b"".join([binary_field(name, str(value)) for name, value in fields]) + tail
            head = start + _BINARY_MIDDLE.pack(opaque, 1, 0, len(block)) + block
        else:
            head = (
                f'{{"code":0,"extFields":{{"msgId":"{message_id}","queueId":"{queue_id}","queueOffset":"{number}",'
                f'"transactionId":{quote(unique_key)}'.encode()
                + middle
                + b"%d" % opaque
                + end
            )
        answers.append(_WORDS.pack(4 + len(head), binary << 24 | len(head)) + head)
    return b"".join(answers)


def binary_field(name: str, value: str) -> bytes:
    """One field of a binary header."""
    key, text = name.encode(), value.encode()
    return len(key).to_bytes(2) + key + len(text).to_bytes(4) + text


_WORDS = struct.Struct(">II")
# opaque, flag, remark length, length of the fields
_BINARY_MIDDLE = struct.Struct(">iiII")
