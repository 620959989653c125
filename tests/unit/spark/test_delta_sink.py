"""Delta tables that somebody else made: their types, rules and features hold for the sink, too."""

import datetime as dt
import decimal
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.schema import ArrayType, Field, PrimitiveType, Schema, StructType

from pyromq.spark.errors import SinkError
from pyromq.spark.sink.sink import Attempt
from pyromq.spark.sink.table.delta import commit as delta_commit
from pyromq.spark.sink.table.delta import layout
from pyromq.spark.sink.table.delta.sink import DeltaSink
from pyromq.spark.sink.table.delta.storage import Storage
from tests.unit.spark.tablewriting import QUERY, batch_of, delta_rows, write, written

IDS = [("id", pa.int64()), ("shop", pa.string())]


def field(name: str, kind: str = "long", *, nullable: bool = True, rule: str | None = None) -> Field:
    metadata = {} if rule is None else {"delta.generationExpression": rule}
    return Field(name, PrimitiveType(kind), nullable=nullable, metadata=metadata)


def made(path: Path, fields: Sequence[Field], partition_by: Sequence[str] = ()) -> DeltaSink:
    DeltaTable.create(str(path), Schema(list(fields)), partition_by=list(partition_by))
    return DeltaSink(name="lake", path=str(path))


def crafted(
    path: Path, protocol: dict[str, Any], configuration: dict[str, str], kind: str = "long", **metadata: Any
) -> DeltaSink:
    """A table as other writers make it, with features that this library cannot turn on."""
    column = {"name": "id", "type": kind, "nullable": True, "metadata": metadata}
    described = {
        "id": "a-table",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": [column]}),
        "partitionColumns": [],
        "configuration": configuration,
        "createdTime": 0,
    }
    log = path / "_delta_log"
    log.mkdir(parents=True)
    actions = [{"protocol": protocol}, {"metaData": described}]
    (log / f"{0:020d}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))
    return DeltaSink(name="lake", path=str(path))


def nothing_written(path: Path, version: int) -> bool:
    return DeltaTable(str(path)).version() == version and not list(path.rglob("[!.]*.parquet"))


def before_each_look(patch: pytest.MonkeyPatch, rival: Callable[[DeltaTable], None]) -> None:
    """Let somebody else act on the table between a look of the commit and what it does next."""
    real = layout.open_table
    busy = False

    def look(storage: Storage) -> DeltaTable | None:
        nonlocal busy
        table = real(storage)
        if table is not None and not busy:
            busy = True
            rival(table)
            busy = False
        return table

    patch.setattr(delta_commit, "open_table", look)


# SP-05
def test_a_check_constraint_is_enforced(tmp_path: Path) -> None:
    sink = made(tmp_path, [field("id"), field("shop", "string")])
    DeltaTable(str(tmp_path)).alter.add_constraint({"positive": "id > 0"})
    write(sink, 0, batch_of(IDS, (1, "a")), batch_of(IDS, (2, "b")))
    assert [row["id"] for row in delta_rows(tmp_path)] == [1, 2]
    with pytest.raises(SinkError, match=r"CHECK positive \(id > 0\)") as caught:
        write(sink, 1, batch_of(IDS, (3, "c"), (-7, "d")))
    said = str(caught.value)
    assert [word in said for word in ("id=-7", "\n", str(tmp_path))] == [True, False, True]
    assert len(delta_rows(tmp_path)) == DeltaTable(str(tmp_path)).version() == 2
    assert not list(tmp_path.rglob(f"{QUERY[:8]}-*.parquet")), "staged rows are thrown away"
    write(sink, 1, batch_of(IDS, (3, "c")))
    write(sink, 1, batch_of(IDS, (3, "c")))
    assert [row["id"] for row in delta_rows(tmp_path)] == [1, 2, 3]


def test_not_null_is_enforced(tmp_path: Path) -> None:
    sink = made(tmp_path, [field("id", nullable=False), field("shop", "string")])
    with pytest.raises(SinkError, match=r"id .*NOT NULL.*shop=d"):
        write(sink, 0, batch_of(IDS, (3, "c"), (None, "d")))
    with pytest.raises(SinkError, match=r"NOT NULL.* id"):
        write(sink, 0, batch_of(IDS[1:], ("c",)))
    assert nothing_written(tmp_path, 0)


def test_generated_columns_are_computed_and_checked(tmp_path: Path) -> None:
    doubled = field("twice", rule="id * 2")
    day = field("day", "date", rule="CAST(at AS DATE)")
    sink = made(tmp_path, [field("id"), doubled, field("at", "timestamp"), day], partition_by=["day"])
    when = dt.datetime(2026, 1, 2, 3, tzinfo=dt.UTC)
    columns = [("id", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))]
    write(sink, 0, batch_of(columns, (4, when)))
    assert delta_rows(tmp_path) == [{"id": 4, "twice": 8, "at": when, "day": when.date()}]
    with pytest.raises(SinkError, match=r"twice.*id \* 2"):
        write(sink, 1, batch_of([*columns, ("twice", pa.int64())], (4, when, 9)))
    assert len(delta_rows(tmp_path)) == 1


