"""The put path: rules, queue offset, append, dispatch. One thread, so the whole of a put is one critical section:
offsets of a queue follow the order of the log.

Invariant: a message that is refused leaves no trace. One message has a lane of its own, to which the lists of the
other would be a cost; a group, messages that arrive together, is worked on step by step for all of them, and a batch,
which is in the log as a whole or not at all, by columns.
"""

from collections.abc import Callable, Sequence
from struct import error as StructError  # noqa: N812 - a class under a lower-case name
from zlib import crc32

from pyromq.protocol.errors import MessageError
from pyromq.protocol.headers.sendrun import Placed, SendRun, write_sends
from pyromq.protocol.properties import decode_properties
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.batch import iter_batch
from pyromq.protocol.records.host import V4_SIZE
from pyromq.protocol.records.record import BLANK_SIZE, MAGIC_V1
from pyromq.protocol.records.tags import tags_code
from pyromq.store.arrival import Arrival, Run, Sends, Waiting, code_of
from pyromq.store.config import StoreConfig
from pyromq.store.dispatcher import Dispatcher
from pyromq.store.errors import DiskFullError
from pyromq.store.flags import Flag, RunningFlags
from pyromq.store.index.keyhash import Keys
from pyromq.store.log.commitlog import CommitLog
from pyromq.store.log.encoder import encode_record, place_batch, shared_part
from pyromq.store.log.flush import Flusher
from pyromq.store.log.mappedfile import MappedFile
from pyromq.store.log.plainrecord import PREFIX, PROPERTIES_LENGTH
from pyromq.store.log.put import PutMessage, PutResult, PutStatus
from pyromq.store.log.rules import INNER_BATCH_REFUSED, PutRules
from pyromq.store.log.tail import Tail, Tails
from pyromq.store.queue.consumequeue import ConsumeQueue
from pyromq.store.stats import StoreStats

_INNER_BATCH = sysflag.INNER_BATCH
_TRANSACTION = sysflag.TRANSACTION_MASK
_QUEUED = (sysflag.NOT_TRANSACTIONAL, sysflag.COMMIT)
_SPECIAL = sysflag.TRANSACTION_MASK | sysflag.INNER_BATCH | sysflag.HOSTS_MASK
_NO_V6 = ~sysflag.HOSTS_MASK
_HOSTS = 2 * V4_SIZE
_pack_prefix = PREFIX.pack
_pack_length = PROPERTIES_LENGTH.pack
_MAX_REMEMBERED_TAGS = 256
_PUT_OK = PutStatus.PUT_OK


