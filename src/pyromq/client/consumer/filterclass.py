"""A filter class as a consumer subscribes with it: its name and the Python text that defines it."""

from dataclasses import dataclass, field
from typing import Final
from zlib import crc32

from pyromq.client.errors import ClientError

MAX_SOURCE: Final = 256 * 1024
CRC_MASK: Final = 0x7FFFFFFF


@dataclass(frozen=True)
class FilterClass:
    """Raises ClientError for a name or a text that no filter server would take."""

    name: str
    source: str
    body: bytes = field(init=False, repr=False)
    crc: int = field(init=False)

    def __post_init__(self) -> None:
        if not self.name.isidentifier() or self.name.startswith("_"):
            raise ClientError(f"filter class {self.name!r} is no name of a class")
        try:
            body = self.source.encode()
        except UnicodeEncodeError as error:
            raise ClientError(f"the source of filter class {self.name} is not valid Unicode: {error}") from error
        if not 0 < len(body) <= MAX_SOURCE:
            raise ClientError(f"the source of filter class {self.name} has {len(body)} bytes, not 1 to {MAX_SOURCE}")
        object.__setattr__(self, "body", body)
        object.__setattr__(self, "crc", crc32(body) & CRC_MASK)
