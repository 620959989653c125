"""Options of the sources: what to read, from where to where, how much at a time, and in which form."""

import enum
import re
from collections.abc import Iterable, Mapping
from typing import ClassVar

import msgspec

from pyromq.arrow.policy import BadRecords, CorruptRecords
from pyromq.protocol import names
from pyromq.protocol.errors import ValidationError
from pyromq.protocol.message import MessageQueue
from pyromq.settings.declaration import settings
from pyromq.settings.option import option
from pyromq.spark.errors import OptionError
from pyromq.spark.options import ConnectionOptions
from pyromq.spark.source.offsets import Positions
from pyromq.spark.source.queuetable import flatten
from pyromq.spark.units import option_seconds


class DataLoss(enum.StrEnum):
    """What to do about messages that are gone before they were read."""

    FAIL = "true"
    SKIP = "false"
    RECORD = "record"


class BodyFormat(enum.StrEnum):
    BINARY = "binary"
    STRING = "string"
    JSON = "json"


class PropertiesFormat(enum.StrEnum):
    MAP = "map"
    JSON = "json"


class ReadMode(enum.StrEnum):
    PULL = "pull"
    LOG = "log"
    AUTO = "auto"


class FilterType(enum.StrEnum):
    TAG = "TAG"
    SQL92 = "SQL92"


class Fallback(enum.StrEnum):
    EARLIEST = "earliest"
    LATEST = "latest"


@settings
class RowOptions(ConnectionOptions):
    """Rows"""

    columns: str | None = option(None, "Columns of the rows, separated by `,`; without it the thirteen usual ones.")
    properties_format: PropertiesFormat = option(PropertiesFormat.MAP, "`properties` as a map or as JSON text.")
    body_format: BodyFormat = option(BodyFormat.BINARY, "`body` as bytes or text, or its JSON fields as columns.")
    body_schema: str | None = option(None, "With `json`: the fields, in Spark's words (`id bigint, name string`).")
    bad_records: BadRecords = option(
        BadRecords.FAIL,
        "A body that does not fit: end the query, drop the row, make its fields null, or `keep` it with `_error` and "
        "`_body` beside nulls.",
    )
    decompress: bool = option(True, "Inflate bodies that producers compressed.")
    verify_crc: bool = option(True, "Compare each body that is read with its checksum.")


@settings
class SelectionOptions(RowOptions):
    """What to read"""

    topic: str | None = option(None, "One topic.")
    topics: str | None = option(None, "Several, separated by `,`.")
    topics_pattern: str | None = option(None, "All topics whose whole name matches this regular expression.")
    starting_offsets: str | None = option(
        None, '`earliest`, `latest`, `group`, or JSON `{"topic": {"broker": {"0": 17}}}` (-1 latest, -2 earliest).'
    )
    starting_offsets_default: Fallback = option(Fallback.EARLIEST, "For queues that the JSON does not name.")
    starting_timestamp: str | None = option(None, "Begin with what was stored at this time: Unix ms or ISO 8601.")
    starting_offsets_by_timestamp: str | None = option(None, "The same for each queue, as JSON of the same form.")
    ending_offsets: str | None = option(None, "`latest` or JSON; exclusive. For batches.")
    ending_timestamp: str | None = option(None, "End before what was stored at this time. For batches.")
    ending_offsets_by_timestamp: str | None = option(None, "The same for each queue, as JSON. For batches.")
    timestamp_fallback: Fallback = option(Fallback.LATEST, "Where to begin if nothing was stored since that time.")
    sub_expression: str = option("*", "Tags to read (`a || b`), or an SQL92 condition on properties.")
    filter_type: FilterType = option(FilterType.TAG, "Kind of `subExpression`.")

    @property
    def topic_names(self) -> list[str]:
        """The topics named one by one."""
        texts = [self.topic or "", *(self.topics or "").split(",")]
        return list(dict.fromkeys(text.strip() for text in texts if text.strip()))

    def matching_topics(self, topics: Iterable[str]) -> list[str]:
        """Of topics by their names on the wire, those that are shown and fit the pattern, by the user's name."""
        prefix = f"{self.namespace}%" if self.namespace else ""
        pattern = re.compile(self.topics_pattern or ".*")
        return [
            bare
            for topic in topics
            if topic.startswith(prefix)
            and not is_hidden(topic)
            and pattern.fullmatch(bare := topic.removeprefix(prefix))
        ]

    @property
    def wanted_tags(self) -> frozenset[str] | None:
        """The tags that pass, None when all do."""
        text = self.sub_expression.strip()
        if self.filter_type is not FilterType.TAG or text in ("", "*"):
            return None
        return frozenset(tag.strip() for tag in text.split("||") if tag.strip())

    def complete(self) -> None:
        super().complete()
        for topic in self.topic_names:
            try:
                names.check_topic(topic)
            except ValidationError as error:
                raise OptionError(str(error)) from None
        if self.topics_pattern is not None:
            try:
                re.compile(self.topics_pattern)
            except re.error as error:
                raise OptionError(f"topicsPattern {self.topics_pattern!r} is no regular expression: {error}") from None
        if (self.body_format is BodyFormat.JSON) != (self.body_schema is not None):
            raise OptionError("bodyFormat=json and bodySchema belong together; only one of them is set")


