"""Dead letters after the fact: look at them, send them to their topics again, or let them be.

Which of them are dealt with is the offset of a consumer group of the pipeline on the dead-letter topic.
"""

from collections.abc import Iterator
from typing import Self

from pyromq.protocol.message import MessageQueue, ReceivedMessage
from pyromq.protocol.properties import RESERVED, Property
from pyromq.spark.errors import SinkError
from pyromq.spark.net.wire import Wire
from pyromq.spark.options import read_options
from pyromq.spark.pipeline.definition.definition import Definition, DefinitionError
from pyromq.spark.pipeline.definition.plan import connection
from pyromq.spark.pipeline.run.deadletter import PREFIX
from pyromq.spark.sink.messages import Outgoing
from pyromq.spark.sink.options import TopicSinkOptions
from pyromq.spark.sink.sender import FrameSender
from pyromq.spark.sink.writabletopic import (
    WritableTopic,
    commit,
    committed,
    find_topic,
    max_offsets,
    messages_between,
)

GROUP = "PYROMQ_DLQ_"


class Letters:
    """The dead letters of a pipeline; a context manager. Raises DefinitionError when it has none."""

    def __init__(self, definition: Definition) -> None:
        if definition.dlq is None:
            raise DefinitionError("dlq", "this pipeline has no dead letters")
        self._options = read_options(TopicSinkOptions, connection(definition))
        self._topic = definition.dlq.topic
        self._pipeline = definition.name
        self._wire = Wire(self._options)
        self._group = self._options.wire_name(f"{GROUP}{definition.name}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._wire.close()

    def waiting(self, limit: int) -> Iterator[ReceivedMessage]:
        """Letters that nobody dealt with yet, at most so many."""
        target, spans = self._spans()
        for queue, (start, end) in spans.items():
            for message in messages_between(self._wire, target, queue, start, end, self._group):
                if limit <= 0:
                    return
                if message.properties.get("DLQ_PIPELINE") == self._pipeline:
                    limit -= 1
                    yield message

    def retry(self) -> int:
        """Send all of them to the topics they came from, then note them as dealt with; returns how many.

        Cut short, some are sent again by the next try.
        """
        target, spans = self._spans()
        sender = FrameSender(self._wire, self._options)
        targets: dict[str, WritableTopic] = {}
        count = 0
        for queue, (start, end) in spans.items():
            for message in messages_between(self._wire, target, queue, start, end, self._group):
                if message.properties.get("DLQ_PIPELINE") != self._pipeline:
                    continue
                topic = message.properties.get("DLQ_TOPIC")
                if not topic:
                    raise SinkError(f"the dead letter {message.message_id} does not say which topic it came from")
                if topic not in targets:
                    targets[topic] = find_topic(self._wire, topic)
                back = targets[topic].queues[count % len(targets[topic].queues)]
                sender.send(targets[topic].address(back), back, _original(message))
                count += 1
        sender.finish()
        self._settle(target, spans)
        return count

    def drop(self) -> int:
        """Note all of them as dealt with; returns how many messages that passes over."""
        target, spans = self._spans()
        self._settle(target, spans)
        return sum(end - start for start, end in spans.values())

    def _spans(self) -> tuple[WritableTopic, dict[MessageQueue, tuple[int, int]]]:
        target = find_topic(self._wire, self._topic)
        done = committed(self._wire, target, self._group)
        ends = max_offsets(self._wire, target)
        return target, {queue: (min(done.get(queue, 0), end), end) for queue, end in ends.items()}

    def _settle(self, target: WritableTopic, spans: dict[MessageQueue, tuple[int, int]]) -> None:
        commit(self._wire, target, self._group, {queue: end for queue, (_, end) in spans.items()})


def _original(message: ReceivedMessage) -> Outgoing:
    """As it was in its topic, with its old identity, so that deduplication knows it."""
    kept = {Property.TAGS, Property.KEYS}
    properties = {
        name: value
        for name, value in message.properties.items()
        if name in kept or (name not in RESERVED and not name.startswith((PREFIX, "PYROMQ_")))
    }
    if "DLQ_MSG_ID" in message.properties:
        properties[Property.UNIQ_KEY] = message.properties["DLQ_MSG_ID"]
    return Outgoing(None, bytes(message.body), properties)
