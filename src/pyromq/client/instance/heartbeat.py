"""Heartbeats: what a client instance tells the brokers about itself, and when the short form is enough.

The short form (V2) leaves the subscriptions out while a broker is known to hold them: it remembered the fingerprint of
the full one. Sending is best effort: a failure is logged, never raised.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from pyromq.client.config import ClientConfig
from pyromq.client.errors import BrokerError
from pyromq.client.instance.members import ConsumerMember, ProducerMember
from pyromq.client.instance.topology import Topology
from pyromq.protocol.bodies.clients import ConsumerData, HeartbeatData, ProducerData
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command
from pyromq.protocol.errors import ProtocolError
from pyromq.protocol.headers.consume import HeartBeatResponseHeader
from pyromq.protocol.records.tags import java_hash
from pyromq.remoting.errors import RemotingError

log = logging.getLogger(__name__)


def heartbeat_data(client_id: str, producers: list[str], consumers: list[ConsumerData]) -> HeartbeatData:
    """The full form."""
    return HeartbeatData(
        client_id=client_id,
        producer_data_set=[ProducerData(group_name=group) for group in producers],
        consumer_data_set=consumers,
    )


def fingerprint(data: HeartbeatData) -> int:
    """Java's hash of the heartbeat's JSON without what differs between equal subscriptions."""
    neutral = msgspec.structs.replace(
        data,
        client_id="",
        heartbeat_fingerprint=0,
        without_sub=False,
        consumer_data_set=[
            msgspec.structs.replace(
                consumer,
                subscription_data_set=[
                    msgspec.structs.replace(subscription, sub_version=0)
                    for subscription in consumer.subscription_data_set
                ],
            )
            for consumer in data.consumer_data_set
        ],
    )
    return java_hash(neutral.encode().decode())


def without_subscriptions(data: HeartbeatData) -> HeartbeatData:
    """The short form."""
    return msgspec.structs.replace(
        data,
        without_sub=True,
        consumer_data_set=[
            msgspec.structs.replace(consumer, subscription_data_set=[]) for consumer in data.consumer_data_set
        ],
    )


class Fingerprints:
    """Which broker addresses hold which subscriptions."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def body_for(self, address: str, data: HeartbeatData) -> HeartbeatData:
        """The short form if the broker holds exactly these subscriptions, else the full one."""
        if self._known.get(address) == data.heartbeat_fingerprint:
            return without_subscriptions(data)
        return data

    def learn(self, address: str, data: HeartbeatData, response: Command) -> None:
        """Remember or forget, by what the broker said to a heartbeat."""
        header = response.header(HeartBeatResponseHeader)
        if header.supports_heart_beat_v2 and header.subscription_changed is False:
            self._known[address] = data.heartbeat_fingerprint
        else:
            self._known.pop(address, None)

    def forget(self, address: str) -> None:
        self._known.pop(address, None)

    def clear(self) -> None:
        """After a rebalance change every broker gets the full form again."""
        self._known.clear()


class Host(Protocol):
    """What heartbeats need of the client instance."""

    client_id: str
    config: ClientConfig
    topology: Topology
    producers: dict[str, ProducerMember]
    consumers: dict[str, ConsumerMember]

    async def invoke(self, address: str, command: Command) -> Command: ...

    def vip(self, address: str) -> str: ...


class Heart:
    """Sends heartbeats; one round at a time."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._fingerprints = Fingerprints()
        self._lock = asyncio.Lock()
        self.with_each_round: list[Callable[[], Awaitable[None]]] = []
        """What else is told again and again; must not raise."""

    async def beat_all(self) -> bool:
        """To every known broker, to masters only without consumers. False when a round runs or nobody is there."""
        if self._lock.locked():
            log.debug("heartbeat skipped: the previous round is still under way")
            return False
        async with self._lock:
            data = self._data()
            if data is None:
                return False
            addresses = self._host.topology.addresses(masters_only=not self._host.consumers)
            if not addresses:
                return False
            await asyncio.gather(*(self._beat(address, data) for _, _, address in addresses))
            await asyncio.gather(*(work() for work in list(self.with_each_round)))
            return True

    async def beat(self, address: str) -> bool:
        """To one broker. False when nobody is registered or it failed."""
        data = self._data()
        return data is not None and await self._beat(address, data)

    def forget(self, address: str) -> None:
        """The broker left."""
        self._fingerprints.forget(address)

    def subscriptions_changed(self) -> None:
        """A rebalance changed something: every broker gets the full form again."""
        self._fingerprints.clear()

    def _data(self) -> HeartbeatData | None:
        host = self._host
        if not host.producers and not host.consumers:
            return None
        data = heartbeat_data(
            host.client_id, list(host.producers), [consumer.heartbeat_data() for consumer in host.consumers.values()]
        )
        if host.config.heartbeat_v2:
            data.heartbeat_fingerprint = fingerprint(data)
        return data

    async def _beat(self, address: str, data: HeartbeatData) -> bool:
        host = self._host
        body = self._fingerprints.body_for(address, data) if host.config.heartbeat_v2 else data
        command = Command.request(RequestCode.HEART_BEAT, body=body.encode())
        try:
            response = await host.invoke(host.vip(address), command)
            if host.config.heartbeat_v2:
                self._fingerprints.learn(address, data, response)
        except (RemotingError, BrokerError, ProtocolError) as error:
            log.warning("heartbeat to broker %s failed: %s", address, error)
            return False
        host.topology.versions[address] = response.version
        return True
