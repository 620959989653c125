"""Options of `rocketmq-log`."""

import enum
from collections.abc import Mapping
from typing import ClassVar

from pyromq.arrow.policy import CorruptRecords
from pyromq.settings.declaration import settings
from pyromq.settings.option import option
from pyromq.spark.errors import OptionError
from pyromq.spark.options import ConnectionOptions
from pyromq.spark.source.options import FilterType, SelectionOptions


class UseQueues(enum.StrEnum):
    AUTO = "auto"
    TRUE = "true"
    FALSE = "false"


@settings
class LogOptions(SelectionOptions):
    """Reading files"""

    aliases: ClassVar[Mapping[str, str]] = {**ConnectionOptions.aliases, "storepath": "path"}

    path: str | None = option(None, "Store directory, or `broker-a=dir,broker-b=dir`.")
    use_consume_queue: UseQueues = option(
        UseQueues.AUTO, "Find messages by the queues' files, or walk through the whole log."
    )
    max_bytes_per_partition: int = option(128 << 20, "Bytes that a task reads, about.", minimum=1 << 20)
    corrupt_records: CorruptRecords = option(
        CorruptRecords.FAIL,
        "A record that is damaged: `fail`, `skip` it with a warning, or `keep` it as a row with its body as it is "
        "stored and the reason in the column `fault`.",
    )

    @property
    def is_walk(self) -> bool:
        """Whether the log is read from end to end instead of queue by queue."""
        nothing_named = not self.topic_names and self.topics_pattern is None
        return self.use_consume_queue is UseQueues.FALSE or (self.use_consume_queue is UseQueues.AUTO and nothing_named)

    def complete(self) -> None:
        super().complete()
        if self.path is None:
            raise OptionError('path is missing; say .load("/data/store") or .option("path", "broker-a=/data/store")')
        if self.filter_type is FilterType.SQL92:
            raise OptionError("only brokers know SQL92 filters; filter the rows in Spark")
        if self.starting_offsets in ("latest", "group"):
            raise OptionError(f"startingOffsets={self.starting_offsets} means nothing for files; say earliest or JSON")
        bounded = (
            self.starting_offsets,
            self.starting_timestamp,
            self.starting_offsets_by_timestamp,
            self.ending_offsets,
            self.ending_timestamp,
            self.ending_offsets_by_timestamp,
        )
        if self.is_walk and any(each is not None and each != "earliest" for each in bounded):
            raise OptionError("offsets and times need queues: name a topic, or filter the rows in Spark")
