"""The plan: what the driver works out once and its processes and tasks read: definition, identity, schema, sinks.

It is a file that only the owner can read, since options of Spark show up in its query plans and may hold secrets.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pyromq.arrow.columns import COLUMNS, DEFAULT
from pyromq.durable import write_file
from pyromq.settings.declaration import options
from pyromq.spark.errors import OptionError
from pyromq.spark.options import ConnectionOptions, read_options
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
from pyromq.spark.sink.lanes import Run
from pyromq.spark.sink.messages import MessageShape
from pyromq.spark.sink.options import TopicSinkOptions
from pyromq.spark.sink.sink import Sink
from pyromq.spark.sink.table.parquet import ParquetSink
from pyromq.spark.sink.topic import TopicSink
from pyromq.spark.source.options import SourceOptions
from pyromq.spark.storage.place import Scalar

if TYPE_CHECKING:
    from pyromq.spark.pipeline.state.folder import State

if TYPE_CHECKING:
    from pyromq.spark.sink.table.delta.sink import DeltaSink
    from pyromq.spark.sink.table.iceberg.sink import IcebergSink

PROVENANCE = ("topic", "brokerName", "queueId", "queueOffset", "msgId", "storeTimestamp", "tags", "keys")
"""What a dead letter tells about where it came from."""
PLACE = PROVENANCE[:4]
"""The part of it that makes it one."""
EXTRA = "_extra"
SIZE = "_size"
"""Bytes of a message in its store; counted as rows leave the source, then dropped."""
_SUGAR = {"maxRows": "maxOffsetsPerTrigger", "maxBytes": "maxBytesPerTrigger", "minRows": "minOffsetsPerTrigger"}


class Plan(msgspec.Struct, kw_only=True):
    """Everything but Spark's own part."""

    definition: Definition
    query: str
    state: str
    max_partitions: int
    schema: str
    """Of the rows that the source gives, as Spark's JSON."""
    columns: list[str]
    """Those of the message among them."""
    ids: dict[str, list[str]] = {}
    """By sink: the columns that make a row the same again."""
    runs: dict[str, Run] = {}
    """By sink: the run that its brokers know."""
    fast: bool = False
    """Whether the tasks that read write the files, too."""
    bounds: dict[str, str] = {}
    """Options of a bounded run, in place of where a stream starts."""
    driver: str = ""
    """A folder on the driver's machine, for its processes."""

    def save(self, path: Path) -> None:
        """Raises OSError."""
        write_file(path, msgspec.json.encode(self))

    @classmethod
    def load(cls, path: str) -> "Plan":
        """Raises OptionError."""
        try:
            return msgspec.json.decode(Path(path).read_bytes(), type=cls)
        except (OSError, msgspec.MsgspecError) as error:
            raise OptionError(f"the plan {path} of a pipeline cannot be read: {error}") from error

    def open_state(self) -> "State":
        """The state of the pipeline."""
        from pyromq.spark.pipeline.state.folder import State  # noqa: PLC0415 - which is of no concern to definitions

        return State(self.state, self.definition.storage, driver=Path(self.driver) if self.driver else None)

    @property
    def diverts(self) -> bool:
        """Whether bad bodies go to the dead letters."""
        return self.definition.parse is not None and self.definition.parse.on_error == "dlq"

    @property
    def keeps_extra(self) -> bool:
        return self.definition.parse is not None and self.definition.parse.extra == "keep"


def text(value: Scalar) -> str:
    """An option's value as Spark wants it."""
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _texts(options: Mapping[str, Scalar]) -> dict[str, str]:
    return {key: text(value) for key, value in options.items()}


def source_options(definition: Definition, more: Mapping[str, str] | None = None) -> SourceOptions:
    """The options of the source. Raises DefinitionError."""
    given = source_texts(definition)
    if more:
        given = {key: value for key, value in given.items() if not key.startswith(("starting", "ending"))} | dict(more)
    parse = definition.parse
    if parse is not None:
        bad = {"dlq": "keep", "null": "null", "drop": "drop", "fail": "fail"}[parse.on_error]
        given |= {"bodyFormat": "json", "bodySchema": parse.schema, "badRecords": bad}
    try:
        return read_options(SourceOptions, given)
    except OptionError as error:
        raise DefinitionError("source", str(error)) from None


