"""Options of the topic sink."""

import enum
from typing import ClassVar

from pyromq.protocol import names
from pyromq.protocol.errors import ValidationError
from pyromq.protocol.records.compression import CompressionType
from pyromq.settings.declaration import settings
from pyromq.settings.option import option
from pyromq.spark.errors import OptionError
from pyromq.spark.options import ConnectionOptions


class Delivery(enum.StrEnum):
    """What a repeated batch does to a topic."""

    AT_LEAST_ONCE = "at-least-once"
    EFFECTIVELY_ONCE = "effectively-once"
    EXACTLY_ONCE = "exactly-once"


class Compression(enum.StrEnum):
    NONE = "none"
    LZ4 = "lz4"
    ZSTD = "zstd"
    ZLIB = "zlib"

    @property
    def kind(self) -> CompressionType | None:
        """As the protocol knows it."""
        return None if self is Compression.NONE else CompressionType[self.name]


@settings
class TopicSinkOptions(ConnectionOptions):
    """Topic sink"""

    foreign: ClassVar[frozenset[str]] = frozenset({"checkpointlocation", "path"})

    topic: str | None = option(None, "Topic of all rows; wins over the column `topic`.")
    producer_group: str = option("pyromq-spark", "Group that the messages are sent under.")
    delivery: Delivery = option(
        Delivery.AT_LEAST_ONCE,
        "What a repeated batch does. The others need `topic`; exactly-once refuses brokers that cannot hold it.",
    )
    send_batch_bytes: int = option(
        512 * 1024, "Size of a frame of messages.", minimum=1024, maximum=4 << 20, unit="bytes"
    )
    send_in_flight: int = option(16, "Frames that wait for their acknowledgement at a time.", minimum=1, maximum=256)
    send_timeout_ms: int = option(10_000, "Wait for an acknowledgement.", minimum=100, maximum=600_000, unit="ms")
    send_retries: int = option(6, "Tries after the first, with growing pauses.", minimum=0, maximum=100)
    compress: Compression = option(Compression.NONE, "How bodies are compressed.")

    def complete(self) -> None:
        super().complete()
        try:
            if self.topic is not None:
                names.check_topic(self.topic)
                names.check_sendable(self.topic)
            names.check_producer_group(self.producer_group)
        except ValidationError as error:
            raise OptionError(str(error)) from None
        if self.once and self.topic is None:
            raise OptionError(f"delivery={self.delivery} looks at the end of one topic: set the option topic")

    @property
    def once(self) -> bool:
        """Whether a repeated batch must not repeat messages."""
        return self.delivery is not Delivery.AT_LEAST_ONCE
