"""Popping by raw commands: what a client does with the answer, written down independently of ours."""

import time
from dataclasses import dataclass

from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers import (
    AckMessageHeader,
    ChangeMessageInvisibletimeHeader,
    ChangeMessageInvisibletimeResponseHeader,
    PopMessageHeader,
    PopMessageResponseHeader,
)
from pyromq.protocol.message import ReceivedMessage
from pyromq.protocol.popping import PopHandle, decode_offsets, decode_starts, real_topic, retry_flag
from pyromq.protocol.properties import Property
from pyromq.protocol.record import decode_records
from tests.integration.broker.servers import Peer

INVISIBLE = 60_000
HOLD = 25_000


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


async def pop_command(
    peer: Peer,
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
) -> Command:
    """One pop; `hold` ms it may be held."""
    header = PopMessageHeader(
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
    return await peer.call(RequestCode.POP_MESSAGE, header)


def messages_of(answer: Command, group: str = "g") -> list[Popped]:
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
                "broker-a", message.queue_id, message.queue_offset,
            )  # fmt: skip
        else:
            handle = PopHandle.decode(text)
        popped.append(Popped(message, group, handle))
    return popped


async def pop(peer: Peer, topic: str = "orders", group: str = "g", **options: object) -> list[Popped]:
    """The messages of one pop."""
    return messages_of(await pop_command(peer, topic, group, **options), group)  # type: ignore[arg-type]  # as above


async def pop_until(peer: Peer, count: int, topic: str = "orders", group: str = "g", **options: object) -> list[Popped]:
    """Pop, waiting each time, until there are so many messages."""
    popped: list[Popped] = []
    while len(popped) < count:
        popped += await pop(peer, topic, group, hold=HOLD, **options)
    return popped


async def ack(peer: Peer, popped: Popped) -> Command:
    header = AckMessageHeader(
        consumer_group=popped.group,
        topic=popped.topic,
        queue_id=popped.handle.queue_id,
        extra_info=popped.handle.encode(),
        offset=popped.message.queue_offset,
    )
    return await peer.call(RequestCode.ACK_MESSAGE, header)


async def acked(peer: Peer, *popped: Popped) -> None:
    """Acknowledge and insist on success."""
    for each in popped:
        answer = await ack(peer, each)
        assert answer.code == ResponseCode.SUCCESS, answer.remark


async def renew(peer: Peer, popped: Popped, invisible: int) -> Popped:
    """Change the invisible time; the message with its new handle."""
    header = ChangeMessageInvisibletimeHeader(
        consumer_group=popped.group,
        topic=popped.topic,
        queue_id=popped.handle.queue_id,
        extra_info=popped.handle.encode(),
        offset=popped.message.queue_offset,
        invisible_time=invisible,
    )
    answer = await peer.call(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    changed = answer.header(ChangeMessageInvisibletimeResponseHeader)
    handle = PopHandle(
        popped.message.queue_offset, changed.pop_time, changed.invisible_time, changed.revive_qid,
        popped.handle.retry_flag, popped.handle.broker_name, popped.handle.queue_id, popped.message.queue_offset,
    )  # fmt: skip
    return Popped(popped.message, popped.group, handle)
