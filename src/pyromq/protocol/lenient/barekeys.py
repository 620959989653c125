"""Bare integer keys made strict, without parsing.

Most of what is not strict JSON in RocketMQ's bodies and files are integers as keys, in tables that may be large. Here
strings are set aside, the rest is changed by one pattern, and the strings are put back, all in C, so that such a text
can still be decoded straight into structs.
"""

import re

# The last alternative swallows a string without an end, so that each byte is looked at once.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_BARE_KEY = re.compile(rb"([{,][ \t\r\n]*)(-?[0-9]+)[ \t\r\n]*:")
_MAX_KEYS = 1_000_000  # a file of offsets that large belongs to a broker with a hundred thousand groups
_PLACE = b"\0"  # stands for a string; no JSON text has it outside of one


def quote_bare_keys(raw: bytes) -> bytes | None:
    """`raw` with its bare integer keys in quotes, or None if it has none, too many, or is broken anyway.

    >>> quote_bare_keys(b'{0:"a,1:b",-2:{}}')
    b'{"0":"a,1:b","-2":{}}'
    """
    if _BARE_KEY.search(raw) is None:
        return None
    strings = _STRING.findall(raw)
    structure = _PLACE.join(_STRING.split(raw))
    fixed, count = _BARE_KEY.subn(rb'\1"\2":', structure, _MAX_KEYS)
    between = fixed.split(_PLACE)
    if not 0 < count < _MAX_KEYS or len(between) != len(strings) + 1:
        return None
    pieces = [b""] * (len(between) + len(strings))
    pieces[::2] = between
    pieces[1::2] = strings
    return b"".join(pieces)
