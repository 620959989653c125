"""Iceberg tables: batches once whatever becomes of snapshots, partitions by transforms, catalogs by name."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from pyromq.spark.errors import SinkError, TableChangedError
from pyromq.spark.sink.table.iceberg import commit as iceberg_commit
from pyromq.spark.sink.table.iceberg.sink import IcebergSink
from tests.unit.spark.tablewriting import QUERY, batch_of, write, written

IDS = [("id", pa.int64()), ("shop", pa.string())]
BUCKETS = BucketTransform[int](4).transform(LongType())
WHEN = dt.datetime(2026, 1, 2, 3, tzinfo=dt.UTC)


def lake(folder: Path, **settings: Any) -> IcebergSink:
    return IcebergSink(name="lake", table="shop.orders", warehouse=str(folder), **settings)


def own_catalog(folder: Path, name: str = "pyromq") -> Catalog:
    return load_catalog(
        name, type="sql", uri=f"sqlite:///{folder / 'catalog.db'}", warehouse=f"file://{folder.resolve()}"
    )


def orders(folder: Path) -> Table:
    return own_catalog(folder).load_table("shop.orders")


def ids(folder: Path) -> list[int]:
    return sorted(orders(folder).scan().to_arrow().column("id").to_pylist())


# SP-05
def test_a_batch_is_known_when_its_snapshot_is_gone(tmp_path: Path) -> None:
    sink = lake(tmp_path)
    write(sink, 0, batch_of(IDS, (1, "a")))
    table = orders(tmp_path)
    table.append(pa.table({"id": [100], "shop": ["x"]}))
    mine = table.snapshots()[0].snapshot_id
    table.maintenance.expire_snapshots().by_id(mine).commit()
    write(sink, 0, batch_of(IDS, (1, "a")))
    assert ids(tmp_path) == [1, 100]


def test_a_batch_of_a_table_without_the_property_is_known(tmp_path: Path) -> None:
    sink = lake(tmp_path)
    sink.make(pa.schema(IDS))
    summary = {"pyromq.query": f"{QUERY}/lake", "pyromq.batch": "3"}
    orders(tmp_path).append(pa.table({"id": [1], "shop": ["a"]}), snapshot_properties=summary)
    write(sink, 3, batch_of(IDS, (1, "a")))
    assert ids(tmp_path) == [1]
    write(sink, 4, batch_of(IDS, (2, "a")))
    assert ids(tmp_path) == [1, 2]


def before_each_look(patch: pytest.MonkeyPatch, rival: Callable[[Table], None]) -> None:
    """Let somebody else act on the table between a look of the commit and what it does next."""
    known = iceberg_commit.last_batch
    busy = False

    def look(table: Table, source: str) -> int:
        nonlocal busy
        found = known(table, source)
        if not busy:
            busy = True
            rival(table)
            busy = False
        return found

    patch.setattr(iceberg_commit, "last_batch", look)


# SP-05
def test_two_attempts_at_a_batch_that_race_land_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = lake(tmp_path)
    write(sink, 0, batch_of(IDS, (1, "a")))
    first, second = (written(sink, 1, batch_of(IDS, (2, "a"))) for _ in range(2))

    def rival(table: Table) -> None:
        if len(table.snapshots()) == 1:
            lake(tmp_path).commit(QUERY, 1, [first])

    before_each_look(monkeypatch, rival)
    assert sink.commit(QUERY, 1, [second]) == 1
    assert ids(tmp_path) == [1, 2]


# SP-05
def test_other_writers_in_between_are_no_hindrance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = lake(tmp_path)
    write(sink, 0, batch_of(IDS, (1, "a")))
    looks: list[int] = []

    def rival(table: Table) -> None:
        looks.append(len(table.snapshots()))
        if len(looks) == 1:
            orders(tmp_path).append(pa.table({"id": [100], "shop": ["x"]}))

    before_each_look(monkeypatch, rival)
    write(sink, 1, batch_of(IDS, (2, "a")))
    assert looks == [1, 2]
    assert ids(tmp_path) == [1, 2, 100]


@pytest.mark.parametrize(
    ("partition_by", "paths"),
    [
        (["shop"], {"shop=abc", "shop=null"}),
        (["day(at)"], {"at_day=2026-01-02", "at_day=null"}),
        (["years(at)", "truncate(1, shop)"], {"at_year=2026/shop_trunc_1=a", "at_year=null/shop_trunc_1=null"}),
        (["bucket(4, id)"], {f"id_bucket_4={BUCKETS(1)}", f"id_bucket_4={BUCKETS(2)}"}),
    ],
)
def test_partitions_by_transforms(tmp_path: Path, partition_by: list[str], paths: set[str]) -> None:
    sink = lake(tmp_path, partition_by=partition_by)
    columns = [*IDS, ("at", pa.timestamp("us", tz="UTC"))]
    for batch in range(2):
        write(sink, batch, batch_of(columns, (1, "abc", WHEN), (2, None, None)))
    table = orders(tmp_path)
    assert len(table.spec().fields) == len(partition_by)
    files = [task.file for task in table.scan().plan_files()]
    folder = f"file://{tmp_path.resolve()}/shop/orders/data/"
    assert {file.file_path.removeprefix(folder).rpartition("/")[0] for file in files} == paths
    assert ids(tmp_path) == [1, 1, 2, 2]
    assert len(table.scan(row_filter="at >= '2026-01-02T00:00:00+00:00'").to_arrow()) == 2


def test_a_table_keeps_its_partitions_types_and_place(tmp_path: Path) -> None:
    catalog = own_catalog(tmp_path)
    catalog.create_namespace("shop")
    fields = (
        NestedField(1, "Shop", StringType(), required=False),
        NestedField(2, "id", IntegerType(), required=True),
        NestedField(3, "note", StringType(), required=False),
    )
    spec = PartitionSpec(PartitionField(2, 1000, BucketTransform(3), "pail"))
    place = f"file://{tmp_path}/elsewhere"
    catalog.create_table("shop.orders", Schema(*fields), location=place, partition_spec=spec)
    sink = lake(tmp_path)
    write(sink, 0, batch_of(IDS, (1, "a"), (2, "b")))
    found = orders(tmp_path).scan().to_arrow().sort_by("id").to_pylist()
    assert found == [{"Shop": "a", "id": 1, "note": None}, {"Shop": "b", "id": 2, "note": None}]
    assert len(list((tmp_path / "elsewhere" / "data").rglob("*.parquet"))) == 2
    with pytest.raises(SinkError, match=r"id .*NOT NULL.*shop=c"):
        write(sink, 1, batch_of(IDS, (None, "c")))
    with pytest.raises(SinkError, match=r"column id .*int32"):
        write(sink, 1, batch_of(IDS, (1 << 40, "c")))
    with pytest.raises(SinkError, match=r"bucket\(3, id\).*partition_by"):
        write(lake(tmp_path, partition_by=["shop"]), 1, batch_of(IDS, (3, "c")))
    assert len(list((tmp_path / "elsewhere" / "data").rglob("*.parquet"))) == 2
    assert ids(tmp_path) == [1, 2]


def test_a_table_that_changed_since_the_tasks_wrote_is_looked_at_again(tmp_path: Path) -> None:
    sink = lake(tmp_path)
    write(sink, 0, batch_of(IDS, (1, "a")))
    message = written(sink, 1, batch_of(IDS, (2, "a")))
    with orders(tmp_path).update_spec() as update:
        update.add_identity("shop")
    with pytest.raises(TableChangedError):
        sink.commit(QUERY, 1, [message])
    assert len(list(tmp_path.rglob("*.parquet"))) == 1, "what was written for it is thrown away"
    write(sink, 1, batch_of(IDS, (2, "a")))
    assert ids(tmp_path) == [1, 2]


def test_catalogs_have_names(tmp_path: Path) -> None:
    options = {"type": "sql", "uri": f"sqlite:///{tmp_path / 'catalog.db'}", "warehouse": f"file://{tmp_path}"}
    for number, name in enumerate(("prod", "test")):
        sink = lake(Path(), catalog={"name": name, **options})
        sink.warehouse = ""
        write(sink, 0, batch_of(IDS, (number, name)))
    for number, name in enumerate(("prod", "test")):
        found = own_catalog(tmp_path, name).load_table("shop.orders").scan().to_arrow()
        assert found.column("id").to_pylist() == [number]


def test_a_catalog_may_be_described_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".pyiceberg.yaml").write_text(
        f"catalog:\n  central:\n    type: sql\n    uri: sqlite:///{tmp_path}/c.db\n    warehouse: file://{tmp_path}\n"
    )
    from pyiceberg import catalog  # noqa: PLC0415 - what it has read at import is put aside
    from pyiceberg.utils.config import Config  # noqa: PLC0415

    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    monkeypatch.setattr(catalog, "_ENV_CONFIG", Config())
    sink = IcebergSink(name="lake", table="shop.orders", catalog={"name": "central"})
    write(sink, 0, batch_of(IDS, (1, "a")))
    assert load_catalog("central").load_table("shop.orders").scan().to_arrow().num_rows == 1


@pytest.mark.parametrize(
    ("catalog", "said"),
    [
        ({"name": "nowhere"}, "nowhere"),
        ({"type": "glu"}, "glu"),
    ],
)
def test_a_catalog_that_does_not_answer_is_one_sentence(catalog: dict[str, str], said: str) -> None:
    sink = IcebergSink(name="lake", table="shop.orders", catalog=catalog)
    with pytest.raises(SinkError, match=said) as caught:
        sink.prepare(QUERY)
    assert "\n" not in str(caught.value)


def test_commits_do_not_copy_what_is_there_already(tmp_path: Path) -> None:
    """Manifests are merged, old versions of the metadata go, and snapshots are kept as many as asked for."""
    sink = lake(tmp_path, keep_snapshots=4)
    for batch in range(30):
        write(sink, batch, batch_of(IDS, (batch, "a")))
    table = orders(tmp_path)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert len(snapshot.manifests(table.io)) <= 20
    assert 4 <= len(table.snapshots()) <= 8
    assert ids(tmp_path) == list(range(30))
    write(sink, 29, batch_of(IDS, (29, "a")))
    assert ids(tmp_path) == list(range(30))


def test_columns_may_be_added(tmp_path: Path) -> None:
    sink = lake(tmp_path, partition_by=["shop"])
    write(sink, 0, batch_of(IDS, (1, "a")))
    schemas = len(orders(tmp_path).schemas())
    write(sink, 1, batch_of([*IDS, ("note", pa.string())], (2, "a", "x")), batch_of(IDS, (3, "b")))
    write(sink, 2, batch_of(IDS, (4, "b")))
    found = orders(tmp_path).scan().to_arrow().sort_by("id")
    assert found.column("note").to_pylist() == [None, "x", None, None]
    assert len(orders(tmp_path).schemas()) == schemas + 1


def test_a_required_column_that_rows_lack_is_an_error(tmp_path: Path) -> None:
    catalog = own_catalog(tmp_path)
    catalog.create_namespace("shop")
    catalog.create_table("shop.orders", Schema(NestedField(1, "key", LongType(), required=True)))
    with pytest.raises(SinkError, match=r"NOT NULL.* key"):
        lake(tmp_path).check(pa.schema(IDS))
