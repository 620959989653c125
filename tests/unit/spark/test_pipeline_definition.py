"""Pipeline files: what is understood, and how mistakes are named."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyromq.spark.errors import SparkError
from pyromq.spark.pipeline.builder import Pipeline
from pyromq.spark.pipeline.definition.definition import DefinitionError, DeltaTarget, IcebergTarget, ParquetTarget
from pyromq.spark.pipeline.definition.plan import connection, delta_sink, message_columns, source_options, source_texts
from pyromq.spark.pipeline.definition.template import render
from pyromq.spark.pipeline.definition.yamlfile import load, loads
from pyromq.spark.sink.table.iceberg.partitions import Partition, parse_partition
from pyromq.spark.units import UnitError, parse_bytes, parse_seconds

GOOD = """\
name: orders
source: {nameServer: 127.0.0.1:9876, topic: orders, start: earliest, maxRows: 200000}
parse:  {format: json, schema: "id bigint, amount double, ts timestamp", on_error: dlq}
dedup:  {keys: [id], within: 10 minutes, time: storeTimestamp}
transform:
  - sql: SELECT *, date(ts) AS day FROM input WHERE amount > 0
  - python: shop.clean:normalise
sinks:
  - parquet: {path: lake/orders, partition_by: [day], target_file: 128MB}
  - topic:   {topic: orders-clean, body: json, keys: id}
