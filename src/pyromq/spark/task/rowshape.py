"""The shape of rows: which columns, of what type, made how. Planned once from options and schema, sent to tasks."""

import logging
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations

from pyromq.spark import columns
from pyromq.spark.columns import COLUMNS, DEFAULT
from pyromq.spark.errors import ColumnError, InflationError
from pyromq.spark.source.options import BadRecords, BodyFormat, CorruptRecords, PropertiesFormat, RowOptions
from pyromq.spark.task.body import BODY, ERROR, BodyReader, field_names
from pyromq.spark.task.decoder import RowSpec, Segment, decode
from pyromq.spark.task.recordlayout import Longs

log = logging.getLogger(__name__)


def message_columns(options: RowOptions) -> tuple[str, ...]:
    """The columns of the message itself that the options ask for. Raises ColumnError."""
    if options.columns is not None:
        return columns.check_columns(options.columns.split(","))
    if options.body_format is BodyFormat.JSON:
        return tuple(name for name in DEFAULT if name != "body")
    return DEFAULT


def schema_ddl(options: RowOptions) -> str:
    """The schema of a source with these options, in Spark's words. Raises ColumnError."""
    names = message_columns(options)
    parts = [
        columns.ddl(
            names,
            text_properties=options.properties_format is PropertiesFormat.JSON,
            text_body=options.body_format is BodyFormat.STRING,
        )
    ]
    if options.body_schema is not None:
        lower = {name.lower() for name in names}
        twice = [name for name in field_names(options.body_schema) if name.lower() in lower]
        if twice:
            raise ColumnError(
                f"{', '.join(twice)} is a field of bodySchema and a column of the message; leave it out of `columns`"
            )
        parts.append(options.body_schema)
        if options.bad_records is BadRecords.KEEP:
            parts.append(f"{ERROR} string, {BODY} binary")
    return ", ".join(part for part in parts if part)


class RowShape:
    """Makes the record batches of one schema."""

    def __init__(self, schema: pa.Schema, spec: RowSpec, body: BodyReader | None) -> None:
        self.schema = schema
        self._spec = spec
        self._body = body

    @classmethod
    def plan(
        cls,
        options: RowOptions,
        schema: pa.Schema,
        *,
        tags: frozenset[str] | None = None,
        corrupt: CorruptRecords = CorruptRecords.FAIL,
    ) -> "RowShape":
        """From the options and the schema that Spark wants. Raises ColumnError for columns or types nobody can make."""
        fields = {name.lower() for name in field_names(options.body_schema)} if options.body_schema else set()
        extra = {ERROR, BODY} if options.bad_records is BadRecords.KEEP and fields else set()
        inside = [field for field in schema if field.name.lower() in fields]
        outside = [field for field in schema if field.name.lower() not in fields and field.name not in extra]
        names = columns.check_columns(field.name for field in outside)
        text_properties, text_body = False, False
        for name, field in zip(names, outside, strict=True):
            if field.type == pa.string() and name in ("properties", "body"):
                text_properties |= name == "properties"
                text_body |= name == "body"
            elif field.type != COLUMNS[name][1]:
                raise ColumnError(f"column {name} is {COLUMNS[name][0]}, not {field.type}")
        reader = BodyReader(inside, options.bad_records) if inside or extra & set(schema.names) else None
        if reader is not None and text_body:
            raise ColumnError("with bodyFormat=json the column body is binary")
        made = (*names, *(name for name in ("body", "fault") if reader is not None and name not in names))
        spec = RowSpec(
            made,
            text_properties=text_properties,
            text_body=text_body,
            decompress=options.decompress,
            verify_crc=options.verify_crc and "body" in made,
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

    def batch(
        self, buffer: bytes | memoryview, starts: Longs, segments: Sequence[Segment], owner: Longs | None = None
    ) -> pa.RecordBatch:
        """The rows of some records, see `decode`. Raises ReadError or BadRecordError."""
        rows = decode(buffer, starts, segments, self._spec, owner)
        if rows.corrupt:
            log.warning("%d damaged records (corruptRecords=%s): %s", rows.corrupt, self._spec.corrupt, rows.faults)
        made = {name.lower(): column for name, column in rows.columns.items()}
        stays = None
        if self._body is not None:
            fields, stays = self._body.columns(rows.columns["body"], rows.columns["fault"])
            made |= {name.lower(): column for name, column in fields.items()}
        batch = pa.RecordBatch.from_arrays([made[field.name.lower()] for field in self.schema], schema=self.schema)
        return batch if stays is None else batch.filter(stays)
