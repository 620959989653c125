"""What a record is on its way from the log to queue, index and whoever waits: a value, made where it is appended."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from pyromq.protocol.names import SCHEDULE_TOPIC
from pyromq.protocol.properties import Property, decode_properties
from pyromq.protocol.records.tags import tags_code
from pyromq.store.index.keyhash import Key
from pyromq.store.queue.consumequeue import ConsumeQueue


class Arrival(msgspec.Struct, gc=False):
    """One record on its way to queue, index and listeners."""

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    size: int
    tags_code: int
    store_timestamp: int
    sys_flag: int
    properties: dict[str, str]
    queue: ConsumeQueue

    @property
    def next_offset(self) -> int:
        """The queue offset after it."""
        return self.queue_offset + 1


class Run(msgspec.Struct, gc=False):
    """Records of one queue that lie behind each other in the log, those of a batch: what they are entered with.

    `texts` are their properties, looked into only if somebody wants to hear of the records one by one.
    """

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    size: int
    store_timestamp: int
    sys_flag: int
    queue: ConsumeQueue
    offsets: Sequence[int]
    sizes: Sequence[int]
    codes: Sequence[int]
    keys: Sequence[Key]
    texts: Sequence[bytes]

    @property
    def next_offset(self) -> int:
        """The queue offset after the last of them."""
        return self.queue_offset + len(self.offsets)

    def records(self) -> list[Arrival]:
        """Each by itself."""
        return [
            Arrival(
                self.topic, self.queue_id, number, offset, size, code, self.store_timestamp, self.sys_flag,
                decode_properties(text), self.queue,
            )
            for number, (offset, size, code, text) in enumerate(
                zip(self.offsets, self.sizes, self.codes, self.texts, strict=True), self.queue_offset
            )
        ]  # fmt: skip


Listener = Callable[[Arrival], None]
"""Told about each record that has become visible in its queue. Must be quick and must not raise."""


def code_of(topic: str, properties: Mapping[str, str], store_timestamp: int, delays: Mapping[int, int]) -> int:
    """What the queue entry says besides the place: the hash of the tags, or when a delayed message is due."""
    if topic == SCHEDULE_TOPIC and (level := _level(properties.get(Property.DELAY))) > 0:
        return store_timestamp + delays.get(min(level, max(delays, default=0)), 1_000)
    return tags_code(properties.get(Property.TAGS))


def _level(text: str | None) -> int:
    try:
        return int(text) if text else 0
    except ValueError:
        return 0
