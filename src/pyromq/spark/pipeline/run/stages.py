"""The stages of a pipeline as DataFrames: parsed rows in, rows for the sinks out. Same for stream and replay."""

import importlib
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import StructType

from pyromq.arrow.body import ERROR
from pyromq.spark import columns
from pyromq.spark.pipeline.definition.definition import Definition, DefinitionError, TopicTarget, columns_of
from pyromq.spark.pipeline.definition.plan import EXTRA, PLACE, SIZE, hidden_columns, message_columns, text
from pyromq.spark.units import parse_seconds

VIEW = "input"
PARSED = "parsed"
KEPT = "kept"

Function = Callable[[DataFrame], DataFrame]
Functions = Mapping[str, Function]

_SHUFFLES = re.compile(
    r"^[\s:+~-]*(Aggregate|Deduplicate\w*|Distinct|Join|FlatMapGroups\w*|TransformWithState\w*|Sort|Repartition\w*)\b",
    re.MULTILINE,
)
_AGGREGATES = re.compile(r"^[\s:+~-]*(Aggregate|Join)\b", re.MULTILINE)
_READS = re.compile(r"^[\s:+~-]*Streaming(Relation|DataSourceV2)", re.MULTILINE)


def row_schema(definition: Definition) -> StructType:
    """Of the rows that the source gives; needs a session. Raises DefinitionError."""
    parse = definition.parse
    parts = [columns.ddl(message_columns(definition))]
    if parse is not None:
        parts.append(parse.schema)
        if parse.extra == "keep":
            parts.append(f"{EXTRA} map<string,string>")
        if parse.on_error == "dlq":
            parts.append(f"{ERROR} string")
    parts.append(f"{SIZE} int")
    try:
        schema = StructType.fromDDL(", ".join(part for part in parts if part))
    except PySparkException as error:
        raise DefinitionError("parse.schema", _first_line(error)) from None
    if not isinstance(schema, StructType):
        raise DefinitionError("parse.schema", "write fields as `id bigint, name string`")
    _check_names(schema, definition)
    return schema


def _check_names(schema: StructType, definition: Definition) -> None:
    """Raises DefinitionError where a field of bodies would hide something else."""
    taken: set[str] = set()
    for name in schema.names:
        if name.lower() in taken:
            ours = name in (EXTRA, ERROR, SIZE)
            why = "is a name that pipelines need for themselves" if ours else "is there twice"
            raise DefinitionError("parse.schema", f"the column {name} {why}")
        taken.add(name.lower())
    columns_wanted = {name.lower() for name in message_columns(definition)}
    hidden = [name for name in PLACE if name.lower() in taken - columns_wanted]
    if hidden and definition.dlq is not None:
        raise DefinitionError(
            "parse.schema",
            f"{', '.join(hidden)} says where a dead letter came from, so no field of bodies can have that name here; "
            "take it with `extra: keep`, or do without dlq",
        )


def sink_schema(definition: Definition) -> StructType:
    """Of the rows that reach the sinks when nothing stands between; needs a session. Raises DefinitionError."""
    return StructType([field for field in row_schema(definition).fields if field.name not in (ERROR, SIZE)])


def apply(spark: SparkSession, rows: DataFrame, definition: Definition, functions: Functions) -> DataFrame:
    """Everything between the source and the sinks. Raises DefinitionError."""
    counts = [F.count(F.lit(1)).alias("rows"), F.sum(SIZE).alias("bytes")]
    if ERROR in rows.columns:
        rows = rows.observe(PARSED, *counts, F.count(ERROR).alias("bad"))
        rows = rows.filter(F.col(ERROR).isNull()).drop(ERROR, SIZE)
    else:
        rows = rows.observe(PARSED, *counts).drop(SIZE)
    rows = _deduplicated(rows, definition)
    chosen = {name.strip() for name in text(definition.source.get("columns", "")).split(",")}
    gone = [name for name in hidden_columns(definition) if name not in chosen]
    if definition.parse is not None:
        keep = definition.watermark.time if definition.watermark is not None else None
        rows = rows.drop(*(name for name in gone if name != keep))
    for place, step in enumerate(definition.transform):
        try:
            if step.sql is not None:
                rows.createOrReplaceTempView(VIEW)
                rows = spark.sql(step.sql)
            elif step.python is not None:
                rows = _function(step.python, f"transform[{place}].python", functions)(rows)
        except PySparkException as error:
            raise DefinitionError(f"transform[{place}]", _first_line(error)) from None
        if not isinstance(rows, DataFrame):
            raise DefinitionError(f"transform[{place}]", f"gave {type(rows).__name__}, not a DataFrame")
    return rows


