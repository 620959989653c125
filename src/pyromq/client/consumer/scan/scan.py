"""A topic as Arrow record batches: what is there now, in every queue or in some, decoded column by column.

A scan reads and leaves no trace: it joins nothing, moves no offset of the group and calls no filter hook.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import TypedDict

from pyromq.client.consumer.config import PullConfig
from pyromq.client.consumer.fetch import Fetcher
from pyromq.client.consumer.member import Member
from pyromq.client.consumer.scan.answers import Answers
from pyromq.client.consumer.scan.ranges import Place, queue_ranges
from pyromq.client.consumer.subscription import build_subscription, is_tag_filter
from pyromq.client.errors import ClientError
from pyromq.protocol.message import MessageQueue

try:
    import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations

    from pyromq.arrow.body import BODY, ERROR
    from pyromq.arrow.columns import COLUMNS, DEFAULT, check_columns
    from pyromq.arrow.errors import RowsError
    from pyromq.arrow.policy import BadRecords, CorruptRecords
    from pyromq.arrow.pulled import Pulled
    from pyromq.arrow.rowshape import RowShape
except ModuleNotFoundError as error:
    raise ClientError(f"Arrow columns need {error.name}: pip install 'pyromq[arrow]'") from error

BATCH_ROWS = 65_536
BATCH_BYTES = 32 << 20
IN_FLIGHT = 8


class ScanOptions(TypedDict, total=False):
    """What to read, and what rows look like."""

    queues: Collection[MessageQueue] | None
    start: Place | None
    end: Place | None
    tags: str | None
    sql: str | None
    columns: Sequence[str] | None
    body_schema: "pa.Schema | None"
    bad_records: str
    corrupt_records: str
    batch_rows: int
    in_flight: int


class Scan:
    """One read, made of batches as long as it is iterated over; each iteration reads anew."""

    def __init__(self, member: Member[PullConfig], fetcher: Fetcher, topic: str, options: ScanOptions) -> None:
        """Raises ClientError for columns or types that nobody can make."""
        self._member = member
        self._topic = topic
        self._queues = options.get("queues")
        self._start, self._end = options.get("start"), options.get("end")
        self._rows = options.get("batch_rows", BATCH_ROWS)
        self._in_flight = options.get("in_flight", IN_FLIGHT)
        if self._rows < 1 or self._in_flight < 1:
            raise ClientError("a batch has at least one row, and at least one pull is under way")
        wire = member.wire_queue(MessageQueue(topic, "", 0)).topic
        subscription = build_subscription(wire, options.get("tags"), options.get("sql"), 0)
        if not is_tag_filter(subscription):
            subscription.sub_version = member.clock.millis()
        self._answers = Answers(fetcher, member.clock, subscription, member.config.pull_timeout)
        try:
            self._shape = _shape(options, frozenset(subscription.tags_set) or None)
        except (RowsError, ValueError) as error:
            raise ClientError(str(error)) from error

    @property
    def schema(self) -> "pa.Schema":
        """The columns of every batch."""
        return self._shape.schema

    async def __aiter__(self) -> "AsyncIterator[pa.RecordBatch]":
        async with aclosing(self.pulled()) as groups:
            async for pulled in groups:
                for batch in await asyncio.to_thread(list, self.decoded(pulled)):
                    yield batch

    async def read_all(self) -> "pa.Table":
        """All rows. Raises ClientError."""
        return pa.Table.from_batches([batch async for batch in self], self.schema)

    async def pulled(self) -> AsyncGenerator[Pulled]:
        """For the face for threads: what was pulled, a batch at a time."""
        ranges = await queue_ranges(self._member.queries, await self._wanted(), *self._wire_places())
        pulled = Pulled(self._rows, BATCH_BYTES)
        async with aclosing(self._answers.of(ranges, self._in_flight)) as answers:
            async for piece, body, delta, _ in answers:
                if body:
                    pulled.add(body, self._topic, piece.queue.broker_name, piece.start, piece.end, delta)
                if pulled.is_full:
                    yield pulled
                    pulled = Pulled(self._rows, BATCH_BYTES)
        if not pulled.is_empty:
            yield pulled

    def decoded(self, pulled: Pulled) -> "Iterator[pa.RecordBatch]":
        """The rows. Raises ClientError for messages that are not what the options say."""
        try:
            yield from pulled.batches(self._shape)
        except RowsError as error:
            raise ClientError(str(error)) from error

    async def _wanted(self) -> list[MessageQueue]:
        topic = self._member.wire_queue(MessageQueue(self._topic, "", 0)).topic
        known = await self._member.queues_of(topic)
        if self._queues is None:
            return sorted(known)
        wanted = {self._member.wire_queue(queue) for queue in self._queues}
        if unknown := sorted(wanted - set(known)):
            raise ClientError(f"topic {self._topic!r} has no queue {unknown[0].broker_name} {unknown[0].queue_id}")
        return sorted(wanted)

    def _wire_places(self) -> list[Place | None]:
        return [
            {self._member.wire_queue(queue): offset for queue, offset in place.items()}
            if isinstance(place, Mapping)
            else place
            for place in (self._start, self._end)
        ]


def _shape(options: ScanOptions, tags: frozenset[str] | None) -> RowShape:
    """Raises RowsError or, for a policy that there is not, ValueError."""
    body = options.get("body_schema")
    bad = BadRecords(options.get("bad_records", BadRecords.FAIL))
    chosen = options.get("columns")
    names = check_columns(DEFAULT if chosen is None else chosen)
    if chosen is None and body is not None:
        names = tuple(name for name in names if name != "body")
    fields = [pa.field(name, COLUMNS[name]) for name in names]
    if body is not None:
        fields += list(body)
        fields += [pa.field(ERROR, pa.string()), pa.field(BODY, pa.binary())] if bad is BadRecords.KEEP else []
    twice = {name for name in (field.name for field in fields) if name in names} & set(body.names if body else ())
    if twice:
        raise ValueError(f"{', '.join(sorted(twice))} is a field of bodies and a column: leave it out of `columns`")
    return RowShape.plan(
        pa.schema(fields),
        fields=[] if body is None else body.names,
        bad=bad,
        corrupt=CorruptRecords(options.get("corrupt_records", CorruptRecords.FAIL)),
        tags=tags,
    )
