"""Asking producers how transactions ended that they did not report: CHECK_TRANSACTION_STATE, and giving up in the end.

Works in slices: a tick asks about a bounded number of transactions, whatever has piled up.
"""

import logging

from pyromq.broker.core import Core
from pyromq.broker.delay.detour import copy_of, read_record, real_place, record_for
from pyromq.broker.tables.savedtable import Unsaved
from pyromq.broker.transaction.halfmessages import DISCARDED, HALF, Half, HalfMessages
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command
from pyromq.protocol.handles.ids import offset_message_id
from pyromq.protocol.headers.callbacks import CheckTransactionStateHeader
from pyromq.protocol.properties import Property, decode_properties
from pyromq.protocol.records.host import unpack_host
from pyromq.protocol.records.record import RecordSummary
from pyromq.store.config import BrokerRole

log = logging.getLogger(__name__)

SLICE = 500
HOUR_MS = 3_600_000


class CheckBack:
    """Looks after open transactions. `sent` counts checks that reached a connection."""

    def __init__(self, core: Core, halves: HalfMessages) -> None:
        self._config = core.config
        self._store = core.store
        self._topics = core.topics
        self._producers = core.producers
        self._clock = core.clock
        self._rights = core.rights
        self._halves = halves
        self.sent = 0
        self.given_up = 0

    def tick(self) -> None:
        """Ask about what is due. A slave asks nobody."""
        if self._store.role is BrokerRole.SLAVE:
            return
        self._halves.tick(SLICE)
        for half in self._halves.take_due(SLICE):
            self._treat(half)

    def _treat(self, half: Half) -> None:
        found = read_record(self._store, half.physical, None)
        if found is None:
            log.warning("the half message at %d is not in the log any more, its transaction is dropped", half.physical)
            self._halves.end(half.origin)
            return
        summary, record = found
        now = self._clock()
        self._halves.schedule(half, now + self._config.transaction_check_interval)
        too_old = now - summary.store_timestamp > max(1, self._config.file_reserved_time) * HOUR_MS
        if half.checks >= self._config.transaction_check_max or too_old:
            self._give_up(half, summary, record)
            return
        half.checks += 1
        self._ask(summary, record)

    def _give_up(self, half: Half, summary: RecordSummary, record: memoryview) -> None:
        """Keep the message where an admin finds it, and end its transaction."""
        try:
            self._topics.ensure(DISCARDED, 1)
        except Unsaved:
            self._halves.schedule(half, self._clock())
            return
        properties = decode_properties(summary.properties)
        message = copy_of(summary, record, (DISCARDED, 0), summary.properties, properties)
        message.prepared_transaction_offset = summary.physical_offset
        if self._halves.write_ops() and self._store.put(message).stored:
            log.warning("transaction of %s given up after %d checks, see %s", half.topic, half.checks, DISCARDED)
            self._halves.end(half.origin)
            self.given_up += 1

    def _ask(self, summary: RecordSummary, record: memoryview) -> None:
        """Any live producer of the group that may send to the topic will do; with none, the next round asks again."""
        properties = decode_properties(summary.properties)
        place = real_place(properties)
        if place is None:
            return
        rights, topic = self._rights, place[0]
        connection = self._producers.pick(
            properties.get(Property.PRODUCER_GROUP, ""),
            lambda client: rights.may_send(client.user, client.connection.peer.host, topic),
        )
        if connection is None:
            return
        unique = properties.get(Property.UNIQ_KEY)
        header = CheckTransactionStateHeader(
            topic=HALF,
            tran_state_table_offset=summary.queue_offset,
            commit_log_offset=summary.physical_offset,
            msg_id=unique,
            transaction_id=unique,
            offset_msg_id=_offset_id(summary),
            bname=self._config.broker_name,
        )
        body = record_for(summary, record, *place, summary.properties)  # as its producer knows it
        sent = connection.send(
            Command.request(RequestCode.CHECK_TRANSACTION_STATE, header, body=body, oneway=True),
        )
        self.sent += sent


def _offset_id(summary: RecordSummary) -> str:
    host = unpack_host(summary.store_host)
    return offset_message_id(host.ip, host.port, summary.physical_offset)
