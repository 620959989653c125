"""Writers in the log: what is decided about them goes into a topic of the broker's own, before it takes effect.

Their messages are in the log anyway, with their places. So the log alone says what a broker must know, and it says the
same to a slave that takes over, or after a crash. From time to time the whole table is written down, too, and again
soon after the log continues in another file: recovery reads the last such record and what follows it, and retention
does not take it away. Should it be lost all the same, then writers are forgotten, which is safe.
"""

import logging
from collections.abc import Callable

import msgspec

from pyromq.broker.errors import Refused
from pyromq.broker.writers.records import PART, Began, Closed, Decision, Opened, TableRecord, decoded, parts_of
from pyromq.broker.writers.table import WriterTable
from pyromq.protocol import names
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.errors import ProtocolError
from pyromq.protocol.handles.writer import PLACE, WRITER, Place
from pyromq.protocol.message import ReceivedMessage
from pyromq.protocol.records.host import pack_host
from pyromq.protocol.records.record import decode_record, decode_records
from pyromq.store.log.put import PutMessage, PutResult
from pyromq.store.log.walk import LogRecord, Walker
from pyromq.store.messagestore import MessageStore

log = logging.getLogger(__name__)

TOPIC = names.WRITERS_TOPIC
DECISIONS, TABLES = 0, 1
"""Queues of the topic."""
TABLE_EVERY = 128 << 20
"""Bytes of the log between two records of the whole table: what recovery reads at most."""


