"""A Delta table, written without Java: tasks write Parquet, the driver adds the files in one commit of the table's log.

The log itself remembers the last batch of each query, so a repeated batch is seen there and its files are thrown away.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, create_table_with_add_actions

from pyromq.clock import wall_clock
from pyromq.spark.errors import SinkError
from pyromq.spark.sink.sink import Attempt
from pyromq.spark.sink.table.datafile import DataFile
from pyromq.spark.sink.table.task import TableFiles, TableTask


class DeltaSink(msgspec.Struct, kw_only=True):
    """A table in a folder."""

    name: str
    path: str
    partition_by: list[str] = []

    def prepare(self, query: str) -> None:
        """Nothing to fetch."""

    def open(self, attempt: Attempt, schema: pa.Schema) -> TableTask:
        return TableTask(Path(self.path), attempt, schema, self.partition_by)

    def commit(self, query: str, batch: int, messages: Sequence[bytes]) -> int:
        written = TableFiles.of_batch(messages)
        if written.files:
            try:
                self._commit(f"{query}/{self.name}", batch, written)
            except DeltaError as error:
                raise SinkError(f"Delta table {self.path} did not take batch {batch}: {error}") from error
        return written.rows

    def _commit(self, application: str, batch: int, written: TableFiles) -> None:
        schema = Schema.from_arrow(written.schema)
        properties = CommitProperties(app_transactions=[Transaction(application, batch)])
        actions = [_action(file) for file in written.files]
        if not DeltaTable.is_deltatable(self.path):
            create_table_with_add_actions(
                self.path, schema, actions, partition_by=self.partition_by, commit_properties=properties
            )
            return
        table = DeltaTable(self.path)
        done = table.transaction_version(application)
        if done is not None and done >= batch:
            written.discard(Path(self.path))
            return
        known = {field.name for field in table.schema().fields}
        added = [Field(field.name, field.type, nullable=True) for field in schema.fields if field.name not in known]
        if added:
            table.alter.add_columns(added)
            table = DeltaTable(self.path)
        table.create_write_transaction(
            [*actions], "append", table.schema(), partition_by=self.partition_by, commit_properties=properties
        )


def _action(file: DataFile) -> AddAction:
    return AddAction(
        path=file.final,
        size=file.size,
        partition_values=file.partition,
        modification_time=wall_clock(),
        data_change=True,
        stats=json.dumps({"numRecords": file.rows}),
    )
