"""SEND_MESSAGE, SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE: check, store, answer.

A send goes through `_serve` top to bottom, several that came together through `_serve_many`, and what the native core
recognised as plain through `runs`. Kinds of messages that need more (retries, transactions) add a step,
which sees the message before it is stored and may rewrite or refuse it.
"""

import os
import random
import secrets
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from pyromq.broker.core import Core
from pyromq.broker.errors import Refused, topic_not_exist
from pyromq.broker.part import Figure, Part, limit
from pyromq.broker.send.answers import Answers
from pyromq.broker.send.imprint import Imprint
from pyromq.broker.send.runs import MARKS, OWN_PROPERTIES, Runs
from pyromq.broker.tables.newnames import party_of
from pyromq.errors import PyroMQError
from pyromq.protocol import names
from pyromq.protocol.bodies.enums import TopicFilterType
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import ONEWAY_FLAG, Command
from pyromq.protocol.errors import MessageError
from pyromq.protocol.handles.ids import UniqueIdGenerator
from pyromq.protocol.headers.send import SendMessageHeader, SendMessageV2Header
from pyromq.protocol.properties import MAX_PROPERTIES, Property, decode_properties, encode_properties
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.host import pack_host
from pyromq.protocol.routes import is_writable
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Answer, Handler
from pyromq.remoting.handler import Deferred, Grouped
from pyromq.remoting.outbox import Frames
from pyromq.store.config import BrokerRole
from pyromq.store.log.put import PutMessage, PutResult, PutStatus

Step = Callable[[SendMessageHeader, PutMessage, Command], None]
"""Sees a message whose topic or properties mark it as special, before it is stored; may rewrite it or raise Refused."""

_BATCH = RequestCode.SEND_BATCH_MESSAGE
_PUT_OK = PutStatus.PUT_OK
# Members of enums by names of their own: a look-up in the class takes as long as a step of the way of a message.
_SLAVE = BrokerRole.SLAVE
_MULTI_TAG = TopicFilterType.MULTI_TAG
_ONEWAY = ONEWAY_FLAG
_TIMER = names.TIMER_TOPIC
_UNIQUE_KEY: Final[str] = Property.UNIQ_KEY
_Send = tuple[Command, PutMessage, int, PutResult]
"""A request with its message, the queue it asked for and the outcome."""


