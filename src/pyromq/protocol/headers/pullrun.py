"""A run of plain pulls: requests for one queue, behind each other on one connection, carried as one by the native core.

The core recognises them in a stream of frames and writes their answers (`store.queue.scan`); in between Python decides,
by what they have in common. Those that the core does not answer, because nothing is found or a closer look is needed,
are served one by one: `protocol.frame.commands_of` makes requests of them. What a
run must come to is what its requests come to one by one, which tests hold.
"""

from collections.abc import Sequence
from typing import Protocol, Self

import msgspec

from pyromq.protocol.headers.run import Run

Voice = tuple[int, int, int]
"""The version that answers, and the broker that it suggests to readers near the end of the log, and to others."""
Answered = tuple[int, bytes | list[bytes | memoryview], int, int, int]
"""How many pulls were answered, the frames that say so, messages and bytes of records in them, the next offset."""


class Ask(msgspec.Struct, gc=False):
    """What all pulls of a run say: some fields of a `PullMessageHeader`."""

    consumer_group: str
    topic: str
    queue_id: int
    sys_flag: int
    subscription: str | None
    expression_type: str | None
    sub_version: int
    stream_bytes: int | None
    """`max_msg_bytes`, if they are streams."""


class PullRun(Run, Protocol):
    """Plain pulls: PULL_MESSAGE or LITE_PULL_MESSAGE, that want an answer and differ in nothing but their form, the
    offset and number of messages they want, and the offset they commit."""

    @property
    def ask(self) -> tuple[str, str, int, int, str | None, str | None, int, int | None]:
        """What they have in common, the fields of an `Ask`."""

    @property
    def offset(self) -> int:
        """The queue offset that the first one wants."""

    def span(self, most: int, /) -> tuple[int, int]:
        """The queue offset the first one wants, and how many entries from there on they look at, `most` each."""

    def commits(self, count: int, /) -> Sequence[int]:
        """The offsets that the first `count` bring with them."""

    def rest(self, count: int, /) -> Self:
        """Those behind the first `count`."""
