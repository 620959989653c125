"""HPACK for servers (RFC 7541): field blocks of clients to lists of fields, and fields to blocks.

A `Decoder` belongs to one connection and sees all its blocks in order, or its dynamic table falls out of step with the
client's. The table lives in the native core where there is one; without it, the table and the Huffman code are those of
the `hpack` library. Blocks to clients use no dynamic table, so what is encoded once is right on every connection.
"""

import re
from collections.abc import Iterable
from typing import Any, Final, Protocol

from pyromq import native
from pyromq.errors import PyroMQError

Field = tuple[bytes, bytes]
"""Name and value."""
Request = tuple[list[Field], tuple[bytes, ...], bool]
"""Fields, their names alone, and whether all values are well-formed."""

DEFAULT_TABLE_SIZE: Final = 4096
"""What both sides begin with (RFC 9113, SETTINGS_HEADER_TABLE_SIZE)."""
DEFAULT_LIST_SIZE: Final = 16_384
FIELD_OVERHEAD: Final = 32
"""What a field counts beside its name and value, in the table and in a list (RFC 7541, 4.1)."""
INTEGER_OCTETS: Final = 5
"""After the first one; more are an attack, no number needs them."""
_UNSOUND: Final = re.compile(rb"[\0\r\n]|\A[ \t]|[ \t]\Z")
PANIC: Final[Any] = getattr(native.core.module, "Panic", ())
"""What a fault of the native core raises; nothing where there is none."""


class CompressionError(PyroMQError):
    """A block that cannot be decoded. The table is lost with it: the connection must end with COMPRESSION_ERROR."""


class HeaderListSizeError(PyroMQError):
    """A list of fields over the limit. The table is in step: only the stream needs an answer, 431 or a reset."""


class BlockDecoder(Protocol):
    """The stateful part of a `Decoder`, in Rust or in Python."""

    def decode(self, block: bytes) -> list[Field]: ...

    def decode_request(self, block: bytes) -> Request: ...


class Decoder:
    """Field blocks of one connection to lists of fields.

    `max_table_size` is what this side announced with SETTINGS_HEADER_TABLE_SIZE; clients may use less. `max_list_size`
    counts 32 bytes for each field beside its name and value.

    >>> Decoder().decode(bytes.fromhex("828684"))
    [(b':method', b'GET'), (b':scheme', b'http'), (b':path', b'/')]
    """

    __slots__ = ("_blocks",)

    def __init__(self, max_table_size: int = DEFAULT_TABLE_SIZE, max_list_size: int = DEFAULT_LIST_SIZE) -> None:
        if max_table_size < DEFAULT_TABLE_SIZE:
            # A client may fill the table it begins with before it has read any settings.
            raise ValueError(f"the table has {DEFAULT_TABLE_SIZE} bytes at least, not {max_table_size}")
        self._blocks: BlockDecoder
        if native.core.on:
            make = native.core.module.HpackDecoder
            self._blocks = make(max_table_size, max_list_size, CompressionError, HeaderListSizeError)
        else:
            self._blocks = PythonBlocks(max_table_size, max_list_size)

    def decode(self, block: bytes) -> list[Field]:
        """The fields of one whole block, that of HEADERS with its CONTINUATIONs.

        CompressionError if it is malformed, and for every block after such a one; HeaderListSizeError, after all of it
        went through the table, if its fields are over the limit.
        """
        try:
            return self._blocks.decode(block)
        except PANIC as fault:
            raise native.core.fault("HpackDecoder", fault) from None

    def decode_request(self, block: bytes) -> Request:
        """`decode`, with what it takes to check a request quickly.

        Values are well-formed without line breaks, NUL, and space at their ends (RFC 9113, 8.2.1); of a field that
        clients refer to over and over, that is found out once. Raises as `decode` does.
        """
        try:
            return self._blocks.decode_request(block)
        except PANIC as fault:
            raise native.core.fault("HpackDecoder", fault) from None


