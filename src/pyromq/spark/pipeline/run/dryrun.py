"""A pipeline planned by Spark but not run: the columns that its sinks would get."""

import tempfile

from pyspark.sql import SparkSession

from pyromq.spark.pipeline.definition.definition import Definition
from pyromq.spark.pipeline.run import stages
from pyromq.spark.pipeline.run.outputs import check_output, check_types
from pyromq.spark.pipeline.run.runner import make_plan, open_stream, register
from pyromq.spark.pipeline.run.session import cores, start_session
from pyromq.spark.pipeline.state.folder import State


def dry_run(
    definition: Definition,
    *,
    functions: stages.Functions | None = None,
    spark: SparkSession | None = None,
    allow_type_change: bool = False,
) -> dict[str, str]:
    """Name and type of each column. Raises DefinitionError, SinkError, TypeChangeError, StateError, SessionError."""
    session = spark or start_session(definition, cores())
    try:
        register(session)
        with tempfile.TemporaryDirectory(prefix="pyromq-check-") as folder:
            state = State(folder)
            plan = make_plan(definition, "dry-run", state, cores())
            plan.fast = False
            plan.save(state.plan)
            rows = stages.apply(session, open_stream(session, state.plan), definition, functions or {})
            stages.check_plan(rows, definition)
            check_output(definition, rows.schema)
            state = State(definition.checkpoint, definition.storage)
            check_types(state, definition, rows.schema, allow_change=allow_type_change)
            return {field.name: field.dataType.simpleString() for field in rows.schema.fields}
    finally:
        if spark is None:
            session.stop()
