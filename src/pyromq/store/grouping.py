"""Several messages in one go: those that arrive together, and batches that a producer made.

The outcome is that of putting one after the other, and a batch is in the log as a whole, in one file, or not at all.
Each step is done for all messages before the next: one clock, one copy into the log, and each loop so short that the
processor keeps it at hand, which halves what a message costs.
"""

from collections.abc import Sequence
from struct import error as StructError  # noqa: N812 - a class under a lower-case name
from zlib import crc32

from pyromq.protocol import sysflag
from pyromq.protocol.batch import BatchItem, iter_batch
from pyromq.protocol.errors import MessageError
from pyromq.protocol.host import V4_SIZE
from pyromq.protocol.properties import decode_properties
from pyromq.protocol.record import MAGIC_V1, pack_record
from pyromq.store.appending import Appender, Tail
from pyromq.store.dispatch import Dispatch, code_of
from pyromq.store.errors import DiskFullError
from pyromq.store.flags import Flag
from pyromq.store.mapped import Bytes
from pyromq.store.plain import PREFIX, PROPERTIES_LENGTH
from pyromq.store.putting import PutMessage, PutResult, PutStatus

_SPECIAL = sysflag.TRANSACTION_MASK | sysflag.INNER_BATCH | sysflag.HOSTS_MASK
_HOSTS = 2 * V4_SIZE
_NO_V6 = ~sysflag.HOSTS_MASK
_pack_prefix = PREFIX.pack
_pack_length = PROPERTIES_LENGTH.pack
_PUT_OK = PutStatus.PUT_OK


class GroupAppender(Appender):
    """Takes messages one by one, in groups and in batches."""

    def put_many(self, messages: Sequence[PutMessage]) -> list[PutResult]:
        """`put` for each of them, in order."""
        tails = self._plain_tails(messages)
        if tails is not None:
            sizes = [
                tail.fixed_size + _HOSTS + len(message.body) + len(message.properties)
                for tail, message in zip(tails, messages, strict=True)
            ]
            small = max(sizes) <= self._surely_small
            entries = self._append(messages, tails, sizes, plain=True) if small else None
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

    def put_batch(self, message: PutMessage) -> PutResult:
        """Expand a producer's batch into records with consecutive offsets and append them as one."""
        if message.property_map is None:
            message.property_map = decode_properties(message.properties)
        if (refusal := self._admission.check_batch(message)) is not None:
            return self._refuse(refusal)
        tail = self._admit(message)
        if isinstance(tail, PutResult):
            return self._refuse(tail)
        born_host, store_host = message.born_host, message.store_host or self.store_host
        try:
            items = [_item(message, item, store_host) for item in iter_batch(message.body)]
        except MessageError as error:
            return self._refuse(PutResult(PutStatus.MESSAGE_ILLEGAL, reason=str(error)))
        if not items:
            return self._refuse(PutResult(PutStatus.MESSAGE_ILLEGAL, reason="the batch is empty"))
        fixed = tail.fixed_size + len(born_host) + len(store_host)
        sizes = [fixed + len(item.body) + len(item.properties) for item in items]
        if (refusal := self._admission.check_batch_size(sum(sizes))) is not None:
            return self._refuse(refusal)
        try:
            self._log.room(sum(sizes))
        except (DiskFullError, OSError) as error:
            return self._refuse(self._admission.no_room(error))
        plain = tail.plain and len(born_host) == V4_SIZE == len(store_host)
        entries = self._append(items, [tail] * len(items), sizes, plain=plain)
        if entries is None:
            return self._refuse(
                PutResult(PutStatus.MESSAGE_ILLEGAL, reason="a number or text of the batch does not fit")
            )
        self._give(entries)
        offsets = tuple(entry.physical_offset for entry in entries)
        first = entries[0]
        return PutResult(
            _PUT_OK, first.physical_offset, sum(sizes), first.queue_offset, first.store_timestamp, store_host,
            len(entries), offsets,
        )  # fmt: skip

    def _give(self, entries: list[Dispatch]) -> None:
        """Records are in the log: have them seen, at once or when they are on disk."""
        if self._sync:
            self._waiting.extend(entries)
            self._flusher.wake()
            if len(self._waiting) >= self._max_waiting:
                self._flags.set(Flag.BUSY)
        else:
            self._dispatcher.add_many(entries)
        self._stats.put_count += len(entries)
        self._stats.put_bytes += sum([entry.size for entry in entries])

    def _plain_tails(self, messages: Sequence[PutMessage]) -> list[Tail] | None:
        """Where the messages go; None when one of them needs more than to be appended."""
        crowded = len(self._waiting) + len(messages) >= self._max_waiting if self._sync else self._waiting
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

    def _append(
        self, messages: Sequence[PutMessage], tails: list[Tail], sizes: list[int], *, plain: bool
    ) -> list[Dispatch] | None:
        """Write the records behind each other; None, and nothing has changed, when that takes more than a copy.

        `plain`: all have hosts of four bytes, and topics as most are.
        """
        file, total = self._log.last, sum(sizes)
        if file is None or file.position + total > self._log.limit:
            return None
        start, pack = file.position, self._plain_record if plain else self._any_record
        offset, timestamp = file.start + start, self._clock()
        pieces: list[Bytes] = []
        entries: list[Dispatch] = []
        try:
            for message, tail, size in zip(messages, tails, sizes, strict=True):
                number, properties = tail.next_offset, message.property_map or {}
                pack(pieces, message, tail, size, number, offset, timestamp)
                if tail.scheduled:
                    code = code_of(message.topic, properties, timestamp, self._delays)
                else:
                    tags = properties.get("TAGS")
                    code = self._codes.get(tags) or self._code(tags) if tags else 0
                entries.append(
                    Dispatch(
                        message.topic, message.queue_id, number, offset, size, code, timestamp, message.sys_flag,
                        properties, tail.queue,
                    )
                )  # fmt: skip
                tail.next_offset = number + 1
                offset += size
        except (MessageError, StructError):  # a number does not fit: whose it is shows when they are put one by one
            for tail, entry in zip(reversed(tails[: len(entries)]), reversed(entries), strict=True):
                tail.next_offset = entry.queue_offset
            return None
        file.raw[start : start + total] = b"".join(pieces)
        file.position = start + total  # last: the flush thread believes it
        return entries

    def _plain_record(
        self,
        pieces: list[Bytes],
        message: PutMessage,
        tail: Tail,
        size: int,
        number: int,
        offset: int,
        timestamp: int,
    ) -> None:
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
            message.store_host or self.store_host,
            message.reconsume_times,
            message.prepared_transaction_offset,
            len(body),
        )
        pieces += (prefix, body, tail.topic_field, _pack_length(len(text)), text)

    def _any_record(
        self,
        pieces: list[Bytes],
        message: PutMessage,
        tail: Tail,
        _size: int,
        number: int,
        offset: int,
        timestamp: int,
    ) -> None:
        record = pack_record(
            tail.topic,
            message.body,
            message.properties,
            message.queue_id,
            number,
            offset,
            timestamp,
            message.store_host or self.store_host,
            message.born_timestamp,
            message.born_host,
            message.sys_flag,
            message.flag,
            message.reconsume_times,
        )
        pieces.append(record)


def _item(batch: PutMessage, item: BatchItem, store_host: bytes) -> PutMessage:
    """One message of a batch, which has the rest in common."""
    text = bytes(item.properties)
    return PutMessage(
        batch.topic, batch.queue_id, item.body, text, decode_properties(text), batch.sys_flag, item.flag,
        batch.born_timestamp, batch.born_host, store_host, batch.reconsume_times,
    )  # fmt: skip
