"""Run a pipeline: one Spark query, watched, started again after what passes by itself, ended after the batch under way.

What is read, parsed, diverted, written and committed happens in Spark's processes (rowsource, rowsink); here is the
driver. Sinks commit idempotently, so whatever ends this process, the next run resumes with nothing lost or twice.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]  # has no annotations
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from pyromq.clock import pause_after
from pyromq.errors import PyroMQError
from pyromq.spark.errors import SparkError
from pyromq.spark.launch.jvm import last_words, stop_session
from pyromq.spark.launch.registration import register_formats
from pyromq.spark.pipeline.definition.definition import (
    Definition,
    FormatTarget,
    check,
)
from pyromq.spark.pipeline.definition.plan import Plan, make_sinks, message_columns, source_options, text
from pyromq.spark.pipeline.run import rowsink, rowsource, stages
from pyromq.spark.pipeline.run.faults import explain, is_transient
from pyromq.spark.pipeline.run.outputs import check_output, check_stores, check_types, keep_outputs, make_tables
from pyromq.spark.pipeline.run.progress import Progress, Totals, event_offset, read_progress
from pyromq.spark.pipeline.run.session import cores, parallelism, settings, start_session
from pyromq.spark.pipeline.run.survey import Survey
from pyromq.spark.pipeline.run.topics import ensure_topics
from pyromq.spark.pipeline.run.upkeep import Upkeep
from pyromq.spark.pipeline.state.folder import STATUS, Identity, State, StateError
from pyromq.spark.sink.lanes import Run
from pyromq.spark.sink.topic import TopicSink
from pyromq.spark.storage.place import spark_url

POLL = 0.1
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
MAX_RESTARTS = 20
"""Restarts in a row without a finished batch."""
GRACE = 60.0

Listener = Callable[[Progress], None]


class PipelineFailedError(SparkError):
    """The query could not be started, or ended with a failure that another try does not heal."""

    @classmethod
    def of(cls, error: PySparkException) -> "PipelineFailedError":
        """What Spark says, in a sentence."""
        made = cls(explain(str(error)))
        made.retryable = is_transient(str(error))
        return made


class PipelineRun:
    """One pipeline in this process.

    >>> run = PipelineRun(definition, on_progress=print)
    >>> totals = run.run(once=True)

    `stop()`, from any thread or signal handler, ends it after the batch under way, after `grace` seconds at the latest.
    """

    def __init__(
        self,
        definition: Definition,
        *,
        functions: stages.Functions | None = None,
        on_progress: Listener | None = None,
        on_restart: Callable[[str, float], None] | None = None,
        spark: SparkSession | None = None,
        grace: float = GRACE,
        max_restarts: int = MAX_RESTARTS,
        allow_type_change: bool = False,
    ) -> None:
        check(definition)
        source_options(definition)
        self.definition = definition
        self.state = State(definition.checkpoint, definition.storage)
        self.totals = Totals()
        self._functions = functions or {}
        self._on_progress = on_progress
        self._on_restart = on_restart
        self._spark = spark
        self._grace = grace
        self._max_restarts = max_restarts
        self._allow_type_change = allow_type_change
        self._survey = Survey(definition)
        self._stopping = threading.Event()
        self._last_batch = -1
        self._eviction: str | None = None

    def stop(self) -> None:
        """Ask for the end; returns at once."""
        self._stopping.set()

    def run(self, *, once: bool = False) -> Totals:
        """Until stopped, or with `once` until everything that is there now is through.

        Raises StateError when another process runs it, DefinitionError, TypeChangeError, SinkError, SessionError,
        PipelineFailedError.
        """
        check_stores(self.definition)
        with self.state.locked(self._evicted):
            self.state.forget_stop()
            known = self.state.known_identity()
            shuffled = known.shuffle_partitions if known is not None else self._shuffle_partitions()
            session = self._spark or start_session(self.definition, shuffled)
            upkeep = Upkeep(self.definition)
            ends = once or self.definition.available_now
            try:
                identity = self.state.identity(
                    self.definition.name, max_partitions=parallelism(session), shuffle_partitions=shuffled
                )
                register(session)
                if not ends:
                    upkeep.start()
                self._supervise(session, identity, once=ends)
                if ends:
                    upkeep.round()
            except (Py4JError, ConnectionError) as error:
                if isinstance(error, Py4JJavaError):
                    raise
                words = f"pipeline {self.definition.name} stopped: Spark's process ended{last_words()}"
                raise PipelineFailedError(words) from error
            finally:
                upkeep.close()
                self._survey.close()
                self.state.forget_stop()
                self.state.close()
                if self._spark is None:
                    stop_session(session)
        if self._eviction is not None:
            raise StateError(f"{self.definition.checkpoint} is no longer this run's: {self._eviction}")
        return self.totals

    def _shuffle_partitions(self) -> int:
        return int(settings(self.definition, cores())["spark.sql.shuffle.partitions"])

    def _evicted(self, reason: str) -> None:
        """Told when the lease of a checkpoint in an object store is lost."""
        self._eviction = reason
        self.stop()

    def _supervise(self, session: SparkSession, identity: Identity, *, once: bool) -> None:
        failures = 0
        while True:
            before = self.totals.batches
            try:
                query = self._start(session, identity, once=once)
                self._watch(query)
                return
            except (StreamingQueryException, PyroMQError) as error:
                words = str(error)
                failures = 1 if self.totals.batches > before else failures + 1
                transient = error.retryable if isinstance(error, PyroMQError) else is_transient(words)
                if self._stopping.is_set():
                    return
                if not transient or failures > self._max_restarts:
                    if isinstance(error, PyroMQError):
                        raise
                    raise PipelineFailedError(f"pipeline {self.definition.name} stopped: {explain(words)}") from error
                self.totals.restarts += 1
                pause = pause_after(failures, first=FIRST_PAUSE, longest=LONGEST_PAUSE)
                if self._on_restart is not None:
                    self._on_restart(explain(words), pause)
                if self._waited_in_vain(pause):
                    return

    def _waited_in_vain(self, pause: float) -> bool:
        """Whether the end was asked for meanwhile. A signal may do so in this very thread, so it waits on no lock."""
        until = time.monotonic() + pause
        while not self._stopping.is_set() and time.monotonic() < until:
            time.sleep(POLL)
        return self._stopping.is_set()

    def _start(self, session: SparkSession, identity: Identity, *, once: bool) -> StreamingQuery:
        ensure_topics(self.definition)
        plan = make_plan(self.definition, identity.query, self.state, identity.max_partitions)
        plan.save(self.state.plan)
        rows = open_stream(session, self.state.plan)
        if plan.fast:
            rows = rowsource.counted(rows)
            self._check(stages.sink_schema(self.definition))
        else:
            rows = stages.apply(session, rows, self.definition, self._functions)
            plan.ids = stages.check_plan(rows, self.definition)
            self._check(rows.schema)
        plan.runs = begin_runs(plan)
        plan.save(self.state.plan)
        writer = rows.writeStream.option("checkpointLocation", spark_url(self.definition.checkpoint)).queryName(
            self.definition.name
        )
        writer = writer.outputMode(self.definition.mode)
        if once:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{round(self.definition.interval_seconds * 1000)} milliseconds")
        # Writers in Python know only the append mode, and formats of Spark's own need rows that are kept meanwhile.
        if self.definition.mode != "append" or any(kind == "format" for _, kind, _ in self.definition.targets):
            writer = writer.foreachBatch(_foreign_batch(self.definition, self.state.plan))
        else:
            writer = writer.format(rowsink.NAME).option("plan", str(self.state.plan))
        try:
            return writer.start()
        except PySparkException as error:
            raise PipelineFailedError.of(error) from error

    def _check(self, schema: StructType) -> None:
        check_output(self.definition, schema)
        keep_outputs(self.state, check_types(self.state, self.definition, schema, allow_change=self._allow_type_change))
        make_tables(self.definition, schema)

    def _watch(self, query: StreamingQuery) -> None:
        """Until the query ends. Raises StreamingQueryException."""
        asked: float | None = None
        try:
            while query.isActive:
                self._report(query)
                if self._stopping.is_set():
                    now = time.monotonic()
                    if asked is None:
                        asked = now
                        self.state.ask_to_stop()
                    if now - asked > self._grace or _is_idle(query):
                        break
                query.awaitTermination(POLL)  # type: ignore[arg-type]  # takes fractions
            self._report(query)
        finally:
            if query.isActive:
                query.stop()
        error = query.exception()
        if error is not None and not self._stopping.is_set():
            raise error

    def _report(self, query: StreamingQuery) -> None:
        last = query.lastProgress
        if last is None or int(last["batchId"]) < self._last_batch:
            return
        for each in query.recentProgress:
            event = json.loads(each.json) if hasattr(each, "json") else each
            finished = "addBatch" in (event.get("durationMs") or {})
            if finished and int(event["batchId"]) > self._last_batch:
                self._last_batch = int(event["batchId"])
                report = self.state.reported(self._last_batch)
                made = read_progress(self.definition.name, event, report, self.totals)
                self._survey.complete(made, event_offset(event, "endOffset"))
                self.state.store.write(STATUS, msgspec.json.encode(made))
                if self._on_progress is not None:
                    self._on_progress(made)


def register(session: SparkSession) -> None:
    """Make the runner's own formats known to a session, in the thread that is going to use them."""
    register_formats(session, rowsource.PipelineSource, rowsink.PipelineSink, fork=True)
    java = getattr(session, "_jsparkSession", None)
    if java is not None and session._jvm is not None:
        # Sinks in Python are looked up in the thread's session, and only the thread that made a session has it.
        session._jvm.SparkSession.setActiveSession(java)


