"""From a pop's answer to messages that carry their handles, and from handles to an acknowledgement of many of them."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from pyromq.protocol.bodies.pop import BatchAck, ack_bits
from pyromq.protocol.errors import MessageError
from pyromq.protocol.handles.pop import (
    PopHandle,
    QueueKey,
    decode_offsets,
    decode_order_counts,
    decode_starts,
    order_count,
    retry_flag,
)
from pyromq.protocol.headers.pop import PopMessageResponseHeader
from pyromq.protocol.message import ReceivedMessage
from pyromq.protocol.properties import Property


def handle_of(message: ReceivedMessage) -> PopHandle:
    """The handle that a popped message carries. Raises MessageError when it has none."""
    return PopHandle.decode(message.properties.get(Property.POP_CK, ""))


def attach_handles(
    messages: Sequence[ReceivedMessage], broker_name: str, answer: PopMessageResponseHeader
) -> list[PopHandle]:
    """Give each message its handle: the k-th smallest offset of a queue pairs with the k-th the broker names for it.

    Messages from a retry topic may carry one already. Those of an ordered pop learn from the answer how often they were
    given out before. Returns the handles. Raises MessageError when the answer does not fit.
    """
    counts = decode_order_counts(answer.order_count_info)
    starts = decode_starts(answer.start_offset_info)
    given = decode_offsets(answer.msg_offset_info)
    by_queue: dict[QueueKey, list[ReceivedMessage]] = {}
    handles: dict[int, PopHandle] = {}
    for message in messages:
        message.properties.setdefault(Property.FIRST_POP_TIME, str(answer.pop_time))
        own = _own_handle(message)
        if own is None:
            by_queue.setdefault((retry_flag(message.topic), message.queue_id), []).append(message)
        else:
            handles[id(message)] = own
    _adopt_unframed(by_queue, given)
    for key, members in by_queue.items():
        offsets = given.get(key)
        for index, message in enumerate(sorted(members, key=lambda member: member.queue_offset)):
            offset = offsets[index] if offsets is not None and index < len(offsets) else message.queue_offset
            handle = handles[id(message)] = PopHandle(
                start_offset=starts.get(key, offset),
                pop_time=answer.pop_time,
                invisible_time=answer.invisible_time,
                revive_queue=answer.revive_qid,
                retry_flag=key[0],
                broker_name=broker_name,
                queue_id=key[1],
                queue_offset=offset,
            )
            message.properties[Property.POP_CK] = handle.encode()
            if counts:
                message.reconsume_times = order_count(counts, *key, offset)
    return [handles.get(id(message)) or handle_of(message) for message in messages]


def batch_acks(group: str, topic: str, handles: Iterable[PopHandle]) -> list[BatchAck]:
    """One entry for each pop and queue, with a bit for each offset behind the one where that pop began.

    `topic` is the one that consumers name, also for messages from its retry topics. Raises BodyError for a handle whose
    offset is not of its pop.
    """
    pops: dict[PopHandle, list[int]] = {}
    for handle in handles:
        pop = msgspec.structs.replace(handle, queue_offset=handle.start_offset)
        pops.setdefault(pop, []).append(handle.queue_offset - handle.start_offset)
    return [
        BatchAck(
            bits=ack_bits(positions),
            consumer_group=group,
            invisible_time=pop.invisible_time,
            pop_time=pop.pop_time,
            queue_id=pop.queue_id,
            retry=pop.retry_flag,
            revive_queue_id=pop.revive_queue,
            start_offset=pop.start_offset,
            topic=topic,
        )
        for pop, positions in pops.items()
    ]


def _adopt_unframed(by_queue: dict[QueueKey, list[ReceivedMessage]], given: Mapping[QueueKey, list[int]]) -> None:
    """A record without a frame says nothing true of its queue: it is one of those that the broker gave and are missing.

    In the place of one of those it is acknowledged, and sound messages keep theirs.
    """
    unframed = [
        message for members in by_queue.values() for message in members if message.damaged and not message.topic
    ]
    if not unframed:
        return
    for key in list(by_queue):
        by_queue[key] = [message for message in by_queue[key] if message not in unframed]
    missing = [
        (key, offset)
        for key, offsets in given.items()
        for offset in offsets
        if offset not in {message.queue_offset for message in by_queue.get(key, [])}
    ]
    for message, (key, offset) in zip(unframed, missing, strict=False):
        message.queue_id, message.queue_offset = key[1], offset
        by_queue.setdefault(key, []).append(message)


def _own_handle(message: ReceivedMessage) -> PopHandle | None:
    """The one that a message carries already, if it is one."""
    text = message.properties.get(Property.POP_CK)
    if text is None:
        return None
    try:
        return PopHandle.decode(text)
    except MessageError:
        return None
