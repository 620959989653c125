"""The stored record: what the commit log holds and what pull, pop, query and view responses carry, byte for byte.

position (both hosts IPv4; an IPv6 host takes 20 bytes instead of 8, as bits of the system flag say)
   0 size 4 · 4 magic 4 · 8 body CRC 4 · 12 queue id 4 · 16 flag 4 · 20 queue offset 8 · 28 physical offset 8
  36 system flag 4 · 40 born time 8 · 48 born host 8 · 56 store time 8 · 64 store host 8 · 72 reconsume times 4
  76 prepared transaction offset 8 · 84 body length 4 · 88 body · topic length 1 (V1) or 2 (V2) · topic
  properties length 2 · properties

Nothing is read or allocated by a length before it was found to lie within the record, and the record within the buffer.
"""

from collections.abc import Sequence
from struct import Struct
from struct import error as StructError  # noqa: N812 - a class under a lower-case name
from typing import Any, Final
from zlib import crc32

import msgspec

from pyromq.protocol.errors import MessageError
from pyromq.protocol.message import ReceivedMessage
from pyromq.protocol.properties import Property, decode_properties, encode_properties
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.batch import unwrap
from pyromq.protocol.records.compression import MAX_INFLATED, decompress
from pyromq.protocol.records.host import V4_SIZE, pack_host, unpack_host

MAGIC_V1: Final = -626843481  # 0xDAA320A7
MAGIC_V2: Final = -626843477  # 0xDAA320AB: the topic's length takes two bytes, for names longer than 127
MAGIC_BYTES: Final = tuple((magic & 0xFFFFFFFF).to_bytes(4) for magic in (MAGIC_V1, MAGIC_V2))
MAGIC_BLANK: Final = -875286124  # 0xCBD43194
MIN_SIZE: Final = 91
BLANK_SIZE: Final = 8
MAX_SHORT_TOPIC: Final = 127
MAX_LONG_TOPIC: Final = 32767

QUEUE_OFFSET_AT: Final = 20
PHYSICAL_OFFSET_AT: Final = 28
SYS_FLAG_AT: Final = 36

MAX_INFLATED_RECORDS: Final = 256 * 1024 * 1024
"""Bound on all inflated bodies of one `decode_records` call."""

Buffer = bytes | bytearray | memoryview

# The part before the body, by the two address bits of the system flag: none, born, store, both.
_PREFIXES = tuple(Struct(f">5i2qiq{born}sq{store}siqi") for born, store in ((8, 8), (20, 8), (8, 20), (20, 20)))
_V4 = _PREFIXES[0]
_pack_v4 = _V4.pack
_unpack_v4 = _V4.unpack_from
_SHORT = Struct(">h")
_pack_short = _SHORT.pack
_unpack_short = _SHORT.unpack_from
_HEAD = Struct(">ii")
_BYTES = tuple(bytes((n,)) for n in range(MAX_SHORT_TOPIC + 1))

_CRC_PREFIX = f"{Property.CRC32}\x01".encode()
_CRC_SIZE: Final = 20


class RecordError(MessageError):
    """A record that cannot be read.

    `size` is the record's length if that much of it holds, so that a reader of the log can step over it, else 0;
    `decoded` are the messages that came before it in the same buffer.
    """

    def __init__(self, message: str, *, size: int = 0, decoded: Sequence[ReceivedMessage] = ()) -> None:
        super().__init__(message)
        self.size = size
        self.decoded = list(decoded)


class RecordSummary(msgspec.Struct, gc=False):
    """What the store needs of a record: properties as they are, and the body only as a span of the buffer."""

    size: int
    magic: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    born_timestamp: int
    born_host: bytes
    store_timestamp: int
    store_host: bytes
    reconsume_times: int
    prepared_transaction_offset: int
    topic: str
    properties: bytes
    body_start: int
    body_end: int


class Blank(msgspec.Struct, frozen=True):
    """The end of a log file: nothing but filler follows, `size` bytes by its own account."""

    size: int