def make_plan(
    definition: Definition, query: str, state: State, max_partitions: int, *, bounds: Mapping[str, str] | None = None
) -> Plan:
    """What the processes need to know; needs a session. Raises DefinitionError."""
    files_only = all(kind in ("parquet", "delta", "iceberg") for _, kind, _ in definition.targets)
    plain = definition.dedup is None and definition.watermark is None and not definition.transform
    return Plan(
        definition=definition,
        query=query,
        state=state.place,
        driver=str(state.driver),
        max_partitions=max_partitions,
        schema=stages.row_schema(definition).json(),
        columns=message_columns(definition),
        fast=files_only and plain and bounds is None,
        bounds=dict(bounds or {}),
    )


def begin_runs(plan: Plan) -> dict[str, Run]:
    """Begin a run at every topic that must not get rows twice; returns those of each sink. Raises PyroMQError."""
    runs = {sink.name: sink.begin(plan.query) for sink in make_sinks(plan) if isinstance(sink, TopicSink)}
    return {name: run for name, run in runs.items() if run is not None}


def open_stream(session: SparkSession, plan: Path) -> DataFrame:
    """The rows of the source. Raises PipelineFailedError."""
    try:
        return session.readStream.format(rowsource.NAME).option("plan", str(plan)).load()
    except PySparkException as error:
        raise PipelineFailedError.of(error) from error


def _foreign_batch(definition: Definition, plan: Path) -> Callable[[DataFrame, int], None]:
    """Rows for formats of Spark's own: kept while each sink takes them in turn."""
    ours = any(kind != "format" for _, kind, _ in definition.targets) or definition.dlq is not None

    def write(rows: DataFrame, batch: int) -> None:
        kept = rows.persist()
        try:
            if ours:
                mine = kept.write.format(rowsink.NAME).option("plan", str(plan)).option("batch", str(batch))
                mine.mode("append").save()
            for _, _, target in definition.targets:
                if isinstance(target, FormatTarget):
                    writer = kept.write.format(target.format).mode(target.mode)
                    writer = writer.partitionBy(*target.partition_by) if target.partition_by else writer
                    writer.options(**{key: text(value) for key, value in target.options.items()}).save()
            if not ours:
                rowsink.Reporting(Plan.load(str(plan)))(batch, {})
        finally:
            kept.unpersist()

    return write


def _is_idle(query: StreamingQuery) -> bool:
    """Whether no batch is under way."""
    status = query.status
    return not status["isTriggerActive"]
