"""What the sinks of a pipeline get: the columns that they name are there, and columns keep their types.

The types of the last run are kept beside the checkpoint. Columns may come and go; a type that changes surprises whoever
reads the output, so it takes a word from the user, and for files and tables a new place.
"""

import os.path

import msgspec
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pyromq.durable import write_file
from pyromq.spark.errors import SparkError
from pyromq.spark.pipeline.definition.definition import (
    Definition,
    DefinitionError,
    ParquetTarget,
    Target,
    TopicTarget,
    columns_of,
)
from pyromq.spark.pipeline.state.folder import State, read_json
from pyromq.spark.pipeline.state.tables import table_place, table_size
from pyromq.spark.sink.table.parquet import ParquetSink, check_columns


class TypeChangeError(SparkError):
    """A column of the output has another type than in the last run."""


class Output(msgspec.Struct, kw_only=True):
    """What a sink got last."""

    place: str | None
    """The folder or table; None for what has no types of its own."""
    columns: dict[str, str]


def check_output(definition: Definition, schema: StructType) -> None:
    """Columns that sinks name must be there, and tables keep their types. Raises DefinitionError or SinkError."""
    for place, (name, kind, target) in enumerate(definition.targets):
        where = f"sinks[{place}].{kind}"
        wanted: list[str] = list(getattr(target, "partition_by", []))
        if isinstance(target, TopicTarget):
            wanted = [*columns_of(target.keys), *columns_of(target.shard)]
            wanted += [each for each in (target.tags, target.body) if each and each != "json"]
        missing = [each for each in wanted if each not in schema.names]
        if missing:
            raise DefinitionError(
                where, f"there is no column {', '.join(missing)}; there are {', '.join(schema.names)}"
            )
        if isinstance(target, ParquetTarget):
            sink = ParquetSink(name=name, path=target.path, partition_by=target.partition_by)
            check_columns(sink, to_arrow_schema(schema, timezone="UTC"))


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
        if last.place is not None and last.place == made[name].place and _holds_rows(name, target):
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


def _holds_rows(name: str, target: Target) -> bool:
    size = table_size(name, target)
    return size is not None and size.files > 0


def known_outputs(state: State) -> dict[str, Output]:
    """What the sinks got last. Raises StateError when the file is damaged."""
    hint = "; without it the next start keeps types anew"
    return read_json(state.folder / "outputs.json", dict[str, Output], hint=hint) or {}


def keep_outputs(state: State, outputs: dict[str, Output]) -> None:
    """Raises OSError."""
    write_file(state.folder / "outputs.json", msgspec.json.encode(outputs))


def _place(target: Target) -> str | None:
    where = table_place(target)
    return None if where is None else os.path.normpath(where)