def pack_record(
    topic: bytes,
    body: Buffer,
    properties: bytes,
    queue_id: int,
    queue_offset: int,
    physical_offset: int,
    store_timestamp: int,
    store_host: bytes,
    born_timestamp: int,
    born_host: bytes,
    sys_flag: int = 0,
    flag: int = 0,
    reconsume_times: int = 0,
    prepared_transaction_offset: int = 0,
    record_crc: bool = False,
) -> bytes:
    """A record from parts that are encoded already: the form for the append path, meant to be called positionally.

    Hosts come from `pack_host`; the address bits of `sys_flag` are set from them. `record_crc` adds the checksum of
    the whole record as its last property. Raises MessageError for a number or text that does not fit its field.
    """
    topic_size = len(topic)
    body_size = len(body)
    if record_crc:
        properties = _with_crc_room(properties)
    size = MIN_SIZE + body_size + topic_size + len(properties)
    if topic_size <= MAX_SHORT_TOPIC:
        magic, topic_length = MAGIC_V1, _BYTES[topic_size]
    elif topic_size <= MAX_LONG_TOPIC:
        size += 1
        magic, topic_length = MAGIC_V2, _pack_short(topic_size)
    else:
        raise MessageError(f"topic of {topic_size} bytes does not fit a record")
    if len(born_host) == V4_SIZE == len(store_host):
        pack = _pack_v4
        sys_flag &= ~sysflag.HOSTS_MASK
    else:
        born_v6, store_v6 = len(born_host) != V4_SIZE, len(store_host) != V4_SIZE
        sys_flag = sysflag.with_hosts(sys_flag, born_v6=born_v6, store_v6=store_v6)
        prefix = _PREFIXES[born_v6 | store_v6 << 1]
        pack = prefix.pack
        size += prefix.size - _V4.size
    try:
        record = b"".join(
            (
                pack(
                    size,
                    magic,
                    crc32(body) & 0x7FFFFFFF,
                    queue_id,
                    flag,
                    queue_offset,
                    physical_offset,
                    sys_flag,
                    born_timestamp,
                    born_host,
                    store_timestamp,
                    store_host,
                    reconsume_times,
                    prepared_transaction_offset,
                    body_size,
                ),
                body,
                topic_length,
                topic,
                _pack_short(len(properties)),
                properties,
            )
        )
    except StructError as error:
        raise MessageError(f"record of {size} bytes cannot be written: {error}") from None
    return _sign(record) if record_crc else record


def encode_record(message: ReceivedMessage, *, record_crc: bool = False) -> bytes:
    """A record from a whole message, whose body is written as it is. Raises MessageError for what does not fit."""
    try:
        topic = message.topic.encode()
    except UnicodeEncodeError as error:
        raise MessageError(f"topic {message.topic!r} is not valid Unicode text: {error.reason}") from None
    return pack_record(
        topic,
        message.body,
        encode_properties(message.properties),
        message.queue_id,
        message.queue_offset,
        message.physical_offset,
        message.store_timestamp,
        pack_host(message.store_host),
        message.born_timestamp,
        pack_host(message.born_host),
        message.sys_flag,
        message.flag,
        message.reconsume_times,
        message.prepared_transaction_offset,
        record_crc,
    )


def pack_blank(size: int) -> bytes:
    """The 8 bytes that say that the last `size` bytes of a log file hold nothing."""
    return _HEAD.pack(size, MAGIC_BLANK)


def decode_record(
    buf: Buffer, offset: int = 0, *, decompress: bool = True, check_crc: bool = False, max_body: int = MAX_INFLATED
) -> ReceivedMessage:
    """The record at `offset` as a message; bytes after it are not looked at. An inner batch stays one message.

    Raises RecordError when it is no whole record, or on request when the body does not match its CRC.
    """
    if not 0 <= offset <= len(buf) - MIN_SIZE:
        raise RecordError(f"no record at {offset}: the buffer has {len(buf)} bytes")
    size, _ = _HEAD.unpack_from(buf, offset)
    if not MIN_SIZE <= size <= len(buf) - offset:
        raise RecordError(f"record at {offset} claims {size} bytes of {len(buf) - offset} left")
    return decode_at(bytes(buf[offset : offset + size]), 0, decompress, check_crc, max_body)


