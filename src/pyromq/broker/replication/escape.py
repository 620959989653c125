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
from dataclasses import dataclass

from pyromq.broker import perm
from pyromq.broker.config import BrokerConfig
from pyromq.errors import PyroMQError
from pyromq.protocol import names
from pyromq.protocol.bodies import ClusterInfo, TopicRouteData
from pyromq.protocol.codes import RequestCode, ResponseCode, response_name
from pyromq.protocol.command import Command
from pyromq.protocol.headers import GetRouteInfoByTopicHeader, Header, SendMessageV2Header
from pyromq.protocol.properties import Property, encode_properties
from pyromq.remoting import Client
from pyromq.store import PutMessage, PutResult, PutStatus

log = logging.getLogger(__name__)

GROUP = "CLUSTER_ESCAPE"
CALL_TIMEOUT = 3.0
MAX_IN_FLIGHT = 256
PAUSE = 1.0
"""After a failure, before the same message is sent again."""
DEFAULT_QUEUES = 4
MASTER_ID = 0

_TIMED = (Property.TIMER_DELAY_SEC, Property.TIMER_DELAY_MS, Property.TIMER_DELIVER_MS)
_STORED = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
    }
)

_Key = tuple[str, str, int, int, int]


@dataclass(frozen=True, slots=True)
class _Target:
    """Where a message may go."""

    address: str
    queues: int


class Escape:
    """Sends to other masters. `woken` is called whenever an answer came."""

    def __init__(self, config: BrokerConfig, client: Client) -> None:
        self._config = config
        self._client = client
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

    async def send(self, message: PutMessage) -> PutResult:
        """Send a message to another master, trying each of them once."""
        message = _unparked(message)
        reason = "there is no other master in the cluster that takes it"
        for target in await self._targets(message.topic):
            try:
                answer = await self._offer(message, target)
            except PyroMQError as error:
                reason = f"{target.address}: {error}"
                continue
            if answer.code in _STORED:
                self.sent += 1
                return PutResult(PutStatus.PUT_OK, 0, 0)
            reason = f"{target.address} answers {response_name(answer.code)}: {answer.remark}"
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

    async def _offer(self, message: PutMessage, target: _Target) -> Command:
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

    async def _targets(self, topic: str) -> list[_Target]:
        """Other masters that have the topic; without any, other masters, which may make it."""
        own = self._config.broker_name
        for namesrv in self._config.namesrv_addr:
            try:
                answer = await self._ask(
                    namesrv,
                    RequestCode.GET_ROUTEINFO_BY_TOPIC,
                    GetRouteInfoByTopicHeader(topic=topic, accept_standard_json_only=True),
                )
                if answer.code == ResponseCode.SUCCESS:
                    route = TopicRouteData.decode(answer.body)
                    masters = {each.broker_name: each.broker_addrs.get(MASTER_ID) for each in route.broker_datas}
                    found = [
                        _Target(address, max(1, queues.write_queue_nums))
                        for queues in route.queue_datas
                        if queues.broker_name != own
                        and perm.is_writable(queues.perm)
                        and (address := masters.get(queues.broker_name))
                    ]
                    if found:
                        return self._rotated(found)
                answer = await self._ask(namesrv, RequestCode.GET_BROKER_CLUSTER_INFO)
                if answer.code == ResponseCode.SUCCESS:
                    brokers = ClusterInfo.decode(answer.body).broker_addr_table.values()
                    return self._rotated(
                        [
                            _Target(address, 1)
                            for each in brokers
                            if each.broker_name != own
                            and each.cluster == self._config.broker_cluster_name
                            and (address := each.broker_addrs.get(MASTER_ID))
                        ]
                    )
            except PyroMQError as error:
                log.debug("name server %s was not asked for a way out: %s", namesrv, error)
        return []

    async def _ask(self, address: str, code: RequestCode, header: Header | None = None) -> Command:
        return await self._client.call(address, Command.request(code, header), CALL_TIMEOUT)

    def _rotated(self, targets: list[_Target]) -> list[_Target]:
        """Each in turn comes first."""
        if not targets:
            return []
        first = next(self._turn) % len(targets)
        return targets[first:] + targets[:first]


def _key(message: PutMessage) -> _Key:
    """What tells a message from others while it is on its way; its times may differ from put to put."""
    unique = (message.property_map or {}).get(Property.UNIQ_KEY, "")
    return message.topic, unique, message.queue_id, message.born_timestamp, zlib.crc32(message.body)


def _not_yet(reason: str) -> PutResult:
    return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, reason=reason)


def _unparked(message: PutMessage) -> PutMessage:
    """The message as it is sent: one that has to wait on says until when, and is parked again where it arrives."""
    properties = dict(message.property_map or {})
    slot = properties.get(Property.TIMER_OUT_MS, "")
    if message.topic == names.TIMER_TOPIC and slot.isascii() and slot.isdigit():
        message.topic = properties.pop(Property.REAL_TOPIC, message.topic)
        del properties[Property.TIMER_OUT_MS]
        for name in _TIMED:
            properties.pop(name, None)
        properties[Property.TIMER_DELIVER_MS] = str(int(slot) + 1)  # so that rounding leads to the same slot
    for name in (Property.REAL_TOPIC, Property.REAL_QUEUE_ID):
        properties.pop(name, None)
    message.property_map = properties
    return message
