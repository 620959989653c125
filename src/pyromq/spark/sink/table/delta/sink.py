"""A Delta table, written without Java: tasks write Parquet, the driver commits it as one version of the table."""

from collections.abc import Sequence

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations

from pyromq.spark.errors import SinkError
from pyromq.spark.sink.sink import Attempt
from pyromq.spark.sink.table.conversion import Conversion
from pyromq.spark.sink.table.delta.commit import Commit
from pyromq.spark.sink.table.delta.layout import Layout, layout_of, open_table
from pyromq.spark.sink.table.delta.storage import Storage
from pyromq.spark.sink.table.delta.task import DeltaFiles, DeltaTask


class DeltaSink(msgspec.Struct, kw_only=True):
    """A table in a folder or bucket; `storage_options` are those of deltalake."""

    name: str
    path: str
    partition_by: list[str] = []
    storage_options: dict[str, str] = {}
    looked: bool = False
    layout: Layout | None = None
    """As it was at the last look; None for a table that is not there yet."""

    @property
    def storage(self) -> Storage:
        return Storage(self.path, self.storage_options)

    def prepare(self, query: str) -> None:
        """Look what the table asks for. Raises SinkError when that is too much."""
        del query
        self.layout, self.looked = self._look(), True

    def check(self, schema: pa.Schema) -> None:
        """Raises SinkError when rows of this schema cannot go into the table."""
        layout = self._look()
        if layout is not None:
            Conversion(f"Delta table {self.path}", layout.schema, schema, layout.generated)

    def open(self, attempt: Attempt, schema: pa.Schema) -> DeltaTask:
        layout = self.layout if self.looked else self._look()  # not every task is sent what the driver prepared
        partition_by = self.partition_by if layout is None else layout.partition_by
        return DeltaTask(self.storage, attempt, schema, partition_by, layout)

    def commit(self, query: str, batch: int, messages: Sequence[bytes]) -> int:
        written = DeltaFiles.of_batch(messages)
        if written.files:
            source = f"{query}/{self.name}"
            Commit(self.storage, self.partition_by, source, batch, written).run()
        return written.rows

    def _look(self) -> Layout | None:
        table = open_table(self.storage)
        if table is None:
            return None
        layout = layout_of(table, self.path)
        if self.partition_by and self.partition_by != layout.partition_by:
            known = ", ".join(layout.partition_by) or "nothing"
            raise SinkError(
                f"Delta table {self.path} is partitioned by {known}; leave partition_by out or say the same there"
            )
        return layout
