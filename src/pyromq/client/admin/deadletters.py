"""Dead letters of a group: list them, write them to a file, send them again.

Re-driving keeps its place: how far it came is stored on the broker as the offset of `TOOLS_CONSUMER` in the
dead-letter topic, so a second run resumes after the first. A record is never deleted, and a run that dies may send its
last page twice.
"""

import asyncio
import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import msgspec

from pyromq.client.admin.clients import ClientMethods
from pyromq.client.admin.messages import FOREVER, PAGE, MessageMethods, stretch
from pyromq.client.admin.offsets import OffsetMethods
from pyromq.client.admin.reach import Subject
from pyromq.client.consumer.subscription import build_subscription
from pyromq.client.errors import ClientError
from pyromq.client.producer.producer import Producer
from pyromq.protocol.message import Message, MessageQueue, ReceivedMessage
from pyromq.protocol.names import TOOLS_CONSUMER_GROUP, dlq_topic, retry_topic
from pyromq.protocol.properties import RESERVED, Property

LIMIT = 1000

_KEPT = frozenset(
    {
        Property.KEYS,
        Property.TAGS,
        Property.UNIQ_KEY,
        Property.BUYER_ID,
        Property.INSTANCE_ID,
        Property.ORIGIN_MESSAGE_ID,
    }
)
"""Of the properties with a meaning, those that stay; the others are what earlier deliveries left behind."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that a group failed on for good, as it lies in the group's dead-letter topic."""

    group: str
    message: ReceivedMessage

    @property
    def origin_topic(self) -> str | None:
        """The topic it was first sent to; None when the record does not say."""
        properties = self.message.properties
        return properties.get(Property.RETRY_TOPIC) or properties.get(Property.DLQ_ORIGIN_TOPIC)

    @property
    def origin_message_id(self) -> str | None:
        """The id of the place where it was first stored."""
        properties = self.message.properties
        return properties.get(Property.ORIGIN_MESSAGE_ID) or properties.get(Property.DLQ_ORIGIN_MESSAGE_ID)

    @property
    def message_id(self) -> str:
        """The id its sender gave it, which all copies share."""
        return self.message.message_id

    def to_json(self) -> bytes:
        """One line of JSON without its end; the body in base64."""
        message = self.message
        return msgspec.json.encode(
            {
                "messageId": self.message_id,
                "offsetMessageId": message.offset_message_id,
                "group": self.group,
                "originTopic": self.origin_topic,
                "originMessageId": self.origin_message_id,
                "reconsumeTimes": message.reconsume_times,
                "bornTimestamp": message.born_timestamp,
                "storeTimestamp": message.store_timestamp,
                "brokerName": message.broker_name,
                "queueId": message.queue_id,
                "queueOffset": message.queue_offset,
                "flag": message.flag,
                "properties": dict(sorted(message.properties.items())),
                **({"fault": message.fault} if message.fault else {}),
                "body": base64.b64encode(message.body).decode(),
            }
        )


def revived(letter: DeadLetter, topic: str | None = None) -> Message:
    """The message to send so that it is consumed anew: in `topic`, or by the letter's group alone.

    It keeps its unique id, keys, tags and own properties, so that it can be recognised; its retries begin at 0.
    """
    old = letter.message
    message = Message(topic or retry_topic(letter.group), old.body, flag=old.flag)
    message.properties.update(
        {name: value for name, value in old.properties.items() if name in _KEPT or name not in RESERVED}
    )
    if old.fault:
        message.properties[Property.FAULT] = old.fault
    if topic is None and letter.origin_topic is not None:
        # By this a consumer knows which topic the message is of.
        message.properties[Property.RETRY_TOPIC] = letter.origin_topic
    return message


class RedriveTo(StrEnum):
    """Where dead letters go."""

    GROUP = "group"
    """To the group that failed on them, through its retry topic: no other group sees them again."""
    TOPIC = "topic"
    """To the topic they came from: every group that reads it sees them again."""


@dataclass(frozen=True, slots=True)
class Redrive:
    """What a run did: ids sent, and how many letters it left for the next run."""

    sent: tuple[str, ...]
    left: int


class RedriveError(ClientError):
    """A letter could not be sent; those before it were, and a further run begins with it."""

    def __init__(self, letter: DeadLetter, sent: Sequence[str], cause: ClientError) -> None:
        self.letter = letter
        self.sent = tuple(sent)
        super().__init__(
            f"dead letter {letter.message_id} of group {letter.group!r} not sent, {len(sent)} before it were: {cause}",
            code=cause.code,
            remark=cause.remark,
            broker=cause.broker,
            retryable=cause.retryable,
        )


