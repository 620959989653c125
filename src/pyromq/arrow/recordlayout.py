"""Where the fields of many records are: the fixed parts as one numpy array, the variable ones as positions.

The layout itself is that of `protocol.record`; here all records of a buffer are taken apart at once. Nothing is copied
but the fixed parts. A record that breaks a rule is named by its index, and the scalar decoder says what is wrong.
"""

from array import array
from dataclasses import dataclass
from struct import Struct

import numpy as np
import numpy.typing as npt

from pyromq import native
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.record import MAGIC_V1, MAGIC_V2, MIN_SIZE
from pyromq.protocol.records.salvage import next_record

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_SIZE = Struct(">i").unpack_from


def _prefix(born: int, store: int) -> np.dtype[np.void]:
    return np.dtype(
        [
            ("size", ">i4"),
            ("magic", ">i4"),
            ("crc", ">i4"),
            ("queue", ">i4"),
            ("flag", ">i4"),
            ("offset", ">i8"),
            ("physical", ">i8"),
            ("sysflag", ">i4"),
            ("born", ">i8"),
            ("bornhost", f"V{born}"),
            ("stored", ">i8"),
            ("storehost", f"V{store}"),
            ("reconsumed", ">i4"),
            ("prepared", ">i8"),
            ("body", ">i4"),
        ]
    )


# By the two address bits of the system flag: none, born, store, both.
_PREFIXES = (_prefix(8, 8), _prefix(20, 8), _prefix(8, 20), _prefix(20, 20))


@dataclass(frozen=True)
class RecordLayout:
    """Records of one shape. All positions count from the start of the buffer."""

    fixed: npt.NDArray[np.void]
    body_at: Longs
    body_end: Longs
    topic_at: Longs
    topic_end: Longs
    properties_at: Longs
    end: Longs


def walk(buffer: bytes | memoryview, start: int = 0) -> Longs:
    """Starts of records that lie back to back up to the end of the buffer.

    Where a size is wrong, the next record is looked for: what lies before it is for the decoder to refuse.
    """
    plain = plain_starts(buffer, start)
    if plain is not None:
        return np.frombuffer(plain, np.int64)
    starts = []
    position, end = start, len(buffer)
    while position < end:
        starts.append(position)
        size = _SIZE(buffer, position)[0] if position <= end - MIN_SIZE else 0
        following = position + size
        position = following if size >= MIN_SIZE and following <= end else next_record(bytes(buffer), position)
    return np.array(starts, np.int64)


@native.twin
def plain_starts(buffer: bytes | memoryview, start: int) -> bytes | None:
    """The same as 64-bit numbers, while no size is wrong; None where one is."""
    starts = []
    position, end = start, len(buffer)
    last = end - MIN_SIZE
    unpack = _SIZE
    while position < end:
        if position > last:
            return None
        size = unpack(buffer, position)[0]
        if size < MIN_SIZE or size > end - position:
            return None
        starts.append(position)
        position += size
    return array("q", starts).tobytes()


def shapes(data: Bytes, starts: Longs) -> npt.NDArray[np.int8]:
    """The shape of each record: address bits, and 4 for a long topic. Records that are none count as plain."""
    magic = _int(data, starts + 4)
    flags = _int(data, starts + 36)
    bits = (flags & sysflag.HOSTS_MASK) >> sysflag.HOSTS_SHIFT
    found: npt.NDArray[np.int8] = (bits + 4 * (magic == MAGIC_V2)).astype(np.int8)
    return found


def locate(data: Bytes, starts: Longs, shape: int) -> tuple[RecordLayout, Mask]:
    """Positions of all fields of records that have one shape, and which of the records are sound.

    Positions of the others are those of empty fields at their start.
    """
    prefix = _PREFIXES[shape & 3]
    width, long_topic = prefix.itemsize, shape >= 4
    fits = (starts >= 0) & (starts + max(width + 3, MIN_SIZE) <= len(data))
    safe = np.where(fits, starts, 0)
    if len(data) < width:
        empty = np.zeros(len(starts), np.int64)
        return RecordLayout(np.zeros(len(starts), prefix), *([empty] * 6)), np.zeros(len(starts), np.bool_)
    windows = np.lib.stride_tricks.sliding_window_view(data, width)[safe]
    fixed = np.ascontiguousarray(windows).view(prefix).reshape(-1)
    size = fixed["size"].astype(np.int64)
    end = safe + size
    body_at = safe + width
    body_end = body_at + fixed["body"].astype(np.int64)
    topic_at = body_end + (2 if long_topic else 1)
    sound: Mask = (
        fits
        & (fixed["magic"] == (MAGIC_V2 if long_topic else MAGIC_V1))
        & (size >= MIN_SIZE)
        & (end <= len(data))
        & (body_end >= body_at)
        & (topic_at + 2 <= end)
    )
    body_end = np.where(sound, body_end, 0)
    topic_length = _short(data, body_end) if long_topic else data[body_end].astype(np.int64)
    topic_end = np.where(sound, topic_at, 0) + topic_length
    sound &= (topic_length >= 0) & (topic_end + 2 <= end)
    if not long_topic:
        sound &= topic_length <= 127
    topic_end = np.where(sound, topic_end, 0)
    sound &= _short(data, topic_end) == end - topic_end - 2
    ends = (body_at, body_end, topic_at, topic_end, topic_end + 2, end)
    return RecordLayout(fixed, *(np.where(sound, each, safe) for each in ends)), sound


def _int(data: Bytes, at: Longs) -> npt.NDArray[np.int32]:
    if len(data) < 4:
        return np.zeros(len(at), np.int32)
    at = np.where((at >= 0) & (at + 4 <= len(data)), at, 0)
    windows = np.lib.stride_tricks.sliding_window_view(data, 4)[at]
    return np.ascontiguousarray(windows).view(">i4").reshape(-1).astype(np.int32)


def _short(data: Bytes, at: Longs) -> Longs:
    last = len(data) - 1
    high = data[np.clip(at, 0, last)].astype(np.int64)
    low = data[np.clip(at + 1, 0, last)].astype(np.int64)
    value = high << 8 | low
    result: Longs = np.where(value >= 0x8000, value - 0x10000, value)
    return result
