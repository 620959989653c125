"""Message trace records: who sent or consumed what, when, how long it took. Text only; sending them is `tracing.py`.

A record is its fields joined by U+0001 and ended by U+0002; None is written `null`, booleans in lower case. Fields in
order, as older and newer readers agree:

Pub             type, timestamp, region, group, topic, message id, tags, keys, store host, body length, cost,
                message type, offset message id, success [, client host]
SubBefore       type, timestamp, region, group, request id, message id, retry times, keys        (one per message)
SubAfter        type, request id, message id, cost, success, keys, context code [, timestamp, group]
EndTransaction  type, timestamp, region, group, topic, message id, tags, keys, store host, message type (2),
                transaction id, state name, from check
Recall          type, timestamp, region, group, topic, message id, success
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from pyromq.client.config import AccessChannel
from pyromq.client.hooks import MessageType
from pyromq.protocol.errors import MessageError

FIELD = "\x01"
RECORD = "\x02"


class TraceType(StrEnum):
    PUB = "Pub"
    SUB_BEFORE = "SubBefore"
    SUB_AFTER = "SubAfter"
    END_TRANSACTION = "EndTransaction"
    RECALL = "Recall"


@dataclass(slots=True, kw_only=True)
class TraceBean:
    """What a record says about one message."""

    topic: str = ""
    message_id: str = ""
    offset_message_id: str = ""
    tags: str = ""
    keys: str = ""
    store_host: str = ""
    client_host: str = ""
    body_length: int = 0
    retry_times: int = 0
    message_type: MessageType = MessageType.NORMAL
    transaction_id: str | None = None
    transaction_state: str | None = None
    from_transaction_check: bool = False


@dataclass(slots=True, kw_only=True)
class TraceContext:
    """One event, about one message or (SubBefore, SubAfter) several."""

    trace_type: TraceType
    timestamp: int = 0
    region: str | None = ""
    group: str = ""
    cost_ms: int = 0
    success: bool = True
    request_id: str = ""
    context_code: int = 0
    access_channel: AccessChannel = AccessChannel.LOCAL
    beans: list[TraceBean] = field(default_factory=list)


def encode(context: TraceContext) -> str:
    """The record text; one record per message for the consumer's kinds."""
    kind = context.trace_type
    if kind is TraceType.SUB_BEFORE:
        return "".join(
            _record(
                kind, context.timestamp, context.region, context.group, context.request_id,
                bean.message_id, bean.retry_times, bean.keys,
            )
            for bean in context.beans
        )  # fmt: skip
    if kind is TraceType.SUB_AFTER:
        # The separator after the code is there even when nothing follows it.
        tail = ("",) if context.access_channel is AccessChannel.CLOUD else (context.timestamp, context.group)
        return "".join(
            _record(
                kind, context.request_id, bean.message_id, context.cost_ms, context.success, bean.keys,
                context.context_code, *tail,
            )
            for bean in context.beans
        )  # fmt: skip
    bean = context.beans[0]
    start = (kind, context.timestamp, context.region, context.group, bean.topic, bean.message_id)
    if kind is TraceType.PUB:
        return _record(
            *start, bean.tags, bean.keys, bean.store_host, bean.body_length, context.cost_ms,
            int(bean.message_type), bean.offset_message_id, context.success,
        )  # fmt: skip
    if kind is TraceType.END_TRANSACTION:
        return _record(
            *start, bean.tags, bean.keys, bean.store_host, int(bean.message_type),
            bean.transaction_id, bean.transaction_state, bean.from_transaction_check,
        )  # fmt: skip
    return _record(*start, context.success)


def _record(*fields: object) -> str:
    return FIELD.join(map(_text, fields)) + RECORD


