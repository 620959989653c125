"""Runs of plain sends or batches: checked by the places they go to, stored as one and answered as one.

Invariant: a run comes to what its requests come to one by one, and one that is not served has changed nothing.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice

from pyromq.broker.core import Core
from pyromq.broker.send.answers import Answers
from pyromq.broker.send.imprint import Imprint
from pyromq.protocol import names
from pyromq.protocol.bodies.enums import TopicFilterType
from pyromq.protocol.command import ONEWAY_FLAG
from pyromq.protocol.frame import commands_of
from pyromq.protocol.headers.sendrun import SendRun, answer_sends
from pyromq.protocol.properties import Property
from pyromq.protocol.records.host import pack_host
from pyromq.protocol.records.queueentry import ENTRY
from pyromq.protocol.routes import is_writable
from pyromq.remoting.connection import Connection
from pyromq.remoting.handler import Deferred
from pyromq.store.arrival import Sends
from pyromq.store.config import BrokerRole
from pyromq.store.log.put import PutMessage, PutResult, PutStatus, host_text

MARKS = frozenset({Property.TRANSACTION_PREPARED})
"""Properties of messages that the steps of the sender want to see; they see all whose topic begins with % as well."""
OWN_PROPERTIES = frozenset({Property.MSG_REGION, Property.TRACE_ON, Property.CLUSTER, Property.POP_CK})
"""What only a broker may say."""
_NOT_PLAIN = MARKS | OWN_PROPERTIES
_PUT_OK = PutStatus.PUT_OK
_SLAVE = BrokerRole.SLAVE
_MULTI_TAG = TopicFilterType.MULTI_TAG
_TIMER = names.TIMER_TOPIC


class Runs:
    """Takes runs from producers."""

    def __init__(self, core: Core, imprint: Imprint, answers: Answers) -> None:
        self._config = core.config
        self._topics = core.topics
        self._store = core.store
        self._durability = core.durability
        self._stats = core.stats
        self._clock = core.clock
        self._imprint = imprint
        self._answers = answers

    def serve(self, run: SendRun, connection: Connection) -> bytes | Deferred | None:
        """Plain sends or batches that came together, as one; None when one of them needs a way of its own."""
        started, config = self._clock(), self._config
        if config.broker_role is _SLAVE or started < config.start_accept_send_request_time_stamp:
            return None
        if not (_NOT_PLAIN.isdisjoint(run.names) and all(map(self._is_open, run.places))):
            return None
        imprint = self._imprint
        if imprint.trace is not config.trace_on:
            imprint.renew()
        sends = self._store.put_run(run, pack_host(connection.peer), imprint.suffix)
        if sends is None:
            return None
        self._count(sends)
        ids = [imprint.ids() for _ in range(run.nameless)] if run.nameless else []
        answers = answer_sends(run, sends.placed, host_text(sends.store_host), imprint.replies.parts, ids)
        if self._durability.needed({}):
            later = Deferred()
            last = PutResult(_PUT_OK, sends.physical_offset, sends.size)
            self._durability.wait(last, partial(self._settle, later, started, answers, sends, ids))
            return later
        self._store.stats.put_took(self._clock() - started, len(run))
        return answers

    def _count(self, sends: Sends) -> None:
        """Statistics of messages that were stored."""
        run, topics = sends.run, sends.topics
        if len(topics) == 1:
            (topic,) = topics
            self._stats.add_put(topic, run.messages, sends.size, len(run))
            return
        for (topic, _), *amounts in zip(run.places, run.counts, sends.placed.place_sizes, run.requests, strict=True):
            self._stats.add_put(topic, *amounts)

    def _is_open(self, place: tuple[str, int]) -> bool:
        """Whether anybody may send a plain message to a place: what `Sender` asks of each."""
        name, queue_id = place
        topic = self._topics.get(name)
        return (
            topic is not None
            and name[0] != "%"
            and name not in names.FORBIDDEN_TOPICS
            and name != _TIMER
            and (not topic.order or is_writable(self._config.broker_permission))
            and topic.topic_filter_type is not _MULTI_TAG
            and 0 <= queue_id < max(topic.read_queue_nums, topic.write_queue_nums)
        )

    def _settle(
        self, later: Deferred, started: int, answers: bytes, sends: Sends, ids: Sequence[str], status: PutStatus
    ) -> None:
        """The messages are as safe as they were asked to be, or the wait for that is over."""
        self._store.stats.put_took(self._clock() - started, len(sends.run))
        later.answer(answers if status is _PUT_OK else self._late_answers(sends, ids, status))

    def _late_answers(self, sends: Sends, ids: Iterable[str], status: PutStatus) -> bytes:
        """What is said of messages that are stored, but not as safely as was asked for."""
        answers: list[bytes] = []
        run, arrivals, made = sends.run, iter(sends.arrivals()), iter(ids)
        for index, request in enumerate(commands_of(run)):
            place, messages, unique_key, *_ = run.send(index)
            own = list(islice(arrivals, messages))
            entries = b"".join([ENTRY.pack(each.physical_offset, each.size, each.tags_code) for each in own])
            first, (topic, queue_id) = own[0], run.places[place]
            result = PutResult(
                _PUT_OK, first.physical_offset, sum(each.size for each in own), first.queue_offset,
                sends.store_timestamp, sends.store_host, messages, entries,
            )  # fmt: skip
            message = PutMessage(topic, queue_id, b"", property_map={Property.UNIQ_KEY: unique_key or next(made)})
            if not request.flag & ONEWAY_FLAG:
                answers.append(self._answers.frame(request, message, queue_id, result, status))
        return b"".join(answers)
