"""The bytes of records: one message, or the messages of a batch by columns. Values in, bytes out, nothing is kept.

`protocol.record` owns the layout; the plain record, which nearly all are, is spelled out here because it is packed with
every message.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import repeat
from struct import Struct
from zlib import crc32

from pyromq.protocol.records import sysflag
from pyromq.protocol.records.host import V4_SIZE
from pyromq.protocol.records.record import MAGIC_V1, pack_record
from pyromq.store.log.plainrecord import PREFIX, PROPERTIES_LENGTH
from pyromq.store.log.put import PutMessage
from pyromq.store.log.tail import Tail

_NO_V6 = ~sysflag.HOSTS_MASK
_pack_prefix = PREFIX.pack
_pack_length = PROPERTIES_LENGTH.pack


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


def encode_batch(
    message: PutMessage,
    tail: Tail,
    offsets: Sequence[int],
    sizes: Sequence[int],
    timestamp: int,
    store_host: bytes,
    columns: tuple[Sequence[int], Sequence[bytes], Sequence[bytes]],
) -> Iterator[bytes]:
    """The records of a batch, whose flags, bodies and properties with their length are `columns`.

    Raises struct.error at once when a number does not fit.
    """
    flags, bodies, texts = columns
    born_host = message.born_host
    sys_flag = sysflag.with_hosts(
        message.sys_flag, born_v6=len(born_host) != V4_SIZE, store_v6=len(store_host) != V4_SIZE
    )
    shared = _shared_part(len(born_host), len(store_host)).pack(
        sys_flag,
        message.born_timestamp,
        born_host,
        timestamp,
        store_host,
        message.reconsume_times,
        message.prepared_transaction_offset,
    )
    checksums = [crc32(body) & 0x7FFFFFFF for body in bodies]
    first = tail.next_offset
    fields = (
        sizes, repeat(tail.magic), checksums, repeat(message.queue_id), flags, range(first, first + len(sizes)),
        offsets, repeat(shared), map(len, bodies),
    )  # fmt: skip
    heads = list(map(_head(len(shared)).pack, *fields))
    return map(b"".join, zip(heads, bodies, repeat(tail.topic_field), texts))
