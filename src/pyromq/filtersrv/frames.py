"""What goes through the pipes between a filter server and a jail: length-prefixed msgpack, each side with a bound.

A filter sees messages as `FilterMessage` and whom it filters for as `FilterContext`. Decoding builds only these types,
whatever the bytes say.
"""

from typing import Final

import msgspec

LENGTH_SIZE: Final = 4
MAX_QUESTION: Final = 24 * 1024 * 1024
"""What a jail reads at a time: a batch may end with one body of `records.MAX_BODY`."""
MAX_ANSWER: Final = 64 * 1024
"""What a jail may write in answer to one question; more is taken for a flood."""
MAX_REASON: Final = 600
MAX_SOURCE: Final = 256 * 1024
"""Of a class, in bytes."""


class FilterMessage(msgspec.Struct, frozen=True):
    """A message as filters see it, its body inflated."""

    topic: str
    body: bytes
    properties: dict[str, str]
    flag: int = 0
    queue_id: int = 0
    queue_offset: int = 0
    born_timestamp: int = 0
    store_timestamp: int = 0
    reconsume_times: int = 0
    message_id: str = ""

    @property
    def tags(self) -> str | None:
        return self.properties.get("TAGS")

    @property
    def keys(self) -> list[str]:
        return self.properties.get("KEYS", "").split()

    def get(self, name: str, default: str | None = None) -> str | None:
        """A property."""
        return self.properties.get(name, default)


class FilterContext(msgspec.Struct, frozen=True):
    """For whom a filter decides."""

    consumer_group: str
    topic: str


class Load(msgspec.Struct, tag="load"):
    """Compile this class and make one of it; the first question."""

    class_name: str
    source: str
    context: FilterContext


class Batch(msgspec.Struct, tag="batch"):
    """Which of these match?"""

    messages: list[FilterMessage]


class Answer(msgspec.Struct):
    """A byte for each message, 1 for those that match; or the reason why there is none."""

    matched: bytes = b""
    error: str = ""


Question = Load | Batch

_encoder = msgspec.msgpack.Encoder()
_questions: msgspec.msgpack.Decoder[Question] = msgspec.msgpack.Decoder(Question)
_answers = msgspec.msgpack.Decoder(Answer)


def pack(frame: Question | Answer) -> bytes:
    """The frame with its length in front."""
    data = _encoder.encode(frame)
    return len(data).to_bytes(LENGTH_SIZE) + data


def question(data: bytes) -> Question:
    """Raises msgspec.MsgspecError for what is none."""
    return _questions.decode(data)


def answer(data: bytes) -> Answer:
    """Raises msgspec.MsgspecError for what is none."""
    return _answers.decode(data)
