"""What a pop client says and makes of the answers, written down independently of ours."""

import time
from dataclasses import dataclass

from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.handles.pop import PopHandle, decode_offsets, decode_starts, real_topic, retry_flag
from pyromq.protocol.headers.pop import (
    AckMessageHeader,
    ChangeMessageInvisibletimeHeader,
    ChangeMessageInvisibletimeResponseHeader,
    PopMessageHeader,
    PopMessageResponseHeader,
)
from pyromq.protocol.message import ReceivedMessage
from pyromq.protocol.properties import Property
from pyromq.protocol.records.record import decode_records

INVISIBLE = 60_000


def now() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True)
class Popped:
    """A message with what it takes to acknowledge it."""

    message: ReceivedMessage
    group: str
    handle: PopHandle

    @property
    def body(self) -> bytes:
        return bytes(self.message.body)

    @property
    def topic(self) -> str:
        """Where it is stored."""
        return real_topic(self.message.topic, self.group, self.handle.retry_flag)


def pop_header(
    topic: str = "orders",
    group: str = "g",
    *,
    queue: int = -1,
    count: int = 32,
    invisible: int = INVISIBLE,
    hold: int = 0,
    born: int | None = None,
    init_mode: int = 0,
    tags: str | None = None,
    sql: str | None = None,
    order: bool = False,
    attempt: str | None = None,
) -> PopMessageHeader:
    """`hold` is how many ms the request may be held."""
    return PopMessageHeader(
        consumer_group=group,
        topic=topic,
        queue_id=queue,
        max_msg_nums=count,
        invisible_time=invisible,
        poll_time=hold,
        born_time=now() if born is None else born,
        init_mode=init_mode,
        exp_type="SQL92" if sql is not None else "TAG",
        exp=sql if sql is not None else tags,
        order=order,
        attempt_id=attempt,
    )


def messages_of(answer: Command, group: str = "g", broker: str = "broker-a") -> list[Popped]:
    """The messages of an answer, each with its handle."""
    if answer.code != ResponseCode.SUCCESS:
        assert answer.code == ResponseCode.POLLING_TIMEOUT, (answer.code, answer.remark)
        return []
    header = answer.header(PopMessageResponseHeader)
    starts, offsets = decode_starts(header.start_offset_info), decode_offsets(header.msg_offset_info)
    popped = []
    for message in decode_records(answer.body):
        text = message.properties.get(Property.POP_CK)
        if text is None:
            key = retry_flag(message.topic), message.queue_id
            assert message.queue_offset in offsets[key]
            handle = PopHandle(
                starts[key], header.pop_time, header.invisible_time, header.revive_qid, key[0],
                broker, message.queue_id, message.queue_offset,
            )  # fmt: skip
        else:
            handle = PopHandle.decode(text)
        popped.append(Popped(message, group, handle))
    return popped


def ack_header(popped: Popped) -> AckMessageHeader:
    return AckMessageHeader(
        consumer_group=popped.group,
        topic=popped.topic,
        queue_id=popped.handle.queue_id,
        extra_info=popped.handle.encode(),
        offset=popped.message.queue_offset,
    )


def change_header(popped: Popped, invisible: int) -> ChangeMessageInvisibletimeHeader:
    return ChangeMessageInvisibletimeHeader(
        consumer_group=popped.group,
        topic=popped.topic,
        queue_id=popped.handle.queue_id,
        extra_info=popped.handle.encode(),
        offset=popped.message.queue_offset,
        invisible_time=invisible,
    )


def changed(popped: Popped, answer: Command) -> Popped:
    """The message with the handle that it has after its invisible time was changed."""
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    header = answer.header(ChangeMessageInvisibletimeResponseHeader)
    handle = PopHandle(
        popped.handle.start_offset if popped.handle.ordered else popped.message.queue_offset,
        header.pop_time, header.invisible_time, header.revive_qid,
        popped.handle.retry_flag, popped.handle.broker_name, popped.handle.queue_id, popped.message.queue_offset,
    )  # fmt: skip
    return Popped(popped.message, popped.group, handle)
