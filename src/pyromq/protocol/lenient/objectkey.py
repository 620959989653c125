"""ObjectKey: an object that stood in key position, as a value that can be a dict key."""

from collections.abc import Mapping
from typing import Self


class ObjectKey(tuple[tuple[str, object], ...]):
    """The members of the object, frozen (inner objects as `ObjectKey`, arrays as tuples) and sorted by name."""

    __slots__ = ()

    @classmethod
    def of(cls, members: Mapping[object, object]) -> Self:
        pairs = [(str(name), _frozen(value)) for name, value in members.items()]
        return cls(sorted(pairs, key=lambda pair: pair[0]))

    def members(self) -> dict[str, object]:
        return dict(self)


def _frozen(value: object) -> object:
    if isinstance(value, dict):
        return ObjectKey.of(value)
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    return value
