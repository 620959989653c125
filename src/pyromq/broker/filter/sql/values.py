"""Values of an expression and how two of them compare, with the conversions, oddities and errors of RocketMQ.

A value is None, a string (every property is one), a truth value, an `int` of 32 bits, a `Long` of 64, or a float. A
number decides how the text beside it is read: `a = 1` wants a whole number of 32 bits, `a = 1.0` any number.
"""

import math
import re
from typing import Final

from pyromq.broker.filter.sql.errors import EvaluationError


class Long(int):
    """A whole number that does not fit 32 bits, or the negative of one."""


Value = None | str | bool | int | float

INT_MIN: Final = -(2**31)
INT_MAX: Final = 2**31 - 1
LONG_MIN: Final = -(2**63)
LONG_MAX: Final = 2**63 - 1
MAX_DIGITS: Final = 40

_WHOLE = re.compile(r"([+-]?)(\d+)")
_DECIMAL = re.compile(r"([+-]?)(NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)", re.ASCII)
_HEXADECIMAL = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
_TRIMMED: Final = "".join(map(chr, range(33)))


def to_whole(text: str, low: int, high: int) -> int:
    """The number a text stands for, if it lies within the bounds. Raises EvaluationError."""
    found = _WHOLE.fullmatch(text)
    digits = found[2].lstrip("0") if found is not None else ""
    if found is None or len(digits) > MAX_DIGITS or not low <= (value := int(found[1] + (digits or "0"))) <= high:
        raise EvaluationError(f"{text[:MAX_DIGITS]!r} is no whole number from {low} to {high}")
    return value


def to_double(text: str) -> float:
    """The same for a number of any kind, in Java's notation."""
    trimmed = text.strip(_TRIMMED)
    if (found := _DECIMAL.fullmatch(trimmed)) is not None:
        sign, number = found[1], found[2]
        return float(sign + (number if number in {"NaN", "Infinity"} else number.rstrip("fFdD")))
    if (found := _HEXADECIMAL.fullmatch(trimmed)) is not None:
        try:
            return float.fromhex(found[1])
        except OverflowError:
            return -math.inf if found[1].startswith("-") else math.inf
    raise EvaluationError(f"{text[:MAX_DIGITS]!r} is no number")


def convert(text: str, like: bool | float) -> bool | float:
    """Text read as the type of the value it is compared with. Raises EvaluationError."""
    if isinstance(like, bool):
        return text.lower() == "true"
    if isinstance(like, float):
        return to_double(text)
    if isinstance(like, Long):
        return to_whole(text, LONG_MIN, LONG_MAX)
    return to_whole(text, INT_MIN, INT_MAX)


def order(left: bool | float, right: bool | float) -> int:
    """Below, at or above 0 as `left` is smaller, equal or larger. NaN is the largest number and equal to itself."""
    if left < right:
        return -1
    if left > right:
        return 1
    if isinstance(left, float) or isinstance(right, float):
        return _float_order(float(left), float(right))
    return 0


def _float_order(left: float, right: float) -> int:
    """What `<` and `>` leave open: NaN, and that -0.0 comes before 0.0."""
    left_key = (math.isnan(left), math.copysign(1.0, left) if left == 0 else 0.0)
    right_key = (math.isnan(right), math.copysign(1.0, right) if right == 0 else 0.0)
    return (left_key > right_key) - (left_key < right_key)


def compare(left: str | bool | float, right: str | bool | float) -> int:
    """Order of two values, the text of one read like the other; values that do not mix count as smaller.

    Raises EvaluationError for text that cannot be read so, and for a truth value before a text.
    """
    if isinstance(left, str):
        if isinstance(right, str):
            return (left > right) - (left < right)
        return order(convert(left, right), right)
    if isinstance(right, str):
        if isinstance(left, bool):
            raise EvaluationError(f"a truth value cannot be compared with the text {right[:MAX_DIGITS]!r}")
        return order(left, convert(right, left))
    if isinstance(left, bool) is not isinstance(right, bool):
        return -1
    if isinstance(left, float) is not isinstance(right, float):
        # As doubles, so that large whole numbers are rounded before they are compared.
        left, right = float(left), float(right)
    return order(left, right)


def equal(left: Value, right: Value) -> bool | None:
    """`=`: nothing on the left makes it unknown, on the right false; nothing equals nothing."""
    if left is None:
        return True if right is None else None
    if right is None:
        return False
    return compare(left, right) == 0


def ranked(left: Value, right: Value) -> int | None:
    """The order for `<` and its like, None when a value is missing. Two texts are compared as numbers."""
    if left is None or right is None:
        return None
    if isinstance(left, str) and isinstance(right, str):
        return order(to_double(left), to_double(right))
    return compare(left, right)
