"""Headers of filter servers: how they register with their broker, and how consumers upload classes to them."""

from zlib import crc32

from msgspec import field

from pyromq.protocol.bounds import Name, Text
from pyromq.protocol.headers.base import Header, Int, Long


def class_crc(source: bytes | bytearray | memoryview) -> int:
    """The checksum of an uploaded class: the lower 31 bits of its CRC-32."""
    return crc32(source) & 0x7FFFFFFF


class RegisterFilterServerHeader(Header, kw_only=True):
    filter_server_addr: Text


class RegisterFilterServerResponseHeader(Header, kw_only=True):
    broker_name: str
    broker_id: Long


class RegisterMessageFilterClassHeader(Header, kw_only=True):
    """The body is the source text; `class_crc` is the function above of it."""

    consumer_group: Name
    topic: Name
    class_name: Name
    class_crc: Int = field(name="classCRC")
