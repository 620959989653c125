"""What the sinks of a pipeline get: the columns that they name are there, and columns keep their types.

The types of the last run are kept beside the checkpoint. Columns may come and go; a type that changes surprises whoever
reads the output, so it takes a word from the user, and for files and tables a new place.
"""

import os.path

import msgspec
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pyromq.spark.errors import SparkError
from pyromq.spark.pipeline.definition.definition import (
    Definition,
    DefinitionError,
    DeltaTarget,
    IcebergTarget,
    ParquetTarget,
    Target,
    TopicTarget,
    columns_of,
)
from pyromq.spark.pipeline.definition.plan import delta_sink, iceberg_sink, parquet_sink
from pyromq.spark.pipeline.state.folder import State, read_json
from pyromq.spark.pipeline.state.tables import may_exist, table_place, table_size
from pyromq.spark.sink.table.iceberg.partitions import parse_partition
from pyromq.spark.sink.table.parquet import check_columns
from pyromq.spark.storage.place import open_store, scheme_of

OUTPUTS = "outputs.json"


class TypeChangeError(SparkError):
    """A column of the output has another type than in the last run."""


class Output(msgspec.Struct, kw_only=True):
    """What a sink got last."""

    place: str | None
    """The folder or table; None for what has no types of its own."""
    columns: dict[str, str]


def check_stores(definition: Definition) -> None:
    """Object stores that a pipeline commits to must be there and know conditional writes. Raises StorageError."""
    places = [target.path for _, _, target in definition.targets if isinstance(target, ParquetTarget)]
    for place in (*places, definition.checkpoint):
        open_store(place, definition.storage).check()


def check_output(definition: Definition, schema: StructType) -> None:
    """Columns that sinks name must be there, and tables keep their types. Raises DefinitionError or SinkError."""
    for place, (name, kind, target) in enumerate(definition.targets):
        where = f"sinks[{place}].{kind}"
        wanted: list[str] = list(getattr(target, "partition_by", []))
        if isinstance(target, IcebergTarget):
            wanted = [parse_partition(each).column.partition(".")[0] for each in target.partition_by]
        if isinstance(target, TopicTarget):
            wanted = [*columns_of(target.keys), *columns_of(target.shard)]
            wanted += [each for each in (target.tags, target.body) if each and each != "json"]
        missing = [each for each in wanted if each not in schema.names]
        if missing:
            raise DefinitionError(
                where, f"there is no column {', '.join(missing)}; there are {', '.join(schema.names)}"
            )
        if isinstance(target, ParquetTarget):
            sink = parquet_sink(definition, name, target)
            check_columns(sink, to_arrow_schema(schema, timezone="UTC"))
        elif isinstance(target, DeltaTarget):
            delta_sink(name, target).check(to_arrow_schema(schema, timezone="UTC"))
        elif isinstance(target, IcebergTarget) and may_exist(target):
            iceberg_sink(name, target).check(to_arrow_schema(schema, timezone="UTC"))


def make_tables(definition: Definition, schema: StructType) -> None:
    """What must be there before tasks can write: they need the numbers that an Iceberg table gives to its columns.

    Raises SinkError.
    """
    for name, _, target in definition.targets:
        if isinstance(target, IcebergTarget):
            iceberg_sink(name, target).make(to_arrow_schema(schema, timezone="UTC"))


def check_types(state: State, definition: Definition, schema: StructType, *, allow_change: bool) -> dict[str, Output]:
    """Compare with the last run; returns what to keep of this one. Raises TypeChangeError, StateError or SinkError."""
    before = known_outputs(state)
    columns = {field.name: field.dataType.simpleString() for field in schema.fields}
    made: dict[str, Output] = {}
    changed, stuck = [], []
    for name, kind, target in definition.targets:
        made[name] = Output(place=_place(target), columns=columns)
        last = before.get(name)
        other = [
            f"{column} was {last.columns[column]} and is {type_} now"
            for column, type_ in columns.items()
            if last is not None and last.columns.get(column, type_) != type_
        ]
        if not other or last is None:
            continue
        changed.append(f"sink {name}: {', '.join(other)}")
        if last.place is not None and last.place == made[name].place and _holds_rows(definition, name, target):
            stuck.append(f"{changed[-1]}. What is in {last.place} keeps its types: give this {kind} sink a new place")
    # Said first: whoever follows one piece of advice should not run into the next.
    if stuck:
        raise TypeChangeError(
            f"{'; '.join(stuck)}, then run with --allow-type-change; or cast in a transform to the type that it was"
        )
    if changed and not allow_change:
        raise TypeChangeError(
            f"{'; '.join(changed)}. Run with --allow-type-change if that is meant, or cast in a transform"
        )
    return made


def _holds_rows(definition: Definition, name: str, target: Target) -> bool:
    size = table_size(name, target, definition.storage)
    return size is not None and size.files > 0


def known_outputs(state: State) -> dict[str, Output]:
    """What the sinks got last. Raises StateError when the file is damaged."""
    hint = "; without it the next start keeps types anew"
    return read_json(state.store, OUTPUTS, dict[str, Output], hint=hint) or {}


def keep_outputs(state: State, outputs: dict[str, Output]) -> None:
    """Raises OSError."""
    state.store.write(OUTPUTS, msgspec.json.encode(outputs))


def _place(target: Target) -> str | None:
    where = table_place(target)
    return None if where is None else where.rstrip("/") if scheme_of(where) else os.path.normpath(where)
