"""Traces of a message: who sent it, who consumed it, when, how long that took and how it ended."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from pyromq.client.admin.messages import FOREVER
from pyromq.client.admin.reach import Subject
from pyromq.client.trace import records as trace
from pyromq.client.trace.records import TraceContext, TraceType
from pyromq.protocol.errors import MessageError
from pyromq.protocol.message import ReceivedMessage
from pyromq.protocol.names import TRACE_TOPIC


@dataclass(frozen=True, slots=True)
class Consumption:
    """One attempt to consume: its beginning and its end, of which either record may be missing."""

    before: TraceContext | None = None
    after: TraceContext | None = None

    @property
    def group(self) -> str:
        known = self.before or self.after
        return known.group if known is not None else ""

    @property
    def success(self) -> bool | None:
        """None while the end is not known."""
        return None if self.after is None else self.after.success


@dataclass(slots=True)
class MessageTrace:
    """All records about one message, each kind in order of time."""

    message_id: str
    sends: list[TraceContext] = field(default_factory=list)
    consumptions: list[Consumption] = field(default_factory=list)
    transactions: list[TraceContext] = field(default_factory=list)
    recalls: list[TraceContext] = field(default_factory=list)


class TraceMethods(Subject):
    """What `Admin` reads out of traces."""

    async def message_trace(
        self,
        message_id: str,
        *,
        topic: str = TRACE_TOPIC,
        begin_ms: int = 0,
        end_ms: int = FOREVER,
        max_num: int = 64,
    ) -> MessageTrace:
        """What the trace topic says about a message, by the id that its sender gave it (or by one of its keys).

        Raises ClientError NO_MESSAGE when there is no trace of it.
        """
        queries = await self._reach().queries(topic)
        return collect(message_id, await queries.query_message(topic, message_id, max_num, begin_ms, end_ms))


def collect(message_id: str, carriers: Iterable[ReceivedMessage]) -> MessageTrace:
    """Records about one message out of trace messages, which also carry others. Unreadable ones are passed over."""
    found = MessageTrace(message_id)
    begun: dict[str, TraceContext] = {}
    ended: dict[str, TraceContext] = {}
    for context in _contexts(carriers):
        if not any(message_id == bean.message_id or message_id in bean.keys.split() for bean in context.beans):
            continue
        kind = context.trace_type
        if kind is TraceType.PUB:
            found.sends.append(context)
        elif kind is TraceType.SUB_BEFORE:
            begun[context.request_id] = context
        elif kind is TraceType.SUB_AFTER:
            ended[context.request_id] = context
        elif kind is TraceType.END_TRANSACTION:
            found.transactions.append(context)
        else:
            found.recalls.append(context)
    pairs = [Consumption(begun.get(request), ended.get(request)) for request in {**begun, **ended}]
    found.consumptions = sorted(pairs, key=_time)
    for records in (found.sends, found.transactions, found.recalls):
        records.sort(key=lambda context: context.timestamp)
    return found


def _contexts(carriers: Iterable[ReceivedMessage]) -> Iterable[TraceContext]:
    for carrier in carriers:
        try:
            yield from trace.decode(carrier.body.decode("utf-8", "replace"))
        except MessageError:
            continue


def _time(consumption: Consumption) -> int:
    known = consumption.before or consumption.after
    return known.timestamp if known is not None else 0
