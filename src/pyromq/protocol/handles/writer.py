"""Writers: programs that may run again after a crash, and whose messages must be stored once. How they name themselves.

A writer has a topic and a name that outlives its process. Each *run* of it has a number from the broker; its work is
split into *lanes*, and every *attempt* at a lane has a number that ascends within the run. Messages of an attempt are
numbered for each queue, from 0, without gaps. The place of a message is all of these; it travels as a property of the
message and is in the log with it, so that a broker knows after a crash what it knew before. It names the queue because
a message may be copied to another one with all its properties, and the copy must not count as the writer's own there.
"""

from typing import Final, NamedTuple, Self

from pyromq.protocol.errors import ValidationError

WRITER: Final = "PYROMQ_SRC"
"""Property: the name of the writer. The field of a batch request with the same meaning is `writer`."""
PLACE: Final = "PYROMQ_AT"
"""Property: the place of the message. The field of a batch request, `place`, is that of its first message."""
WRITER_FIELD: Final = "writer"
PLACE_FIELD: Final = "place"

MAX_NAME: Final = 255
MAX_NUMBER: Final = 2**63 - 1
_DIGITS: Final = 19
_PARTS: Final = 5


class Place(NamedTuple):
    """Which message of whom."""

    run: int
    lane: int
    attempt: int
    queue: int = 0
    sequence: int = 0

    def __str__(self) -> str:
        return ".".join(map(str, self))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValidationError."""
        parts = text.split(".", _PARTS)
        if len(parts) != _PARTS or not all(
            part.isascii() and part.isdigit() and len(part) <= _DIGITS for part in parts
        ):
            raise ValidationError(f"the place of a message is run.lane.attempt.queue.sequence, not {text[:80]!r}")
        place = cls(*map(int, parts))
        if max(place) > MAX_NUMBER:
            raise ValidationError(f"a number in the place {text} is too large")
        return place


def check_writer(name: str) -> None:
    """Raises ValidationError for what cannot be a writer's name."""
    if not 0 < len(name) <= MAX_NAME or not name.isprintable():
        raise ValidationError(f"a writer's name has 1 to {MAX_NAME} printable characters, unlike {name[:80]!r}")
