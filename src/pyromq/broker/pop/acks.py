"""ACK_MESSAGE, BATCH_ACK_MESSAGE and CHANGE_MESSAGE_INVISIBLETIME: what consumers say about messages they were given.

An acknowledgement is answered when it is as safe as a message would be. One that comes after its checkpoint was dealt
with has no effect: the message is a retry by then.
"""

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from pyromq.broker.admin.stats import Stat
from pyromq.broker.core import Core
from pyromq.broker.errors import Refused, topic_not_exist
from pyromq.broker.pop.batches import AckOutcome
from pyromq.broker.pop.buffer import PopBuffer
from pyromq.broker.pop.longpoll import PopPark
from pyromq.broker.pop.records import MAX_MESSAGES, PopCheckpoint
from pyromq.broker.pop.revivelog import ReviveLog
from pyromq.broker.refusals import answer
from pyromq.broker.send.answers import refusal
from pyromq.errors import PyroMQError
from pyromq.protocol.bodies.pop import BatchAck, BatchAckBody
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command, encode
from pyromq.protocol.errors import MessageError
from pyromq.protocol.handles.pop import PopHandle, real_topic
from pyromq.protocol.headers.base import Header
from pyromq.protocol.headers.pop import (
    AckMessageHeader,
    ChangeMessageInvisibletimeHeader,
    ChangeMessageInvisibletimeResponseHeader,
)
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Answer, Handler
from pyromq.remoting.handler import Deferred, Grouped
from pyromq.store.log.put import PutResult


@dataclass(frozen=True, slots=True)
class _Place:
    """A queue that messages were popped from: `topic` is where they are stored."""

    topic: str
    group: str
    handle: PopHandle

    @property
    def queue_id(self) -> int:
        return self.handle.queue_id


