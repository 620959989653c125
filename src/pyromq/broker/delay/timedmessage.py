"""A message with a time of its own, as it waits in the timer topic: when it is due, what it recalls or becomes."""

from typing import Self

from pyromq.broker.delay.detour import MAX_DIGITS, delivery_of, number, read_record, real_place
from pyromq.broker.delay.postpone import TIMED
from pyromq.protocol import names
from pyromq.protocol.errors import MessageError
from pyromq.protocol.properties import Property, append_properties, decode_properties, encode_properties
from pyromq.protocol.records.record import RecordSummary
from pyromq.store.log.put import PutMessage
from pyromq.store.messagestore import MessageStore


class TimedMessage:
    """One record of the timer topic."""

    __slots__ = ("_record", "properties", "summary")

    def __init__(self, summary: RecordSummary, record: memoryview) -> None:
        self.summary = summary
        self._record = record
        self.properties = decode_properties(summary.properties)

    @classmethod
    def read(cls, store: MessageStore, physical_offset: int, size: int) -> Self | None:
        """None when it is no longer in the log, or damaged."""
        found = read_record(store, physical_offset, size)
        return cls(*found) if found is not None else None

    @property
    def topic(self) -> str:
        """Where it belongs."""
        return self.properties.get(Property.REAL_TOPIC, "")

    @property
    def slot(self) -> int | None:
        """Which slot of time it belongs to; None when it does not say that, or not where it is to be delivered."""
        time = number(self.properties.get(Property.TIMER_OUT_MS))
        return time if Property.REAL_TOPIC in self.properties else None

    @property
    def key(self) -> str:
        """What a recall names it by."""
        return f"{self.topic}+{self.properties.get(Property.UNIQ_KEY, '')}"

    @property
    def recalls(self) -> str | None:
        """The key of the message that it takes back; None for one that is to be delivered."""
        return self.properties.get(Property.TIMER_DEL_UNIQ_KEY)

    def delivery(self, entered: int, now: int, *, rolls: bool) -> PutMessage | None:
        """What is put where it belongs or, if it `rolls`, into the timer topic again; None if it does not say."""
        properties = self.properties
        place = (names.TIMER_TOPIC, 0) if rolls else real_place(properties)
        if place is None:
            return None
        added = {Property.TIMER_ENQUEUE_MS: str(entered), Property.TIMER_DEQUEUE_MS: str(now)}
        if rolls:
            times = properties.get(Property.TIMER_ROLL_TIMES, "0")
            added[Property.TIMER_ROLL_TIMES] = str(int(times[:MAX_DIGITS]) + 1 if times.isdecimal() else 1)
        try:
            repeated = not properties.keys().isdisjoint(added)
            properties.update(added)
            text = encode_properties(properties) if repeated else append_properties(self.summary.properties, added)
        except MessageError:
            text = self.summary.properties  # too long with the additions, which only inform
        # The stored text keeps its time, as Apache's does; without it in the map the store has less to ask.
        for name in TIMED:
            properties.pop(name, None)
        return delivery_of(self.summary, self._record, place, text, properties)
