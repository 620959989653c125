"""The index hash of "topic#key" (S-13), fast enough for the append path.

Java's string hash is a polynomial in 31 modulo 2**32, so the hash of a text follows from those of its parts. Keys are
hashed many at a time: each takes 32 bytes of one wide integer, and a few operations on it work on all of them.
"""

import struct
from collections.abc import Sequence

from pyromq.protocol.records.tags import java_hash

Key = tuple[str, str, int, int]
"""Topic, key, physical offset and store time of the record that has it."""

Keys = Sequence[Key] | bytes
"""Keys, or those that are hashed already, as the core does it: `HASHED` of each."""
HASHED = struct.Struct(">iqq")
"""A hashed key: hash, physical offset, store time."""

_MASK = 0xFFFFFFFF
_WIDTH = 32  # characters of a key hashed at once; unique ids have so many
MAX_AT_ONCE = 256  # keys
_MAX_REMEMBERED = 1 << 16
_POWERS = tuple(pow(31, n, 1 << 32) for n in range(_WIDTH + 1))
_LAST = struct.Struct(">28xI")


def _lanes(zeros: int, ones: int) -> int:
    """A mask that repeats so many zero bytes followed by so many bytes of ones, over all keys."""
    return int.from_bytes((bytes(zeros) + b"\xff" * ones) * (MAX_AT_ONCE * _WIDTH // (zeros + ones)))


# Step by step neighbouring lanes are added as 31**(lane width in characters) * left + right. In the first three steps
# `left << width` is already in the number, so that is one subtraction, and no lane can overflow for bytes below 256.
# From there on only the low 32 bits of a lane are kept.
_M1, _M2, _M4, _M8, _M16 = (_lanes(n, n) for n in (1, 2, 4, 8, 16))
_LOW8, _LOW16 = _lanes(4, 4), _lanes(12, 4)
_F1, _F2, _F4 = (1 << 8) - 31, (1 << 16) - 31**2, (1 << 32) - 31**4
_P8, _P16 = _POWERS[8], _POWERS[16]


def _hash_blocks(data: bytes) -> list[int]:
    """The hash of each 32 bytes of at most MAX_AT_ONCE times so many, every byte a character below 256."""
    x = int.from_bytes(data)
    x -= _F1 * (x >> 8 & _M1)
    x -= _F2 * (x >> 16 & _M2)
    x -= _F4 * (x >> 32 & _M4)
    x &= _LOW8
    x = (x >> 64 & _M8) * _P8 + (x & _M8) & _LOW16
    x = (x >> 128 & _M16) * _P16 + (x & _M16)
    return [h for (h,) in _LAST.iter_unpack(x.to_bytes(len(data)))]


def text_hash(text: str) -> int:
    """Java's hash of a text as an unsigned 32-bit number."""
    if not text.isascii() or len(text) > MAX_AT_ONCE * _WIDTH:
        return java_hash(text) & _MASK
    # Zeros in front do not change a hash.
    h = 0
    for block in _hash_blocks(text.encode().rjust(-(-len(text) // _WIDTH) * _WIDTH, b"\0")):
        h = h * _POWERS[_WIDTH] + block
    return h & _MASK


def text_hashes(texts: Sequence[str]) -> list[int]:
    """The hash of each of at most MAX_AT_ONCE texts; quick when all are of ASCII and none is longer than 32."""
    longest = max(map(len, texts), default=0)
    joined = "".join(texts)
    if longest > _WIDTH or not joined.isascii():
        return [text_hash(text) for text in texts]
    if len(joined) != _WIDTH * len(texts):
        joined = "".join([text.rjust(_WIDTH, "\0") for text in texts])
    return _hash_blocks(joined.encode())


class KeyHasher:
    """Hashes "topic#key". Remembers a bounded number of topics; forgetting them costs only time."""

    __slots__ = ("_prefixes", "_shifted")

    def __init__(self) -> None:
        self._prefixes: dict[str, int] = {}  # topic -> hash of "topic#"
        self._shifted: dict[str, int] = {}  # topic -> the same, moved to the left by 32 characters

    def key(self, topic: str, key: str) -> int:
        """The index hash of one key: the absolute value of the signed number, 0 for the least one."""
        return self.keys([(topic, key, 0, 0)])[0]

    def keys(self, keys: Sequence[Key]) -> list[int]:
        """The index hash of each of at most MAX_AT_ONCE keys; quickest when all are unique ids, of 32 characters."""
        texts = [key[1] for key in keys]
        joined = "".join(texts)
        if joined.isascii() and len(joined) == _WIDTH * len(texts) and max(map(len, texts), default=0) == _WIDTH:
            hashes = _hash_blocks(joined.encode())
            try:
                prefixes = [self._shifted[key[0]] for key in keys]
            except KeyError:
                prefixes = [self._prefix(key[0]) * _POWERS[_WIDTH] for key in keys]
        else:
            hashes = text_hashes(texts)
            prefixes = [self._prefix(key[0]) * _power(key[1]) for key in keys]
        return [
            -x & 0x7FFFFFFF if (x := prefix + h & _MASK) & 0x80000000 else x
            for prefix, h in zip(prefixes, hashes, strict=True)
        ]

    def _prefix(self, topic: str) -> int:
        prefix = self._prefixes.get(topic)
        if prefix is None:
            if len(self._prefixes) >= _MAX_REMEMBERED:
                self._prefixes.clear()
                self._shifted.clear()
            prefix = self._prefixes[topic] = text_hash(topic + "#")
            self._shifted[topic] = prefix * _POWERS[_WIDTH] & _MASK
        return prefix


def _power(key: str) -> int:
    """By how much "topic#" weighs more for the key behind it."""
    units = len(key) if key.isascii() else len(key.encode("utf-16-be", "surrogatepass")) // 2
    return _POWERS[units] if units <= _WIDTH else pow(31, units, 1 << 32)
