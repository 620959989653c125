"""Pipelines in Python: the same definition as in YAML, one call for each part.

from pyromq.spark import Pipeline

totals = (
    Pipeline("orders", checkpoint="state/orders")
    .source(nameServer="127.0.0.1:9876", topic="orders")
    .parse("id bigint, amount double")
    .dedup("id")
    .sql("SELECT * FROM input WHERE amount > 0")
    .to_parquet("lake/orders")
    .dlq("orders-dlq")
    .run(once=True)
)
"""

from collections.abc import Callable
from typing import Any, Self

import msgspec
from pyspark.sql import DataFrame, SparkSession

from pyromq.spark.pipeline.definition.definition import (
    DeadLetters,
    Dedup,
    Definition,
    DefinitionError,
    DeltaTarget,
    FormatTarget,
    IcebergTarget,
    ParquetTarget,
    Parse,
    SinkEntry,
    TopicTarget,
    Transform,
    Watermark,
    check,
)
from pyromq.spark.pipeline.run.progress import Totals
from pyromq.spark.pipeline.run.runner import GRACE, Listener, PipelineRun
from pyromq.spark.storage.place import Scalar


class Pipeline:
    """Built step by step; nothing happens before `run`. Arguments are the fields of the YAML form."""

    def __init__(self, name: str, *, checkpoint: str) -> None:
        self._values: dict[str, Any] = {"name": name, "checkpoint": checkpoint, "source": {}, "sinks": []}
        self._transform: list[Transform] = []
        self._functions: dict[str, Callable[[DataFrame], DataFrame]] = {}

    def source(self, **options: Scalar) -> Self:
        """Options of the format `rocketmq`, and `start`, `maxRows`, `maxBytes`."""
        self._values["source"] = options
        return self

    def parse(self, schema: str, *, on_error: str = "dlq", extra: str = "drop") -> Self:
        """Bodies are JSON with these fields."""
        return self._set("parse", Parse, schema=schema, on_error=on_error, extra=extra)

    def dedup(self, *keys: str, within: str = "10 minutes", time: str = "storeTimestamp") -> Self:
        """Drop rows whose keys came before, by default repetitions of a message by its producer."""
        return self._set("dedup", Dedup, keys=list(keys) or ["msgId"], within=within, time=time)

    def watermark(self, time: str, delay: str) -> Self:
        """How late rows may come for windows."""
        return self._set("watermark", Watermark, time=time, delay=delay)

    def sql(self, query: str) -> Self:
        """A SELECT over the view `input`."""
        self._transform.append(Transform(sql=query))
        return self

    def apply(self, function: Callable[[DataFrame], DataFrame]) -> Self:
        """Any function from DataFrame to DataFrame."""
        name = f"functions:f{len(self._functions)}"
        self._functions[name] = function
        self._transform.append(Transform(python=name))
        return self

    def to_parquet(self, path: str, **settings: Any) -> Self:
        return self._sink("parquet", ParquetTarget, path=path, **settings)

    def to_delta(self, path: str, **settings: Any) -> Self:
        return self._sink("delta", DeltaTarget, path=path, **settings)

    def to_iceberg(self, table: str, warehouse: str = "", **settings: Any) -> Self:
        return self._sink("iceberg", IcebergTarget, table=table, warehouse=warehouse, **settings)

    def to_topic(self, topic: str, **settings: Any) -> Self:
        return self._sink("topic", TopicTarget, topic=topic, **settings)

    def to_format(self, name: str, **settings: Any) -> Self:
        """Any format that Spark knows."""
        return self._sink("format", FormatTarget, format=name, **settings)

    def dlq(self, topic: str, **settings: Any) -> Self:
        return self._set("dlq", DeadLetters, topic=topic, **settings)

    def trigger(self, trigger: str, *, mode: str = "append") -> Self:
        """`every 2s` or `available-now`; `mode` is append or update, as for Spark's queries."""
        self._values |= {"trigger": trigger, "mode": mode}
        return self

    def spark(self, **settings: Scalar) -> Self:
        """Settings of the session; write `spark__sql__ansi__enabled` or pass a dict with `**`."""
        self._values["spark"] = {key.replace("__", "."): value for key, value in settings.items()}
        return self

    def storage(self, scheme: str, **options: Scalar) -> Self:
        """How URLs of a scheme are reached: options of its fsspec library; `${NAME}` is taken from the environment."""
        self._values.setdefault("storage", {})[scheme] = options
        return self

    def definition(self) -> Definition:
        """The checked value. Raises DefinitionError."""
        try:
            made = msgspec.convert({**self._values, "transform": self._transform}, Definition)
        except msgspec.ValidationError as error:
            raise DefinitionError("", str(error)) from None
        check(made)
        return made

    def prepare(
        self,
        *,
        on_progress: Listener | None = None,
        spark: SparkSession | None = None,
        grace: float = GRACE,
        allow_type_change: bool = False,
    ) -> PipelineRun:
        """A run that can be stopped from elsewhere. Raises DefinitionError."""
        return PipelineRun(
            self.definition(),
            functions=self._functions,
            on_progress=on_progress,
            spark=spark,
            grace=grace,
            allow_type_change=allow_type_change,
        )

    def run(
        self,
        *,
        once: bool = False,
        on_progress: Listener | None = None,
        spark: SparkSession | None = None,
        allow_type_change: bool = False,
    ) -> Totals:
        """Run until interrupted, or with `once` until all there is now is through. Raises as `PipelineRun.run`."""
        run = self.prepare(on_progress=on_progress, spark=spark, allow_type_change=allow_type_change)
        return run.run(once=once)

    def _set(self, field: str, kind: type[msgspec.Struct], **values: Any) -> Self:
        self._values[field] = _made(kind, field, values)
        return self

    def _sink(self, kind: str, target: type[msgspec.Struct], **values: Any) -> Self:
        place = len(self._values["sinks"])
        made = _made(target, f"sinks[{place}].{kind}", values)
        self._values["sinks"].append(msgspec.convert({kind: made}, SinkEntry))
        return self


def _made(kind: type[msgspec.Struct], path: str, values: dict[str, Any]) -> msgspec.Struct:
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise DefinitionError(path, str(error)) from None
