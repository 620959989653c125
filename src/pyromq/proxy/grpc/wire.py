"""Messages as gRPC puts them into DATA: a flag, a length, and the bytes, packed with gzip or not."""

import zlib
from struct import Struct
from typing import Final

from pyromq.proxy.grpc.method import GrpcError, GrpcStatus

PREFIX: Final = Struct(">BI")
"""Whether the message is compressed, and its length."""
PREFIX_SIZE: Final = PREFIX.size
ACCEPTED: Final = b"identity,gzip"
_GZIP_FORMAT = 31
"""What zlib calls a gzip stream with the largest window."""


class MessageReader:
    """Cuts the data of one call into messages. `size` is what waits for the rest of a message."""

    __slots__ = ("_buffer", "_is_gzip", "_most")

    def __init__(self, most: int, *, is_gzip: bool) -> None:
        self._buffer = bytearray()
        self._most = most
        self._is_gzip = is_gzip

    @property
    def size(self) -> int:
        """Bytes of a message that has not come wholly."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[bytes]:
        """The messages that are whole now. Raises GrpcError."""
        buffer = self._buffer
        buffer += data
        messages = []
        at = 0
        while len(buffer) - at >= PREFIX_SIZE:
            flag, length = PREFIX.unpack_from(buffer, at)
            if length > self._most:
                raise GrpcError(
                    GrpcStatus.RESOURCE_EXHAUSTED, f"a message of {length} bytes, where {self._most} are allowed"
                )
            end = at + PREFIX_SIZE + length
            if end > len(buffer):
                break
            messages.append(self._unpack(flag, bytes(memoryview(buffer)[at + PREFIX_SIZE : end])))
            at = end
        del buffer[:at]
        return messages

    def _unpack(self, flag: int, message: bytes) -> bytes:
        if not flag:
            return message
        if flag != 1 or not self._is_gzip:
            raise GrpcError(GrpcStatus.INTERNAL, "a compressed message without grpc-encoding")
        return gunzip(message, self._most)


def gunzip(data: bytes, most: int) -> bytes:
    """Unpack up to `most` bytes. Raises GrpcError."""
    unpacker = zlib.decompressobj(_GZIP_FORMAT)
    try:
        found = unpacker.decompress(data, most + 1)
    except zlib.error as error:
        raise GrpcError(GrpcStatus.INTERNAL, f"a message cannot be unpacked: {error}") from error
    if len(found) > most:
        raise GrpcError(GrpcStatus.RESOURCE_EXHAUSTED, f"a message is more than {most} bytes when unpacked")
    if not unpacker.eof or unpacker.unused_data:
        raise GrpcError(GrpcStatus.INTERNAL, "a message cannot be unpacked: it is not one whole gzip stream")
    return found
