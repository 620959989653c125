"""Make a batch one snapshot of an Iceberg table.

The number of the batch is a property of the table, set in the same change as the snapshot, so it outlives snapshots.
The catalog takes a change only onto the snapshot that was there at the look: of two attempts at a batch one lands, and
the other finds the number at its next look. The library would try again by itself without a look, and is kept from it.
"""

from collections.abc import Sequence
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table, TableProperties

from pyromq.spark.errors import TableChangedError
from pyromq.spark.sink.table.iceberg.datafiles import IcebergFiles, data_file
from pyromq.spark.sink.table.iceberg.task import delete_files

QUERY = "pyromq.query"
BATCH = "pyromq.batch"
TRIES = 10
MERGE_COUNT = "20"
"""Manifests that are merged into one, in tables that do not say otherwise."""


def commit_batch(catalog: Catalog, name: str, source: str, batch: int, tasks: Sequence[IcebergFiles]) -> Table:
    """Returns the table with the batch. Raises TableChangedError; then nothing of the batch is there."""
    paths = [file.path for task in tasks for file in task.files]
    for number in range(TRIES):
        table = catalog.load_table(name)
        if last_batch(table, source) >= batch:
            if number == 0:  # later it may be a try of ours that landed although it seemed to fail
                delete_files(table.io, paths)
            return table
        if any(task.table != str(table.metadata.table_uuid) or task.spec != table.spec().spec_id for task in tasks):
            delete_files(table.io, paths)
            raise TableChangedError(
                f"Iceberg table {name} was changed while batch {batch} was written; it is written again"
            )
        try:
            return _append(table, source, batch, tasks)
        except CommitFailedException:
            continue
    raise TableChangedError(f"Iceberg table {name}: {TRIES} times others committed before batch {batch}")


def last_batch(table: Table, source: str) -> int:
    """The last one of a query that is in the table; -1 for none."""
    known = table.properties.get(f"{BATCH}.{source}")
    if known is not None:
        return int(known)
    for snapshot in reversed(table.snapshots()):  # tables that were written before there was the property
        summary = snapshot.summary
        if summary is not None and summary.additional_properties.get(QUERY) == source:
            return int(summary.additional_properties[BATCH])
    return -1


def expire(table: Table, keep: int) -> None:
    """Forget old snapshots once there are twice as many as wanted; nothing is lost when that fails."""
    snapshots = sorted(table.snapshots(), key=lambda each: each.sequence_number or each.timestamp_ms)
    if len(snapshots) < 2 * keep:
        return
    named = {ref.snapshot_id for ref in table.refs().values()}
    old = [each.snapshot_id for each in snapshots[:-keep] if each.snapshot_id not in named]
    table.metadata = table.metadata.model_copy(update=_own_past(table))
    try:
        table.maintenance.expire_snapshots().by_ids(old).commit()
    except CommitFailedException:
        return  # the next batch tries again


def _own_past(table: Table) -> dict[str, Any]:
    """REST catalogs delete old metadata themselves; the library would try it once more, by this list."""
    return {"metadata_log": []} if isinstance(table.catalog, RestCatalog) else {}


def _append(table: Table, source: str, batch: int, tasks: Sequence[IcebergFiles]) -> Table:
    current = table.current_snapshot()
    # The library copies the metadata some 25 times for one commit: what the catalog adds to need not be in it.
    table.metadata = table.metadata.model_copy(
        update={
            "snapshots": [] if current is None else [current],
            "snapshot_log": [],
            **_own_past(table),
            "properties": {
                TableProperties.MANIFEST_MERGE_ENABLED: "true",
                TableProperties.MANIFEST_MIN_MERGE_COUNT: MERGE_COUNT,
                **table.properties,
                TableProperties.COMMIT_NUM_RETRIES: "0",
            },
        }
    )
    spec, schema = table.spec(), table.schema()
    transaction = table.transaction()
    transaction.set_properties({f"{BATCH}.{source}": str(batch)})
    update = transaction.update_snapshot(snapshot_properties={QUERY: source, BATCH: str(batch)})
    merged = table.properties[TableProperties.MANIFEST_MERGE_ENABLED].lower() == "true"
    with update.merge_append() if merged else update.fast_append() as append:
        for task in tasks:
            for file in task.files:
                append.append_data_file(data_file(file, spec, schema))
    return transaction.commit_transaction()