@settings
class SourceOptions(SelectionOptions):
    """Reading over the network"""

    aliases: ClassVar[Mapping[str, str]] = {
        **ConnectionOptions.aliases,
        "maxrowspertrigger": "maxOffsetsPerTrigger",
        "minrowspertrigger": "minOffsetsPerTrigger",
    }
    foreign: ClassVar[frozenset[str]] = frozenset({"path"})

    assign: str | None = option(None, 'Exactly these queues: JSON `{"topic": {"broker": [0, 1]}}`.')
    include_retry_topic: bool = option(False, "Also read the retry topic of `group`.")
    group: str | None = option(None, "Consumer group that progress is committed to, for lag tools; joins nothing.")
    group_commit_interval_ms: int = option(1000, "Time between two commits.", minimum=0, unit="ms")
    group_fallback: Fallback = option(Fallback.EARLIEST, "Where to begin a queue that the group has no offset of.")
    max_offsets_per_trigger: int | None = option(None, "Messages of a micro-batch at most.", minimum=1)
    max_bytes_per_trigger: int | None = option(None, "Bytes of a micro-batch, about.", minimum=1)
    max_bytes_per_second: int | None = option(
        None, "Bytes that a query reads from brokers in a second at most, all of its tasks together.", minimum=1
    )
    max_bytes_per_second_per_broker: int | None = option(None, "The same from each broker.", minimum=1)
    min_offsets_per_trigger: int | None = option(None, "Messages to wait for before a micro-batch begins.", minimum=1)
    max_trigger_delay: str = option("15m", "How long to wait for them.")
    target_batch_ms: int | None = option(None, "Fit the size of batches to this duration.", minimum=1, unit="ms")
    min_partitions: int | None = option(None, "Tasks of a batch at least; splits queues.", minimum=1)
    max_partitions: int | None = option(
        None,
        "Tasks at most; without it as many as the driver has processors, and in large batches a task a queue.",
        minimum=1,
    )
    max_records_per_partition: int | None = option(None, "Messages of a task at most; splits queues.", minimum=1)
    read_mode: ReadMode | None = option(
        None,
        "Over the network, from files of the store, or `auto`, the default with `storePath`: from files if possible.",
    )
    store_path: str | None = option(None, "Store directory for reading files, or `broker-a=dir,broker-b=dir`.")
    corrupt_records: CorruptRecords = option(
        CorruptRecords.KEEP,
        "A record that is damaged, or cannot be inflated: `keep` it as a row with its body as it is stored and the "
        "reason in the column `fault`, `skip` it with a warning, or `fail`.",
    )
    fail_on_data_loss: DataLoss = option(DataLoss.FAIL, "When messages are gone: fail, skip, or skip and note it.")
    pull_batch_size: int = option(1024, "Messages asked for at a time.", minimum=1, maximum=65_536)
    pull_in_flight: int = option(8, "Requests under way in a task, of all brokers together.", minimum=1, maximum=256)
    pull_timeout_ms: int = option(3000, "How long one may take.", minimum=1, unit="ms")
    pull_retries: int = option(12, "Further attempts when one fails, about half a minute in all.", minimum=0)
    offset_timeout_ms: int = option(30_000, "How long the driver tries to learn offsets.", minimum=1, unit="ms")
    offset_retries: int = option(3, "Further attempts of each question about offsets.", minimum=0)
    max_wait_ms: int = option(500, "How long to wait for messages when there are none.", minimum=0, unit="ms")
    partition_discovery_ms: int = option(10_000, "Time between looks for new queues.", minimum=0, unit="ms")
    offset_cache_ms: int = option(50, "How long learnt offsets hold.", minimum=0, unit="ms")
    push_down_filters: bool = option(
        False,
        "A batch reads only what Spark's filters on `topic`, `brokerName`, `queueId`, `queueOffset`, `storeTimestamp` "
        "and `tags` let pass. Only for a DataFrame that is used with one filter, once in a query.",
    )
    wait_for_topic: bool = option(False, "Begin with nothing when the topic does not exist yet.")

    @property
    def reading_group(self) -> str:
        """The group named in pulls."""
        return self.group or names.TOOLS_CONSUMER_GROUP

    @property
    def assigned(self) -> list[MessageQueue]:
        """The queues of `assign`. Raises OptionError."""
        if self.assign is None:
            return []
        try:
            shape = msgspec.json.decode(self.assign, type=dict[str, dict[str, list[int]]])
        except msgspec.MsgspecError as error:
            raise OptionError(f"assign must have the form {{'topic': {{'broker': [0, 1]}}}}: {error}") from None
        return sorted(
            MessageQueue(topic, broker, queue)
            for topic, brokers in shape.items()
            for broker, queues in brokers.items()
            for queue in queues
        )

    @property
    def max_delay(self) -> float:
        """`maxTriggerDelay` in seconds."""
        return option_seconds(self.max_trigger_delay, "maxTriggerDelay")

    def complete(self) -> None:
        super().complete()
        self.require_name_server()
        ways = [bool(self.topic_names), self.topics_pattern is not None, bool(self.assigned)]
        if sum(ways) != 1:
            raise OptionError("say what to read with one of topic, topics, topicsPattern or assign")
        if self.group is not None:
            try:
                names.check_consumer_group(self.group)
            except ValidationError as error:
                raise OptionError(str(error)) from None
        elif self.include_retry_topic or self.starting_offsets == "group":
            raise OptionError("includeRetryTopic and startingOffsets=group need a group")
        if self.read_mode is None:
            self.read_mode = ReadMode.PULL if self.store_path is None else ReadMode.AUTO
        if self.read_mode is not ReadMode.PULL and self.store_path is None:
            raise OptionError(f"readMode={self.read_mode} needs storePath")
        if self.read_mode is ReadMode.LOG and self.filter_type is FilterType.SQL92:
            raise OptionError("only brokers know SQL92 filters: say readMode=pull, or filter the rows in Spark")
        _ = self.max_delay


def is_hidden(topic: str) -> bool:
    """Whether a topic is shown only to those who name it: the system's own, retries, dead letters."""
    return names.is_system_topic(topic) or names.is_retry_topic(topic) or names.is_dlq_topic(topic)


def queue_offsets(text: str, key: str) -> Positions:
    """Offsets or times of single queues from JSON. Raises OptionError."""
    try:
        shape = msgspec.json.decode(text)
    except msgspec.MsgspecError as error:
        raise OptionError(f"{key} is neither a known word nor JSON: {error}") from None
    try:
        return flatten(shape)
    except OptionError as error:
        raise OptionError(f"{key}: {error}") from None