def source_texts(definition: Definition) -> dict[str, str]:
    """What the definition says about the source, as options of the format."""
    given: dict[str, str] = {}
    for key, value in definition.source.items():
        if key == "start":
            word = text(value)
            place = (
                "startingOffsets" if word in ("earliest", "latest", "group") or word[:1] == "{" else "startingTimestamp"
            )
            given[place] = word
        else:
            given[_SUGAR.get(key, key)] = text(value)
    given.setdefault("startingOffsets", "group" if "group" in given else "earliest")
    if "startingTimestamp" in given:
        del given["startingOffsets"]
    return given


def message_columns(definition: Definition) -> list[str]:
    """The columns of messages that rows have: those asked for, and what deduplication needs."""
    chosen = definition.source.get("columns")
    if chosen is not None:
        columns = [name.strip() for name in text(chosen).split(",") if name.strip()]
    else:
        columns = [] if definition.parse is not None else list(DEFAULT)
    return [*columns, *(name for name in hidden_columns(definition) if name not in columns)]


def hidden_columns(definition: Definition) -> list[str]:
    """Columns that only deduplication and watermark need; they are gone after it unless asked for."""
    wanted = [*definition.dedup.keys, definition.dedup.time] if definition.dedup is not None else []
    if definition.watermark is not None:
        wanted.append(definition.watermark.time)
    return [name for name in dict.fromkeys(wanted) if name in COLUMNS]


def connection(definition: Definition) -> dict[str, str]:
    """The part of the source's options that says how to reach the servers."""
    known = {each.key.lower() for each in options(ConnectionOptions).values()} | set(ConnectionOptions.aliases)
    return {key: text(value) for key, value in definition.source.items() if key.lower() in known}


def topic_options(definition: Definition, target: TopicTarget) -> TopicSinkOptions:
    """Raises DefinitionError."""
    more = {key: text(value) for key, value in target.options.items()}
    try:
        return read_options(
            TopicSinkOptions,
            {**connection(definition), **more, "topic": target.topic, "delivery": target.delivery},
        )
    except OptionError as error:
        raise DefinitionError(f"sinks.topic {target.topic}", str(error)) from None


def parquet_sink(definition: Definition, name: str, target: ParquetTarget) -> ParquetSink:
    """The sink of a target."""
    return ParquetSink(name=name, path=target.path, partition_by=target.partition_by, storage=definition.storage)


def make_sinks(plan: Plan) -> list[Sink]:
    """The sinks that this package writes itself; the dead letters are one of them."""
    from pyromq.spark.pipeline.run.deadletter import DeadLetterSink  # noqa: PLC0415 - which needs the plan

    made = [sink for name, _, target in plan.definition.targets if (sink := _make(plan, name, target)) is not None]
    if plan.diverts:
        made.append(DeadLetterSink(plan))
    return made


def delta_sink(name: str, target: DeltaTarget) -> "DeltaSink":
    from pyromq.spark.sink.table.delta.sink import DeltaSink  # noqa: PLC0415 - an extra

    return DeltaSink(
        name=name, path=target.path, partition_by=target.partition_by, storage_options=_texts(target.storage_options)
    )


def iceberg_sink(name: str, target: IcebergTarget) -> "IcebergSink":
    from pyromq.spark.sink.table.iceberg.sink import IcebergSink  # noqa: PLC0415 - an extra

    return IcebergSink(
        name=name,
        table=target.table,
        warehouse=target.warehouse,
        catalog=_texts(target.catalog),
        partition_by=target.partition_by,
        keep_snapshots=target.keep_snapshots,
    )


def _make(plan: Plan, name: str, target: Target) -> Sink | None:
    if isinstance(target, ParquetTarget):
        return parquet_sink(plan.definition, name, target)
    if isinstance(target, DeltaTarget):
        return delta_sink(name, target)
    if isinstance(target, IcebergTarget):
        return iceberg_sink(name, target)
    if isinstance(target, TopicTarget):
        shape = MessageShape(
            body=target.body,
            keys=columns_of(target.keys),
            tags=target.tags,
            shard=columns_of(target.shard),
            id=plan.ids.get(name, []),
        )
        return TopicSink(topic_options(plan.definition, target), name=name, shape=shape, run=plan.runs.get(name))
    return None
