"""The index hash of "topic#key" (S-13), fast enough for the append path.

Java's string hash is a polynomial in 31 modulo 2**32, so the hash of a text follows from those of its parts. Two uses:
text is hashed 32 characters at a time with arithmetic on one wide integer, and for unique ids, which differ from their
neighbours in the last characters only, the hashes of both parts are remembered.
"""

from pyromq.protocol.tags import java_hash

_MASK = 0xFFFFFFFF
_TAIL = 4  # characters of a unique id that change with each message
_MAX_REMEMBERED = 1 << 16
_POWERS = tuple(pow(31, n, 1 << 32) for n in range(33))

# Step k adds neighbouring lanes of 2**k bytes as 31**(2**k) * left + right. `left << width` is already in the number,
# so that is one subtraction of (2**width - 31**(2**k)) * left. No lane overflows for bytes below 256.
_LANES: tuple[tuple[int, int, int], ...] = tuple(
    (
        width := 8 << k,
        int.from_bytes((bytes(width // 8) + b"\xff" * (width // 8)) * (16 >> k)),
        (1 << width) - pow(31, 1 << k),
    )
    for k in range(5)
)
(_W0, _M0, _F0), (_W1, _M1, _F1), (_W2, _M2, _F2), (_W3, _M3, _F3), (_W4, _M4, _F4) = _LANES


def _hash_32(data: bytes) -> int:
    """Hash of at most 32 bytes, each a character below 256."""
    x = int.from_bytes(data)
    x -= _F0 * (x >> _W0 & _M0)
    x -= _F1 * (x >> _W1 & _M1)
    x -= _F2 * (x >> _W2 & _M2)
    x -= _F3 * (x >> _W3 & _M3)
    return x - _F4 * (x >> _W4) & _MASK


def text_hash(text: str) -> int:
    """Java's hash of a text as an unsigned 32-bit number."""
    if not text.isascii():
        return java_hash(text) & _MASK
    data = text.encode()
    if len(data) <= 32:
        return _hash_32(data)
    h = 0
    for begin in range(0, len(data), 32):
        block = data[begin : begin + 32]
        h = h * _POWERS[len(block)] + _hash_32(block)
    return h & _MASK


def index_hash(h: int) -> int:
    """The hash as index entries hold it: the absolute value of the signed number, 0 for the least one."""
    return -h & 0x7FFFFFFF if h & 0x80000000 else h


class KeyHasher:
    """Hashes "topic#key". Remembers a bounded number of parts; forgetting them costs only time."""

    __slots__ = ("_heads", "_heads_left", "_tails", "_topics")

    def __init__(self) -> None:
        self._topics: dict[str, int] = {}  # topic -> hash of "topic#"
        self._heads: dict[str, dict[str, int]] = {}  # topic -> head of a key -> hash of "topic#head", shifted by a tail
        self._heads_left = _MAX_REMEMBERED
        self._tails: dict[str, int] = {}

    def key(self, topic: str, key: str) -> int:
        """The index hash of any key."""
        prefix = self._topics.get(topic)
        if prefix is None:
            if len(self._topics) >= _MAX_REMEMBERED:
                self._topics.clear()
            prefix = self._topics[topic] = text_hash(topic + "#")
        units = len(key) if key.isascii() else len(key.encode("utf-16-be", "surrogatepass")) // 2
        return index_hash(prefix * pow(31, units, 1 << 32) + text_hash(key) & _MASK)

    def unique(self, topic: str, key: str) -> int:
        """The same number as `key`, quicker when keys that share all but their last characters come together."""
        try:
            h = self._heads[topic][key[:-4]] + self._tails[key[-4:]] & 0xFFFFFFFF
        except KeyError:
            return self._remembering(topic, key)
        return -h & 0x7FFFFFFF if h & 0x80000000 else h

    def _remembering(self, topic: str, key: str) -> int:
        if len(key) <= _TAIL or len(key) > 64 or not key.isascii():
            return self.key(topic, key)
        head, tail = key[:-_TAIL], key[-_TAIL:]
        tail_hash = self._tails.get(tail)
        if tail_hash is None:
            if len(self._tails) >= _MAX_REMEMBERED:
                self._tails.clear()
            tail_hash = self._tails[tail] = text_hash(tail)
        heads = self._heads.get(topic)
        head_hash = heads.get(head) if heads is not None else None
        if head_hash is None:
            if self._heads_left <= 0:
                self._heads.clear()
                self._heads_left = _MAX_REMEMBERED
            self._heads_left -= 1
            head_hash = text_hash(f"{topic}#{head}") * _POWERS[_TAIL]
            self._heads.setdefault(topic, {})[head] = head_hash
        return index_hash(head_hash + tail_hash & _MASK)
