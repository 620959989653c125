"""A pipeline as a value: what YAML and the Python form both become. Checked here as far as it can be without Spark."""

import re
from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from pyromq.arrow.columns import COLUMNS
from pyromq.protocol import names
from pyromq.protocol.errors import ValidationError
from pyromq.spark.errors import SinkError, SparkError
from pyromq.spark.sink.table.iceberg.partitions import parse_partition
from pyromq.spark.storage.place import Scalar
from pyromq.spark.units import UnitError, parse_bytes, parse_seconds

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_ENTRY = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


class DefinitionError(SparkError):
    """A pipeline is not well defined; `path` says where, as `sinks[0].parquet.path`."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}" if path else problem)
        self.path = path
        self.problem = problem


class _Part(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of a definition."""


class Parse(_Part):
    """How bodies become columns, and what happens to those that do not fit."""

    schema: str
    format: Literal["json"] = "json"
    on_error: Literal["dlq", "drop", "null", "fail"] = "dlq"
    extra: Literal["keep", "drop"] = "drop"


class Dedup(_Part):
    """Which rows are the same, and for how long that is remembered."""

    keys: list[str] = msgspec.field(default_factory=lambda: ["msgId"])
    within: str = "10 minutes"
    time: str = "storeTimestamp"


class Watermark(_Part):
    """How late rows may come, for windows."""

    time: str
    delay: str


class Transform(_Part):
    """One step: SQL over the view `input`, or a Python function from DataFrame to DataFrame, as `module:function`."""

    sql: str | None = None
    python: str | None = None


class ParquetTarget(_Part):
    """A folder of Parquet files."""

    path: str
    partition_by: list[str] = []
    target_file: str = "128MB"
    compact: Literal["manual", "auto"] = "manual"
    """Whether the runner merges small files by itself."""
    compact_after: str = "10 minutes"
    """Younger files are left alone."""
    name: str | None = None


class DeltaTarget(_Part):
    """A Delta table, written without Java; `storage_options` are deltalake's, for tables in buckets."""

    path: str
    partition_by: list[str] = []
    storage_options: dict[str, Scalar] = {}
    name: str | None = None


class IcebergTarget(_Part):
    """An Iceberg table `namespace.table` of a catalog, whose options are pyiceberg's and its `name`.

    Without a catalog it is a file in the folder `warehouse`, and the data is there, too.
    """

    table: str
    warehouse: str = ""
    catalog: dict[str, Scalar] = {}
    partition_by: list[str] = []
    keep_snapshots: int | None = None
    name: str | None = None


class TopicTarget(_Part):
    """A topic: the body is a column or `json`, all columns; `id` names the columns that make a row the same again."""

    topic: str
    body: str = "json"
    keys: str | list[str] = []
    tags: str | None = None
    shard: str | list[str] = []
    id: str | list[str] = []
    delivery: Literal["effectively-once", "exactly-once", "at-least-once"] = "effectively-once"
    queues: int = 8
    options: dict[str, Scalar] = {}
    name: str | None = None


class FormatTarget(_Part):
    """Any format that Spark knows, with the guarantees that Spark documents for it."""

    format: str
    options: dict[str, Scalar] = {}
    partition_by: list[str] = []
    mode: Literal["append", "overwrite"] = "append"
    name: str | None = None


Target = ParquetTarget | DeltaTarget | IcebergTarget | TopicTarget | FormatTarget


class SinkEntry(_Part):
    """One sink; exactly one kind."""

    parquet: ParquetTarget | None = None
    delta: DeltaTarget | None = None
    iceberg: IcebergTarget | None = None
    topic: TopicTarget | None = None
    format: FormatTarget | None = None


class DeadLetters(_Part):
    """Where bodies go that cannot be parsed."""

    topic: str
    queues: int = 4
    max_bad_ratio: float | None = None


class Definition(_Part):
    """A whole pipeline."""

    name: str
    source: dict[str, Scalar]
    sinks: list[SinkEntry]
    checkpoint: str
    parse: Parse | None = None
    dedup: Dedup | None = None
    watermark: Watermark | None = None
    transform: list[Transform] = []
    dlq: DeadLetters | None = None
    trigger: str = "every 1s"
    mode: Literal["append", "update"] = "append"
    spark: dict[str, Scalar] = {}
    storage: dict[str, dict[str, Scalar]] = {}
    """By scheme of URLs: how its store is reached."""

    @property
    def targets(self) -> list[tuple[str, str, Target]]:
        """Name, kind and settings of each sink; the name is its kind and number unless one is given."""
        found: list[tuple[str, str, Target]] = []
        for place, entry in enumerate(self.sinks):
            for kind, target in kinds(entry):
                found.append((target.name or f"{kind}-{place}", kind, target))
        return found

    @property
    def available_now(self) -> bool:
        return self.trigger == "available-now"

    @property
    def interval_seconds(self) -> float:
        """Of a continuous pipeline."""
        return parse_seconds(self.trigger.removeprefix("every"))


def kinds(entry: SinkEntry) -> Iterator[tuple[str, Target]]:
    """The kinds of a sink that are set."""
    for kind in ("parquet", "delta", "iceberg", "topic", "format"):
        target: Target | None = getattr(entry, kind)
        if target is not None:
            yield kind, target


