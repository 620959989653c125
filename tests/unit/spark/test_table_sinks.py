"""Delta and Iceberg tables: each batch once, columns added on the way, readable by others."""

from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
import pytest

from pyromq.spark.sink.table.delta.sink import DeltaSink
from pyromq.spark.sink.table.iceberg.sink import IcebergSink
from tests.unit.spark.tablewriting import QUERY, delta_rows, write

WHEN = pa.array([0], pa.timestamp("us", tz="UTC"))


def rows(number: int, **more: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {"id": [number], "day": ["a/b %"], "at": WHEN, **{k: [v] for k, v in more.items()}}
    )


# SP-05
@pytest.mark.parametrize("partition_by", [[], ["day"]])
def test_delta_takes_each_batch_once(tmp_path: Path, partition_by: list[str]) -> None:
    sink = DeltaSink(name="lake", path=str(tmp_path), partition_by=partition_by)
    for batch in (0, 1, 1, 0, 2):
        assert write(sink, batch, rows(batch)) == 1
    assert [row["id"] for row in delta_rows(tmp_path)] == [0, 1, 2]
    assert {row["day"] for row in delta_rows(tmp_path)} == {"a/b %"}
    assert len(list(tmp_path.rglob("*.parquet"))) == 3
    write(sink, 0, rows(3), query="another checkpoint")
    assert len(delta_rows(tmp_path)) == 4


def test_delta_gains_columns(tmp_path: Path) -> None:
    sink = DeltaSink(name="lake", path=str(tmp_path))
    write(sink, 0, rows(0))
    write(sink, 1, rows(1, shop="Berlin"))
    write(sink, 2, rows(2))
    assert [row["shop"] for row in delta_rows(tmp_path)] == [None, "Berlin", None]


# SP-05
def test_iceberg_takes_each_batch_once(tmp_path: Path) -> None:
    sink = IcebergSink(name="lake", table="shop.orders", warehouse=str(tmp_path))
    for batch in (0, 1, 1, 0, 2):
        assert write(sink, batch, rows(batch)) == 1
    write(sink, 3, rows(3, shop="Berlin"))
    with sink.open_catalog("cannot be read") as catalog:
        found = catalog.load_table("shop.orders").scan().to_arrow().sort_by("id").to_pylist()
    assert [(row["id"], row["shop"]) for row in found] == [(0, None), (1, None), (2, None), (3, "Berlin")]
    assert len(list(tmp_path.rglob("*.parquet"))) == 4


def test_an_empty_batch_is_no_commit(tmp_path: Path) -> None:
    assert DeltaSink(name="lake", path=str(tmp_path)).commit(QUERY, 0, []) == 0
    assert IcebergSink(name="lake", table="shop.orders", warehouse=str(tmp_path)).commit(QUERY, 0, []) == 0
    assert not list(tmp_path.iterdir())
