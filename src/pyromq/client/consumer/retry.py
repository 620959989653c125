"""Messages that could not be consumed: sent back to the broker, which delivers them again later or buries them.

When the broker does not take one back by its place in the log, it is sent anew to the group's retry topic. Also here:
telling which topic a message that comes back belonged to.
"""

import logging

from pyromq.client.errors import ClientError
from pyromq.client.instance.instance import ClientInstance
from pyromq.client.producer.producer import Producer
from pyromq.protocol import namespace as namespaces
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.send import ConsumerSendMsgBackHeader
from pyromq.protocol.message import Message, ReceivedMessage
from pyromq.protocol.names import RETRY_PREFIX, pop_retry_topic, retry_topic
from pyromq.protocol.properties import Property
from pyromq.protocol.routes import LOGICAL_PREFIX
from pyromq.remoting.errors import RemotingError

log = logging.getLogger(__name__)

TO_DEAD_LETTERS = -1
BROKER_DECIDES = 0
FIRST_RETRY_LEVEL = 3
DEFAULT_MAX_RECONSUME = 16
NO_LIMIT = 2**31 - 1

_OF_THIS_DELIVERY = (
    Property.MIN_OFFSET,
    Property.MAX_OFFSET,
    Property.CONSUME_START_TIME,
    Property.TRANSACTION_PREPARED,
)


def restore_topic(message: ReceivedMessage, group: str, namespace: str | None) -> None:
    """The topic as the listener knows it: of a retried message the original one, and without the namespace."""
    topic = message.topic
    if topic.startswith(RETRY_PREFIX):
        pop_prefix = pop_retry_topic(group, "")
        if topic == retry_topic(group):
            message.topic = message.properties.get(Property.RETRY_TOPIC) or topic
        elif topic.startswith((pop_prefix, pop_retry_topic(group, "", plus=True))):
            message.topic = topic[len(pop_prefix) :]
    if namespace:
        message.topic = namespaces.unwrap(message.topic, namespace)


class Retry:
    """Sends messages back for one group (its name on the wire)."""

    def __init__(
        self, instance: ClientInstance, group: str, *, max_reconsume: int, timeout: float, unit_mode: bool = False
    ) -> None:
        self._instance = instance
        self._group = group
        self.max_reconsume = max_reconsume
        self._timeout = timeout
        self._unit_mode = unit_mode

    async def send_back(
        self,
        message: ReceivedMessage,
        delay_level: int = BROKER_DECIDES,
        *,
        broker: str | None = None,
        group: str | None = None,
    ) -> bool:
        """By its place in the log, else as a new message; False when neither worked."""
        name = broker or message.broker_name
        if not name.startswith(LOGICAL_PREFIX):
            try:
                await self._ask_broker(message, delay_level, name, group or self._group)
                return True
            except (ClientError, RemotingError) as error:
                log.warning("%r not taken back by broker %s: %s", message, name, error)
        return await self.resend(message, group=group)

    async def bury(self, message: ReceivedMessage, topic: str) -> None:
        """To the dead letters: by its place in the log, else as it was read. Raises ClientError when neither works."""
        if message.topic:  # without one it has no frame, and what it says of its place is worth nothing
            try:
                await self._ask_broker(message, TO_DEAD_LETTERS, message.broker_name, self._group)
                return
            except (ClientError, RemotingError) as error:
                log.warning("%r not made a dead letter by broker %s: %s", message, message.broker_name, error)
        copy = self._copy(message, self._group)
        copy.properties[Property.RETRY_TOPIC] = message.properties.get(Property.RETRY_TOPIC) or topic
        # More deliveries than are allowed: the broker puts it where it belongs.
        copy.properties[Property.RECONSUME_TIME] = "1"
        copy.properties[Property.MAX_RECONSUME_TIMES] = "0"
        copy.delay_level = 0
        await (await Producer.inside(self._instance)).send(copy)

    async def resend(self, message: ReceivedMessage, *, group: str | None = None) -> bool:
        """As a new message to the retry topic; False when that failed."""
        try:
            producer = await Producer.inside(self._instance)
            await producer.send(self._copy(message, group or self._group))
        except ClientError as error:
            log.warning("%r not sent to the retry topic: %s", message, error)
            return False
        return True

    async def _ask_broker(self, message: ReceivedMessage, delay_level: int, broker: str, group: str) -> None:
        address = self._instance.topology.publish_address(broker) or str(message.store_host)
        header = ConsumerSendMsgBackHeader(
            offset=message.physical_offset,
            group=group,
            delay_level=delay_level,
            origin_msg_id=message.message_id,
            origin_topic=namespaces.wrap(self._instance.namespace or "", message.topic),
            unit_mode=self._unit_mode,
            max_reconsume_times=self.max_reconsume,
            bname=broker,
        )
        command = Command.request(RequestCode.CONSUMER_SEND_MSG_BACK, header)
        await self._instance.invoke(self._instance.vip(address), command, self._timeout, broker=broker)

    def _copy(self, message: ReceivedMessage, group: str) -> Message:
        copy = Message(retry_topic(group), message.body, flag=message.flag)
        copy.properties.update(message.properties)
        for name in _OF_THIS_DELIVERY:
            copy.properties.pop(name, None)
        copy.properties.setdefault(Property.ORIGIN_MESSAGE_ID, message.message_id)
        copy.properties[Property.RETRY_TOPIC] = message.topic
        copy.properties[Property.RECONSUME_TIME] = str(message.reconsume_times + 1)
        copy.properties[Property.MAX_RECONSUME_TIMES] = str(self.max_reconsume)
        if message.fault:
            copy.properties[Property.FAULT] = message.fault
        copy.delay_level = FIRST_RETRY_LEVEL + message.reconsume_times
        return copy
