"""The shape of rows: which columns, of what type, made how. Planned once, used for every batch."""

import logging
from collections.abc import Collection, Iterator, Sequence

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations

from pyromq.arrow.body import BODY, ERROR, BodyReader
from pyromq.arrow.columns import COLUMNS, check_columns
from pyromq.arrow.decoder import Rows, decode, decode_pulled
from pyromq.arrow.errors import ColumnError, InflationError
from pyromq.arrow.policy import BadRecords, CorruptRecords
from pyromq.arrow.recordlayout import Longs
from pyromq.arrow.rowspec import RowSpec, Segment

log = logging.getLogger(__name__)


class RowShape:
    """Makes the record batches of one schema."""

    def __init__(self, schema: pa.Schema, spec: RowSpec, body: BodyReader | None) -> None:
        self.schema = schema
        self._spec = spec
        self._body = body

    @classmethod
    def plan(
        cls,
        schema: pa.Schema,
        *,
        fields: Collection[str] = (),
        bad: BadRecords = BadRecords.FAIL,
        decompress: bool = True,
        verify_crc: bool = True,
        corrupt: CorruptRecords = CorruptRecords.FAIL,
        tags: frozenset[str] | None = None,
    ) -> "RowShape":
        """For a schema, in which `fields` are those of JSON bodies. Raises ColumnError for columns or types nobody can
        make."""
        lower = {name.lower() for name in fields}
        extra = {ERROR, BODY} if bad is BadRecords.KEEP and fields else set()
        inside = [field for field in schema if field.name.lower() in lower]
        outside = [field for field in schema if field.name.lower() not in lower and field.name not in extra]
        names = check_columns(field.name for field in outside)
        text_properties, text_body = False, False
        for name, field in zip(names, outside, strict=True):
            if field.type == pa.string() and name in ("properties", "body"):
                text_properties |= name == "properties"
                text_body |= name == "body"
            elif field.type != COLUMNS[name]:
                raise ColumnError(f"column {name} is {COLUMNS[name]}, not {field.type}")
        reader = BodyReader(inside, bad) if inside or extra & set(schema.names) else None
        if reader is not None and text_body:
            raise ColumnError("when fields of JSON bodies are columns, the column body is binary")
        made = (*names, *(name for name in ("body", "fault") if reader is not None and name not in names))
        spec = RowSpec(
            made,
            text_properties=text_properties,
            text_body=text_body,
            decompress=decompress,
            verify_crc=verify_crc and "body" in made,
            corrupt=corrupt,
            tags=tags,
        )
        return cls(schema, spec, reader)

    def batches(
        self, buffer: bytes | memoryview, starts: Longs, segments: Sequence[Segment], owner: Longs | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of some records, in several batches if their bodies are too much for one. Raises as `batch`."""
        if owner is None:
            owner = np.repeat(np.arange(len(segments)), [segment.records for segment in segments])
        try:
            yield self.batch(buffer, starts, segments, owner)
        except InflationError:
            half = len(starts) // 2
            if not half:
                raise
            yield from self.batches(buffer, starts[:half], segments, owner[:half])
            yield from self.batches(buffer, starts[half:], segments, owner[half:])

    def pulled(self, bodies: Sequence[bytes | memoryview], segments: Sequence[Segment]) -> pa.RecordBatch | None:
        """The rows of whole buffers, see `decode_pulled`. Raises BadRecordError."""
        rows = decode_pulled(bodies, segments, self._spec)
        return None if rows is None else self._shaped(rows)

    def batch(
        self, buffer: bytes | memoryview, starts: Longs, segments: Sequence[Segment], owner: Longs | None = None
    ) -> pa.RecordBatch:
        """The rows of some records, see `decode`. Raises ReadError or BadRecordError."""
        rows = decode(buffer, starts, segments, self._spec, owner)
        if rows.corrupt:
            log.warning("%d damaged records (corruptRecords=%s): %s", rows.corrupt, self._spec.corrupt, rows.faults)
        return self._shaped(rows)

    def _shaped(self, rows: Rows) -> pa.RecordBatch:
        made = {name.lower(): column for name, column in rows.columns.items()}
        stays = None
        if self._body is not None:
            fields, stays = self._body.columns(rows.columns["body"], rows.columns["fault"])
            made |= {name.lower(): column for name, column in fields.items()}
        batch = pa.RecordBatch.from_arrays([made[field.name.lower()] for field in self.schema], schema=self.schema)
        return batch if stays is None else batch.filter(stays)