dlq:     {topic: orders-dlq}
trigger: every 2s
checkpoint: state/orders
spark:   {spark.sql.shuffle.partitions: "2"}
"""


def test_the_whole_form() -> None:
    made = loads(GOOD)
    assert [(name, kind) for name, kind, _ in made.targets] == [("parquet-0", "parquet"), ("topic-1", "topic")]
    assert made.interval_seconds == 2.0
    options = source_options(made)
    assert options.max_offsets_per_trigger == 200_000
    assert options.bad_records == "keep"
    assert connection(made) == {"nameServer": "127.0.0.1:9876"}
    assert message_columns(made) == ["storeTimestamp"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("dedup:  {keys", "dedup:  {kyes", "orders.yaml:4: dedup.kyes: there is no such field; did you mean keys?"),
        ("path: lake/orders", "path: 7", "orders.yaml:9: sinks[0].parquet.path: expected `str`, got `int`"),
        ("every 2s", "soon", "orders.yaml:12: trigger: 'soon' is neither `every 2s` nor `available-now`"),
        ("  - topic:", "  - topc:", "orders.yaml:10: sinks[1].topc: there is no such field; did you mean topic?"),
        ("checkpoint: state/orders\n", "", "orders.yaml:1: object missing required field `checkpoint`"),
        ("name: orders\n", "name: orders\nname: x\n", "orders.yaml:2: name: is there twice"),
        ("128MB", "128XB", "orders.yaml:9: sinks[0].parquet.target_file: '128XB' is no size"),
        ("orders-dlq", "a b", "orders.yaml:11: dlq.topic: topic 'a b' contains a character"),
        ("dlq:     {topic: orders-dlq}\n", "", "orders.yaml:3: parse.on_error: bad bodies go to the dead letters"),
        ("shop.clean:normalise", "os.system", "orders.yaml:7: transform[1].python: 'os.system' is not module:function"),
        ("10 minutes", "ten minutes", "orders.yaml:4: dedup.within: 'ten minutes' is no duration"),
        ("{topic: orders-dlq}", "[a", "orders.yaml:12: "),
        ("sinks:", "sinks: &x", None),
    ],
)
def test_mistakes_say_file_line_and_field(old: str, new: str, said: str | None) -> None:
    text = GOOD.replace(old, new, 1)
    assert text != GOOD
    if said is None:
        loads(text, name="orders.yaml")
        return
    with pytest.raises(DefinitionError) as caught:
        loads(text, name="orders.yaml")
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("sink", "said"),
    [
        ("iceberg: {table: shop.orders}", r"iceberg\.warehouse: say which folder, or which catalog"),
        ("iceberg: {table: orders, warehouse: lake}", r"iceberg\.table: 'orders' is not namespace\.table"),
        ('iceberg: {table: a.b, warehouse: w, partition_by: ["week(ts)"]}', r"partition_by\[0\]: 'week\(ts\)'"),
        ('iceberg: {table: a.b, warehouse: w, partition_by: [id, "bucket(id)"]}', r"partition_by\[1\]: 'bucket"),
        ("iceberg: {table: a.b, warehouse: w, keep_snapshots: 0}", r"keep_snapshots: 0 is not 1 or more"),
        ("delta: {path: lake, storage_option: {}}", r"did you mean storage_options"),
        ("delta: {path: lake, storage_options: {AWS_REGION: [1]}}", r"storage_options: expected"),
    ],
)
def test_mistakes_in_tables_are_named(sink: str, said: str) -> None:
    with pytest.raises(DefinitionError, match=said):
        loads(f"name: a\nsource: {{topic: b}}\ncheckpoint: c\nsinks:\n  - {sink}\n")


def test_tables_take_options() -> None:
    made = loads(
        "name: a\nsource: {topic: b}\ncheckpoint: c\nsinks:\n"
        "  - delta: {path: s3://lake/orders, storage_options: {AWS_REGION: eu-central-1, AWS_ALLOW_HTTP: true}}\n"
        '  - iceberg: {table: shop.orders, catalog: {name: prod, type: rest}, partition_by: ["days(ts)", shop]}\n'
    )
    delta, iceberg = (target for _, _, target in made.targets)
    assert isinstance(delta, DeltaTarget)
    assert delta_sink("d", delta).storage_options == {"AWS_REGION": "eu-central-1", "AWS_ALLOW_HTTP": "true"}
    assert isinstance(iceberg, IcebergTarget)
    assert [parse_partition(text) for text in iceberg.partition_by] == [Partition("ts", "day"), Partition("shop")]
    assert [str(parse_partition(text)) for text in ("bucket( 16 ,id)", "hours(a.b)")] == ["bucket(16, id)", "hour(a.b)"]


def test_aliases_and_depth_are_bounded() -> None:
    bomb = "a: &a [x]\nb: [*a, *a]\n"
    with pytest.raises(DefinitionError, match="aliases are not allowed"):
        loads(bomb)
    with pytest.raises(DefinitionError):
        loads("[" * 5000)


@example("=")
@example("name: 2026-13-45")
@given(st.text(max_size=200))
def test_no_text_breaks_the_reader(text: str) -> None:
    with pytest.raises(SparkError):
        loads(text)


def test_folders_are_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "orders.yaml").write_text(GOOD)
    made = load(tmp_path / "orders.yaml")
    assert made.checkpoint == str(tmp_path / "state/orders")
    target = made.targets[0][2]
    assert isinstance(target, ParquetTarget)
    assert target.path == str(tmp_path / "lake/orders")
    with pytest.raises(DefinitionError, match="cannot be read"):
        load(tmp_path / "nothing.yaml")


def test_python_builds_the_same_value() -> None:
    made = (
        Pipeline("orders", checkpoint="state/orders")
        .source(nameServer="127.0.0.1:9876", topic="orders", start="earliest", maxRows=200000)
        .parse("id bigint, amount double, ts timestamp")
        .dedup("id")
        .sql("SELECT *, date(ts) AS day FROM input WHERE amount > 0")
        .to_parquet("lake/orders", partition_by=["day"], target_file="128MB")
        .to_topic("orders-clean", keys="id")
        .dlq("orders-dlq")
        .trigger("every 2s")
        .spark(**{"spark.sql.shuffle.partitions": "2"})
        .definition()
    )
    wanted = loads(GOOD.replace("  - python: shop.clean:normalise\n", ""))
    assert made == wanted
    with pytest.raises(DefinitionError, match=r"sinks\[0\].parquet"):
        Pipeline("x", checkpoint="y").to_parquet("lake", colour="red")


def test_the_template_is_a_pipeline() -> None:
    assert loads(render("orders", "orders", "127.0.0.1:9876")).name == "orders"


@pytest.mark.parametrize(
    ("start", "options"),
    [
        ("latest", {"startingOffsets": "latest"}),
        ("2026-01-31T12:00:00Z", {"startingTimestamp": "2026-01-31T12:00:00Z"}),
        ('{"t": {"b": {"0": 1}}}', {"startingOffsets": '{"t": {"b": {"0": 1}}}'}),
    ],
)
def test_where_to_start(start: str, options: dict[str, str]) -> None:
    made = loads(GOOD)
    made.source["start"] = start
    found = source_texts(made)
    assert {key: value for key, value in found.items() if key.startswith("starting")} == options


def test_mistakes_in_the_source_are_named() -> None:
    made = loads(GOOD.replace("maxRows", "maxRow"))
    with pytest.raises(DefinitionError, match="source: unknown option 'maxRow'"):
        source_options(made)


def test_units() -> None:
    assert parse_seconds("1h 30m") == 5400
    assert parse_seconds("500ms") == 0.5
    assert parse_seconds("10 minutes") == 600
    assert parse_bytes("128MB") == 128 << 20
    assert parse_bytes("1 GiB") == 1 << 30
    for wrong in ("", "soon", "10 parsecs", "-1s"):
        with pytest.raises(UnitError):
            parse_seconds(wrong)
    for wrong in ("", "1 stone", "-1"):
        with pytest.raises(UnitError):
            parse_bytes(wrong)
