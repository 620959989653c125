"""Where a group's filter would set its bits in Apache's queue extension files.

PyroMQ keeps no such files, but Apache's broker ignores the whole of `consumerFilter.json` when the positions in it are
not what it would compute itself. Parameters: one error in five, 32 groups; that makes 112 bits and 3 positions.
"""

from struct import iter_unpack
from typing import Final

from pyromq.protocol.bodies.groups import BloomFilterData

BITS: Final = 112
POSITIONS: Final = 3

_MASK: Final = 0xFFFFFFFFFFFFFFFF
_C1: Final = 0x87C37B91114253D5
_C2: Final = 0x4CF5AD432745937F


def bloom_data(group: str, topic: str) -> BloomFilterData:
    """The positions of a group's filter on a topic."""
    code = murmur3(f"{group}#{topic}".encode())
    low, high = code & 0xFFFFFFFF, code >> 32
    return BloomFilterData(bit_num=BITS, bit_pos=[_position(low + i * high) for i in range(1, POSITIONS + 1)])


def _position(combined: int) -> int:
    """The sum wraps like an int of 32 bits; a negative one is inverted bit by bit."""
    wrapped = combined & 0xFFFFFFFF
    return (wrapped ^ 0xFFFFFFFF if wrapped >= 1 << 31 else wrapped) % BITS


def murmur3(data: bytes) -> int:
    """The low 64 bits of MurmurHash3 x64 128 with seed 0."""
    h1 = h2 = 0
    whole = len(data) & ~15
    for k1, k2 in iter_unpack("<QQ", data[:whole]):
        h1 = (_rotate(h1 ^ _mix(k1, _C1, 31, _C2), 27) + h2) * 5 + 0x52DCE729 & _MASK
        h2 = (_rotate(h2 ^ _mix(k2, _C2, 33, _C1), 31) + h1) * 5 + 0x38495AB5 & _MASK
    tail = data[whole:]
    h1 ^= _mix(int.from_bytes(tail[:8], "little"), _C1, 31, _C2) ^ len(data)
    h2 ^= _mix(int.from_bytes(tail[8:], "little"), _C2, 33, _C1) ^ len(data)
    h1 = h1 + h2 & _MASK
    h2 = h2 + h1 & _MASK
    return _final(h1) + _final(h2) & _MASK


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK


def _mix(value: int, first: int, bits: int, second: int) -> int:
    return _rotate(value * first & _MASK, bits) * second & _MASK


def _final(value: int) -> int:
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        value = (value ^ value >> 33) * factor & _MASK
    return value ^ value >> 33