def decode_records(buf: Buffer, *, decompress: bool = True, check_crc: bool = False) -> list[ReceivedMessage]:
    """All messages of a pull body, inner batches unwrapped.

    Raises RecordError at the first record that cannot be read; `decoded` then has the messages before it.
    """
    data = bytes(buf)
    messages: list[ReceivedMessage] = []
    offset, budget = 0, MAX_INFLATED_RECORDS
    try:
        while offset < len(data):
            message = decode_at(data, offset, decompress, check_crc, min(MAX_INFLATED, budget))
            offset += message.store_size
            # Bodies that were not inflated cost no more than the buffer itself, which its owner has bounded.
            budget -= max(len(message.body) - message.store_size, 0)
            if sysflag.is_wrapped_batch(message.sys_flag) and not message.sys_flag & sysflag.COMPRESSED:
                messages += unwrap(message)
            else:
                messages.append(message)
    except MessageError as error:
        raise RecordError(str(error), size=getattr(error, "size", 0), decoded=messages) from None
    return messages


def peek_record(buf: Buffer, offset: int) -> RecordSummary:
    """What the store needs of the record at `offset`. Raises RecordError when it is no whole record."""
    fields, body_start, body_end, topic_start, topic_end = locate_record(buf, offset, len(buf))
    (size, magic, crc, queue_id, flag, queue_offset, physical_offset, sys_flag,
     born_timestamp, born_host, store_timestamp, store_host, reconsume_times, prepared, _) = fields  # fmt: skip
    return RecordSummary(
        size, magic, crc, queue_id, flag, queue_offset, physical_offset, sys_flag,
        born_timestamp, born_host, store_timestamp, store_host, reconsume_times, prepared,
        _topic(buf, topic_start, topic_end, size), bytes(buf[topic_end + 2 : offset + size]), body_start, body_end,
    )  # fmt: skip


def check_record(
    buf: Buffer, offset: int, limit: int, *, verify_crc: bool, verify_record_crc: bool = False
) -> RecordSummary | Blank:
    """The record at `offset`, or the blank that ends a file; neither may reach beyond `limit`.

    `verify_crc` compares the body's CRC. `verify_record_crc` compares the checksum of the whole record, for those that
    carry one. Raises RecordError for everything that is not a sound record.
    """
    limit = min(limit, len(buf))
    if not 0 <= offset <= limit - BLANK_SIZE:
        raise RecordError(f"no record at {offset}: the log ends at {limit}")
    size, magic = _HEAD.unpack_from(buf, offset)
    if magic == MAGIC_BLANK:
        return Blank(size)
    if not 0 < size <= limit - offset:
        raise RecordError(f"record at {offset} claims {size} bytes of {limit - offset} left")
    record = peek_record(buf, offset)
    signature = record.properties[-_CRC_SIZE:] if verify_record_crc else b""
    if len(signature) == _CRC_SIZE and signature.startswith(_CRC_PREFIX):
        if _crc_entry(buf[offset : offset + size - _CRC_SIZE]) != signature:
            raise RecordError(f"record at {offset} does not match its checksum {signature!r}")
    elif verify_crc and crc32(buf[record.body_start : record.body_end]) & 0x7FFFFFFF != record.body_crc:
        raise RecordError(f"body of the record at {offset} does not match its CRC {record.body_crc}")
    return record


