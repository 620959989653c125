"""Statistics of the files of Delta tables, by which readers skip files: right, as Delta writes them, where wanted."""

import datetime as dt
import decimal
import json
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
import pytest
from deltalake import DeltaTable
from deltalake.schema import Schema

from pyromq.spark.sink.table.delta.sink import DeltaSink
from tests.unit.spark.tablewriting import batch_of, write

IDS = [("id", pa.int64()), ("shop", pa.string())]


def statistics(path: Path) -> list[dict[str, Any]]:
    log = max((path / "_delta_log").glob("*.json")).read_text().splitlines()
    return [json.loads(action["add"]["stats"]) for action in map(json.loads, log) if "add" in action]


def test_statistics_for_data_skipping(tmp_path: Path) -> None:
    sink = DeltaSink(name="lake", path=str(tmp_path))
    when = dt.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC)
    columns = [
        ("id", pa.int64()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("day", pa.date32()),
        ("price", pa.decimal128(20, 2)),
        ("text", pa.string()),
        ("inner", pa.struct([("a", pa.int32())])),
        ("noise", pa.float64()),
        ("plain", pa.float64()),
        ("raw", pa.binary()),
        ("list", pa.list_(pa.int64())),
    ]
    day, price = when.date(), decimal.Decimal("12345678901234567.89")
    long = "z" * 40
    write(
        sink,
        0,
        batch_of(
            columns,
            (2, when, day, price, long, {"a": 3}, 1.5, 0.5, b"x", [1]),
            (None, None, None, None, "a", None, float("nan"), 1.5, None, None),
        ),
    )
    (found,) = statistics(tmp_path)
    assert found["numRecords"] == 2
    assert found["minValues"] == {
        "id": 2,
        "at": "2026-01-02T03:04:05.678901Z",
        "day": "2026-01-02",
        "price": pytest.approx(1.234567890123456789e16),
        "text": "a",
        "inner": {"a": 3},
        "plain": 0.5,
    }
    assert (found["maxValues"]["text"], found["maxValues"]["plain"]) == ("z" * 32 + "\U0010ffff", 1.5)
    assert "noise" not in found["maxValues"], "a file with NaN must not be skipped"
    assert found["nullCount"] == {
        **dict.fromkeys(("id", "at", "day", "price", "raw"), 1),
        "inner": {"a": 1},
        **dict.fromkeys(("text", "noise", "plain"), 0),
    }
    assert '"price":12345678901234567.89' in (tmp_path / "_delta_log" / f"{0:020d}.json").read_text().replace("\\", "")
    pruned = DeltaTable(str(tmp_path)).to_pyarrow_dataset()
    assert pruned.to_table(filter=pa.compute.field("id") == 2).num_rows == 1


@pytest.mark.parametrize(
    ("configuration", "known"),
    [
        ({"delta.dataSkippingNumIndexedCols": "1"}, {"id"}),
        ({"delta.dataSkippingNumIndexedCols": "0"}, set()),
        ({"delta.dataSkippingNumIndexedCols": "1", "delta.dataSkippingStatsColumns": "shop"}, {"shop"}),
    ],
)
def test_the_table_says_which_columns_have_statistics(
    tmp_path: Path, configuration: dict[str, str], known: set[str]
) -> None:
    DeltaTable.create(str(tmp_path), Schema.from_arrow(pa.schema(IDS)), configuration=configuration)
    write(DeltaSink(name="lake", path=str(tmp_path)), 0, batch_of(IDS, (1, "a")))
    (found,) = statistics(tmp_path)
    assert set(found["minValues"]) == set(found["maxValues"]) == set(found["nullCount"]) == known
