"""The shape of rows as options say it. Planned once, sent to tasks."""

import re

import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations

from pyromq.arrow.body import BODY, ERROR
from pyromq.arrow.columns import DEFAULT, check_columns
from pyromq.arrow.errors import ColumnError
from pyromq.arrow.policy import BadRecords, CorruptRecords
from pyromq.arrow.rowshape import RowShape
from pyromq.spark import columns
from pyromq.spark.source.options import BodyFormat, PropertiesFormat, RowOptions


def message_columns(options: RowOptions) -> tuple[str, ...]:
    """The columns of the message itself that the options ask for. Raises ColumnError."""
    if options.columns is not None:
        return check_columns(options.columns.split(","))
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


def field_names(ddl: str) -> list[str]:
    """The names of the fields on the top level of Spark's `a int, b struct<…>`. Raises ColumnError."""
    names, depth, piece = [], 0, ""
    for char in ddl + ",":
        depth += (char in "<(") - (char in ">)")
        if char == "," and depth == 0:
            match = re.match(r"\s*(?:`([^`]+)`|([\w.-]+))[\s:]+\S", piece)
            if match is None:
                raise ColumnError(f"bodySchema: {piece.strip()!r} is not a name and a type")
            names.append(match[1] or match[2])
            piece = ""
        else:
            piece += char
    return names


def row_shape(
    options: RowOptions,
    schema: pa.Schema,
    *,
    tags: frozenset[str] | None = None,
    corrupt: CorruptRecords = CorruptRecords.FAIL,
) -> RowShape:
    """From the options and the schema that Spark wants. Raises ColumnError for columns or types nobody can make."""
    return RowShape.plan(
        schema,
        fields=field_names(options.body_schema) if options.body_schema else (),
        bad=options.bad_records,
        decompress=options.decompress,
        verify_crc=options.verify_crc,
        corrupt=corrupt,
        tags=tags,
    )