class DeadLetterMethods(Subject):
    """What `Admin` does with dead letters."""

    async def dead_letters(
        self, group: str, *, begin_ms: int = 0, end_ms: int = FOREVER, limit: int = LIMIT
    ) -> list[DeadLetter]:
        """Up to `limit` messages that the group failed on for good, stored there from one time up to another.

        Raises NoRouteError when the group has no dead-letter topic, which is: never failed for good. A broker before
        5.0 makes that topic unreadable; `set_topic_permission(dlq_topic, 6)` opens it.
        """
        found = await MessageMethods(self._reach()).messages(
            dlq_topic(group), begin_ms=begin_ms, end_ms=end_ms, limit=limit
        )
        return [DeadLetter(group, message) for message in found]

    async def export_dead_letters(
        self, group: str, path: str | Path, *, begin_ms: int = 0, end_ms: int = FOREVER, limit: int = LIMIT
    ) -> int:
        """Write dead letters to a file, one JSON object a line with the body in base64; how many there were."""
        letters = await self.dead_letters(group, begin_ms=begin_ms, end_ms=end_ms, limit=limit)
        text = b"".join(letter.to_json() + b"\n" for letter in letters)
        await asyncio.to_thread(Path(path).write_bytes, text)
        return len(letters)

    async def redrive(
        self,
        group: str,
        *,
        to: RedriveTo | str = RedriveTo.GROUP,
        letters: Iterable[DeadLetter] | None = None,
        restart: bool = False,
        limit: int = LIMIT,
    ) -> Redrive:
        """Send dead letters again: those that no run has sent yet (with `restart` all), or just the ones given.

        They go to the group alone, or with `to="topic"` to the topic they came from. Orderly consumers take retries
        only from their own queues, so for them it must be the topic. Raises RedriveError with what was sent so far.
        """
        where = RedriveTo(to)
        if where is RedriveTo.GROUP and await self._consumes_orderly(group):
            raise ClientError(
                f"group {group!r} consumes in order: its broker puts what comes by its retry topic straight back to "
                "the dead letters; use to='topic'"
            )
        sent: list[str] = []
        if letters is not None:
            for letter in letters:
                await self._send_again(letter, where, sent)
            return Redrive(tuple(sent), 0)
        left = 0
        for queue in await MessageMethods(self._reach()).queues(dlq_topic(group)):
            left += await self._redrive_queue(group, queue, where, sent, restart=restart, limit=limit)
        return Redrive(tuple(sent), left)

    async def _redrive_queue(
        self, group: str, queue: MessageQueue, where: RedriveTo, sent: list[str], *, restart: bool, limit: int
    ) -> int:
        """Letters of one queue, up to the end it has now: what fails again meanwhile is for another run."""
        reach = self._reach()
        queries, offsets = await reach.queries(queue.topic), OffsetMethods(reach)
        begin, end = await queries.min_offset(queue), await queries.max_offset(queue)
        if not restart:
            begin = max(begin, await offsets.consumer_offset(TOOLS_CONSUMER_GROUP, queue) or 0)
        everything = build_subscription(queue.topic, None, None, 0)
        while begin < end and len(sent) < limit:
            page = await stretch(reach, queue, begin, end, everything, limit=min(PAGE, limit - len(sent)))
            if not page:
                break
            try:
                for message in page:
                    await self._send_again(DeadLetter(group, message), where, sent)
                    begin = message.queue_offset + 1
            finally:
                await offsets.update_offset(TOOLS_CONSUMER_GROUP, queue, begin)
        return max(0, end - begin)

    async def _send_again(self, letter: DeadLetter, where: RedriveTo, sent: list[str]) -> None:
        topic = letter.origin_topic if where is RedriveTo.TOPIC else None
        if where is RedriveTo.TOPIC and topic is None:
            raise RedriveError(letter, sent, ClientError("the record does not say which topic it came from"))
        producer = await Producer.inside(self._reach().instance)
        try:
            await producer.send(revived(letter, topic))
        except ClientError as error:
            raise RedriveError(letter, sent, error) from error
        sent.append(letter.message_id)

    async def _consumes_orderly(self, group: str) -> bool:
        """Whether a member says so; a group that nobody is online of holds no locks either."""
        clients = ClientMethods(self._reach())
        try:
            members = (await clients.consumer_connections(group)).connection_set
            info = await clients.running_info(group, members[0].client_id)
        except ClientError:
            return False
        return info.properties.get("PROP_CONSUMEORDERLY", "").lower() == "true"
