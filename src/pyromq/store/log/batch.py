"""Batches that a producer made: expanded into records with consecutive offsets, in the log as a whole or not at all.

A batch is worked on by columns: sizes, checksums, heads, one call for a list of them where there is one. All records
share their place in the queue's numbering, their times and their hosts.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, repeat
from struct import Struct
from struct import error as StructError  # noqa: N812 - a class under a lower-case name
from zlib import crc32

from pyromq.protocol.errors import MessageError
from pyromq.protocol.properties import decode_properties
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.columns import batch_columns, property_columns
from pyromq.protocol.records.host import V4_SIZE
from pyromq.store.arrival import Run, code_of
from pyromq.store.errors import DiskFullError
from pyromq.store.index.keyhash import Key
from pyromq.store.log.append import Tail
from pyromq.store.log.group import GroupAppender
from pyromq.store.log.plainrecord import PROPERTIES_LENGTH
from pyromq.store.log.put import PutMessage, PutResult, PutStatus

_PUT_OK = PutStatus.PUT_OK
_LENGTH = PROPERTIES_LENGTH.size


@lru_cache(maxsize=4)
def _shared_part(born_size: int, store_size: int) -> Struct:
    """What all records of a batch have in common: system flag, born time and host, store time and host, reconsume
    times, prepared transaction offset."""
    return Struct(f">iq{born_size}sq{store_size}siq")


@lru_cache(maxsize=4)
def _head(shared_size: int) -> Struct:
    """Everything before the body: size, magic, CRC, queue id, flag, queue offset, physical offset, the shared part,
    body length."""
    return Struct(f">5i2q{shared_size}si")


class BatchAppender(GroupAppender):
    """Takes batches as well."""

    def put_batch(self, message: PutMessage) -> PutResult:
        """Expand a producer's batch into records with consecutive offsets and append them as one."""
        if message.property_map is None:
            message.property_map = decode_properties(message.properties)
        if (refusal := self._admission.check_batch(message)) is not None:
            return self._refuse(refusal)
        tail = self._admit(message)
        if isinstance(tail, PutResult):
            return self._refuse(tail)
        try:
            flags, bodies, tails = batch_columns(bytes(message.body))
        except MessageError as error:
            return self._refuse(PutResult(PutStatus.MESSAGE_ILLEGAL, reason=str(error)))
        if not bodies:
            return self._refuse(PutResult(PutStatus.MESSAGE_ILLEGAL, reason="the batch is empty"))
        store_host = message.store_host or self.store_host
        fixed = tail.fixed_size + len(message.born_host) + len(store_host) - _LENGTH
        sizes = [fixed + len(body) + len(text) for body, text in zip(bodies, tails, strict=True)]
        total = sum(sizes)
        if (refusal := self._admission.check_batch_size(total)) is not None:
            return self._refuse(refusal)
        try:
            file = self._log.room(total)
        except (DiskFullError, OSError) as error:
            return self._refuse(self._admission.no_room(error))
        number, timestamp, start = tail.next_offset, self._clock(), file.position
        offsets = list(accumulate(sizes[:-1], initial=file.start + start))
        try:
            heads = _heads(message, store_host, tail, timestamp, sizes, offsets, flags, bodies)
        except StructError as error:
            return self._refuse(PutResult(PutStatus.MESSAGE_ILLEGAL, reason=f"a number does not fit: {error}"))
        records = zip(heads, bodies, repeat(tail.topic_field), tails)
        file.append_records(map(b"".join, records), start + total)
        tail.next_offset = number + len(sizes)
        texts = [text[_LENGTH:] for text in tails]
        codes, keys = self._codes_and_keys(message.topic, tail, texts, offsets, timestamp)
        stretch = Run(
            message.topic, message.queue_id, number, offsets[0], total, timestamp, message.sys_flag, tail.queue,
            offsets, sizes, codes, keys, texts,
        )  # fmt: skip
        if self._sync:
            self._dispatcher.hold(stretch)
            self._held()
        else:
            self._dispatcher.add_stretch(stretch)
        self._stats.put_count += len(sizes)
        self._stats.put_bytes += total
        return PutResult(_PUT_OK, offsets[0], total, number, timestamp, store_host, len(sizes), tuple(offsets))

    def _codes_and_keys(
        self, topic: str, tail: Tail, texts: Sequence[bytes], offsets: Sequence[int], timestamp: int
    ) -> tuple[Sequence[int], Sequence[Key]]:
        """What queue and index are to say of each record."""
        columns = None if tail.scheduled else property_columns(texts)
        if columns is not None:
            tags = columns.get("TAGS")
            codes = [0] * len(texts) if tags is None else self._codes_of(tags)
            return codes, _keys(topic, columns.get("UNIQ_KEY"), columns.get("KEYS"), offsets, timestamp)
        maps = [decode_properties(text) for text in texts]
        codes = [code_of(topic, properties, timestamp, self._delays) for properties in maps]
        unique, words = ([properties.get(name, "") for properties in maps] for name in ("UNIQ_KEY", "KEYS"))
        return codes, _keys(topic, unique, words, offsets, timestamp)

    def _codes_of(self, tags: Sequence[str]) -> list[int]:
        known = {text: self._codes.get(text) or self._code(text) for text in set(tags)}
        return [known[text] for text in tags]


def _keys(
    topic: str, unique: Sequence[str] | None, words: Sequence[str] | None, offsets: Sequence[int], timestamp: int
) -> list[Key]:
    """The keys of all records, of which some may have none: the unique key, then each word."""
    if words is None:
        return list(zip(repeat(topic), unique, offsets, repeat(timestamp))) if unique is not None else []
    keys: list[Key] = []
    for first, text, offset in zip(unique or [""] * len(words), words, offsets, strict=True):
        if first:
            keys.append((topic, first, offset, timestamp))
        keys += [(topic, key, offset, timestamp) for key in text.split(" ") if key]
    return keys


def _heads(
    message: PutMessage,
    store_host: bytes,
    tail: Tail,
    timestamp: int,
    sizes: Sequence[int],
    offsets: Sequence[int],
    flags: Sequence[int],
    bodies: Sequence[bytes],
) -> list[bytes]:
    """Each record up to its body. Raises StructError for a number that does not fit."""
    born_host = message.born_host
    sys_flag = sysflag.with_hosts(
        message.sys_flag, born_v6=len(born_host) != V4_SIZE, store_v6=len(store_host) != V4_SIZE
    )
    shared = _shared_part(len(born_host), len(store_host)).pack(
        sys_flag,
        message.born_timestamp,
        born_host,
        timestamp,
        store_host,
        message.reconsume_times,
        message.prepared_transaction_offset,
    )
    checksums = [crc32(body) & 0x7FFFFFFF for body in bodies]
    first = tail.next_offset
    columns = (
        sizes, repeat(tail.magic), checksums, repeat(message.queue_id), flags, range(first, first + len(sizes)),
        offsets, repeat(shared), map(len, bodies),
    )  # fmt: skip
    return list(map(_head(len(shared)).pack, *columns))