class Appender:
    """Stores messages that its `rules` admit."""

    def __init__(
        self,
        config: StoreConfig,
        clock: Callable[[], int],
        commit_log: CommitLog,
        tails: Tails,
        dispatcher: Dispatcher,
        flusher: Flusher,
        flags: RunningFlags,
        stats: StoreStats,
    ) -> None:
        self._clock = clock
        self._log = commit_log
        self._dispatcher = dispatcher
        self._flusher = flusher
        self._flags = flags
        self._stats = stats
        self.sync = config.sync_flush
        """Whether messages wait for the disk before anybody sees them."""
        self._delays = config.delays
        self.tails = tails
        self._known = tails.known
        self._codes: dict[str, int] = {}
        self.rules = PutRules(config, flags, dispatcher, commit_log.largest_record)
        self.store_host = b""

    def start(self) -> None:
        """Take messages from now on."""
        self.rules.accepting = True

    def stop(self) -> None:
        """Take none from now on."""
        self.rules.accepting = False
        self.tails.forget()

    def put(self, message: PutMessage) -> PutResult:
        """Append one message. Never raises for what the message is; see `PutResult.status` and `reason`."""
        properties = message.property_map
        if properties is None:
            properties = message.property_map = decode_properties(message.properties)
        rules, topic, queue_id = self.rules, message.topic, message.queue_id
        tail = self._known.get((topic, queue_id))
        asks = rules.hooks and (rules.asks_always or not rules.marks.isdisjoint(properties))
        if tail is None or asks or self._flags.bits:
            admitted = self._admit(message)
            if isinstance(admitted, PutResult):
                return self._refuse(admitted)
            tail, topic, queue_id = admitted, message.topic, message.queue_id
            properties = message.property_map or decode_properties(message.properties)
        sys_flag = message.sys_flag
        if "INNER_NUM" in properties or sys_flag & _INNER_BATCH:
            return self._refuse(INNER_BATCH_REFUSED)
        counted = not sys_flag or sys_flag & _TRANSACTION in _QUEUED
        body, text, born_host = message.body, message.properties, message.born_host
        store_host = message.store_host or self.store_host
        size = tail.fixed_size + len(body) + len(text) + len(born_host) + len(store_host)
        if size > rules.surely_small and (refusal := rules.check_size(len(text), len(body), size)) is not None:
            return self._refuse(refusal)

        commit_log = self._log
        file = commit_log.last
        if file is None or file.position + size > commit_log.limit:
            try:
                file = commit_log.room(size)
            except (DiskFullError, OSError) as error:
                return self._refuse(rules.no_room(error))
        queue_offset = tail.next_offset if counted else 0
        position = file.position
        offset = file.start + position
        timestamp = self._clock()
        try:
            if len(born_host) == 8 == len(store_host) and tail.short:  # in place, since a call costs a few percent
                prefix = _pack_prefix(
                    size, MAGIC_V1, crc32(body) & 0x7FFFFFFF, queue_id, message.flag, queue_offset, offset,
                    sys_flag & _NO_V6, message.born_timestamp, born_host, timestamp, store_host,
                    message.reconsume_times, message.prepared_transaction_offset, len(body),
                )  # fmt: skip
                record = b"".join((prefix, body, tail.topic_field, _pack_length(len(text)), text))
            else:
                record = encode_record(message, tail, queue_offset, offset, size, timestamp, store_host)
        except (MessageError, StructError) as error:
            return self._refuse(_misfit(error))
        file.raw[position : position + size] = record
        file.position = position + size  # last: the flush thread believes it
        if counted:
            tail.next_offset = queue_offset + 1
        if tail.scheduled:
            code = code_of(topic, properties, timestamp, self._delays)
        else:
            tags = properties.get("TAGS")
            code = self._codes.get(tags) or self._code(tags) if tags else 0
        arrival = Arrival(
            topic, queue_id, queue_offset, offset, size, code, timestamp, sys_flag, properties, tail.queue
        )
        dispatcher = self._dispatcher
        if self.sync or dispatcher.waiting or not dispatcher.enter(arrival):
            self._hold((arrival,), 1)
        stats = self._stats
        stats.put_count += 1
        stats.put_bytes += size
        return PutResult(_PUT_OK, offset, size, queue_offset, timestamp, store_host)

    def put_many(self, messages: Sequence[PutMessage]) -> list[PutResult]:
        """`put` for each of them, in order, and quicker: one clock, one reservation, short loops."""
        tails = self._plain_tails(messages)
        arrivals = self._append(messages, tails) if tails is not None else None
        if arrivals is None:
            return [self.put(message) for message in messages]
        if self.sync or not self._dispatcher.enter_group(arrivals):
            self._hold(arrivals, len(arrivals))
        self._stats.put_count += len(arrivals)
        self._stats.put_bytes += arrivals[-1].physical_offset + arrivals[-1].size - arrivals[0].physical_offset
        host = self.store_host
        return [
            PutResult(_PUT_OK, each.physical_offset, each.size, each.queue_offset, each.store_timestamp, host)
            for each in arrivals
        ]

    def put_run(self, run: SendRun, born_host: bytes, suffix: bytes) -> Sends | None:
        """Append a run of plain sends, with `suffix` added to the properties of each, or of batches; None, and nothing
        has changed, when that takes more than to append them: `put` or `put_batch` says what, for each of them."""
        dispatcher, rules = self._dispatcher, self.rules
        count = run.messages
        crowded = dispatcher.backlog + count >= rules.max_waiting if self.sync else dispatcher.waiting
        if crowded or self._flags.bits or rules.asks_always:
            return None
        if run.sys_flags & _SPECIAL or not rules.marks.isdisjoint(run.names):
            return None
        known = self._known
        tails: list[Tail] = []
        numbers: list[int] = []
        queues: list[ConsumeQueue] = []
        for place in run.places:
            tail = known.get(place)
            if tail is None or not tail.plain:
                return None
            tails.append(tail)
            numbers.append(tail.next_offset)
            queues.append(tail.queue)
        timestamp = self._clock()
        written = self._write(run, numbers, (born_host, self.store_host, suffix, timestamp))
        if written is None:
            return None
        file, placed = written
        start, size = file.position, placed.size
        file.position = start + size  # last: the flush thread believes it
        for tail, added in zip(tails, run.counts, strict=True):
            tail.next_offset += added
        sends = Sends(run, placed, queues, numbers, file.start + start, size, timestamp, self.store_host, file)
        if self.sync or not dispatcher.enter_run(sends):
            self._hold((sends,), count)
        self._stats.put_count += count
        self._stats.put_bytes += size
        return sends

    def _write(
        self, run: SendRun, numbers: Sequence[int], common: tuple[bytes, bytes, bytes, int]
    ) -> tuple[MappedFile, Placed] | None:
        """Write the records of a run behind the log, where nobody looks yet; None if they need more than room."""
        log, rules = self._log, self.rules
        file, limit = log.last, log.limit
        while file is not None:
            place = file.position, limit, file.start, rules.surely_small, rules.max_batch
            placed = write_sends(run, file.raw, place, numbers, common)
            if not isinstance(placed, int):
                return None if placed is None else (file, placed)
            if placed + BLANK_SIZE > file.size - file.position:
                return None  # which of them is the last in this file is found one by one
            try:
                file = log.room(placed)
            except (DiskFullError, OSError):
                return None
            limit = file.position + placed
        return None

    def put_batch(self, message: PutMessage) -> PutResult:
        """Expand a producer's batch into records with consecutive offsets and append them as one."""
        if message.property_map is None:
            message.property_map = decode_properties(message.properties)
        if (refusal := self.rules.check_batch(message)) is not None:
            return self._refuse(refusal)
        rules = self.rules
        asks = rules.hooks and (rules.asks_always or not rules.marks.isdisjoint(message.property_map))
        tail = self._known.get((message.topic, message.queue_id))
        if tail is None or asks or self._flags.bits:
            admitted = self._admit(message)
            if isinstance(admitted, PutResult):
                return self._refuse(admitted)
            tail = admitted
        store_host = message.store_host or self.store_host
        timestamp = self._clock()
        try:
            placed = self._place(message, tail, timestamp, shared_part(message, timestamp, store_host))
        except StructError as error:
            placed = _misfit(error)
        if isinstance(placed, PutResult):
            return self._refuse(placed)
        file, total, entries, keys = placed
        number, start = tail.next_offset, file.position
        file.position = start + total  # last: the flush thread believes it
        run = Run(
            message.topic, message.queue_id, number, file.start + start, total, timestamp, message.sys_flag, tail.queue,
            entries, keys, file.view(start, start + total),
        )  # fmt: skip
        if tail.scheduled:
            run.schedule(self._delays)
        count = run.count
        tail.next_offset = number + count
        dispatcher = self._dispatcher
        if self.sync or dispatcher.waiting or not dispatcher.enter_run(run):
            self._hold((run,), count)
        self._stats.put_count += count
        self._stats.put_bytes += total
        return PutResult(_PUT_OK, file.start + start, total, number, timestamp, store_host, count, entries)

    def _place(
        self, message: PutMessage, tail: Tail, timestamp: int, shared: bytes
    ) -> tuple[MappedFile, int, bytes, Keys] | PutResult:
        """Write the records of a batch behind the log, where nobody looks yet; or why not. Raises struct.error."""
        rules, file, limit = self.rules, self._log.last, self._log.limit
        while True:
            raw, position, start = (file.raw, file.position, file.start) if file is not None else (bytearray(), 0, 0)
            placed = place_batch(
                raw, position, min(limit, position + rules.max_batch), message.body, tail.topic, message.queue_id,
                tail.next_offset, start + position, shared, timestamp,
            )  # fmt: skip
            if placed is None:
                return PutResult(PutStatus.MESSAGE_ILLEGAL, reason=_nonsense(message.body))
            if file is not None and not isinstance(placed, int):
                return file, *placed
            needed = placed if isinstance(placed, int) else placed[0]
            if (refusal := rules.check_batch_size(needed)) is not None:
                return refusal
            try:
                file = self._log.room(needed)
            except (DiskFullError, OSError) as error:
                return rules.no_room(error)
            limit = file.position + needed

    def _admit(self, message: PutMessage) -> Tail | PutResult:
        """The queue that a message goes to, or why it does not."""
        refusal = self.rules.check(message)
        return refusal if refusal is not None else self.tails.get_or_create(message.topic, message.queue_id)

    def _refuse(self, result: PutResult) -> PutResult:
        self._stats.put_failed += 1
        return result

    def _hold(self, runs: Sequence[Waiting], count: int) -> None:
        """Nobody may see the messages before they are on disk, or before there is space for their entries."""
        dispatcher = self._dispatcher
        dispatcher.hold(runs, count)
        if self.sync:
            self._flusher.wake()
            if dispatcher.backlog >= self.rules.max_waiting:
                self._flags.set(Flag.BUSY)
        else:
            dispatcher.advance(runs[-1].physical_offset + runs[-1].size)  # as far as there is space

    def _plain_tails(self, messages: Sequence[PutMessage]) -> list[Tail] | None:
        """Where the messages go; None when one of them needs more than to be appended."""
        dispatcher, rules = self._dispatcher, self.rules
        crowded = dispatcher.backlog + len(messages) >= rules.max_waiting if self.sync else dispatcher.waiting
        if crowded or self._flags.bits or len(self.store_host) != V4_SIZE:
            return None
        known, marks = self._known, rules.marks
        tails: list[Tail] = []
        for message in messages:
            tail = known.get((message.topic, message.queue_id))
            properties = message.property_map
            if tail is None or not tail.plain or properties is None or message.store_host is not None:
                return None
            if message.sys_flag & _SPECIAL or len(message.born_host) != V4_SIZE or not marks.isdisjoint(properties):
                return None
            tails.append(tail)
        return None if rules.asks_always else tails

    def _append(self, messages: Sequence[PutMessage], tails: Sequence[Tail]) -> list[Arrival] | None:
        """Write the records behind each other; None, and nothing has changed, when that takes more than a copy."""
        sizes = [
            tail.fixed_size + _HOSTS + len(message.body) + len(message.properties)
            for tail, message in zip(tails, messages, strict=True)
        ]
        file, total = self._log.last, sum(sizes)
        if max(sizes) > self.rules.surely_small or file is None or file.position + total > self._log.limit:
            return None
        start, timestamp, store_host = file.position, self._clock(), self.store_host
        offset = file.start + start
        records: list[bytes] = []
        arrivals: list[Arrival] = []
        try:
            for message, tail, size in zip(messages, tails, sizes, strict=True):
                number, properties = tail.next_offset, message.property_map or {}
                records.append(encode_record(message, tail, number, offset, size, timestamp, store_host))
                tags = properties.get("TAGS")
                code = self._codes.get(tags) or self._code(tags) if tags else 0
                arrivals.append(
                    Arrival(
                        message.topic, message.queue_id, number, offset, size, code, timestamp, message.sys_flag,
                        properties, tail.queue,
                    )
                )  # fmt: skip
                tail.next_offset = number + 1
                offset += size
        except StructError:  # a number does not fit: whose it is shows when they are put one by one
            for tail, arrival in zip(reversed(tails[: len(arrivals)]), reversed(arrivals), strict=True):
                tail.next_offset = arrival.queue_offset
            return None
        file.append_records(records, start + total)
        return arrivals

    def _code(self, tags: str) -> int:
        """The hash of tags, remembered if they are short and not too many."""
        code = tags_code(tags)
        if len(tags) <= _MAX_REMEMBERED_TAGS and len(self._codes) < _MAX_REMEMBERED_TAGS:
            self._codes[tags] = code
        return code


def _misfit(error: Exception) -> PutResult:
    return PutResult(PutStatus.MESSAGE_ILLEGAL, reason=f"a number does not fit: {error}")


def _nonsense(batch: bytes | bytearray | memoryview) -> str:
    """Why a batch is none."""
    try:
        for _ in iter_batch(batch):
            pass
    except MessageError as error:
        return str(error)
    return "the batch is empty"