def test_an_invariant_of_a_column_is_enforced(tmp_path: Path) -> None:
    rule = json.dumps({"expression": {"expression": "id > 3"}})
    sink = crafted(tmp_path, {"minReaderVersion": 1, "minWriterVersion": 2}, {}, **{"delta.invariants": rule})
    write(sink, 0, batch_of(IDS[:1], (4,)))
    with pytest.raises(SinkError, match="id > 3"):
        write(sink, 1, batch_of(IDS[:1], (3,)))
    assert len(delta_rows(tmp_path)) == 1


def test_rows_take_the_types_of_the_table(tmp_path: Path) -> None:
    sink = made(
        tmp_path,
        [
            field("Shop", "string"),
            field("ID", "integer"),
            field("at", "timestamp_ntz"),
            field("price", "decimal(12,2)"),
            field("note", "string"),
        ],
    )
    when = dt.datetime(2026, 1, 2, 3, tzinfo=dt.UTC)
    columns = [("id", pa.int64()), ("at", pa.timestamp("us", tz="UTC")), ("shop", pa.string())]
    write(sink, 0, batch_of([*columns, ("price", pa.decimal128(6, 1))], (7, when, "a", decimal.Decimal("1.5"))))
    row = {"Shop": "a", "ID": 7, "at": when.replace(tzinfo=None), "price": decimal.Decimal("1.50"), "note": None}
    assert delta_rows(tmp_path, "ID") == [row]
    with pytest.raises(SinkError, match=r"column ID .*int32.*id=5497558138880"):
        write(sink, 1, batch_of(columns, (5 << 40, when, "a")))
    with pytest.raises(SinkError, match=r"column ID .*int32.*string"):
        write(sink, 1, batch_of([("id", pa.string())], ("a",)))
    with pytest.raises(SinkError, match=r"column price .*decimal.*double"):
        write(sink, 1, batch_of([("price", pa.float64())], (1.239,)))
    assert DeltaTable(str(tmp_path)).version() == 1


def test_a_text_has_the_length_that_its_column_takes(tmp_path: Path) -> None:
    short = {"minReaderVersion": 1, "minWriterVersion": 2}
    sink = crafted(tmp_path, short, {}, kind="string", __CHAR_VARCHAR_TYPE_STRING="varchar(3)")
    write(sink, 0, batch_of([("id", pa.string())], ("abc",), (None,)))
    with pytest.raises(SinkError, match=r"varchar\(3\).*id=abcd"):
        write(sink, 1, batch_of([("id", pa.string())], ("abcd",)))
    assert DeltaTable(str(tmp_path)).version() == 1


def test_whether_rows_fit_is_known_before_a_start(tmp_path: Path) -> None:
    sink = made(tmp_path, [field("id"), field("twice", rule="id * 2")])
    sink.check(pa.schema(IDS))
    with pytest.raises(SinkError, match=r"column id .*int64.*string"):
        sink.check(pa.schema([("id", pa.string())]))