def locate_record(buf: Buffer, offset: int, limit: int) -> tuple[tuple[Any, ...], int, int, int, int]:
    """The fixed fields and where body and topic begin and end; the properties take the rest, after their length.

    Raises RecordError when it is no whole record.
    """
    left = limit - offset
    if offset < 0 or left < MIN_SIZE:
        raise RecordError(f"no record at {offset}: {left} bytes left, a record has {MIN_SIZE} or more")
    fields = _unpack_v4(buf, offset)
    size, magic = fields[0], fields[1]
    if magic not in (MAGIC_V1, MAGIC_V2):
        raise RecordError(f"no record at {offset}: unknown magic {magic & 0xFFFFFFFF:#010x}")
    if not MIN_SIZE <= size <= left:
        raise RecordError(f"record at {offset} claims {size} bytes of {left} left")
    body_start = offset + 88
    if hosts := fields[7] & sysflag.HOSTS_MASK:
        prefix = _PREFIXES[hosts >> sysflag.HOSTS_SHIFT]
        if size < prefix.size + 3:
            raise RecordError(f"record at {offset} has {size} bytes, too few for its IPv6 hosts", size=size)
        fields = prefix.unpack_from(buf, offset)
        body_start = offset + prefix.size
    end = offset + size
    body_end = body_start + fields[14]
    topic_start = body_end + (1 if magic == MAGIC_V1 else 2)
    if not body_start <= body_end or topic_start + 2 > end:
        raise RecordError(f"record at {offset} claims a body of {fields[14]} bytes in {size}", size=size)
    topic_length = buf[body_end] if magic == MAGIC_V1 else _unpack_short(buf, body_end)[0]
    topic_end = topic_start + topic_length
    if topic_length < 0 or (topic_length > MAX_SHORT_TOPIC and magic == MAGIC_V1) or topic_end + 2 > end:
        raise RecordError(f"record at {offset} claims a topic of {topic_length} bytes", size=size)
    properties_length = _unpack_short(buf, topic_end)[0]
    if properties_length != end - topic_end - 2:
        raise RecordError(
            f"record at {offset} has {end - topic_end - 2} bytes of properties but claims {properties_length}",
            size=size,
        )
    return fields, body_start, body_end, topic_start, topic_end


def decode_at(
    data: bytes, offset: int, inflate: bool, check_crc: bool, max_body: int, exact_text: bool = False
) -> ReceivedMessage:
    """The record at `offset`, which may reach to the end of `data`; positional, for those who decode many.

    `exact_text` minds properties that are not UTF-8, which otherwise are read as far as they go. Raises MessageError.
    """
    fields, body_start, body_end, topic_start, topic_end = locate_record(data, offset, len(data))
    (size, _, crc, queue_id, flag, queue_offset, physical_offset, sys_flag,
     born_timestamp, born_host, store_timestamp, store_host, reconsume_times, prepared, _) = fields  # fmt: skip
    body = data[body_start:body_end]
    if check_crc and crc32(body) & 0x7FFFFFFF != crc:
        raise RecordError(f"body of the record at {offset} does not match its CRC {crc}", size=size)
    if inflate and sys_flag & sysflag.COMPRESSED:
        body = decompress(body, sys_flag, limit=max_body)
        sys_flag &= ~sysflag.COMPRESSED
    properties: bytes | str = data[topic_end + 2 : offset + size]
    if exact_text:
        try:
            properties = str(properties, "utf-8")  # type: ignore[arg-type]  # bytes until here
        except UnicodeDecodeError:
            raise RecordError(f"properties of the record at {offset} are not UTF-8", size=size) from None
    return ReceivedMessage(
        _topic(data, topic_start, topic_end, size),
        body,
        decode_properties(properties),
        flag=flag,
        queue_id=queue_id,
        queue_offset=queue_offset,
        physical_offset=physical_offset,
        sys_flag=sys_flag,
        born_timestamp=born_timestamp,
        born_host=unpack_host(born_host),
        store_timestamp=store_timestamp,
        store_host=unpack_host(store_host),
        reconsume_times=reconsume_times,
        prepared_transaction_offset=prepared,
        body_crc=crc,
        store_size=size,
    )


def _topic(buf: Buffer, start: int, end: int, size: int) -> str:
    try:
        return str(buf[start:end], "utf-8")
    except UnicodeDecodeError:
        raise RecordError(f"topic {bytes(buf[start:end])!r} is not UTF-8", size=size) from None


def _with_crc_room(properties: bytes) -> bytes:
    separator = b"\x02" if properties and properties[-1] != 2 else b""
    return b"".join((properties, separator, bytes(_CRC_SIZE)))


def _sign(record: bytes) -> bytes:
    signed = record[:-_CRC_SIZE]
    return signed + _crc_entry(signed)


def _crc_entry(signed: Buffer) -> bytes:
    """The last property of a record: the checksum of all before it, ten digits, the least significant one first."""
    return _CRC_PREFIX + f"{crc32(signed) & 0x7FFFFFFF:010d}"[::-1].encode() + b"\x02"
