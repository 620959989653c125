"""A run of plain requests: of one code, behind each other on one connection, carried as one by the native core.

What the kinds have in common; see `sendrun` and `pullrun`.
"""

from collections.abc import Sequence
from typing import Protocol


class Run(Protocol):
    """`len` counts its requests."""

    def __len__(self) -> int: ...

    @property
    def code(self) -> int:
        """Of all its requests."""

    @property
    def stream(self) -> bytes | bytearray:
        """The bytes it is a part of."""

    @property
    def end(self) -> int:
        """Where it ends in the stream."""

    @property
    def starts(self) -> Sequence[int]:
        """Where its frames begin in the stream."""

    @property
    def oneways(self) -> int:
        """How many want no answer."""
