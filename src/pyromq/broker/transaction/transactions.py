"""Transactional messages: stored out of sight, then made visible or dropped as END_TRANSACTION says.

The steps of a commit are two records that follow each other in the log: the message in its real topic, and the op that
ends the half message (`halfmessages.py`). A broker that dies before the first has done nothing and asks the producer
again; one that dies between the two finds out at its next start. So a commit makes one message visible, crash or not,
as long as the log survives up to some point, which SYNC_FLUSH guarantees.

What may still happen: a producer that sends its half message twice has two transactions. A disk that fills up between
the two records, with other messages stored before the second and a crash before it, makes the producer be asked again.
With ASYNC_FLUSH, a power cut takes back the ends of the last moments, and producers are asked again. How often a
producer was asked is not remembered over a restart.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Mapping

from pyromq.broker.admin.stats import OTHER
from pyromq.broker.cluster.heartbeats import Heartbeats
from pyromq.broker.core import Core
from pyromq.broker.delay.detour import copy_of, detour, read_record, real_place
from pyromq.broker.delay.postpone import MARKS, level_of
from pyromq.broker.errors import Refused
from pyromq.broker.part import Every, Figure, Part, Told, limit
from pyromq.broker.replication.succession.escape import Escape
from pyromq.broker.replication.succession.halfescape import HalfEscape
from pyromq.broker.send.answers import CODE_OF_STATUS, refusal
from pyromq.broker.transaction.checkback import CheckBack
from pyromq.broker.transaction.halfmessages import DISCARDED, HALF, HalfMessages, origin_of
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.errors import MessageError
from pyromq.protocol.handles.ids import parse_offset_message_id
from pyromq.protocol.headers.admin import ResumeCheckHalfMessageHeader
from pyromq.protocol.headers.send import EndTransactionHeader, SendMessageHeader
from pyromq.protocol.properties import Property, decode_properties, encode_properties
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.host import unpack_host
from pyromq.protocol.records.record import RecordSummary
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Answer, Handler
from pyromq.store.config import BrokerRole
from pyromq.store.log.put import PutMessage, PutResult

log = logging.getLogger(__name__)

CHECK_TICK = 0.2

_COPIES = (Property.TRANSACTION_PREPARED_QUEUE_OFFSET, Property.TRANSACTION_CHECK_TIMES)


def is_half(header: SendMessageHeader, properties: dict[str, str]) -> bool:
    """Whether a message is transactional. One that comes back for a retry still says so, but is not any more."""
    if properties.get(Property.TRANSACTION_PREPARED, "").lower() != "true":
        return False
    return not ((header.reconsume_times or 0) > 0 and level_of(properties.get(Property.DELAY)) > 0)


class Transactions(Part):
    """Takes half messages and their ends. `committed` and `rolled_back` count by topic.

    `escape` is there on a slave that may act for its master.
    """

    def __init__(self, core: Core, heartbeats: Heartbeats, escape: Escape | None = None) -> None:
        self._core = core
        self._config = core.config
        self._store = core.store
        self._clock = core.clock
        self._check_group = heartbeats.check_group
        self.halves = HalfMessages(core)
        self.check_back = CheckBack(core, self.halves)
        self._escape = HalfEscape(core, self.halves, escape) if escape is not None else None
        self.committed: Counter[str] = Counter()
        self.rolled_back: Counter[str] = Counter()

    def handlers(self) -> Mapping[int, Handler]:
        """The request codes served here."""
        return {
            RequestCode.END_TRANSACTION: self._end,
            RequestCode.RESUME_CHECK_HALF_MESSAGE: self._resume,
        }

    def follows(self) -> Mapping[str, Told]:
        """Half messages."""
        return {HALF: self.halves.arrived}

    def every(self) -> Iterable[Every]:
        """Ask producers, or let others do that."""
        yield Every(CHECK_TICK, self.check_back.tick)
        if self._escape is not None:
            yield Every(CHECK_TICK, self._escape.tick)

    async def start(self) -> None:
        """Find out which transactions are open, before anything new is stored."""
        self.halves.load()

    def lead(self) -> None:
        """Move what is open to another master."""
        if self._escape is not None:
            self._escape.start()

    def stand_back(self) -> None:
        """Leave the rest to the master."""
        if self._escape is not None:
            self._escape.stop()

    def metrics(self) -> Iterable[Figure]:
        """How transactions end."""
        labels, others, topics = ("topic", "is_system"), (OTHER, "false"), self._core.topics
        for name, doc, counts, grows in (
            ("rocketmq_half_messages", "Transactions without an outcome.", self.halves.counts(), False),
            ("rocketmq_commit_messages", "Transactions committed.", self.committed, True),
            ("rocketmq_rollback_messages", "Transactions rolled back.", self.rolled_back, True),
        ):
            values = [
                ((topic if topic in topics else OTHER, str(topics.is_system(topic)).lower()), count)
                for topic, count in counts.items()
            ]
            yield Figure(name, doc, values, labels, grows, others)
        checks = [(("sent",), self.check_back.sent), (("given_up",), self.check_back.given_up)]
        yield Figure("pyromq_transaction_checks", "Checks by result.", checks, ("result",), counts=True)
        yield limit("transactions", self.halves.shares.refused)

    def prepare(self, header: SendMessageHeader, message: PutMessage, request: Command) -> None:
        """A step of sending: put a transactional message into the half queue instead. Raises Refused."""
        properties = message.property_map or {}
        if not is_half(header, properties):
            return
        config = self._config
        if config.reject_transaction_message:
            raise Refused(
                ResponseCode.NO_PERMISSION,
                f"the broker[{config.broker_name}] sending transaction message is forbidden",
            )
        if any(mark in properties for mark in MARKS):
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, "a transactional message cannot be delayed as well")
        unique = properties.get(Property.UNIQ_KEY, "")
        self.halves.expect(
            unique, message.topic, self._core.rights.user_of(request) or unpack_host(message.born_host).ip
        )
        added = {Property.TRANSACTION_ID: unique} if unique else {}
        message.property_map = {name: value for name, value in properties.items() if name not in _COPIES}
        message.sys_flag = sysflag.with_transaction_type(message.sys_flag, sysflag.NOT_TRANSACTIONAL)
        try:
            detour(message, HALF, 0, added)
        except MessageError as error:
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, str(error)) from error

    def _end(self, request: Command, connection: Connection) -> Answer | asyncio.Future[Answer]:
        header = request.header(EndTransactionHeader)
        self._check_group(header.producer_group, request, connection)
        if self._store.role is BrokerRole.SLAVE:
            raise Refused(ResponseCode.SLAVE_NOT_AVAILABLE, "a slave ends no transactions: tell its master")
        if header.commit_or_rollback not in (sysflag.COMMIT, sysflag.ROLLBACK):
            return None  # not known yet: the next check asks again
        summary, record = self._find(header)
        properties = decode_properties(summary.properties)
        topic, queue_id = self._check(header, summary, properties)
        if header.commit_or_rollback == sysflag.ROLLBACK:
            self.halves.end(origin_of(summary.queue_offset, properties))
            self.rolled_back[topic] += 1
            return request.reply()
        result = self._commit(summary, record, (topic, queue_id), properties)
        if request.is_oneway or not self._core.durability.needed({}):
            return request.reply()
        return self._core.durability.once_safe(result, lambda status: request.reply(CODE_OF_STATUS[status]))

    def _find(self, header: EndTransactionHeader) -> tuple[RecordSummary, memoryview]:
        found = read_record(self._store, header.commit_log_offset, None)
        if found is None or found[0].topic != HALF:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"find prepared transaction message failed: there is none at {header.commit_log_offset}",
            )
        return found

    def _check(
        self, header: EndTransactionHeader, summary: RecordSummary, properties: dict[str, str]
    ) -> tuple[str, int]:
        """Where the message is to go. Raises Refused when this is not the end of an open transaction."""
        if properties.get(Property.PRODUCER_GROUP) != header.producer_group:
            raise Refused(
                ResponseCode.SYSTEM_ERROR, f"the producer group wrong: the message is not of {header.producer_group}"
            )
        if summary.queue_offset != header.tran_state_table_offset:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"the transaction state table offset wrong: {header.tran_state_table_offset} instead of "
                f"{summary.queue_offset}",
            )
        if Property.CHECK_IMMUNITY_TIME in properties and not header.from_transaction_check:
            age = self._clock() - summary.store_timestamp
            if age > self.halves.immunity(properties):
                raise Refused(
                    ResponseCode.ILLEGAL_OPERATION,
                    f"the transaction is {age} ms old, more than the immunity it asked for: only the answer to a "
                    "check can end it now",
                )
        place = real_place(properties)
        if place is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, "the half message does not say which topic and queue it is for")
        if not self.halves.is_open(summary.queue_offset, properties):
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                "the transaction has ended already: it was committed, rolled back, or given up after "
                f"{self._config.transaction_check_max} checks, in which case resumeCheckHalfMessage opens it again",
            )
        return place

    def _commit(
        self, summary: RecordSummary, record: memoryview, place: tuple[str, int], properties: dict[str, str]
    ) -> PutResult:
        if not self.halves.write_ops():
            raise Refused(ResponseCode.SYSTEM_BUSY, "ends of earlier transactions cannot be stored yet")
        message = copy_of(summary, record, place, summary.properties, properties)
        message.sys_flag = sysflag.with_transaction_type(summary.sys_flag, sysflag.COMMIT)
        message.prepared_transaction_offset = summary.physical_offset
        result = self._store.put(message)
        if not result.stored:
            raise refusal(result)
        self.halves.end(origin_of(summary.queue_offset, properties))
        self.committed[place[0]] += 1
        self._core.stats.stored(place[0], result)
        return result

    def _resume(self, request: Command, _connection: Connection) -> Command:
        """Open a transaction again that was given up, or ask anew about one that is open, counting from 0."""
        header = request.header(ResumeCheckHalfMessageHeader)
        try:
            offset = parse_offset_message_id(header.msg_id or "").physical_offset
        except MessageError as error:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"{header.msg_id!r} is no message id: {error}") from error
        found = read_record(self._store, offset, None)
        if found is None or found[0].topic not in (HALF, DISCARDED):
            raise Refused(ResponseCode.SYSTEM_ERROR, f"there is no half message at {offset}, kept or given up")
        summary, record = found
        properties = decode_properties(summary.properties)
        half = self.halves.get(summary.queue_offset, properties) if summary.topic == HALF else None
        if half is not None:
            half.checks = 0
            return request.reply()
        if summary.topic == HALF:
            raise Refused(ResponseCode.SYSTEM_ERROR, "the transaction has ended; name the message in " + DISCARDED)
        properties = {name: value for name, value in properties.items() if name not in _COPIES}
        properties[Property.TRANSACTION_CHECK_TIMES] = "0"
        result = self._store.put(copy_of(summary, record, (HALF, 0), encode_properties(properties), properties))
        if not result.stored:
            raise refusal(result)
        return request.reply()
