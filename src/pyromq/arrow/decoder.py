"""From the bytes of records to Arrow columns, vectorised: pull responses and commit-log files alike.

Only the columns asked for are made: without `body` no body is touched. The few records that do not fit the vectors
(inner batches, damaged ones) go through the scalar decoder. The native core makes the columns of all plain records at
once, and leaves the others for what stands here, which says what rows are. Pure: no I/O, no Spark.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple
from zlib import crc32

import msgspec
import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations

from pyromq import native
from pyromq.arrow import scalar
from pyromq.arrow.columns import COLUMNS
from pyromq.arrow.errors import InflationError, ReadError
from pyromq.arrow.fields import hosts, numbers, times, with_offset_ids
from pyromq.arrow.pieces import gather, joined, numeric, text, words
from pyromq.arrow.policy import CorruptRecords
from pyromq.arrow.propertytext import Properties
from pyromq.arrow.recordlayout import Bytes, Longs, Mask, RecordLayout, locate, shapes
from pyromq.arrow.rowspec import RowSpec, Segment
from pyromq.protocol.errors import MessageError
from pyromq.protocol.message import ReceivedMessage
from pyromq.protocol.properties import Property
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.batch import unwrap
from pyromq.protocol.records.compression import MAX_INFLATED, InflatedSizeError, decompress
from pyromq.protocol.records.record import MAX_INFLATED_RECORDS, decode_record
from pyromq.protocol.records.salvage import salvage_record

MAX_FAULTS = 5

_NUMBERS = {
    "queueId": "queue",
    "flag": "flag",
    "reconsumeTimes": "reconsumed",
    "commitLogOffset": "physical",
    "storeSize": "size",
    "bodyCrc": "crc",
    "preparedTransactionOffset": "prepared",
}
_FROM_PROPERTIES = frozenset({"msgId", "tags", "keys", "properties"})


class Rows(NamedTuple):
    """Columns by name, all of one length."""

    length: int
    columns: dict[str, pa.Array]
    corrupt: int = 0
    """Records that are damaged, left out or not."""
    faults: Sequence[str] = ()
    """What is wrong with the first of them."""


class _Part(NamedTuple):
    order: Longs
    columns: dict[str, pa.Array]


class _PlainRows(NamedTuple):
    """What the core made, and the rows it left over."""

    part: _Part
    left: Longs

    @classmethod
    def of(cls, columns: Any, rows: bytes, left: bytes, spec: RowSpec) -> "_PlainRows":
        arrays = dict(zip(spec.columns, pa.record_batch(columns).columns, strict=True))
        return cls(_Part(np.frombuffer(rows, np.int64), arrays), np.frombuffer(left, np.int64))


def decode(
    buffer: bytes | memoryview,
    starts: Longs,
    segments: Sequence[Segment],
    spec: RowSpec,
    owner: Longs | None = None,
) -> Rows:
    """The rows of records at ascending `starts`. Raises ReadError for one that is damaged, unless told to continue.

    Raises InflationError when their bodies are too much for one go: decode fewer at a time.

    `owner` says to which segment each record belongs, where segments do not come one after another.
    """
    if owner is None:
        owner = np.repeat(np.arange(len(segments)), [segment.records for segment in segments])
    found = arrow_columns(buffer, _raw(starts), _raw(owner), segments, spec)
    return _Decoding(buffer, starts, segments, spec, owner).rows(None if found is None else _PlainRows.of(*found, spec))


@native.twin
def arrow_columns(
    buffer: bytes | memoryview,  # noqa: ARG001 - the core's arguments
    starts: Bytes,  # noqa: ARG001
    owners: Bytes,  # noqa: ARG001
    segments: Sequence[Segment],  # noqa: ARG001
    spec: RowSpec,  # noqa: ARG001
) -> tuple[Any, bytes, bytes] | None:
    """What the core makes of the records that are plain to it: their columns, by Arrow's C data interface, and which of
    the records they are; then the records that are left over. All numbers are 64-bit ones, as bytes.

    None: nothing is made ahead of the vectors here, which take all records. A plain record has IPv4 hosts, a body that
    need not be inflated, text that is UTF-8, and a frame and a checksum that hold.
    """
    return None


@native.twin
def pulled_columns(
    bodies: Sequence[bytes | memoryview],  # noqa: ARG001 - the core's arguments
    segments: Sequence[Segment],  # noqa: ARG001
    spec: RowSpec,  # noqa: ARG001
) -> Any | None:
    """The same of the records of several buffers, which lie back to back in each, with a segment for each buffer: their
    columns, if all of them are plain to the core. None: `decode` takes them."""
    return None


def decode_pulled(bodies: Sequence[bytes | memoryview], segments: Sequence[Segment], spec: RowSpec) -> Rows | None:
    """The rows of answers to pulls; None when they have to be put together for `decode`."""
    found = pulled_columns(bodies, segments, spec)
    if found is None:
        return None
    return Rows(len(found), dict(zip(spec.columns, pa.record_batch(found).columns, strict=True)))


def _raw(values: Longs) -> Bytes:
    return np.ascontiguousarray(values, np.int64).view(np.uint8)


class _Decoding:
    """One call of `decode`."""

    def __init__(
        self, buffer: bytes | memoryview, starts: Longs, segments: Sequence[Segment], spec: RowSpec, owner: Longs
    ) -> None:
        self._buffer = buffer
        self._data: Bytes = np.frombuffer(buffer, np.uint8)
        self._starts = starts
        self._segments = segments
        self._spec = spec
        self._owner = owner
        self._corrupt = 0
        self._faults: list[str] = []
        self._inflated: dict[int, bytes] = {}
        """Bodies by their position, of records whose rows are made with vectors."""
        self._budget = MAX_INFLATED_RECORDS

    def rows(self, plain: _PlainRows | None) -> Rows:
        """All rows, with those that are made already."""
        parts = [] if plain is None else [plain.part]
        left = np.arange(len(self._starts)) if plain is None else plain.left
        if len(left):
            kinds = shapes(self._data, self._starts[left])
            for kind in np.unique(kinds):
                parts += self._of_one_shape(left[kinds == kind], int(kind))
        if not parts:
            parts = [self._scalar_part([])]
        if len(parts) == 1:
            return Rows(len(parts[0].order), parts[0].columns, self._corrupt, self._faults)
        order = numeric(np.argsort(np.concatenate([part.order for part in parts]), kind="stable"))
        merged = {
            name: pa.concat_arrays([part.columns[name] for part in parts]).take(order) for name in self._spec.columns
        }
        return Rows(len(order), merged, self._corrupt, self._faults)

    def _of_one_shape(self, rows: Longs, kind: int) -> list[_Part]:
        layout, sound = locate(self._data, self._starts[rows], kind)
        if self._spec.verify_crc:
            sound &= self._checksums(layout, sound)
        keep = sound & self._in_range(layout, rows)
        wrapped = keep & _is_batch(layout)
        if self._spec.decompress and "body" in self._spec.columns:
            broken = self._inflate_all(layout, keep & ~wrapped)
            sound &= ~broken
            keep &= ~broken
        parts = []
        if not sound.all():
            parts.append(self._damaged_part(rows[~sound].tolist()))
        if wrapped.any():
            parts.append(self._scalar_part(rows[wrapped].tolist()))
            keep &= ~wrapped
        if not keep.all():
            layout = RecordLayout(*(getattr(layout, name)[keep] for name in RecordLayout.__dataclass_fields__))
            rows = rows[keep]
        if len(rows):
            parts.append(self._vector_part(layout, rows))
        return parts

    def _in_range(self, layout: RecordLayout, rows: Longs) -> Mask:
        owner = self._owner[rows]
        offsets = layout.fixed["offset"] + np.array([each.delta for each in self._segments], np.int64)[owner]
        low = np.array([each.start for each in self._segments], np.int64)[owner]
        high = np.array([each.end for each in self._segments], np.int64)[owner]
        # A batch may begin before the range and end within it.
        inside: Mask = (offsets < high) & ((offsets >= low) | _is_batch(layout))
        return inside

    def _checksums(self, layout: RecordLayout, sound: Mask) -> Mask:
        view = memoryview(self._buffer)
        spans = zip(layout.body_at.tolist(), layout.body_end.tolist(), layout.fixed["crc"].tolist(), strict=True)
        matches = [crc32(view[start:end]) & 0x7FFFFFFF == crc for start, end, crc in spans]
        return sound & np.array(matches, np.bool_)

    def _damaged_part(self, rows: Sequence[int]) -> _Part:
        """The rows of damaged records, as far as they are wanted: with what is left of each, and its fault."""
        messages: list[ReceivedMessage] = []
        order: list[int] = []
        for row in rows:
            segment = self._segments[int(self._owner[row])]
            for message in self._damaged(row, None):
                if segment.start <= message.queue_offset < segment.end and self._passes(message):
                    messages.append(message)
                    order.append(row)
        return self._part_of(messages, order)

    def _damaged(self, row: int, problem: str | None) -> list[ReceivedMessage]:
        """What is left of a record, if that is wanted. Raises ReadError when damage is to end the query."""
        start, segment = int(self._starts[row]), self._segments[int(self._owner[row])]
        later = self._starts[np.searchsorted(self._starts, start, side="right") :]
        end = int(later[0]) if len(later) else len(self._buffer)
        message = salvage_record(self._buffer[start:end], inflate=self._spec.decompress)
        unframed = not message.topic
        message.queue_offset = self._place(row, segment) if unframed else message.queue_offset + segment.delta
        message.broker_name = segment.broker
        message.topic = segment.topic or message.topic
        message.fault = message.fault or problem or "the record breaks a rule"
        if self._spec.corrupt is CorruptRecords.FAIL:
            raise ReadError(
                f"{problem or 'a record cannot be read'}: {message.fault}; corruptRecords=keep or skip go on"
            )
        self._corrupt += 1
        if len(self._faults) < MAX_FAULTS:
            where = f"{message.topic} {segment.broker} queue {message.queue_id} offset {message.queue_offset}"
            self._faults.append(f"{where}: {message.fault}")
        return [message] if self._spec.corrupt is CorruptRecords.KEEP else []

    def _place(self, row: int, segment: Segment) -> int:
        """The offset behind the record before: of one without a frame nothing else is known."""
        if row and self._owner[row - 1] == self._owner[row]:
            before = salvage_record(self._buffer[int(self._starts[row - 1]) : int(self._starts[row])], inflate=False)
            if before.topic:
                return before.queue_offset + segment.delta + 1
        return max(segment.start, 0)

    def _scalar_part(self, rows: Sequence[int]) -> _Part:
        messages: list[ReceivedMessage] = []
        order: list[int] = []
        for row in rows:
            segment = self._segments[int(self._owner[row])]
            try:
                whole = decode_record(self._buffer, int(self._starts[row]), decompress=self._spec.decompress)
                whole.queue_offset += segment.delta
                whole.broker_name = segment.broker
                whole.topic = segment.topic or whole.topic
                found = [whole] if whole.sys_flag & sysflag.COMPRESSED else unwrap(whole)
            except MessageError as error:
                found = self._damaged(row, f"a record cannot be read: {error}")
            kept = [each for each in found if segment.start <= each.queue_offset < segment.end and self._passes(each)]
            messages += kept
            order += [row] * len(kept)
        return self._part_of(messages, order)

    def _part_of(self, messages: Sequence[ReceivedMessage], order: Sequence[int]) -> _Part:
        spec = self._spec
        columns = scalar.arrays(messages, spec.columns, text_properties=spec.text_properties, text_body=spec.text_body)
        return _Part(np.array(order, np.int64), columns)

    def _passes(self, message: ReceivedMessage) -> bool:
        """Whether its tag is wanted; of a damaged one without a tag only the broker knows."""
        return self._spec.tags is None or message.tags in self._spec.tags or (message.damaged and message.tags is None)

    def _vector_part(self, layout: RecordLayout, rows: Longs) -> _Part:
        spec = self._spec
        properties = None
        if spec.tags is not None or not _FROM_PROPERTIES.isdisjoint(spec.columns):
            properties = Properties(gather(self._data, layout.properties_at, layout.end))
        columns = {name: self._column(name, layout, rows, properties) for name in spec.columns}
        if spec.tags is not None and properties is not None:
            # Brokers compare hashes of tags; different tags may share one.
            import pyarrow.compute as pc  # type: ignore[import-untyped]  # noqa: PLC0415 - slow to load

            passes = pc.is_in(properties.column(Property.TAGS), words(sorted(spec.tags)))
            if passes.false_count:
                columns = {name: column.filter(passes) for name, column in columns.items()}
                rows = rows[passes.to_numpy(zero_copy_only=False)]
        return _Part(rows, columns)

    def _column(self, name: str, layout: RecordLayout, rows: Longs, properties: Properties | None) -> pa.Array:
        if name in _NUMBERS:
            return numbers(layout.fixed[_NUMBERS[name]], COLUMNS[name])
        if properties is not None and name in _FROM_PROPERTIES:
            return self._from_properties(name, layout, properties)
        return getattr(self, f"_{name.lower()}")(layout, rows)

    def _from_properties(self, name: str, layout: RecordLayout, properties: Properties) -> pa.Array:
        if name == "tags":
            return properties.column(Property.TAGS)
        if name == "keys":
            return properties.column(Property.KEYS)
        if name == "msgId":
            return with_offset_ids(properties.column(Property.UNIQ_KEY), layout)
        if self._spec.text_properties:
            return pa.array([msgspec.json.encode(each).decode() for each in properties.dicts()], pa.string())
        return properties.maps()

    def _queueoffset(self, layout: RecordLayout, rows: Longs) -> pa.Array:
        deltas = np.array([each.delta for each in self._segments], np.int64)[self._owner[rows]]
        return numeric(layout.fixed["offset"].astype(np.int64) + deltas)

    def _topic(self, layout: RecordLayout, rows: Longs) -> pa.Array:
        if any(segment.topic is None for segment in self._segments):
            return text(gather(self._data, layout.topic_at, layout.topic_end))
        return self._shared([segment.topic for segment in self._segments], rows)

    def _brokername(self, _layout: RecordLayout, rows: Longs) -> pa.Array:
        return self._shared([segment.broker for segment in self._segments], rows)

    def _shared(self, values: list[Any], rows: Longs) -> pa.Array:
        return words(values).take(numeric(self._owner[rows]))

    def _sysflag(self, layout: RecordLayout, _rows: Longs) -> pa.Array:
        flags = layout.fixed["sysflag"].astype(np.int32)
        return numeric(flags & ~np.int32(sysflag.COMPRESSED) if self._spec.decompress else flags)

    def _borntimestamp(self, layout: RecordLayout, _rows: Longs) -> pa.Array:
        return times(layout.fixed["born"])

    def _storetimestamp(self, layout: RecordLayout, _rows: Longs) -> pa.Array:
        return times(layout.fixed["stored"])

    def _bornhost(self, layout: RecordLayout, _rows: Longs) -> pa.Array:
        return hosts(layout.fixed["bornhost"])

    def _storehost(self, layout: RecordLayout, _rows: Longs) -> pa.Array:
        return hosts(layout.fixed["storehost"])

    def _fault(self, layout: RecordLayout, _rows: Longs) -> pa.Array:
        return pa.nulls(len(layout.end), pa.string())

    def _body(self, layout: RecordLayout, _rows: Longs) -> pa.Array:
        bodies = gather(self._data, layout.body_at, layout.body_end)
        packed = np.flatnonzero(layout.fixed["sysflag"] & sysflag.COMPRESSED)
        if self._spec.decompress and len(packed):
            inflated = joined([self._inflated[int(at)] for at in layout.body_at[packed]])
            places = np.arange(len(bodies))
            places[packed] = len(bodies) + np.arange(len(packed))
            bodies = pa.concat_arrays([bodies, inflated]).take(numeric(places))
        return text(bodies) if self._spec.text_body else bodies

    def _inflate_all(self, layout: RecordLayout, wanted: Mask) -> Mask:
        """Inflate what is compressed; which of them cannot be."""
        broken: Mask = np.zeros(len(wanted), np.bool_)
        flags = layout.fixed["sysflag"]
        for row in np.flatnonzero(wanted & (flags & sysflag.COMPRESSED != 0)).tolist():
            at = int(layout.body_at[row])
            body = bytes(self._buffer[at : int(layout.body_end[row])])
            try:
                self._inflated[at] = self._inflate(body, int(flags[row]))
            except MessageError:
                broken[row] = True
        return broken

    def _inflate(self, body: bytes, flag: int) -> bytes:
        """Raises MessageError for what cannot be, InflationError when all together are too large."""
        try:
            inflated = decompress(body, flag, limit=min(MAX_INFLATED, self._budget))
        except InflatedSizeError as error:
            if self._budget < MAX_INFLATED:
                raise InflationError(f"all bodies inflate to more than {MAX_INFLATED_RECORDS} bytes") from error
            raise
        self._budget -= max(len(inflated) - len(body), 0)
        return inflated


def _is_batch(layout: RecordLayout) -> Mask:
    found: Mask = layout.fixed["sysflag"] & sysflag.WRAPPED_BATCH == sysflag.WRAPPED_BATCH
    return found
