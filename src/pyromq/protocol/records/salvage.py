"""Messages out of bytes that may be damaged, for readers that must continue: one broken record does not spoil others.

A record that cannot be read as it was sent still comes out, with what is left of it and its `fault`:

- its frame holds, but body, topic or properties do not (checksum, compression, inner batch, text): the body is as it
  is stored, `sys_flag` says whether that is compressed;
- its frame is broken: the body is the whole record, and only its place is known.

Where a size is wrong, the next record is looked for by its magic number. Nothing here raises for what bytes say.
"""

from collections.abc import Callable
from typing import Final, NamedTuple
from zlib import crc32

from pyromq import native
from pyromq.protocol.errors import MessageError
from pyromq.protocol.message import ReceivedMessage
from pyromq.protocol.properties import Property
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.batch import unwrap
from pyromq.protocol.records.compression import MAX_INFLATED, InflatedSizeError, decompress
from pyromq.protocol.records.host import Host, unpack_host
from pyromq.protocol.records.record import (
    MAGIC_BYTES,
    MAX_INFLATED_RECORDS,
    MIN_SIZE,
    SYS_FLAG_AT,
    Buffer,
    RecordError,
    decode_at,
    locate_record,
)

_MAGIC_START: Final = MAGIC_BYTES[0][:3]
_QUEUE_OFFSET: Final = slice(20, 28)
_PHYSICAL_OFFSET: Final = slice(28, 36)
_FLAG_BYTE: Final = SYS_FLAG_AT + 3
"""Where the low byte of the system flag is, which has all bits that make a record odd."""
_ODD: Final = sysflag.COMPRESSED | sysflag.HOSTS_MASK | sysflag.WRAPPED_BATCH
_LOWEST: Final = -(2**63)
_HIGHEST: Final = 2**63 - 1
_COMPRESSED = sysflag.COMPRESSED
_WRAPPED = sysflag.WRAPPED_BATCH


class Salvage(NamedTuple):
    """What came out of a buffer.

    Not `complete` when records at the end were left alone, because those before them inflated to as much as one call
    may hold: ask for them again.
    """

    messages: list[ReceivedMessage]
    complete: bool = True


def salvage_record(buf: Buffer, *, inflate: bool = True, max_body: int = MAX_INFLATED) -> ReceivedMessage:
    """The one message of a buffer, with its `fault` if it is damaged. An inner batch stays one message."""
    data = bytes(buf)
    try:
        return _with_old_fault(decode_at(data, 0, inflate, True, max_body, True))
    except MessageError as error:
        return _damaged(data, 0, error, inflate, max_body)


def salvage_records(
    buf: Buffer,
    *,
    inflate: bool = True,
    max_body: int = MAX_INFLATED,
    max_total: int = MAX_INFLATED_RECORDS,
    low: int = 0,
    high: int | None = None,
    delta: int = 0,
) -> Salvage:
    """All messages of a pull body, inner batches unwrapped, damaged ones with their `fault`.

    `max_body` bounds one inflated body; a larger one stays as it is, with a fault. `max_total` bounds all of them.
    `low` and `high` are the queue offsets that the broker speaks of, and `delta` is added to those in the records: one
    outside is a fault as well, and the record gets a place within that no other has.
    """
    data = bytes(buf)
    end, offset, budget = len(data), 0, max(max_total, max_body)
    messages: list[ReceivedMessage] = []
    broken: list[ReceivedMessage] = []
    while (offset := take_plain(data, offset, delta, ReceivedMessage, unpack_host, messages)) < end:
        try:
            message = decode_at(data, offset, inflate, True, min(max_body, budget), True)
            if Property.FAULT in message.properties:
                _with_old_fault(message)
        except MessageError as error:
            if messages and budget < max_body and isinstance(error, InflatedSizeError):
                return Salvage(_placed(messages, broken, low, high), complete=False)
            message = _damaged(data, offset, error, inflate, max_body)
            broken.append(message)
        offset += message.store_size
        message.queue_offset += delta
        # Bodies that were not inflated cost no more than the buffer itself, which its owner has bounded.
        budget -= max(len(message.body) - message.store_size, 0)
        if message.sys_flag & _WRAPPED == _WRAPPED and not message.sys_flag & _COMPRESSED and message.fault is None:
            try:
                # It may begin before the offset that was asked for.
                messages += [each for each in unwrap(message) if each.queue_offset >= low]
                continue
            except MessageError as error:
                message.fault = f"the inner batch cannot be read: {error}"
                broken.append(message)
        messages.append(message)
    return Salvage(_placed(messages, broken, low, high))