def test_what_is_required_inside_is_required(tmp_path: Path) -> None:
    inner = StructType([field("a", nullable=False)])
    numbers = ArrayType(PrimitiveType("long"), contains_null=False)
    sink = made(tmp_path, [field("id"), Field("inner", inner), Field("numbers", numbers)])
    columns = [
        ("id", pa.int64()),
        ("inner", pa.struct([("a", pa.int32())])),
        ("numbers", pa.list_(pa.int64())),
    ]
    write(sink, 0, batch_of(columns, (1, {"a": 4}, None), (2, {"a": 5}, [1, 2])))
    assert [(row["inner"], row["numbers"]) for row in delta_rows(tmp_path)] == [({"a": 4}, None), ({"a": 5}, [1, 2])]
    broken: list[tuple[object, ...]] = [(3, {"a": None}, []), (3, None, [1, None])]
    for bad in broken:
        with pytest.raises(SinkError, match=r"NOT NULL.*id=3"):
            write(sink, 1, batch_of(columns, (4, None, [7]), bad))


def test_a_table_keeps_its_partitions(tmp_path: Path) -> None:
    sink = made(tmp_path, [field("id"), field("at", "timestamp"), field("paid", "boolean")], ["at", "paid"])
    when = dt.datetime(2026, 1, 2, 3, tzinfo=dt.UTC)
    columns = [("id", pa.int64()), ("at", pa.timestamp("us", tz="UTC")), ("paid", pa.bool_())]
    write(sink, 0, batch_of(columns, (1, when, True), (2, when, False), (3, None, None)))
    assert [(row["id"], row["at"], row["paid"]) for row in delta_rows(tmp_path)] == [
        (1, when, True),
        (2, when, False),
        (3, None, None),
    ]
    assert {"at", "paid"} == set(DeltaTable(str(tmp_path)).metadata().partition_columns)
    other = DeltaSink(name="lake", path=str(tmp_path), partition_by=["id"])
    with pytest.raises(SinkError, match=r"partitioned by at, paid.*partition_by"):
        write(other, 1, batch_of(columns, (1, when, True)))
    assert DeltaTable(str(tmp_path)).version() == 1


