"""A batch by columns: all flags, all bodies, all properties of one name, each as one list.

What a broker does with a batch it does for one column after the other, mostly in calls that take a whole list. The form
of a batch is described in `batch`, which reads it message by message.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from pyromq.protocol.records.batch import FIXED_SIZE, iter_batch

_unpack_head = Struct(">i8x2i").unpack_from  # size, flag, body length
_unpack_length = Struct(">h").unpack_from
_BODY = 20
LENGTH: Final = 2
"""Bytes that say how long the properties are."""


class BatchColumns(NamedTuple):
    """The messages of a batch. `tails` are their properties, each with the two bytes of its length before it."""

    flags: list[int]
    bodies: list[bytes]
    tails: list[bytes]


def batch_columns(data: bytes) -> BatchColumns:
    """Take a batch body apart. Raises MessageError where it stops making sense."""
    flags: list[int] = []
    bodies: list[bytes] = []
    tails: list[bytes] = []
    start, end = 0, len(data)
    last = end - FIXED_SIZE
    while start <= last:
        size, flag, body_length = _unpack_head(data, start)
        following = start + size
        body_start = start + _BODY
        body_end = body_start + body_length
        if following > end or not body_start <= body_end <= following - LENGTH:
            break
        if _unpack_length(data, body_end)[0] != following - body_end - LENGTH:
            break
        flags.append(flag)
        bodies.append(data[body_start:body_end])
        tails.append(data[body_end:following])
        start = following
    if start != end:
        for _ in iter_batch(data):  # which says what is wrong
            pass
    return BatchColumns(flags, bodies, tails)


def property_columns(texts: Sequence[bytes]) -> dict[str, list[str]] | None:
    """The values of each property, if all messages have the same ones in the same order, as those of a batch mostly do.

    None when they do not, or have something to be decided, such as an empty value or a name twice: look at each then.
    """
    separators = {text.count(b"\x02") for text in texts}
    if len(separators) != 1:
        return None
    # With a separator more between two texts there is an empty piece behind each, a column of its own.
    pieces = b"\x02".join(texts).decode("utf-8", "replace").split("\x02")
    count, width = len(texts), separators.pop() + 1
    if any(pieces[width - 1 :: width]):
        return None
    columns: dict[str, list[str]] = {}
    for place in range(width - 1):
        column = pieces[place::width]
        name, separator, value = column[0].partition("\x01")
        if not (name and separator and value) or name in columns:
            return None
        prefix = name + separator
        size = len(prefix)
        distinct = set(column)
        if {piece[:size] for piece in distinct} != {prefix} or prefix in distinct:
            return None
        columns[name] = [value] * count if len(distinct) == 1 else [piece[size:] for piece in column]
    return columns