@native.twin
def take_plain(
    data: bytes,
    offset: int,
    delta: int,
    make: type[ReceivedMessage],  # noqa: ARG001 - as `host`, for the twin
    host: Callable[[bytes], Host],  # noqa: ARG001 - `decode_at` knows it
    messages: list[ReceivedMessage],
) -> int:
    """Append the messages of plain records from `offset` on; where they end, at the latest with the data.

    Plain is what can be read as it was sent and needs nothing done to it: sound, not compressed, no batch within, both
    hosts IPv4. `make` is the class of messages, and `host` what reads their addresses: the core has neither.
    """
    end = len(data)
    while offset + MIN_SIZE <= end and not data[offset + _FLAG_BYTE] & _ODD:
        try:
            message = decode_at(data, offset, False, True, 0, True)
        except MessageError:
            break
        place = message.queue_offset + delta
        if Property.FAULT in message.properties or not _LOWEST <= place <= _HIGHEST:
            break
        message.queue_offset = place
        messages.append(message)
        offset += message.store_size
    return offset


def _with_old_fault(message: ReceivedMessage) -> ReceivedMessage:
    """A copy of a damaged message is whole by its own checksum; it still is damaged."""
    message.fault = message.properties.get(Property.FAULT)
    return message


def _damaged(data: bytes, offset: int, error: MessageError, inflate: bool, max_body: int) -> ReceivedMessage:
    try:
        fields, _, _, topic_start, topic_end = locate_record(data, offset, len(data))
    except RecordError:
        return _unframed(data, offset, error)
    end = offset + fields[0]
    name, text = data[topic_start:topic_end], data[topic_end + 2 : end]
    # A topic that is no text is the one thing that would keep the frame from being read.
    frame = b"".join((data[offset:topic_start], b"?" * len(name), data[topic_end:end]))
    message = decode_at(frame, 0, inflate=False, check_crc=False, max_body=max_body)
    message.topic = str(name, "utf-8", "replace")
    faults = []
    if crc32(message.body) & 0x7FFFFFFF != message.body_crc:
        faults.append(f"the body does not match its checksum {message.body_crc}")
    elif inflate and message.sys_flag & _COMPRESSED:
        try:
            message.body = decompress(message.body, message.sys_flag, limit=max_body)
            message.sys_flag &= ~_COMPRESSED
        except MessageError as reason:
            faults.append(str(reason))
    if not _is_text(name):
        faults.append("the topic is not UTF-8")
    if not _is_text(text):
        faults.append("the properties are not UTF-8")
    message.fault = "; ".join(faults) or str(error)
    return message


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _unframed(data: bytes, offset: int, error: MessageError) -> ReceivedMessage:
    """What lies up to the next record, as one message; its offsets are those it claims, if it is long enough."""
    raw = data[offset : next_record(data, offset)]
    return ReceivedMessage(
        "",
        raw,
        {},
        queue_offset=int.from_bytes(raw[_QUEUE_OFFSET], signed=True),
        physical_offset=int.from_bytes(raw[_PHYSICAL_OFFSET], signed=True),
        store_size=len(raw),
        fault=f"no record can be made out: {error}",
    )


def next_record(data: bytes, offset: int) -> int:
    """Where the record behind a broken one begins: where its size says if that can be, else the next that is whole."""
    end = len(data)
    following = offset + int.from_bytes(data[offset : offset + 4], signed=True)
    if offset + MIN_SIZE <= following <= end and (
        following == end or data[following + 4 : following + 8] in MAGIC_BYTES
    ):
        return following
    at = data.find(_MAGIC_START, offset + 8)
    while at >= 0:
        try:
            locate_record(data, at - 4, end)
        except RecordError:
            at = data.find(_MAGIC_START, at + 1)
        else:
            return at - 4
    return end


def _placed(
    messages: list[ReceivedMessage], broken: list[ReceivedMessage], low: int, high: int | None
) -> list[ReceivedMessage]:
    """Every message gets a place of its own within the range: consumers know messages by it, and commit it."""
    if high is None or not messages:
        return messages
    offsets = [message.queue_offset for message in messages]
    if not broken and low <= offsets[0] and offsets[-1] < high and all(map(int.__lt__, offsets, offsets[1:])):
        return messages
    # What a broken one claims counts only where no sound one is.
    doubtful = {id(message) for message in broken}
    taken: set[int] = set()
    astray: set[int] = set()
    for message in sorted(messages, key=lambda each: id(each) in doubtful):
        if low <= message.queue_offset < high and message.queue_offset not in taken:
            taken.add(message.queue_offset)
        else:
            astray.add(id(message))
    behind = low
    for message in messages:
        if id(message) in astray:
            if message.fault is None:
                message.fault = f"it claims queue offset {message.queue_offset}, beside {low} to {high - 1}"
            message.queue_offset = _free_place(behind, low, high, taken)
            taken.add(message.queue_offset)
        behind = message.queue_offset + 1
    return sorted(messages, key=lambda each: each.queue_offset)


def _free_place(behind: int, low: int, high: int, taken: set[int]) -> int:
    """The first free number from `behind` on, else from `low` on; the last of all if a broker sends too many."""
    for start in (behind, low):
        place = start
        while place in taken:
            place += 1
        if place < high:
            return place
    return high - 1