def _deduplicated(rows: DataFrame, definition: Definition) -> DataFrame:
    watermark, dedup = definition.watermark, definition.dedup
    _check_columns(rows, "watermark.time", [watermark.time] if watermark else [])
    _check_columns(rows, "dedup.keys", dedup.keys if dedup else [])
    _check_columns(rows, "dedup.time", [dedup.time] if dedup else [])
    if watermark is not None and rows.isStreaming:
        rows = rows.withWatermark(watermark.time, spark_interval(watermark.delay))
    if dedup is None:
        return rows
    if not rows.isStreaming:
        return rows.dropDuplicates(dedup.keys)
    if watermark is None or watermark.time != dedup.time:
        rows = rows.withWatermark(dedup.time, spark_interval(dedup.within))
    return rows.dropDuplicatesWithinWatermark(dedup.keys).observe(KEPT, F.count(F.lit(1)).alias("rows"))


def spark_interval(duration: str) -> str:
    """A duration in words that Spark knows."""
    return f"{round(parse_seconds(duration) * 1000)} milliseconds"


class PlanShape(NamedTuple):
    """What the text of a query plan tells."""

    reads: int
    shuffles: bool
    aggregates: bool


def read_tree(tree: str) -> PlanShape:
    """From Spark's rendering of an analysed plan."""
    return PlanShape(len(_READS.findall(tree)), bool(_SHUFFLES.search(tree)), bool(_AGGREGATES.search(tree)))


def check_plan(rows: DataFrame, definition: Definition) -> dict[str, list[str]]:
    """What can be said once the columns are known; returns the columns that identify rows, by sink.

    Raises DefinitionError: the source must be read once, and after a shuffle rows have no place to be known by.
    """
    if not rows.isStreaming:
        return {}
    shape = read_tree(rows._jdf.queryExecution().analyzed().toString())
    if shape.reads > 1:
        raise DefinitionError(
            "transform", f"reads `{VIEW}` {shape.reads} times; a pipeline is one pass over its source"
        )
    ids: dict[str, list[str]] = {}
    for place, (name, _, target) in enumerate(definition.targets):
        if not isinstance(target, TopicTarget):
            continue
        where = f"sinks[{place}].topic"
        ids[name] = columns_of(target.id)
        _check_columns(rows, f"{where}.id", ids[name])
        if target.delivery != "at-least-once" and shape.shuffles and not ids[name]:
            keys = definition.dedup.keys if definition.dedup is not None else []
            if not keys or not set(keys) <= set(rows.columns) or shape.aggregates:
                raise DefinitionError(
                    where,
                    "rows come out of a shuffle, so name the columns that make a row unique in its batch (id: [...]), "
                    "or say delivery: at-least-once",
                )
            ids[name] = keys
    return ids


def _check_columns(rows: DataFrame, path: str, wanted: list[str]) -> None:
    missing = [name for name in wanted if name not in rows.columns]
    if missing:
        raise DefinitionError(path, f"there is no column {', '.join(missing)}; there are {', '.join(rows.columns)}")


def _function(name: str, path: str, functions: Functions) -> Function:
    known = functions.get(name)
    if known is not None:
        return known
    module, _, attribute = name.partition(":")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found: Function = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise DefinitionError(path, f"{name} cannot be loaded: {error}") from error
    return found


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:500]