def _text(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def decode(text: str) -> list[TraceContext]:
    """Every record of a trace message, of any release. Raises MessageError for one that cannot be read.

    Kinds of later releases are passed over.
    """
    return [context for record in text.split(RECORD) if record and (context := _decode(record.split(FIELD)))]


def _decode(line: list[str]) -> TraceContext | None:
    reader = _READERS.get(line[0])
    if reader is None:
        return None
    try:
        return reader(line)
    except (IndexError, ValueError) as error:
        raise MessageError(f"trace record {line[0]} with {len(line)} fields cannot be read: {error}") from None


def _pub(line: list[str]) -> TraceContext:
    bean = TraceBean(
        topic=line[4], message_id=line[5], tags=line[6], keys=line[7], store_host=line[8],
        body_length=int(line[9]), message_type=MessageType(int(line[11])),
    )  # fmt: skip
    context = TraceContext(
        trace_type=TraceType.PUB, timestamp=int(line[1]), region=line[2], group=line[3], cost_ms=int(line[10])
    )
    if len(line) == 13:
        context.success = line[12] == "true"
    elif len(line) >= 14:
        bean.offset_message_id = line[12]
        context.success = line[13] == "true"
        if len(line) >= 15:
            bean.client_host = line[14]
    context.beans.append(bean)
    return context


def _sub_before(line: list[str]) -> TraceContext:
    bean = TraceBean(message_id=line[5], retry_times=int(line[6]), keys=line[7])
    return TraceContext(
        trace_type=TraceType.SUB_BEFORE, timestamp=int(line[1]), region=line[2], group=line[3],
        request_id=line[4], beans=[bean],
    )  # fmt: skip


def _sub_after(line: list[str]) -> TraceContext:
    context = TraceContext(
        trace_type=TraceType.SUB_AFTER, request_id=line[1], cost_ms=int(line[3]), success=line[4] == "true",
        beans=[TraceBean(message_id=line[2], keys=line[5])],
    )  # fmt: skip
    if len(line) >= 7 and line[6]:
        context.context_code = int(line[6])
    if len(line) >= 9:
        context.timestamp = int(line[7])
        context.group = line[8]
    return context


def _end_transaction(line: list[str]) -> TraceContext:
    bean = TraceBean(
        topic=line[4], message_id=line[5], tags=line[6], keys=line[7], store_host=line[8],
        message_type=MessageType(int(line[9])), transaction_id=line[10], transaction_state=line[11],
        from_transaction_check=line[12] == "true",
    )  # fmt: skip
    return TraceContext(
        trace_type=TraceType.END_TRANSACTION, timestamp=int(line[1]), region=line[2], group=line[3], beans=[bean]
    )


def _recall(line: list[str]) -> TraceContext:
    return TraceContext(
        trace_type=TraceType.RECALL, timestamp=int(line[1]), region=line[2], group=line[3],
        success=line[6] == "true", beans=[TraceBean(topic=line[4], message_id=line[5])],
    )  # fmt: skip


_READERS: dict[str, Callable[[list[str]], TraceContext]] = {
    TraceType.PUB: _pub,
    TraceType.SUB_BEFORE: _sub_before,
    TraceType.SUB_AFTER: _sub_after,
    TraceType.END_TRANSACTION: _end_transaction,
    TraceType.RECALL: _recall,
}


@dataclass(slots=True)
class TraceText:
    """Text of one trace message and the keys it is found by."""

    text: str
    keys: set[str]


def pack(contexts: Iterable[TraceContext], limit: int) -> list[TraceText]:
    """Records put together into messages, each cut as soon as it has `limit` characters; keys are ids and keys."""
    packed: list[TraceText] = []
    parts: list[str] = []
    keys: set[str] = set()
    length = 0
    for context in contexts:
        record = encode(context)
        parts.append(record)
        length += len(record)
        for bean in context.beans:
            keys.add(bean.message_id)
            keys.update(bean.keys.split())
        if length >= limit:
            packed.append(TraceText("".join(parts), keys))
            parts, keys, length = [], set(), 0
    if parts:
        packed.append(TraceText("".join(parts), keys))
    return packed