@pytest.mark.parametrize(
    ("protocol", "configuration", "metadata", "feature"),
    [
        (
            (2, 5),
            {"delta.columnMapping.mode": "name"},
            {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"},
            "columnMapping",
        ),
        ((1, 6), {}, {"delta.identity.start": 1}, "identityColumns"),
        ((1, 7, "rowTracking", "domainMetadata"), {}, {}, "rowTracking"),
        ((1, 7, "inCommitTimestamp"), {}, {}, "inCommitTimestamp"),
        ((1, 7, "somethingElse"), {}, {}, "somethingElse"),
        ((1, 9), {}, {}, "version 9"),
        ((1, 2), {}, {"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}, r"char\(3\)"),
    ],
)
def test_a_feature_that_is_not_honoured_is_refused_before_anything_is_written(
    tmp_path: Path, protocol: tuple[Any, ...], configuration: dict[str, str], metadata: dict[str, Any], feature: str
) -> None:
    reader, writer, *features = protocol
    described: dict[str, Any] = {"minReaderVersion": reader, "minWriterVersion": writer}
    if features:
        described["writerFeatures"] = features
    sink = crafted(tmp_path, described, configuration, **metadata)
    with pytest.raises(SinkError, match=feature) as caught:
        sink.prepare(QUERY)
    assert "DROP FEATURE" in str(caught.value) or "another table" in str(caught.value)
    with pytest.raises(SinkError, match=feature):
        written(sink, 0, batch_of(IDS[:1], (1,)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["_delta_log"]


def test_harmless_features_are_no_hindrance(tmp_path: Path) -> None:
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["deletionVectors", "appendOnly", "changeDataFeed", "invariants"],
    }
    sink = crafted(tmp_path, protocol, {"delta.enableDeletionVectors": "true"})
    assert write(sink, 0, batch_of(IDS[:1], (1,))) == 1
    assert DeltaTable(str(tmp_path)).version() == 1


# SP-05
@pytest.mark.parametrize("rule", [None, "id > 0"])
def test_two_attempts_at_a_batch_that_race_land_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str | None
) -> None:
    """The second has looked at the table before the first commits."""
    sink = made(tmp_path, [field("id"), field("shop", "string")])
    if rule is not None:
        DeltaTable(str(tmp_path)).alter.add_constraint({"rule": rule})
    first, second = (written(sink, 0, batch_of(IDS, (1, "a"))) for _ in range(2))
    other = DeltaSink(name="lake", path=str(tmp_path))

    def rival(table: DeltaTable) -> None:
        if table.transaction_version(f"{QUERY}/lake") is None:
            other.commit(QUERY, 0, [first])

    before_each_look(monkeypatch, rival)
    assert sink.commit(QUERY, 0, [second]) == 1
    assert len(delta_rows(tmp_path)) == 1


def test_two_attempts_that_make_the_table_land_once(tmp_path: Path) -> None:
    sinks = [DeltaSink(name="lake", path=str(tmp_path)) for _ in range(2)]
    messages = [written(sink, 0, batch_of(IDS, (1, "a"))) for sink in sinks]
    for sink, message in zip(sinks, messages, strict=True):
        sink.commit(QUERY, 0, [message])
    assert len(delta_rows(tmp_path)) == 1


# SP-05
def test_other_writers_in_between_are_no_hindrance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = made(tmp_path, [field("id"), field("shop", "string")])

    def rival(table: DeltaTable) -> None:
        write_deltalake(str(tmp_path), pa.table({"id": [100], "shop": ["x"]}), mode="append")

    before_each_look(monkeypatch, rival)
    assert sink.commit(QUERY, 0, [written(sink, 0, batch_of(IDS, (1, "a")))]) == 1
    assert [row["id"] for row in delta_rows(tmp_path)] == [1, 100]


# SP-05
def test_columns_that_are_added_do_not_cost_idempotence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the change of the schema and the rows another attempt commits both."""
    sink = made(tmp_path, [field("id")])
    first, second = (written(sink, 0, batch_of(IDS, (1, "a"))) for _ in range(2))
    looks: list[int] = []

    def rival(table: DeltaTable) -> None:
        looks.append(table.version())
        if len(looks) == 2:  # the column is there, the rows are not
            assert [each.name for each in table.schema().fields] == ["id", "shop"]
            DeltaSink(name="lake", path=str(tmp_path)).commit(QUERY, 0, [first])

    before_each_look(monkeypatch, rival)
    assert sink.commit(QUERY, 0, [second]) == 1
    assert delta_rows(tmp_path) == [{"id": 1, "shop": "a"}]


@pytest.mark.parametrize("rule", [None, "id > 0"])
def test_a_table_that_is_elsewhere_gets_whole_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str | None
) -> None:
    """A folder taken for something that only the library can reach."""
    scratches = tmp_path / "scratches"
    scratches.mkdir()
    monkeypatch.setattr(Storage, "folder", None)
    monkeypatch.setattr("tempfile.tempdir", str(scratches))
    place = tmp_path / "lake"
    place.mkdir()
    sink = DeltaSink(name="lake", path=str(place), partition_by=["shop"])
    for batch in (0, 1, 1):
        if batch and rule is not None and DeltaTable(str(place)).version() == 0:
            DeltaTable(str(place)).alter.add_constraint({"rule": rule})
        write(sink, batch, batch_of(IDS, (batch + 1, "a/b %")))
    assert delta_rows(place) == [{"id": 1, "shop": "a/b %"}, {"id": 2, "shop": "a/b %"}]
    task = sink.open(Attempt(QUERY, 2, 0), pa.schema(IDS))
    task.write(batch_of(IDS, (3, "c")))
    task.abort()
    assert not list(scratches.iterdir())
    assert len(list(place.rglob("*.parquet"))) == 2


def test_a_table_that_changed_since_the_tasks_wrote_is_looked_at_again(tmp_path: Path) -> None:
    sink = made(tmp_path, [field("id"), field("shop", "string")])
    message = written(sink, 0, batch_of(IDS, (-1, "a")))
    DeltaTable(str(tmp_path)).alter.add_constraint({"positive": "id > 0"})
    with pytest.raises(SinkError, match="changed") as caught:
        sink.commit(QUERY, 0, [message])
    assert caught.value.retryable
    assert nothing_written(tmp_path, 1)
