"""The bytes of records: one message, or the messages of a batch by columns. Nothing is kept.

`protocol.record` owns the layout; the plain record, which nearly all are, is spelled out here because it is packed with
every message.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, repeat
from mmap import mmap
from struct import Struct
from zlib import crc32

from pyromq import native
from pyromq.protocol.errors import MessageError
from pyromq.protocol.properties import decode_properties
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.columns import LENGTH, batch_columns, property_columns
from pyromq.protocol.records.host import V4_SIZE
from pyromq.protocol.records.queueentry import ENTRY
from pyromq.protocol.records.record import MAGIC_V1, MAGIC_V2, pack_record
from pyromq.protocol.records.tags import tags_code
from pyromq.store.index.keyhash import Key, Keys
from pyromq.store.log.plainrecord import MAX_TOPIC, PREFIX, PROPERTIES_LENGTH
from pyromq.store.log.put import PutMessage
from pyromq.store.log.tail import Tail

_NO_V6 = ~sysflag.HOSTS_MASK
_pack_prefix = PREFIX.pack
_pack_length = PROPERTIES_LENGTH.pack
_pack_entry = ENTRY.pack


def encode_record(
    message: PutMessage, tail: Tail, queue_offset: int, offset: int, size: int, timestamp: int, store_host: bytes
) -> bytes:
    """The record of a message at a place in queue and log. Raises MessageError or struct.error: a number does not fit.

    Meant to be called positionally.
    """
    body, text, born_host = message.body, message.properties, message.born_host
    if len(born_host) == 8 == len(store_host) and tail.short:
        prefix = _pack_prefix(
            size,
            MAGIC_V1,
            crc32(body) & 0x7FFFFFFF,
            message.queue_id,
            message.flag,
            queue_offset,
            offset,
            message.sys_flag & _NO_V6,
            message.born_timestamp,
            born_host,
            timestamp,
            store_host,
            message.reconsume_times,
            message.prepared_transaction_offset,
            len(body),
        )
        return b"".join((prefix, body, tail.topic_field, _pack_length(len(text)), text))
    return pack_record(
        tail.topic,
        body,
        text,
        message.queue_id,
        queue_offset,
        offset,
        timestamp,
        store_host,
        message.born_timestamp,
        born_host,
        message.sys_flag,
        message.flag,
        message.reconsume_times,
        message.prepared_transaction_offset,
    )


def shared_part(message: PutMessage, timestamp: int, store_host: bytes) -> bytes:
    """What the records of a batch have in common between place and body length. Raises struct.error."""
    born_host = message.born_host
    sys_flag = sysflag.with_hosts(
        message.sys_flag, born_v6=len(born_host) != V4_SIZE, store_v6=len(store_host) != V4_SIZE
    )
    return _shared_part(len(born_host), len(store_host)).pack(
        sys_flag,
        message.born_timestamp,
        born_host,
        timestamp,
        store_host,
        message.reconsume_times,
        message.prepared_transaction_offset,
    )


@lru_cache(maxsize=4)
def _shared_part(born_size: int, store_size: int) -> Struct:
    """What all records of a batch have in common: system flag, born time and host, store time and host, reconsume
    times, prepared transaction offset."""
    return Struct(f">iq{born_size}sq{store_size}siq")


@lru_cache(maxsize=4)
def _head(shared_size: int) -> Struct:
    """Everything before the body: size, magic, CRC, queue id, flag, queue offset, physical offset, the shared part,
    body length."""
    return Struct(f">5i2q{shared_size}si")


Placed = tuple[int, bytes, Keys]
"""The bytes that a batch takes in the log, its queue entries, its keys: hashed ones of the core, plain ones of Python,
which hashes them many at a time."""


@native.twin
def place_batch(
    raw: mmap | bytearray,
    at: int,
    limit: int,
    body: bytes | bytearray | memoryview,
    topic: bytes,
    queue_id: int,
    number: int,
    place: int,
    shared: bytes,
    timestamp: int,
) -> Placed | int | None:
    """Write the records of a batch into `raw` from `at` on, each whole before the next is begun.

    They are numbered from `number` on, the first is for `place` of the log; `shared` is what `shared_part` gives. The
    result is an int, the bytes that they take, when that is more than there is up to `limit`, and None for a batch that
    makes no sense or is empty: nothing was written then. Raises struct.error, also before, when a number does not fit.
    """
    try:
        flags, bodies, fields = batch_columns(bytes(body))
    except MessageError:
        return None
    if not bodies:
        return None
    short = len(topic) <= MAX_TOPIC
    topic_field = len(topic).to_bytes(1 if short else 2) + topic
    head = _head(len(shared))
    fixed = head.size + len(topic_field)
    sizes = [fixed + len(body) + len(field) for body, field in zip(bodies, fields, strict=True)]
    total = sum(sizes)
    if at + total > limit:
        return total
    offsets = list(accumulate(sizes[:-1], initial=place))
    checksums = [crc32(body) & 0x7FFFFFFF for body in bodies]
    columns = (
        sizes, repeat(MAGIC_V1 if short else MAGIC_V2), checksums, repeat(queue_id), flags,
        range(number, number + len(sizes)), offsets, repeat(shared), map(len, bodies),
    )  # fmt: skip
    heads = list(map(head.pack, *columns))
    for record in map(b"".join, zip(heads, bodies, repeat(topic_field), fields)):
        end = at + len(record)
        raw[at:end] = record
        at = end
    codes, keys = _codes_and_keys(topic.decode(), [field[LENGTH:] for field in fields], offsets, timestamp)
    return total, b"".join(map(_pack_entry, offsets, sizes, codes)), keys


def _codes_and_keys(
    topic: str, texts: Sequence[bytes], offsets: Sequence[int], timestamp: int
) -> tuple[Sequence[int], Sequence[Key]]:
    """What queue and index are to say of each record of a batch."""
    columns = property_columns(texts)
    if columns is not None:
        tags = columns.get("TAGS") or [""] * len(texts)
        unique, words = columns.get("UNIQ_KEY"), columns.get("KEYS")
    else:
        maps = [decode_properties(text) for text in texts]
        tags, unique, words = (
            [properties.get(name, "") for properties in maps] for name in ("TAGS", "UNIQ_KEY", "KEYS")
        )
    known = {text: tags_code(text) for text in set(tags)}
    return [known[text] for text in tags], _keys(topic, unique, words, offsets, timestamp)


def _keys(
    topic: str, unique: Sequence[str] | None, words: Sequence[str] | None, offsets: Sequence[int], timestamp: int
) -> list[Key]:
    """The keys of all records, of which some may have none: the unique key, then each word."""
    if words is None:
        return list(zip(repeat(topic), unique, offsets, repeat(timestamp))) if unique is not None else []
    keys: list[Key] = []
    for first, text, offset in zip(unique or [""] * len(words), words, offsets, strict=True):
        if first:
            keys.append((topic, first, offset, timestamp))
        keys += [(topic, key, offset, timestamp) for key in text.split(" ") if key]
    return keys