class PythonBlocks:
    """The decoder without the native core."""

    def __init__(self, max_table_size: int, max_list_size: int) -> None:
        # Its tables take a while to load: only who needs them should wait.
        from hpack.exceptions import HPACKDecodingError  # noqa: PLC0415
        from hpack.huffman_table import decode_huffman  # noqa: PLC0415
        from hpack.table import HeaderTable  # noqa: PLC0415

        self._max_table_size = max_table_size
        self._max_list_size = max_list_size
        self._table = HeaderTable()
        self._unpack = decode_huffman
        self._library_error = HPACKDecodingError
        self._failed = False
        self._block = b""
        self._at = 0

    def decode(self, block: bytes) -> list[Field]:
        if self._failed:
            raise CompressionError("the table was lost with an earlier block")
        self._block, self._at = block, 0
        self._failed = True
        fields = self._fields()
        self._failed = False
        if fields is None:
            raise HeaderListSizeError(f"the header list is over {self._max_list_size} bytes")
        return fields

    def decode_request(self, block: bytes) -> Request:
        fields = self.decode(block)
        names = tuple([name for name, _ in fields])
        return fields, names, all(is_sound(value) for _, value in fields)

    def _fields(self) -> list[Field] | None:
        """All of the block through the table; None in place of the list if that is too long."""
        block, table, end = self._block, self._table, len(self._block)
        fields: list[Field] = []
        size, beginning = 0, True
        while self._at < end:
            first = block[self._at]
            if first & 0xE0 == 0x20:
                if not beginning:
                    raise CompressionError("a table size update after a field")
                self._resize(self._integer(0x1F))
                continue
            beginning = False
            if first & 0x80:
                field = self._entry(self._integer(0x7F))
            else:
                index = self._integer(0x3F if first & 0x40 else 0x0F)
                name = self._entry(index)[0] if index else self._string()
                field = (name, self._string())
                if first & 0x40:
                    table.add(*field)
            size += len(field[0]) + len(field[1]) + FIELD_OVERHEAD
            if size <= self._max_list_size:
                fields.append(field)
            else:
                fields.clear()
        return fields if size <= self._max_list_size else None

    def _resize(self, size: int) -> None:
        if size > self._max_table_size:
            raise CompressionError(f"a table of {size} bytes where {self._max_table_size} are allowed")
        self._table.maxsize = size

    def _entry(self, index: int) -> Field:
        try:
            return self._table.get_by_index(index)
        except self._library_error:
            raise CompressionError(f"the table has no entry {index}") from None

    def _integer(self, prefix: int) -> int:
        """The number that begins in the low bits of the next octet."""
        block, at = self._block, self._at
        try:
            value = block[at] & prefix
            if value < prefix:
                self._at = at + 1
                return value
            for octet in range(INTEGER_OCTETS):
                at += 1
                value += (block[at] & 0x7F) << 7 * octet
                if block[at] < 0x80:
                    self._at = at + 1
                    return value
        except IndexError:
            raise CompressionError("the block ends within an integer") from None
        raise CompressionError("an integer is too long")

    def _string(self) -> bytes:
        packed = self._at < len(self._block) and self._block[self._at] & 0x80
        length = self._integer(0x7F)
        start, self._at = self._at, self._at + length
        if self._at > len(self._block):
            raise CompressionError("a string is longer than its block")
        text = self._block[start : self._at]
        if not packed:
            return text
        try:
            return self._unpack(text)
        except self._library_error:
            raise CompressionError("the Huffman code of a string is broken") from None


def is_sound(value: bytes) -> bool:
    """Whether a value has neither line breaks nor NUL, nor space at its ends.

    >>> is_sound(b"application/grpc"), is_sound(b"two\\nlines"), is_sound(b" padded")
    (True, False, False)
    """
    return _UNSOUND.search(value) is None


STATIC_FIELDS: Final[dict[Field, int]] = {
    (b":status", b"200"): 8,
    (b":status", b"204"): 9,
    (b":status", b"206"): 10,
    (b":status", b"304"): 11,
    (b":status", b"400"): 12,
    (b":status", b"404"): 13,
    (b":status", b"500"): 14,
}
"""Of the static table (RFC 7541, appendix A), the whole fields that servers send."""
STATIC_NAMES: Final[dict[bytes, int]] = {
    b":status": 8,
    b"allow": 22,
    b"content-encoding": 26,
    b"content-length": 28,
    b"content-type": 31,
    b"date": 33,
    b"retry-after": 53,
    b"server": 54,
    b"www-authenticate": 61,
}
"""Of the static table, the names that servers send with values of their own."""


def encode_headers(fields: Iterable[Field]) -> bytes:
    """A block of these fields, in this order, that leaves the client's table alone.

    >>> encode_headers([(b":status", b"200"), (b"grpc-status", b"0")])
    b'\\x88\\x00\\x0bgrpc-status\\x010'
    """
    parts: list[bytes] = []
    for name, value in fields:
        whole = STATIC_FIELDS.get((name, value))
        if whole is not None:
            parts.append(encode_integer(whole, 0x7F, 0x80))
            continue
        index = STATIC_NAMES.get(name, 0)
        parts.append(encode_integer(index, 0x0F, 0x00))
        if not index:
            parts += (encode_integer(len(name), 0x7F, 0x00), name)
        parts += (encode_integer(len(value), 0x7F, 0x00), value)
    return b"".join(parts)


def encode_integer(value: int, prefix: int, flags: int) -> bytes:
    """The number in the low bits of an octet, those of `prefix`, and in more octets where it has no room there."""
    if value < prefix:
        return bytes((flags | value,))
    encoded = bytearray((flags | prefix,))
    value -= prefix
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
