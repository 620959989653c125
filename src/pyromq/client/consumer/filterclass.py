"""Filter classes: what a consumer subscribes with, and getting it to every filter server of its topics.

Filter servers forget and are replaced, so classes are uploaded again with each heartbeat round, and before the first
pull through a server that has not got them yet.
"""

import asyncio
import logging
import random
from typing import Final

from pyromq.client.consumer.subscription import FilterClass, Subscriptions
from pyromq.client.errors import ClientError
from pyromq.client.instance.instance import ClientInstance
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.filtersrv import RegisterMessageFilterClassHeader
from pyromq.remoting.errors import RemotingError

log = logging.getLogger(__name__)

UPLOAD_TIMEOUT: Final = 5.0


class ClassFilters:
    """Of one group (its name on the wire)."""

    def __init__(self, instance: ClientInstance, group: str, subscriptions: Subscriptions) -> None:
        self._instance = instance
        self._group = group
        self._subscriptions = subscriptions
        self._uploaded: dict[tuple[str, str], FilterClass] = {}

    async def upload_all(self) -> None:
        """To every filter server of every topic with a class. What fails is logged; the next round tries again."""
        work = []
        known = set()
        for topic, filter_class in self._subscriptions.filter_classes.items():
            route = self._instance.topology.routes.get(topic)
            addresses = {address for each in route.filter_server_table.values() for address in each} if route else ()
            for address in addresses:
                known.add((topic, address))
                work.append(self._upload_quietly(topic, address, filter_class))
        for gone in self._uploaded.keys() - known:
            del self._uploaded[gone]
        await asyncio.gather(*work)

    async def choose(self, topic: str, broker_address: str) -> str:
        """A filter server of this broker that has the class. Raises ClientError when there is none or it refuses it."""
        servers = self._servers(topic, broker_address)
        if not servers:
            await self._instance.routes.refresh(topic)
            servers = self._servers(topic, broker_address)
        if not servers:
            raise ClientError(
                f"broker {broker_address} has no filter server for topic {topic!r}: set filterServerNums and "
                "clientUploadFilterClassEnable there, or subscribe by tags or sql",
                broker=broker_address,
                retryable=True,
            )
        address = random.choice(servers)
        filter_class = self._subscriptions.filter_classes.get(topic)
        if filter_class is None:
            raise ClientError(f"topic {topic!r} is no longer subscribed with a filter class")
        if self._uploaded.get((topic, address)) != filter_class:
            await self._upload(topic, address, filter_class)
        return address

    def failed(self, topic: str, address: str) -> None:
        """A pull through this server was refused: it may have forgotten the class."""
        self._uploaded.pop((topic, address), None)

    def _servers(self, topic: str, broker_address: str) -> list[str]:
        route = self._instance.topology.routes.get(topic)
        return route.filter_server_table.get(broker_address, []) if route is not None else []

    async def _upload_quietly(self, topic: str, address: str, filter_class: FilterClass) -> None:
        try:
            await self._upload(topic, address, filter_class)
        except (ClientError, RemotingError) as error:
            self.failed(topic, address)
            log.warning("filter class %s not taken by filter server %s: %s", filter_class.name, address, error)

    async def _upload(self, topic: str, address: str, filter_class: FilterClass) -> None:
        header = RegisterMessageFilterClassHeader(
            consumer_group=self._group, topic=topic, class_name=filter_class.name, class_crc=filter_class.crc
        )
        command = Command.request(RequestCode.REGISTER_MESSAGE_FILTER_CLASS, header, body=filter_class.body)
        await self._instance.invoke(address, command, UPLOAD_TIMEOUT)
        self._uploaded[topic, address] = filter_class
