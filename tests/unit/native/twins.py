"""Compare the native function and its Python twin: the same arguments, the same result, the same error, the same bytes.

>>> @needs_core
... @given(samples.damaged(samples.STREAMS))
... def test_frames(data: bytes) -> None:
...     agree(cut_frames, data, 0, len(data))
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import pytest

from pyromq import native

needs_core = pytest.mark.skipif(not native.core.on, reason="the native core is not there")
"""For tests that compare twins: in the run without the core there is nothing to compare."""

Function = Callable[..., Any]


class Twins(NamedTuple):
    """Both ways to do one thing."""

    python: Function
    native: Function


class Outcome(NamedTuple):
    """What a call did: what it gave back or the error it raised, and its writable arguments afterwards."""

    value: object
    error: tuple[type[BaseException], str] | None
    written: list[bytes]


def twins(function: Function) -> Twins:
    """Both forms of a function that is marked with `native.twin`. LookupError if the core has none of that name."""
    python: Function = getattr(function, "__wrapped__", function)
    try:
        return Twins(python, getattr(native.core.module, python.__name__))
    except AttributeError:
        raise LookupError(f"the native core has no {python.__name__}") from None


def outcome(function: Function, *arguments: object, plain: Callable[[Any], object] | None = None) -> Outcome:
    """Call it with bytearrays of its own, so that the next one gets the arguments as they were.

    A panic is no outcome: it passes, and fails the test. `plain` makes a result comparable; structs, views and
    iterators within are compared by what they hold anyway.
    """
    own = [bytearray(argument) if isinstance(argument, bytearray) else argument for argument in arguments]
    value, error = None, None
    try:
        value = function(*own)
        value = as_values(value if plain is None else plain(value))
    except Exception as caught:  # noqa: BLE001 - whatever it is, the twin must raise it too
        error = type(caught), str(caught)
    return Outcome(value, error, [bytes(argument) for argument in own if isinstance(argument, bytearray)])


def agree(
    function: Function, *arguments: object, plain: Callable[[Any], object] | None = None, partial: bool = False
) -> Outcome:
    """Assert that both twins do the same with these arguments, and give back what Python did.

    `partial` is for native functions that hand back what is not plain to them: None in place of a result, with nothing
    written, is then right for any input.
    """
    both = twins(function)
    expected = outcome(both.python, *arguments, plain=plain)
    seen = outcome(both.native, *arguments, plain=plain)
    if partial and seen.value is None and seen.error is None:
        untouched = [bytes(argument) for argument in arguments if isinstance(argument, bytearray)]
        assert seen.written == untouched, "it gave up and had written"
        return expected
    assert seen == expected
    return expected


def as_values(value: object) -> object:
    """The value without identities: structs and objects with slots as their type and fields, views as bytes."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, msgspec.Raw):
        return bytes(value)
    if isinstance(value, msgspec.Struct):
        return (type(value), [as_values(field) for field in msgspec.structs.astuple(value)])
    if isinstance(value, dict):
        return {as_values(key): as_values(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [as_values(item) for item in value]
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    if slots:
        return (type(value), {name: as_values(getattr(value, name, None)) for name in slots})
    return value
