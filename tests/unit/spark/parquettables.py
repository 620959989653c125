"""Tables of ids: batches of ten rows as tasks stage them, and which rows their files hold."""

from collections import Counter

import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from pyromq.spark.sink.sink import Attempt
from pyromq.spark.sink.table.parquet import ParquetSink
from pyromq.spark.storage.store import Store

QUERY = "0b6c3d3e-query"


def stage(sink: ParquetSink, number: int, query: str = QUERY) -> list[bytes]:
    """Ten rows."""
    rows = pa.RecordBatch.from_pydict({"id": list(range(10 * number, 10 * number + 10))})
    task = sink.open(Attempt(query, number, 0), rows.schema)
    task.write(rows)
    return [task.close()]


def ids(store: Store, names: list[str]) -> Counter[int]:
    """The rows of some files."""
    found: Counter[int] = Counter()
    for name in names:
        with store.input(name) as source:
            found.update(pq.ParquetFile(source).read().column("id").to_pylist())
    return found
