"""Registration of a broker with the name server, as JSON or as a zlib stream of length-prefixed parts.

The stream, inflated: length + DataVersion JSON, count of topics, per topic length + text
`name readQueues writeQueues perm FILTER {attributes}` (without attributes before 5.0), length + JSON array of filter
servers, and from version 413 on a count of mappings with length + JSON each. It loses order and system flags.
"""

import struct
import zlib
from typing import Self

import msgspec
from msgspec import field

from pyromq.protocol.bodies.base import Body, Data, decode_as
from pyromq.protocol.bodies.enums import TopicFilterType
from pyromq.protocol.bodies.route import TopicQueueMappingInfo
from pyromq.protocol.bodies.tables import DataVersion
from pyromq.protocol.bodies.topics import TopicConfig, TopicConfigTable
from pyromq.protocol.errors import BodyError
from pyromq.protocol.lenient import MAX_INPUT, dumps
from pyromq.protocol.lenient.reader import as_bytes
from pyromq.protocol.release import CURRENT

_ZLIB = b"\x78"  # first byte of a zlib stream with the usual window; no JSON text starts with it
_FIRST_REGISTER_BODY = 37  # versions below send a bare topic table
_FIRST_MAPPING = 413  # versions from here on append the mapping section
_LENGTH = struct.Struct(">i")


def body_crc32(body: bytes | memoryview) -> int:
    """The checksum of the registration header: CRC-32 without its top bit. 0 there means "not given"."""
    return zlib.crc32(body) & 0x7FFFFFFF


class RegisterBrokerBody(Body):
    """What a broker registers: its topics (all, or the changed ones) and its filter servers."""

    filter_servers: list[str] = field(default_factory=list, name="filterServerList")
    topics: TopicConfigTable = field(default_factory=TopicConfigTable, name="topicConfigSerializeWrapper")

    def encode(self, *, compressed: bool = False, version: int = CURRENT) -> bytes:
        """The body for a command of `version`."""
        if compressed:
            return zlib.compress(self._parts(version), 9)
        return dumps(self)

    @classmethod
    def decode(cls, data: Data, *, compressed: bool = False, version: int = CURRENT, limit: int = MAX_INPUT) -> Self:
        """Read the body of a command of `version`.

        Brokers of 5.x say `compressed=false` and still send a zlib stream, so the first byte has the last word.
        Raises `BodyError`, also for a stream that inflates to more than four times `limit`.
        """
        raw = as_bytes(data, limit)
        if compressed or raw[:1] == _ZLIB:
            return cls._from_parts(_inflate(raw, 4 * limit))
        if version < _FIRST_REGISTER_BODY:
            return cls(topics=TopicConfigTable.decode(raw, limit=limit))
        return decode_as(cls, raw, limit=limit)

    def _parts(self, version: int) -> bytes:
        table = self.topics
        parts = [_prefixed(dumps(table.data_version)), _LENGTH.pack(len(table.topic_config_table))]
        parts += [_prefixed(_topic_text(topic)) for topic in table.topic_config_table.values()]
        parts.append(_prefixed(dumps(self.filter_servers)))
        if version >= _FIRST_MAPPING:
            mappings = table.topic_queue_mapping_info_map or {}
            parts.append(_LENGTH.pack(len(mappings)))
            parts += [_prefixed(dumps(mapping)) for mapping in mappings.values()]
        return b"".join(parts)

    @classmethod
    def _from_parts(cls, inflated: bytes) -> Self:
        reader = _Parts(inflated)
        version = DataVersion.decode(reader.part("data version"))
        topics = [_topic(reader.part("topic")) for _ in range(reader.count("topics"))]
        servers = decode_as(list[str], reader.part("filter servers"))
        mappings: dict[str, TopicQueueMappingInfo] = {}
        if not reader.finished:
            for _ in range(reader.count("mappings")):
                mapping = TopicQueueMappingInfo.decode(reader.part("mapping"))
                mappings[mapping.topic] = mapping
        table = TopicConfigTable(
            data_version=version,
            topic_config_table={topic.topic_name: topic for topic in topics},
            topic_queue_mapping_info_map=mappings,
        )
        return cls(filter_servers=servers, topics=table)


class _Parts:
    """Reads length-prefixed parts, never beyond the end."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    @property
    def finished(self) -> bool:
        return self.at >= len(self.data)

    def number(self, what: str) -> int:
        if len(self.data) - self.at < _LENGTH.size:
            raise BodyError(f"registration ends before its {what} at byte {self.at}")
        (number,) = _LENGTH.unpack_from(self.data, self.at)
        self.at += _LENGTH.size
        return int(number)

    def count(self, what: str) -> int:
        count = self.number(f"count of {what}")
        if not 0 <= count <= (len(self.data) - self.at) // _LENGTH.size:
            raise BodyError(f"registration claims {count} {what} in {len(self.data) - self.at} bytes")
        return count

    def part(self, what: str) -> bytes:
        length = self.number(f"length of {what}")
        if not 0 <= length <= len(self.data) - self.at:
            raise BodyError(f"registration: {what} of {length} bytes at byte {self.at} of {len(self.data)}")
        self.at += length
        return self.data[self.at - length : self.at]


def _inflate(data: bytes, limit: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        inflated = stream.decompress(data, limit)
    except zlib.error as error:
        raise BodyError(f"compressed registration cannot be inflated: {error}") from None
    if not stream.eof:
        problem = f"inflates to more than {limit} bytes" if stream.unconsumed_tail else "ends too early"
        raise BodyError(f"compressed registration of {len(data)} bytes {problem}")
    return inflated


def _prefixed(part: bytes) -> bytes:
    return _LENGTH.pack(len(part)) + part


def _topic_text(topic: TopicConfig) -> bytes:
    head = f"{topic.topic_name} {topic.read_queue_nums} {topic.write_queue_nums} {topic.perm} {topic.topic_filter_type}"
    return f"{head} ".encode() + dumps(topic.attributes)


def _topic(text: bytes) -> TopicConfig:
    """A topic text has five parts, six with attributes, which may hold blanks themselves."""
    parts = text.split(b" ", 5)
    try:
        name, read_queues, write_queues, perm, filter_type = (part.decode() for part in parts[:5])
        return msgspec.convert(
            {
                "topicName": name,
                "readQueueNums": read_queues,
                "writeQueueNums": write_queues,
                "perm": perm,
                "topicFilterType": TopicFilterType(filter_type),
                "attributes": decode_as(dict[str, str], parts[5]) if len(parts) > 5 and parts[5] else {},
            },
            TopicConfig,
            strict=False,
        )
    except (ValueError, msgspec.ValidationError) as error:
        raise BodyError(f"registration: topic {text[:80]!r} cannot be read: {error}") from None
