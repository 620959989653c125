"""Records of a broker's answer: taken apart for the filter, put together again for the consumer.

A record that passes is handed on byte for byte, unless its body is large and was stored plain: then it is compressed on
the way, as RocketMQ's filter server does. Bodies are inflated only while the filter looks at them, a batch at a time.
A damaged record is handed on as it is, whatever the filter wants: only its consumer can set it aside.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pyromq.filtersrv.frames import FilterMessage
from pyromq.protocol.errors import MessageError
from pyromq.protocol.message import ReceivedMessage
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.batch import unwrap
from pyromq.protocol.records.compression import CompressionType, compress
from pyromq.protocol.records.record import SYS_FLAG_AT, decode_record, encode_record
from pyromq.protocol.records.salvage import next_record, salvage_record

MAX_BODY: Final = 16 * 1024 * 1024
BATCH_BYTES: Final = 4 * 1024 * 1024
BATCH_MESSAGES: Final = 1024


@dataclass(frozen=True, slots=True)
class Candidate:
    """A message with an inflated body, and the record it came in; None when it shared one with others."""

    message: ReceivedMessage
    record: memoryview | None

    def seen(self) -> FilterMessage:
        """As the filter sees it."""
        message = self.message
        return FilterMessage(
            topic=message.topic,
            body=bytes(message.body),
            properties=message.properties,
            flag=message.flag,
            queue_id=message.queue_id,
            queue_offset=message.queue_offset,
            born_timestamp=message.born_timestamp,
            store_timestamp=message.store_timestamp,
            reconsume_times=message.reconsume_times,
            message_id=message.message_id,
        )

    def encode(self, compress_over: int, level: int) -> bytes | memoryview:
        """As the consumer gets it."""
        message, record = self.message, self.record
        if message.damaged and record is not None:
            return record
        plain = record is None or not sysflag.COMPRESSED & _sys_flag(record)
        if plain and len(message.body) >= compress_over:
            packed = compress(bytes(message.body), CompressionType.ZLIB, level)
            if len(packed) < len(message.body):
                message.body = packed
                message.sys_flag = message.sys_flag & ~sysflag.COMPRESSION_MASK | CompressionType.ZLIB.flag
                return encode_record(message)
        return encode_record(message) if record is None else record


def batches(body: bytes | bytearray | memoryview) -> Iterator[list[Candidate]]:
    """The messages of a pull body, as many at a time as are worth a question; damaged ones are marked as such."""
    batch: list[Candidate] = []
    size = 0
    for candidate in _candidates(memoryview(body)):
        batch.append(candidate)
        size += len(candidate.message.body) + candidate.message.store_size  # properties count, too
        if size >= BATCH_BYTES or len(batch) == BATCH_MESSAGES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _candidates(body: memoryview) -> Iterator[Candidate]:
    offset = 0
    while offset < len(body):
        try:
            message = decode_record(body, offset, max_body=MAX_BODY, check_crc=True)
            record = body[offset : offset + message.store_size]
            inner = unwrap(message) if sysflag.is_wrapped_batch(message.sys_flag) else None
        except MessageError as error:
            record = body[offset : next_record(bytes(body), offset)]
            message, inner = salvage_record(record, max_body=MAX_BODY), None
            message.fault = message.fault or str(error)
        offset += len(record)
        if inner is not None:
            yield from (Candidate(each, None) for each in inner)
        else:
            yield Candidate(message, record)


def _sys_flag(record: memoryview) -> int:
    return int.from_bytes(record[SYS_FLAG_AT : SYS_FLAG_AT + 4], signed=True)
