"""What `df.write` and `df.writeStream` with format `rocketmq` come down to: a fan-out with one sink, the topic."""

import json
import uuid
from collections.abc import Mapping

from pyromq.spark.errors import OptionError, SinkError
from pyromq.spark.options import read_options
from pyromq.spark.sink.fanout import FanOutBatchWriter, FanOutStreamWriter
from pyromq.spark.sink.options import TopicSinkOptions
from pyromq.spark.sink.topic import TopicSink


def batch_writer(given: Mapping[str, str], *, overwrite: bool) -> FanOutBatchWriter:
    """For `df.write`. Raises OptionError."""
    if overwrite:
        raise OptionError('a topic cannot be overwritten, only added to: say .mode("append")')
    return FanOutBatchWriter([TopicSink(_options(given), bounded=True)], uuid.uuid4().hex)


def stream_writer(given: Mapping[str, str], *, overwrite: bool) -> FanOutStreamWriter:
    """For `df.writeStream`. Raises OptionError or SinkError."""
    if overwrite:  # what Spark makes of the output mode
        raise OptionError(
            'a topic cannot take a complete result over and over: say .outputMode("append") with a watermark, or write '
            'each batch yourself: .foreachBatch(lambda rows, batch: rows.write.format("rocketmq").mode("append")...)'
        )
    options = _options(given)
    query = query_id(given.get("checkpointLocation") or given.get("checkpointlocation")) if options.once else ""
    return FanOutStreamWriter([TopicSink(options)], query)


def query_id(checkpoint: str | None) -> str:
    """The id that a query keeps as long as its checkpoint. Raises SinkError when it cannot be found out."""
    if not checkpoint:
        raise SinkError("delivery other than at-least-once needs the option checkpointLocation on the query itself")
    from pyarrow import fs  # type: ignore[import-untyped]  # noqa: PLC0415 - slow to load, and not always needed

    try:
        system, path = fs.FileSystem.from_uri(checkpoint) if ":" in checkpoint else (fs.LocalFileSystem(), checkpoint)
        with system.open_input_stream(f"{path.rstrip('/')}/metadata") as file:
            text = file.read(64 * 1024)
        return str(json.loads(text)["id"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SinkError(f"the query's id in checkpoint {checkpoint} cannot be read: {error}") from error


def _options(given: Mapping[str, str]) -> TopicSinkOptions:
    options = read_options(TopicSinkOptions, given)
    options.require_name_server()
    return options
