"""What is known of data files, on its way from the tasks that wrote them to the commit.

The commit needs nothing else: it does not open the files again.
"""

from typing import Any

import msgspec
from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import PrimitiveType

from pyromq.spark.errors import SinkError
from pyromq.spark.sink.sink import Written


class WrittenFile(msgspec.Struct, kw_only=True):
    """A data file as Iceberg's manifests describe it; numbers of columns are the table's own."""

    path: str
    format: str
    rows: int
    size: int
    partition: list[bytes | None]
    column_sizes: dict[int, int]
    value_counts: dict[int, int]
    null_value_counts: dict[int, int]
    nan_value_counts: dict[int, int]
    lower_bounds: dict[int, bytes]
    upper_bounds: dict[int, bytes]
    split_offsets: list[int] | None


class IcebergFiles(Written, kw_only=True):
    """What one task wrote, and for which table with which partitions."""

    files: list[WrittenFile]
    table: str
    spec: int


def described(file: DataFile, spec: PartitionSpec, schema: Schema) -> WrittenFile:
    values = [file.partition[place] for place in range(len(spec.fields))]
    return WrittenFile(
        path=file.file_path,
        format=file.file_format.value,
        rows=file.record_count,
        size=file.file_size_in_bytes,
        partition=[
            None if value is None else to_bytes(kind, value)
            for kind, value in zip(_kinds(spec, schema), values, strict=True)
        ],
        column_sizes=file.column_sizes or {},
        value_counts=file.value_counts or {},
        null_value_counts=file.null_value_counts or {},
        nan_value_counts=file.nan_value_counts or {},
        lower_bounds=file.lower_bounds or {},
        upper_bounds=file.upper_bounds or {},
        split_offsets=file.split_offsets,
    )


def data_file(file: WrittenFile, spec: PartitionSpec, schema: Schema) -> DataFile:
    """The reverse."""
    kinds = _kinds(spec, schema)
    values: list[Any] = [
        None if value is None else from_bytes(kind, value) for kind, value in zip(kinds, file.partition, strict=True)
    ]
    made = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=file.path,
        file_format=FileFormat(file.format),
        partition=Record(*values),
        record_count=file.rows,
        file_size_in_bytes=file.size,
        column_sizes=file.column_sizes,
        value_counts=file.value_counts,
        null_value_counts=file.null_value_counts,
        nan_value_counts=file.nan_value_counts,
        lower_bounds=file.lower_bounds,
        upper_bounds=file.upper_bounds,
        split_offsets=file.split_offsets,
        sort_order_id=None,
        equality_ids=None,
        key_metadata=None,
    )
    made.spec_id = spec.spec_id
    return made


def _kinds(spec: PartitionSpec, schema: Schema) -> list[PrimitiveType]:
    kinds = [field.field_type for field in spec.partition_type(schema).fields]
    if len(kinds) != len(spec.fields) or not all(isinstance(kind, PrimitiveType) for kind in kinds):
        raise SinkError("a partition of an Iceberg table comes from a column that is gone; give it another spec")
    return [kind for kind in kinds if isinstance(kind, PrimitiveType)]