class Acks:
    """Takes acknowledgements."""

    def __init__(self, core: Core, log: ReviveLog, buffer: PopBuffer, park: PopPark) -> None:
        self._core = core
        self._config = core.config
        self._topics = core.topics
        self._store = core.store
        self._durability = core.durability
        self._offsets = core.offsets
        self._batches = core.tables.batches
        self._stats = core.stats
        self._clock = core.clock
        self._log = log
        self._buffer = buffer
        self._park = park

    def handlers(self) -> dict[int, Handler]:
        """The request codes served here."""
        return {
            RequestCode.ACK_MESSAGE: Grouped(self._ack, self._ack_many),
            RequestCode.BATCH_ACK_MESSAGE: self._ack_batch,
            RequestCode.CHANGE_MESSAGE_INVISIBLETIME: self._change,
        }

    def _ack(self, request: Command, _connection: Connection) -> Command | asyncio.Future[Answer]:
        header = request.header(AckMessageHeader)
        place = self._place(header)
        self._check_kept(place, header.offset, self._store.max_offset(place.topic, place.queue_id))
        return self._once_safe(request, self._done(place, [header.offset]))

    def _ack_many(self, requests: Sequence[Command], _connection: Connection) -> bytes | Deferred | None:
        """Acknowledgements that arrive together: one record for those of one pop. None: one by one."""
        try:
            headers = [request.header(AckMessageHeader) for request in requests]
            places = [self._place(header) for header in headers]
            for place, header in zip(places, headers, strict=True):
                self._check_kept(place, header.offset, self._store.max_offset(place.topic, place.queue_id))
        except PyroMQError:
            return None
        if any(place.handle.ordered for place in places):
            return None
        pops = [
            _Place(each.topic, each.group, msgspec.structs.replace(each.handle, queue_offset=-1)) for each in places
        ]
        offsets: dict[_Place, dict[int, None]] = {pop: {} for pop in pops}
        for pop, header in zip(pops, headers, strict=True):
            offsets[pop][header.offset] = None
        if max(map(len, offsets.values())) > MAX_MESSAGES:
            return None
        refusals: dict[_Place, Refused] = {}
        last: PutResult | None = None
        for pop, numbers in offsets.items():
            try:
                last = self._done(pop, list(numbers)) or last
            except Refused as refused:
                refusals[pop] = refused
        answers = b"".join(
            [
                encode(answer(request, refusals[pop]) if pop in refusals else request.reply())
                for request, pop in zip(requests, pops, strict=True)
                if not request.is_oneway
            ]
        )
        if last is None or not self._durability.needed({}):
            return answers
        later = Deferred()
        self._durability.wait(last, lambda _status: later.answer(answers))
        return later

    def _ack_batch(self, request: Command, _connection: Connection) -> Command | asyncio.Future[Answer]:
        self._check_role()
        body = BatchAckBody.of_request(request.body) if request.body else BatchAckBody()
        if not body.acks:
            raise Refused(ResponseCode.NO_MESSAGE, "the request acknowledges nothing")
        last: PutResult | None = None
        for each in body.acks:
            found = self._batch(each, body.broker_name or self._config.broker_name)
            if found is not None:
                last = self._done(*found) or last
        return self._once_safe(request, last)

    def _batch(self, ack: BatchAck, broker_name: str) -> tuple[_Place, list[int]] | None:
        """What one entry of a batch acknowledges; None when nothing of it is here any more."""
        try:
            topic = real_topic(ack.topic, ack.consumer_group, ack.retry)
        except MessageError as error:
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, str(error)) from None
        known = self._topics.get(topic)
        if known is None or not 0 <= ack.queue_id < known.read_queue_nums:
            return None
        low, high = self._store.min_offset(topic, ack.queue_id), self._store.max_offset(topic, ack.queue_id)
        kept = (offset for offset in ack.offsets() if low <= offset <= high)
        offsets = list(itertools.islice(kept, MAX_MESSAGES + 1))
        if not offsets:
            return None
        if len(offsets) > MAX_MESSAGES:
            raise Refused(
                ResponseCode.MESSAGE_ILLEGAL, f"one pop gives out {MAX_MESSAGES} messages of a queue, not more"
            )
        handle = PopHandle(
            ack.start_offset,
            ack.pop_time,
            ack.invisible_time,
            ack.revive_queue_id,
            ack.retry,
            broker_name,
            ack.queue_id,
            -1,
        )
        self._check_revive_queue(handle)
        self._check_order(handle)
        return _Place(topic, ack.consumer_group, handle), offsets

    def _done(self, place: _Place, offsets: list[int]) -> PutResult | None:
        """Note that messages are done; returns what was written for that. Raises Refused."""
        handle = place.handle
        if handle.ordered:
            return self._done_ordered(place, offsets)
        self._stats.add(Stat.GROUP_ACK_NUMS, f"{place.topic}@{place.group}", len(offsets))
        key = place.topic, place.group, place.queue_id, handle.start_offset, handle.pop_time, handle.broker_name
        unknown = [offset for offset in offsets if not self._buffer.acknowledge(key, offset)]
        if not unknown:
            return None
        result = self._log.acknowledge(handle, place.topic, place.group, unknown)
        if not result.stored:
            raise refusal(result)
        return result

    def _done_ordered(self, place: _Place, offsets: list[int]) -> PutResult | None:
        """Ordered pops are kept in memory and saved now and then: how far they got goes into the log, too."""
        key = place.group, place.topic, place.queue_id
        before = self._offsets.get(*key)
        for offset in offsets:
            self._done_in_order(place, offset)
        after = self._offsets.get(*key)
        if after is None or after == before:
            return None
        result = self._log.reached(place.topic, place.group, place.queue_id, after)
        return result if result.stored else None

    def _done_in_order(self, place: _Place, offset: int) -> None:
        topic, group, queue_id = place.topic, place.group, place.queue_id
        if offset < (self._offsets.get(group, topic, queue_id) or 0):
            return
        outcome = self._batches.acknowledge(topic, group, queue_id, offset, place.handle.pop_time)
        if outcome is AckOutcome.OUTDATED:
            return
        if outcome is AckOutcome.UNKNOWN:
            raise Refused(
                ResponseCode.MESSAGE_ILLEGAL,
                f"offset is illegal, key:{topic}@{queue_id}, ack:{offset}: {outcome.value} of group {group}",
            )
        self._offsets.commit(group, topic, queue_id, int(outcome))
        if self._batches.blocked_until(topic, group, queue_id) is None:
            self._park.notify(topic, group, queue_id)

    def _change(self, request: Command, _connection: Connection) -> Command | asyncio.Future[Answer]:
        header = request.header(ChangeMessageInvisibletimeHeader)
        place = self._place(header)
        if self._core.is_slave:
            raise Refused(ResponseCode.SYSTEM_ERROR, "a slave that acts for its master gives out nothing again")
        self._check_kept(place, header.offset, self._store.max_offset(place.topic, place.queue_id) - 1)
        if place.handle.ordered:
            return self._change_in_order(request, place, header)
        # Never the time of the checkpoint before: if both began at this message, its acknowledgement would be for both.
        pop_time = max(self._clock(), place.handle.pop_time + 1)
        checkpoint = PopCheckpoint(
            broker_name=place.handle.broker_name,
            group=place.group,
            distances=[0],
            invisible_time=header.invisible_time,
            count=1,
            pop_time=pop_time,
            queue_id=place.queue_id,
            start_offset=header.offset,
            topic=place.topic,
        )
        # First the new checkpoint: whatever happens in between, the message is not forgotten.
        written = self._log.note(checkpoint, place.handle.revive_queue)
        if not written.stored:
            raise refusal(written)
        self._done(place, [header.offset])
        answer = ChangeMessageInvisibletimeResponseHeader(
            pop_time=pop_time, invisible_time=header.invisible_time, revive_qid=place.handle.revive_queue
        )
        return self._once_safe(request, written, answer)

    def _change_in_order(self, request: Command, place: _Place, header: ChangeMessageInvisibletimeHeader) -> Command:
        handle = place.handle
        if header.offset < (self._offsets.get(place.group, place.topic, place.queue_id) or 0):
            return request.reply()
        visible = self._clock() + header.invisible_time
        self._batches.postpone(place.topic, place.group, place.queue_id, header.offset, handle.pop_time, visible)
        self._park.notify(place.topic, place.group, place.queue_id)
        return request.reply(
            header=ChangeMessageInvisibletimeResponseHeader(
                pop_time=handle.pop_time,
                invisible_time=visible - handle.pop_time,
                revive_qid=handle.revive_queue,
            )
        )

    def _place(self, header: AckMessageHeader | ChangeMessageInvisibletimeHeader) -> _Place:
        self._check_role()
        topic = self._topics.get(header.topic)
        if topic is None:
            raise topic_not_exist(header.topic)
        if not 0 <= header.queue_id < topic.read_queue_nums:
            raise Refused(
                ResponseCode.MESSAGE_ILLEGAL,
                f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}] has {topic.read_queue_nums} of them",
            )
        try:
            handle = PopHandle.decode(header.extra_info)
        except MessageError as error:
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, str(error)) from None
        self._check_revive_queue(handle)
        self._check_order(handle)
        return _Place(header.topic, header.consumer_group, msgspec.structs.replace(handle, queue_id=header.queue_id))

    def _check_role(self) -> None:
        if self._core.is_slave and not self._core.role.working:
            raise Refused(ResponseCode.SYSTEM_ERROR, "no master available here: this is a slave, send to its master")

    def _check_order(self, handle: PopHandle) -> None:
        if handle.ordered and self._core.is_slave:
            raise Refused(ResponseCode.SYSTEM_ERROR, "a slave knows nothing of ordered pops: try again with its master")

    def _check_revive_queue(self, handle: PopHandle) -> None:
        if not handle.ordered and not 0 <= handle.revive_queue < self._log.queues:
            raise Refused(
                ResponseCode.MESSAGE_ILLEGAL,
                f"the handle names revive queue {handle.revive_queue}, this broker has {self._log.queues}",
            )

    def _check_kept(self, place: _Place, offset: int, highest: int) -> None:
        lowest = self._store.min_offset(place.topic, place.queue_id)
        if not lowest <= offset <= highest:
            raise Refused(
                ResponseCode.NO_MESSAGE,
                f"offset is illegal, key:{place.topic}@{place.queue_id}, ack:{offset}, store:{lowest}~{highest}",
            )

    def _once_safe(
        self, request: Command, written: PutResult | None, header: Header | None = None
    ) -> Command | asyncio.Future[Answer]:
        """Answer when the last record is on disk, and thereby all of them."""
        reply = request.reply(ResponseCode.SUCCESS, header)
        if written is None or not self._durability.needed({}):
            return reply
        # Stored in any case; without the disk the worst is that the message comes back.
        return self._durability.once_safe(written, lambda _status: reply)