class Sender(Part):
    """Takes messages from producers."""

    def __init__(self, core: Core, steps: Sequence[Step] = ()) -> None:
        self._config = core.config
        self._topics = core.topics
        self._store = core.store
        self._durability = core.durability
        self._stats = core.stats
        self._clock = core.clock
        self._steps = steps
        ids = UniqueIdGenerator(core.store.store_host.ip, os.getpid(), secrets.randbits(32), core.clock)
        self._imprint = Imprint(core.config, ids)
        self._answers = Answers(core.config, self._imprint)
        self.send_run = Runs(core, self._imprint, self._answers).serve

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.SEND_MESSAGE: self._grouped(SendMessageHeader),
            RequestCode.SEND_MESSAGE_V2: self._grouped(SendMessageV2Header),
        }

    def metrics(self) -> Iterable[Figure]:
        """Messages that were refused."""
        yield limit("waiting_messages", self._answers.busy)

    def send_batch(self, request: Command, connection: Connection) -> Answer | Deferred:
        """SEND_BATCH_MESSAGE, once it is known who writes."""
        return self._serve(SendMessageV2Header, request, connection)

    def _grouped(self, header_class: type[SendMessageHeader]) -> Handler:
        return Grouped(partial(self._serve, header_class), partial(self._serve_many, header_class), self.send_run)

    def _serve(
        self, header_class: type[SendMessageHeader], request: Command, connection: Connection
    ) -> Answer | Deferred:
        started = self._clock()
        header = request.header(header_class)
        message = self.message(header, request, connection, started)
        queue_id, properties = message.queue_id, message.property_map or {}
        if header.batch or request.code == _BATCH:
            self._check_batch(header.topic)
            result = self._store.put_batch(message)
        else:
            if header.topic[0] == "%" or not MARKS.isdisjoint(properties):
                for step in self._steps:
                    step(header, message, request)
                properties = message.property_map or {}
            result = self._store.put(message)
        if not result.stored:
            raise self._answers.refusal(result)
        self._stats.add_put(message.topic, result.count, result.size)
        answer = self._answers.frame(request, message, queue_id, result)
        if self._durability.needed(properties):
            later = Deferred()
            self._durability.wait(
                result, partial(self._settle, later, started, answer, [(request, message, queue_id, result)])
            )
            return later
        self._store.stats.put_took(result.store_timestamp - started)
        return answer

    def _serve_many(
        self, header_class: type[SendMessageHeader], requests: Sequence[Command], connection: Connection
    ) -> bytes | Deferred | None:
        """Several sends that came together, each step for all of them; None when one of them needs a way of its own."""
        started = self._clock()
        try:
            headers = [request.header(header_class) for request in requests]
            messages = [
                self.message(header, request, connection, started)
                for header, request in zip(headers, requests, strict=True)
            ]
        except PyroMQError:
            return None
        if not all(map(self._is_plain, headers, messages)):
            return None
        queue_ids = [message.queue_id for message in messages]
        results = self._store.put_many(messages)
        sends = list(zip(requests, messages, queue_ids, results, strict=True))
        self._count_many(messages, results)
        answers = b"".join([self._answers.frame(*send) for send in sends if not send[0].flag & _ONEWAY])
        last = next((result for result in reversed(results) if result.stored), None)
        if last is not None and self._durability.needed({}):
            later = Deferred()
            self._durability.wait(last, partial(self._settle, later, started, answers, sends))
            return later
        self._store.stats.put_took(self._clock() - started, len(results))
        return answers

    def _is_plain(self, header: SendMessageHeader, message: PutMessage) -> bool:
        """Whether a message is stored as it came, and acknowledged like all others."""
        properties = message.property_map or {}
        return (
            not header.batch
            and header.topic[0] != "%"
            and MARKS.isdisjoint(properties)
            and properties.get(Property.WAIT) != "false"
        )

    def _settle(
        self, later: Deferred, started: int, answers: Frames, sends: Sequence[_Send], status: PutStatus
    ) -> None:
        """Messages are as safe as they were asked to be, or the wait for that is over."""
        self._store.stats.put_took(self._clock() - started, len(sends))
        if status is not _PUT_OK:
            answers = b"".join([self._answers.frame(*send, status) for send in sends if not send[0].flag & _ONEWAY])
        later.answer(answers)

    def _topic(self, header: SendMessageHeader, request: Command, connection: Connection, now: int) -> TopicConfig:
        """The topic that a message may be stored in, made if it has to be.

        Raises Refused or ValidationError, and Unsaved until a new topic is on disk.
        """
        config = self._config
        if config.broker_role is _SLAVE:
            if config.enable_slave_acting_master:  # clients may take it for a master
                raise Refused(
                    ResponseCode.SERVICE_NOT_AVAILABLE,
                    "a slave that acts for its master takes no messages: try another",
                )
            raise Refused(
                ResponseCode.SYSTEM_BUSY,
                "[REJECTREQUEST]system busy, start flow control for a while: this is a slave, send to its master",
            )
        if now < config.start_accept_send_request_time_stamp:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"broker unable to service, until {config.start_accept_send_request_time_stamp} (now {now})",
            )
        topic = self._topics.get(header.topic)
        if topic is None:
            names.check_topic(header.topic)
            topic = self._create(header, party_of(config, request, connection))
        if header.topic in names.FORBIDDEN_TOPICS:
            names.check_sendable(header.topic)
        if topic.order and not is_writable(config.broker_permission):
            raise Refused(ResponseCode.NO_PERMISSION, f"the broker[{config.broker_name}] sending message is forbidden")
        if header.queue_id >= max(topic.read_queue_nums, topic.write_queue_nums):
            raise Refused(
                ResponseCode.INVALID_PARAMETER,
                f"queueId[{header.queue_id}] is illegal: topic {topic.topic_name} has {topic.write_queue_nums} "
                f"write and {topic.read_queue_nums} read queues",
            )
        return topic

    def _count_many(self, messages: Sequence[PutMessage], results: Sequence[PutResult]) -> None:
        """Statistics of a group."""
        sizes: defaultdict[str, list[int]] = defaultdict(list)
        for message, result in zip(messages, results, strict=True):
            if result.status is _PUT_OK:
                sizes[message.topic].append(result.size)
        for topic, stored in sizes.items():
            self._stats.add_put(topic, len(stored), sum(stored), len(stored))

    def _create(self, header: SendMessageHeader, party: str) -> TopicConfig:
        unit = bool(header.unit_mode)
        topic = self._topics.create_on_send(
            header.topic, header.default_topic, header.default_topic_queue_nums, unit=unit, party=party
        )
        if topic is None and names.is_retry_topic(header.topic):
            topic = self._topics.ensure(header.topic, 1, unit=unit, party=party)
        if topic is None:
            raise topic_not_exist(header.topic)
        return topic

    def message(self, header: SendMessageHeader, request: Command, connection: Connection, now: int) -> PutMessage:
        """The message of a request that may be stored, with the broker's own properties.

        Raises Refused or ValidationError, and Unsaved until a new topic is on disk.
        """
        topic = self._topic(header, request, connection, now)
        text = header.properties or ""
        if len(text) > MAX_PROPERTIES:
            raise Refused(
                ResponseCode.MESSAGE_ILLEGAL,
                f"the properties have {len(text)} characters, more than {MAX_PROPERTIES}",
            )
        properties = decode_properties(text)
        imprint = self._imprint
        if imprint.trace is not self._config.trace_on:
            imprint.renew()
        if _UNIQUE_KEY in properties and OWN_PROPERTIES.isdisjoint(properties):
            properties.update(imprint.added)
            stored_text = text.encode() + (imprint.suffix if text[-1] == "\x02" else b"\x02" + imprint.suffix)
        else:
            stored_text = self._completed(properties)
        queue_id = header.queue_id
        if queue_id < 0:
            queue_id = random.randrange(max(1, topic.write_queue_nums))
        sys_flag = header.sys_flag
        if topic.topic_filter_type is _MULTI_TAG:
            sys_flag |= sysflag.MULTI_TAGS
        return PutMessage(
            header.topic,
            queue_id,
            request.body,
            stored_text,
            properties,
            sys_flag,
            header.flag,
            header.born_timestamp,
            pack_host(connection.peer),
            None,
            header.reconsume_times or 0,
        )

    def _completed(self, properties: dict[str, str]) -> bytes:
        """The property text of a message that lacks an id, or says what only a broker may. Raises Refused."""
        properties.pop(Property.POP_CK, None)
        properties.update(self._imprint.added)
        if Property.UNIQ_KEY not in properties:
            properties[Property.UNIQ_KEY] = self._imprint.ids()
        try:
            return encode_properties(properties)
        except MessageError as error:
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, str(error)) from None

    @staticmethod
    def _check_batch(topic: str) -> None:
        if names.is_retry_topic(topic):
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, f"batch request does not support retry group {topic}")
        if len(topic) > names.MAX_TOPIC:
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, f"message topic length over {names.MAX_TOPIC}")
