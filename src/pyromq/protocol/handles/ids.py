"""The two ids of a message: the place where it is stored, and the one its sender gave it. Upper-case hex, both.

offset id   store address (4 or 16 bytes), port (4), physical offset (8)
unique id   sender address (4 or 16), pid (2), per-process constant (4), ms since the 1st of the month (4), counter (2)
"""

from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import count, islice
from struct import Struct
from typing import Final, NamedTuple

from pyromq.protocol.errors import MessageError
from pyromq.protocol.records.host import Host, pack_address, pack_host, unpack_host

V4_ID_LENGTH: Final = 32
V6_ID_LENGTH: Final = 56

_UNIQUE_TAIL = Struct(">HIIH")
_CLOCK_SLACK_MS = 1_000_000
"""A clock set back by less than this, across the turn of a month, counts as no time at all, as in other clients."""


class OffsetMessageId(NamedTuple):
    """What an offset id says."""

    host: Host
    physical_offset: int


@lru_cache(maxsize=4096)
def _hex_host(host: tuple[str, int]) -> str:
    return pack_host(host).hex().upper()


def offset_message_id(ip: str, port: int, physical_offset: int) -> str:
    """
    >>> offset_message_id("10.0.0.1", 10911, 123456)
    '0A00000100002A9F000000000001E240'
    """
    return f"{_hex_host((ip, port))}{physical_offset & 0xFFFF_FFFF_FFFF_FFFF:016X}"


def parse_offset_message_id(text: str) -> OffsetMessageId:
    """The reverse. Raises MessageError for a text that is no such id."""
    data = _unhex(text, "offset message id")
    offset = int.from_bytes(data[-8:], signed=True)
    if offset < 0:
        raise MessageError(f"offset message id {text} has a negative offset")
    return OffsetMessageId(unpack_host(data[:-8]), offset)


class UniqueIdGenerator:
    """Makes unique ids for one process: `generator()` returns the next one.

    `clock` returns Unix time in ms; `discriminator` is any number that stays the same for this process, to tell it from
    others with the same pid. Threads may share a generator.
    """

    def __init__(
        self, ip: str, pid: int, discriminator: int, clock: Callable[[], int], *, zone: tzinfo | None = None
    ) -> None:
        # Unlike in a record, the kind of address is read off the length alone.
        address = pack_address(ip)
        self._prefix = (address + _UNIQUE_TAIL.pack(pid & 0xFFFF, discriminator & 0xFFFF_FFFF, 0, 0)[:6]).hex().upper()
        self._clock = clock
        self._zone = zone
        self._count = count()
        self._month = _month(clock(), zone)
        self._latest = 0, ""
        """A millisecond and what its ids have in common."""

    def __call__(self) -> str:
        now = self._clock()
        millisecond, text = self._latest
        if now != millisecond:
            start, following = self._month
            if now >= following or now <= start - _CLOCK_SLACK_MS:
                start, following = self._month = _month(now, self._zone)
            text = f"{self._prefix}{max(now - start, 0):08X}"
            self._latest = now, text
        return f"{text}{next(self._count) & 0xFFFF:04X}"

    def run(self, count: int) -> tuple[str, int]:
        """What the ids of `count` messages begin with, and the number of the first; each ends with its own as `%04X`.

        For at most 2**15 messages, which take more than a few milliseconds to send: numbers come again after 2**16.
        """
        first = self()
        deque(islice(self._count, count - 1), maxlen=0)
        return first[:-4], int(first[-4:], 16)


def _month(now_ms: int, zone: tzinfo | None) -> tuple[int, int]:
    """Start of the month that holds this instant and of the one after it, in the zone (None: this machine's)."""
    local = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(zone)
    first = local.replace(day=1, hour=0, minute=0, second=0, microsecond=0, fold=0)
    following = (first + timedelta(days=31)).replace(day=1)
    return _unix_ms(first, zone), _unix_ms(following, zone)


def _unix_ms(local: datetime, zone: tzinfo | None) -> int:
    # Without a zone `local` has the fixed UTC offset of another day; only the machine's rules know that of this one.
    exact = local if zone is not None else local.replace(tzinfo=None).astimezone()
    return round(exact.timestamp() * 1000)


def _unhex(text: str, what: str) -> bytes:
    if len(text) not in (V4_ID_LENGTH, V6_ID_LENGTH):
        raise MessageError(
            f"{what} {text[:80]!r} has {len(text)} characters instead of {V4_ID_LENGTH} or {V6_ID_LENGTH}"
        )
    try:
        data = bytes.fromhex(text)
    except ValueError:
        raise MessageError(f"{what} {text!r} is not hexadecimal") from None
    if len(data) * 2 != len(text):
        raise MessageError(f"{what} {text!r} is not hexadecimal")
    return data
