"""Several messages in one go, those that arrive together. The outcome is that of putting one after the other.

Each step is done for all messages before the next: one clock, one reservation, and each loop so short that the
processor keeps it at hand, which halves what a message costs.
"""

from collections.abc import Sequence
from struct import error as StructError  # noqa: N812 - a class under a lower-case name
from zlib import crc32

from pyromq.protocol.records import sysflag
from pyromq.protocol.records.host import V4_SIZE
from pyromq.protocol.records.record import MAGIC_V1
from pyromq.store.arrival import Arrival
from pyromq.store.log.append import Appender, Tail
from pyromq.store.log.plainrecord import PREFIX, PROPERTIES_LENGTH
from pyromq.store.log.put import PutMessage, PutResult, PutStatus

_SPECIAL = sysflag.TRANSACTION_MASK | sysflag.INNER_BATCH | sysflag.HOSTS_MASK
_HOSTS = 2 * V4_SIZE
_NO_V6 = ~sysflag.HOSTS_MASK
_pack_prefix = PREFIX.pack
_pack_length = PROPERTIES_LENGTH.pack
_PUT_OK = PutStatus.PUT_OK


class GroupAppender(Appender):
    """Takes messages one by one and in groups."""

    def put_many(self, messages: Sequence[PutMessage]) -> list[PutResult]:
        """`put` for each of them, in order."""
        tails = self._plain_tails(messages)
        if tails is not None:
            sizes = [
                tail.fixed_size + _HOSTS + len(message.body) + len(message.properties)
                for tail, message in zip(tails, messages, strict=True)
            ]
            small = max(sizes) <= self._surely_small
            entries = self._append(messages, tails, sizes) if small else None
            if entries is not None:
                self._give(entries)
                host = self.store_host
                return [
                    PutResult(
                        _PUT_OK, entry.physical_offset, entry.size, entry.queue_offset, entry.store_timestamp, host
                    )
                    for entry in entries
                ]
        return [self.put(message) for message in messages]

    def _give(self, entries: list[Arrival]) -> None:
        """Records are in the log: have them seen, at once or when they are on disk."""
        if self._sync:
            self._waiting.extend(entries)
            self._held()
        else:
            self._dispatcher.add_many(entries)
        self._stats.put_count += len(entries)
        self._stats.put_bytes += sum([entry.size for entry in entries])

    def _plain_tails(self, messages: Sequence[PutMessage]) -> list[Tail] | None:
        """Where the messages go; None when one of them needs more than to be appended."""
        crowded = self._dispatcher.backlog + len(messages) >= self._max_waiting if self._sync else self._waiting
        if crowded or self._flags.bits or len(self.store_host) != V4_SIZE:
            return None
        known, marks = self._tails, self._admission.marks
        tails: list[Tail] = []
        for message in messages:
            tail = known.get((message.topic, message.queue_id))
            properties = message.property_map
            if tail is None or not tail.plain or properties is None or message.store_host is not None:
                return None
            if message.sys_flag & _SPECIAL or len(message.born_host) != V4_SIZE or not marks.isdisjoint(properties):
                return None
            tails.append(tail)
        return None if self._admission.asks_always else tails

    def _append(self, messages: Sequence[PutMessage], tails: list[Tail], sizes: list[int]) -> list[Arrival] | None:
        """Write the records behind each other; None, and nothing has changed, when that takes more than a copy."""
        file, total = self._log.last, sum(sizes)
        if file is None or file.position + total > self._log.limit:
            return None
        start, timestamp, store_host = file.position, self._clock(), self.store_host
        offset = file.start + start
        records: list[bytes] = []
        entries: list[Arrival] = []
        try:
            for message, tail, size in zip(messages, tails, sizes, strict=True):
                number, properties = tail.next_offset, message.property_map or {}
                body, text = message.body, message.properties
                prefix = _pack_prefix(
                    size,
                    MAGIC_V1,
                    crc32(body) & 0x7FFFFFFF,
                    message.queue_id,
                    message.flag,
                    number,
                    offset,
                    message.sys_flag & _NO_V6,
                    message.born_timestamp,
                    message.born_host,
                    timestamp,
                    store_host,
                    message.reconsume_times,
                    message.prepared_transaction_offset,
                    len(body),
                )
                records.append(b"".join((prefix, body, tail.topic_field, _pack_length(len(text)), text)))
                tags = properties.get("TAGS")
                code = self._codes.get(tags) or self._code(tags) if tags else 0
                entries.append(
                    Arrival(
                        message.topic, message.queue_id, number, offset, size, code, timestamp, message.sys_flag,
                        properties, tail.queue,
                    )
                )  # fmt: skip
                tail.next_offset = number + 1
                offset += size
        except StructError:  # a number does not fit: whose it is shows when they are put one by one
            for tail, entry in zip(reversed(tails[: len(entries)]), reversed(entries), strict=True):
                tail.next_offset = entry.queue_offset
            return None
        file.append_records(records, start + total)
        return entries
