"""Replay: a stretch of time through the same stages into an output of its own, as one bounded job.

It leaves the pipeline's place, its sinks and its dead letters alone; bad bodies are dropped, as they were set aside
when the pipeline read them.
"""

import uuid

import msgspec
from pyspark.sql import SparkSession

from pyromq.spark.pipeline.definition.definition import Definition, ParquetTarget, SinkEntry, TopicTarget, check
from pyromq.spark.pipeline.run import rowsink, rowsource, stages
from pyromq.spark.pipeline.run.outputs import check_output, check_stores
from pyromq.spark.pipeline.run.runner import make_plan, register
from pyromq.spark.pipeline.run.session import cores, parallelism, start_session
from pyromq.spark.pipeline.run.topics import ensure_topics
from pyromq.spark.pipeline.state.folder import State
from pyromq.spark.storage.place import local_path, scheme_of
from pyromq.spark.units import option_instant


def replay(
    definition: Definition,
    *,
    start: str,
    end: str,
    into: str,
    functions: stages.Functions | None = None,
    spark: SparkSession | None = None,
) -> dict[str, int]:
    """Write what was stored in [start, end) to a folder of Parquet files, or to `topic:NAME`; returns the rows.

    Raises DefinitionError, SessionError, OptionError, StorageError.
    """
    bounds = {
        "startingTimestamp": str(option_instant(start, "--from")),
        "endingTimestamp": str(option_instant(end, "--to")),
    }
    changed = redirected(definition, into)
    check_stores(changed)
    query = str(uuid.uuid4())
    replays = State(definition.checkpoint, definition.storage).store.within(f"replays/{query}")
    state = State(replays.url, definition.storage)
    session = spark or start_session(changed, cores())
    try:
        register(session)
        ensure_topics(changed)
        plan = make_plan(changed, query, state, parallelism(session), bounds=bounds)
        plan.save(state.plan)
        read = session.read.format(rowsource.NAME).option("plan", str(state.plan)).load()
        rows = stages.apply(session, read, changed, functions or {})
        check_output(changed, rows.schema)
        rows.write.format(rowsink.NAME).option("plan", str(state.plan)).mode("append").save()
    finally:
        state.close()
        if spark is None:
            session.stop()
    report = state.reported(0)
    return report.rows if report is not None else {}


def redirected(definition: Definition, into: str) -> Definition:
    """The same pipeline into another sink, without dead letters. Raises DefinitionError."""
    made = msgspec.convert(msgspec.to_builtins(definition), Definition)
    if into.startswith("topic:"):
        shape = next(
            (target for _, _, target in made.targets if isinstance(target, TopicTarget)), TopicTarget(topic="x")
        )
        shape.topic, shape.delivery, shape.name = into.removeprefix("topic:"), "at-least-once", "replay"
        made.sinks = [SinkEntry(topic=shape)]
    else:
        like = next((target for _, _, target in made.targets if isinstance(target, ParquetTarget)), None)
        partitions = like.partition_by if like is not None else []
        made.sinks = [
            SinkEntry(
                parquet=ParquetTarget(
                    path=into if scheme_of(into) else str(local_path(into)), partition_by=partitions, name="replay"
                )
            )
        ]
    if made.parse is not None and made.parse.on_error == "dlq":
        made.parse.on_error = "drop"
    made.dlq = None
    check(made)
    return made
