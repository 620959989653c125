"""Java's string hash, on which tag filters, index slots and the choice of a queue by key agree across all clients."""

from functools import lru_cache

_CACHED_LENGTH = 64


def java_hash(text: str) -> int:
    """`String.hashCode`: h = 31 * h + unit over UTF-16 units, as a signed 32-bit number.

    >>> java_hash("TagA")
    2598919
    """
    h = 0
    if text.isascii():
        for unit in text.encode("ascii"):
            h = (31 * h + unit) & 0xFFFFFFFF
    else:
        units = text.encode("utf-16-be", "surrogatepass")
        for i in range(0, len(units), 2):
            h = (31 * h + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return h - 0x1_0000_0000 if h & 0x8000_0000 else h


_cached_hash = lru_cache(maxsize=4096)(java_hash)


def tags_code(tags: str | None) -> int:
    """The consume-queue tag code of a TAGS property: its hash, 0 without tags."""
    if not tags:
        return 0
    # Long texts stay out of the cache so that its memory has a bound.
    return _cached_hash(tags) if len(tags) <= _CACHED_LENGTH else java_hash(tags)
