"""Texts that pop consumption passes around: the handle of a popped message, and what a pop's answer says of offsets.

The broker says for each queue where the pop began and which offsets it gave out; from that a client makes the handle of
each message (its property `POP_CK`) and names the message with it when it acknowledges. Retry topics of pop consumers
are known by a flag in front of the queue, because messages carry their original topic.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from pyromq.protocol import names
from pyromq.protocol.errors import MessageError

ORDERED_QUEUE: Final = 999
"""The revive queue that handles of ordered pops name; nothing is ever written to it."""

NORMAL: Final = "0"
RETRY: Final = "1"
RETRY_PLUS: Final = "2"

MAX_HANDLE: Final = 1024
_MAX_LONG: Final = 2**63 - 1
_MAX_DIGITS: Final = 19
_WITHOUT_OFFSET: Final = 7

QueueKey = tuple[str, int]
"""Retry flag and queue id."""


def retry_flag(topic: str) -> str:
    """What stands for a topic in the texts: a user's own, or one of the two kinds of retry topics.

    >>> retry_flag("orders"), retry_flag("%RETRY%g_orders"), retry_flag("%RETRY%g+orders")
    ('0', '1', '2')
    """
    if not names.is_retry_topic(topic):
        return NORMAL
    return RETRY_PLUS if "+" in topic else RETRY


def real_topic(topic: str, group: str, flag: str) -> str:
    """Where a message popped from `topic` is stored. Raises MessageError for an unknown flag."""
    if flag == NORMAL:
        return topic
    if flag not in (RETRY, RETRY_PLUS):
        raise MessageError(f"{flag!r} is no retry flag, which is 0, 1 or 2")
    return names.pop_retry_topic(group, topic, plus=flag == RETRY_PLUS)


class PopHandle(msgspec.Struct, frozen=True):
    """The handle of one popped message: which pop gave it out, how long it stays invisible, and where it is."""

    start_offset: int
    pop_time: int
    invisible_time: int
    revive_queue: int
    retry_flag: str
    broker_name: str
    queue_id: int
    queue_offset: int
    """-1 in handles of early releases, which name only the pop."""

    @property
    def ordered(self) -> bool:
        return self.revive_queue == ORDERED_QUEUE

    @property
    def due(self) -> int:
        """When the message becomes visible again, Unix ms."""
        return self.pop_time + self.invisible_time

    def encode(self) -> str:
        """Eight words.

        >>> PopHandle(5, 1700000000000, 60000, 2, "0", "broker-a", 1, 7).encode()
        '5 1700000000000 60000 2 0 broker-a 1 7'
        """
        text = (
            f"{self.start_offset} {self.pop_time} {self.invisible_time} {self.revive_queue} {self.retry_flag} "
            f"{self.broker_name} {self.queue_id}"
        )
        return text if self.queue_offset < 0 else f"{text} {self.queue_offset}"

    @classmethod
    def decode(cls, text: str) -> "PopHandle":
        """Raises MessageError for what is no handle."""
        words = text.split(" ") if len(text) <= MAX_HANDLE else []
        if len(words) < _WITHOUT_OFFSET:
            raise MessageError(f"{text[:80]!r} is no handle of a popped message, which has 8 words")
        start, pop_time, invisible, revive, flag, broker, queue_id, *rest = words
        if flag not in (NORMAL, RETRY, RETRY_PLUS):
            raise MessageError(f"handle {text[:80]!r} has the retry flag {flag!r}, not 0, 1 or 2")
        return cls(
            _number(start, text),
            _number(pop_time, text),
            _number(invisible, text),
            _number(revive, text),
            flag,
            broker,
            _number(queue_id, text),
            _number(rest[0], text) if rest else -1,
        )


def encode_starts(starts: Mapping[QueueKey, int]) -> str:
    """Where the pop began in each queue: `flag queue offset`, joined with semicolons."""
    return ";".join(f"{flag} {queue_id} {offset}" for (flag, queue_id), offset in starts.items())


def encode_offsets(offsets: Mapping[QueueKey, Iterable[int]]) -> str:
    """Which offsets of each queue were given out."""
    return ";".join(f"{flag} {queue_id} {','.join(map(str, given))}" for (flag, queue_id), given in offsets.items())


def encode_order_counts(flag: str, queue_id: int, counts: Mapping[int, int], messages: int) -> str:
    """How often the messages of an ordered pop were given out before; `counts` has those that ever were, by offset.

    The last entry is the smallest count of the queue, which is all that early clients look at.
    """
    least = min(counts.values(), default=0) if len(counts) == messages else 0
    entries = [f"{flag} qo{queue_id}%{offset} {count}" for offset, count in counts.items()]
    return ";".join([*entries, f"{flag} {queue_id} {least}"])


def decode_starts(text: str | None) -> dict[QueueKey, int]:
    """Raises MessageError."""
    return {(flag, _number(queue, text)): _number(offset, text) for flag, queue, offset in _entries(text)}


def decode_offsets(text: str | None) -> dict[QueueKey, list[int]]:
    """Raises MessageError."""
    return {
        (flag, _number(queue, text)): [_number(offset, text) for offset in offsets.split(",")]
        for flag, queue, offsets in _entries(text)
    }


def decode_order_counts(text: str | None) -> dict[tuple[str, str], int]:
    """How often messages of an ordered pop were given out before, by flag and `qo<queue>%<offset>` or queue.

    Raises MessageError.
    """
    return {(flag, place): _number(count, text) for flag, place, count in _entries(text)}


def order_count(counts: Mapping[tuple[str, str], int], flag: str, queue_id: int, offset: int) -> int:
    """How often one of them was; that of its queue when it has no entry of its own."""
    own = counts.get((flag, f"qo{queue_id}%{offset}"))
    return counts.get((flag, str(queue_id)), 0) if own is None else own


def _entries(text: str | None) -> list[list[str]]:
    entries = [entry.split(" ") for entry in (text or "").split(";") if entry]
    if any(len(entry) != 3 for entry in entries):
        raise MessageError(f"{(text or '')[:80]!r} does not consist of entries with three words")
    return entries


def _number(word: str, text: str | None) -> int:
    digits = word.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > _MAX_DIGITS or abs(int(word)) > _MAX_LONG:
        raise MessageError(f"{word[:40]!r} in {(text or '')[:80]!r} is not a number")
    return int(word)
