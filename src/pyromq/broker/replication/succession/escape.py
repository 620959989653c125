"""The way out of a slave that acts for its master: what it may not store itself goes to another master of the cluster.

Delivery of delayed messages, timer and retries put messages one after the other and try again what was refused. So the
first `put` of a message starts sending and says "not yet"; the one after the other master's answer says "stored".
Whoever waits is woken by that answer. A message that is sent twice because its answer got lost is delivered twice.
"""

import asyncio
import itertools
import logging
import zlib
from collections.abc import Callable

from pyromq.broker.config import BrokerConfig
from pyromq.broker.delay.detour import number
from pyromq.broker.delay.postpone import TIMED
from pyromq.broker.replication.succession.othermasters import OtherMaster, OtherMasters
from pyromq.errors import PyroMQError
from pyromq.protocol import names
from pyromq.protocol.codes import RequestCode, response_name
from pyromq.protocol.command import Command
from pyromq.protocol.headers.send import STORED, SendMessageV2Header
from pyromq.protocol.properties import Property, encode_properties
from pyromq.remoting.client import Client
from pyromq.store.log.put import PutMessage, PutResult, PutStatus

log = logging.getLogger(__name__)

GROUP = "CLUSTER_ESCAPE"
CALL_TIMEOUT = 3.0
MAX_IN_FLIGHT = 256
PAUSE = 1.0
"""After a failure, before the same message is sent again."""
DEFAULT_QUEUES = 4

_Key = tuple[str, str, int, int, int]


class Escape:
    """Sends to other masters. `woken` is called whenever an answer came."""

    def __init__(self, config: BrokerConfig, client: Client, clock: Callable[[], int]) -> None:
        self._client = client
        self._others = OtherMasters(config, client, clock)
        self._turn = itertools.count()
        self._sending: dict[_Key, asyncio.Task[PutResult]] = {}
        self.woken: list[Callable[[], None]] = []
        self.sent = 0
        """Messages that another master took."""

    def put(self, message: PutMessage) -> PutResult:
        """Whether a message was stored elsewhere; if nothing is known of it, it is sent now."""
        key = _key(message)
        task = self._sending.get(key)
        if task is None:
            if len(self._sending) >= MAX_IN_FLIGHT:
                return _not_yet(f"{MAX_IN_FLIGHT} messages are on their way to other masters")
            # The body may be a view of the log; the log outlives the task.
            task = self._sending[key] = asyncio.get_running_loop().create_task(self._send_patiently(message))
            task.add_done_callback(self._done)
            return _not_yet("on its way to another master")
        if not task.done():
            return _not_yet("on its way to another master")
        del self._sending[key]
        return task.result()

    def begin(self) -> None:
        """Forget answers that nobody asked for the last time this slave acted."""
        self._sending = {key: task for key, task in self._sending.items() if not task.done()}

    async def send(self, message: PutMessage) -> PutResult:
        """Send a message to another master, trying each of them once."""
        message = _from_its_detour(message)
        reason = "there is no other master in the cluster that takes it"
        for target in await self._others.of(message.topic):
            try:
                answer = await self._offer(message, target)
            except PyroMQError as error:
                reason = f"{target.address}: {error}"
                continue
            if answer.code in STORED:
                self.sent += 1
                return PutResult(PutStatus.PUT_OK, 0, 0)
            reason = f"{target.address} answers {response_name(answer.code)}: {answer.remark}"
        self._others.forget(message.topic)
        log.warning("a message of %s does not get away: %s", message.topic, reason)
        return PutResult(PutStatus.PUT_TO_REMOTE_BROKER_FAIL, reason=reason)

    async def stop(self) -> None:
        """Send no more. What was not answered counts as not sent."""
        tasks, self._sending = list(self._sending.values()), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _send_patiently(self, message: PutMessage) -> PutResult:
        result = await self.send(message)
        if not result.stored:
            await asyncio.sleep(PAUSE)
        return result

    def _done(self, task: asyncio.Task[PutResult]) -> None:
        if not task.cancelled():
            for wake in self.woken:
                wake()

    async def _offer(self, message: PutMessage, target: OtherMaster) -> Command:
        properties = message.property_map or {}
        header = SendMessageV2Header(
            producer_group=properties.get(Property.PRODUCER_GROUP, GROUP),
            topic=message.topic,
            default_topic=names.DEFAULT_TOPIC,
            default_topic_queue_nums=DEFAULT_QUEUES,
            queue_id=next(self._turn) % target.queues,
            sys_flag=message.sys_flag,
            born_timestamp=message.born_timestamp,
            flag=message.flag,
            properties=encode_properties(properties).decode(),
            reconsume_times=message.reconsume_times,
            batch=False,
        )
        request = Command.request(RequestCode.SEND_MESSAGE_V2, header, body=bytes(message.body))
        return await self._client.call(target.address, request, CALL_TIMEOUT)


def _key(message: PutMessage) -> _Key:
    """What tells a message from others while it is on its way; its times may differ from put to put."""
    unique = (message.property_map or {}).get(Property.UNIQ_KEY, "")
    return message.topic, unique, message.queue_id, message.born_timestamp, zlib.crc32(message.body)


def _not_yet(reason: str) -> PutResult:
    return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, reason=reason)


def _from_its_detour(message: PutMessage) -> PutMessage:
    """The message as it is sent: one that has to wait on says until when, and waits on where it arrives."""
    properties = dict(message.property_map or {})
    slot = number(properties.get(Property.TIMER_OUT_MS))
    if message.topic == names.TIMER_TOPIC and slot is not None:
        message.topic = properties.pop(Property.REAL_TOPIC, message.topic)
        del properties[Property.TIMER_OUT_MS]
        for name in TIMED:
            properties.pop(name, None)
        properties[Property.TIMER_DELIVER_MS] = str(slot + 1)  # so that rounding leads to the same slot
    for name in (Property.REAL_TOPIC, Property.REAL_QUEUE_ID):
        properties.pop(name, None)
    message.property_map = properties
    return message
