"""What tests of table sinks share: one task's rows through a sink, as a pipeline sends them."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
from deltalake import DeltaTable

from pyromq.spark.sink.sink import Attempt, Sink

QUERY = "0b6c3d3e-query"


def written(sink: Sink, batch: int, data: pa.RecordBatch, *, query: str = QUERY, partition: int = 0) -> bytes:
    """What one task hands to the commit."""
    task = sink.open(Attempt(query, batch, partition), data.schema)
    try:
        task.write(data)
    except BaseException:
        task.abort()
        raise
    return task.close()


def write(sink: Sink, batch: int, *data: pa.RecordBatch, query: str = QUERY) -> int:
    """A batch of one task for each of `data`."""
    sink.prepare(query)
    return sink.commit(query, batch, [written(sink, batch, each, query=query) for each in data])


def delta_rows(path: Path, by: str = "id") -> list[dict[str, object]]:
    found: list[dict[str, object]] = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    return sorted(found, key=lambda row: str(row[by]))


def batch_of(schema: Sequence[tuple[str, pa.DataType]], *rows: Sequence[object]) -> pa.RecordBatch:
    """Rows by position."""
    columns = [pa.array([row[place] for row in rows], kind) for place, (_, kind) in enumerate(schema)]
    return pa.RecordBatch.from_arrays(columns, names=[name for name, _ in schema])
