"""How a slave proves that its log is the beginning of its master's: checksums of stretches, most of all of the last.

A record holds its place in the log and its time, so two logs with the same last stretch have the same past. The small
stretches further back, at twice the distance each, tell of damage and of those who were wrongly let in before.
"""

from collections.abc import Sequence
from typing import Final
from zlib import crc32

from pyromq.broker.replication.follower import Log
from pyromq.protocol.bodies.replication import LogProof, Stretch

TAIL: Final = 64 << 10
SAMPLE: Final = 4 << 10
MAX_STRETCHES: Final = 48

Piece = tuple[int, list[memoryview]]
"""Where a stretch begins, and its bytes, which may lie in more than one file."""


def places(begin: int, end: int) -> list[tuple[int, int]]:
    """Begin and end of the stretches that stand for a log between `begin` and `end`, the last one first."""
    found: list[tuple[int, int]] = []
    back, size = 0, TAIL
    while end - back > begin and len(found) < MAX_STRETCHES:
        high = end - back
        found.append((max(begin, high - size), high))
        back, size = max(TAIL, 2 * back), SAMPLE
    return found


def piece(log: Log, begin: int, end: int) -> Piece | None:
    """The bytes of a stretch; None when the log does not have all of them."""
    views = []
    at = begin
    while at < end:
        view = log.read_raw(at, end - at)
        if view is None:
            return None
        views.append(view)
        at += len(view)
    return begin, views


def checksums(pieces: Sequence[Piece]) -> LogProof:
    """What is sent. It reads the bytes, from the disk if need be, so it belongs into a thread."""
    proof = LogProof()
    for begin, views in pieces:
        crc = 0
        for view in views:
            crc = crc32(view, crc)
        proof.stretches.append(Stretch(crc=crc, offset=begin, length=sum(map(len, views))))
    return proof


def is_about(proof: LogProof, end: int) -> bool:
    """Whether a proof is about a log that ends there."""
    return bool(proof.stretches) and proof.stretches[0].offset + proof.stretches[0].length == end


def is_acceptable(proof: LogProof) -> bool:
    """Whether a proof is one that slaves send: nobody may have a master read as much as they like."""
    return len(proof.stretches) <= MAX_STRETCHES and all(
        each.offset >= 0 and 0 < each.length <= (SAMPLE if number else TAIL)
        for number, each in enumerate(proof.stretches)
    )


def difference(theirs: LogProof, mine: LogProof) -> int | None:
    """Where the last of the stretches begins that are not the same; None when all are."""
    for one, other in zip(theirs.stretches, mine.stretches, strict=True):
        if one != other:
            return one.offset
    return None