class Journal:
    """Keeps a table in a store's log."""

    def __init__(self, table: WriterTable, store: MessageStore, clock: Callable[[], int]) -> None:
        self._table = table
        self._store = store
        self._clock = clock
        self._written = 0
        """Where in the log the last table is."""
        self._changed = False
        self._failing = False

    def decide(self, decision: Decision) -> PutResult:
        """Write a decision down, then let it take effect; recovery does the same with what it reads.

        Raises Refused when the store takes nothing now, which leaves everything as it was, or as the table does.
        """
        result = self._put(DECISIONS, msgspec.json.encode(decision))
        if not result.stored:
            raise Refused(ResponseCode.SYSTEM_BUSY, f"writers cannot be noted: {result.status.name}: {result.reason}")
        self._changed = True
        self._apply(decision)
        return result

    def touch(self) -> None:
        """The table has changed in another way than by a decision."""
        self._changed = True

    def tick(self) -> None:
        """Write the table down where the log has grown, or gone on to another file."""
        last = self._store.commit_log.last
        grown = self._store.max_physical_offset - self._written
        if grown >= TABLE_EVERY or (last is not None and self._written < last.start):
            self.save()

    def save(self) -> None:
        """Write the whole table, unless it is as empty as it was."""
        if not self._changed and not len(self._table):
            return
        start = self._store.max_physical_offset
        decisions = self._store.max_offset(TOPIC, DECISIONS, committed=False)
        parts = list(parts_of(self._table, min(PART, self._store.config.max_message_size // 2))) or [[]]
        for number, writers in enumerate(parts):
            table = TableRecord(number, len(parts), decisions, writers, self._table.latest)
            result = self._put(TABLES, msgspec.json.encode(table))
            if not result.stored:
                if not self._failing:
                    log.warning("the table of writers could not be written: %s %s", result.status.name, result.reason)
                self._failing = True
                return
        self._written, self._changed, self._failing = start, False, False

    def load(self) -> None:
        """Read the table as the log has it. Only before anything is stored."""
        messages = self._last_table()
        tables = [table for message in messages if (table := decoded(message)) is not None]
        self._table.restore(writer for table in tables for writer in table.writers)
        self._table.latest = max((self._table.latest, *(table.latest for table in tables)))
        if len(self._table):
            self._written, start = messages[0].physical_offset, messages[-1].physical_offset
        else:
            decision = self._first(DECISIONS, tables[0].decisions if tables else 0)
            if decision is None:
                return
            self._written = start = decision.physical_offset
        walker = Walker(self._store.commit_log.files, start, verify_crc=False)
        if not all(map(self._learn, walker)) or walker.position < self._store.max_physical_offset:
            # It may have said who took over, or that something is stored. To know nobody is safe, to be wrong is not.
            log.warning("the log is damaged near %d: all writers are forgotten and must begin anew", walker.position)
            self._table.clear()
            self._changed = True
            self.save()  # so that the next start does not read this again

    def _learn(self, record: LogRecord) -> bool:
        """What a record says about writers; False when it should and cannot be read."""
        if record.topic == TOPIC:
            return record.queue_id != DECISIONS or self._repeat(record)
        if self._table.has_topic(record.topic):
            self._note(record)
        return True

    def _last_table(self) -> list[ReceivedMessage]:
        """The records of the last table that is complete and legible."""
        last = self._store.max_offset(TOPIC, TABLES) - 1
        first = self._store.min_offset(TOPIC, TABLES)
        while last >= first:
            table = decoded(self._read(TABLES, last))
            if table is not None and table.part == table.parts - 1:
                found = [self._read(TABLES, offset) for offset in range(last - table.part, last + 1)]
                if all(map(decoded, found)):
                    return [each for each in found if each is not None]
            last -= 1
        return []

    def _read(self, queue_id: int, offset: int) -> ReceivedMessage | None:
        chunks = self._store.get(TOPIC, queue_id, offset, 1).chunks
        try:
            messages = [message for chunk in chunks for message in decode_records(chunk, check_crc=True)]
        except ProtocolError as error:
            log.warning("what was noted about writers, %d in queue %d, is damaged: %s", offset, queue_id, error)
            return None
        return messages[0] if messages else None

    def _first(self, queue_id: int, offset: int) -> ReceivedMessage | None:
        """The first message from an offset on that can be read; those before it may have left the log, or be damaged.

        The queue may not know yet where the log begins.
        """
        for each in range(
            max(offset, self._store.min_offset(TOPIC, queue_id)), self._store.max_offset(TOPIC, queue_id)
        ):
            if (found := self._read(queue_id, each)) is not None:
                return found
        return None

    def _repeat(self, record: LogRecord) -> bool:
        """Let a decision take effect again; False when it cannot be read."""
        try:
            message = decode_record(self._store.lookup.record_at(record.offset) or b"", check_crc=True)
            decision = msgspec.json.decode(message.body, type=Decision)
        except (ProtocolError, msgspec.MsgspecError) as error:
            log.warning("what was decided about a writer at %d cannot be read: %s", record.offset, error)
            return False
        try:
            self._apply(decision)
        except Refused as refused:
            log.info("a decision about a writer at %d does not hold: %s", record.offset, refused)
        self._changed = True
        return True

    def _apply(self, decision: Decision) -> None:
        table = self._table
        match decision:
            case Began(topic, name, run, used, origins):
                table.begin(topic, name, run, origins, used)
            case Opened(topic, name, run, lane, attempt, used):
                table.open(topic, name, Place(run, lane, attempt), used)
            case Closed(topic, name):
                table.close(topic, name)

    def _note(self, record: LogRecord) -> None:
        properties = record.properties()
        name, text = properties.get(WRITER), properties.get(PLACE)
        if name is None or text is None:
            return
        try:
            place = Place.parse(text)
        except ProtocolError:
            return
        self._table.note(
            record.topic,
            name,
            place,
            count=1,
            offset=record.queue_offset,
            end=record.offset + record.size,
            now=record.store_timestamp,
        )
        self._changed = True

    def _put(self, queue_id: int, body: bytes) -> PutResult:
        return self._store.put(
            PutMessage(
                TOPIC,
                queue_id,
                body,
                property_map={},
                born_timestamp=self._clock(),
                born_host=pack_host(self._store.store_host),
            )
        )