def columns_of(value: str | list[str]) -> list[str]:
    """One column or several."""
    return [value] if isinstance(value, str) else value


def check(definition: Definition) -> None:
    """What holds for any pipeline. Raises DefinitionError."""
    if not _NAME.fullmatch(definition.name):
        raise DefinitionError("name", f"{definition.name[:64]!r} is not 1 to 64 letters, digits, - and _")
    if not definition.sinks:
        raise DefinitionError("sinks", "a pipeline needs at least one sink")
    if not definition.checkpoint:
        raise DefinitionError("checkpoint", "say in which folder the pipeline keeps its place")
    _check_trigger(definition)
    _check_stages(definition)
    for place, entry in enumerate(definition.sinks):
        _check_sink(f"sinks[{place}]", entry)
    taken: set[str] = set()
    for place, (name, _, _) in enumerate(definition.targets):
        if name in taken:
            raise DefinitionError(f"sinks[{place}]", f"two sinks are called {name!r}")
        taken.add(name)


def _check_trigger(definition: Definition) -> None:
    if definition.available_now:
        return
    if not definition.trigger.startswith("every"):
        raise DefinitionError("trigger", f"{definition.trigger[:40]!r} is neither `every 2s` nor `available-now`")
    _check_unit("trigger", parse_seconds, definition.trigger.removeprefix("every"))


def _check_stages(definition: Definition) -> None:
    parse, dedup = definition.parse, definition.dedup
    if parse is not None and parse.on_error == "dlq" and definition.dlq is None:
        raise DefinitionError(
            "parse.on_error", "bad bodies go to the dead letters, but there is no dlq; name a topic there"
        )
    if definition.dlq is not None:
        if parse is None or parse.on_error != "dlq":
            raise DefinitionError("dlq", "nothing goes there without parse with on_error: dlq")
        _check_topic("dlq.topic", definition.dlq.topic)
        _check_queues("dlq.queues", definition.dlq.queues)
        ratio = definition.dlq.max_bad_ratio
        if ratio is not None and not 0 <= ratio <= 1:
            raise DefinitionError("dlq.max_bad_ratio", f"{ratio} is not between 0 and 1")
    if dedup is not None:
        if not dedup.keys:
            raise DefinitionError("dedup.keys", "name at least one column")
        _check_unit("dedup.within", parse_seconds, dedup.within)
        if parse is None and dedup.time not in COLUMNS:
            raise DefinitionError("dedup.time", f"a message has no column {dedup.time!r}")
    if definition.watermark is not None:
        _check_unit("watermark.delay", parse_seconds, definition.watermark.delay)
    for place, step in enumerate(definition.transform):
        if (step.sql is None) == (step.python is None):
            raise DefinitionError(f"transform[{place}]", "a step is either sql or python")
        if step.python is not None and not _ENTRY.fullmatch(step.python):
            raise DefinitionError(f"transform[{place}].python", f"{step.python[:80]!r} is not module:function")


def _check_sink(path: str, entry: SinkEntry) -> None:
    found = list(kinds(entry))
    if len(found) != 1:
        raise DefinitionError(path, "a sink is exactly one of parquet, delta, iceberg, topic, format")
    kind, target = found[0]
    path = f"{path}.{kind}"
    if target.name is not None and not _NAME.fullmatch(target.name):
        raise DefinitionError(f"{path}.name", f"{target.name[:64]!r} is not 1 to 64 letters, digits, - and _")
    if isinstance(target, TopicTarget):
        _check_topic(f"{path}.topic", target.topic)
        _check_queues(f"{path}.queues", target.queues)
    if isinstance(target, ParquetTarget):
        _check_unit(f"{path}.target_file", parse_bytes, target.target_file)
        _check_unit(f"{path}.compact_after", parse_seconds, target.compact_after)
    if isinstance(target, ParquetTarget | DeltaTarget) and not target.path:
        raise DefinitionError(f"{path}.path", "say which folder")
    if isinstance(target, IcebergTarget):
        _check_iceberg(path, target)


def _check_iceberg(path: str, target: IcebergTarget) -> None:
    if not re.fullmatch(r"\w+(\.\w+)+", target.table):
        raise DefinitionError(f"{path}.table", f"{target.table[:80]!r} is not namespace.table")
    if not target.catalog and not target.warehouse:
        raise DefinitionError(f"{path}.warehouse", "say which folder, or which catalog the table is in")
    if target.keep_snapshots is not None and target.keep_snapshots < 1:
        raise DefinitionError(f"{path}.keep_snapshots", f"{target.keep_snapshots} is not 1 or more")
    for place, text in enumerate(target.partition_by):
        try:
            parse_partition(text)
        except SinkError as error:
            raise DefinitionError(f"{path}.partition_by[{place}]", str(error)) from None


def _check_topic(path: str, topic: str) -> None:
    try:
        names.check_topic(topic)
        names.check_sendable(topic)
    except ValidationError as error:
        raise DefinitionError(path, str(error)) from None


def _check_queues(path: str, queues: int) -> None:
    if not 1 <= queues <= 1024:
        raise DefinitionError(path, f"{queues} is not between 1 and 1024")


def _check_unit(path: str, parse: Callable[[str], float], text: str) -> None:
    try:
        parse(text)
    except UnitError as error:
        raise DefinitionError(path, str(error)) from None
