"""Tells the members of a broker group that their smallest id changed: one-way, best effort, bounded."""

import asyncio
import logging
from collections.abc import Iterable

from pyromq.namesrv.members import GroupChange
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.namesrv import NotifyMinBrokerIdChangeHeader
from pyromq.remoting.client import Client
from pyromq.remoting.errors import RemotingError

log = logging.getLogger(__name__)

TIMEOUT = 0.3
MAX_IN_FLIGHT = 1_000


class MemberNotifier:
    """Sends in the background; whoever cannot be reached learns it from its own next look at its group.

    The client is closed with it.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._tasks: set[asyncio.Task[None]] = set()

    def tell(self, changes: Iterable[GroupChange]) -> None:
        """Start telling every member that should know."""
        for change in changes:
            for address in change.tell:
                if len(self._tasks) >= MAX_IN_FLIGHT:
                    log.warning("%s not told of its group's change: %d notifications wait", address, MAX_IN_FLIGHT)
                    continue
                task = asyncio.get_running_loop().create_task(self._send(address, change))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Stop what is still being sent."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.close()

    async def _send(self, address: str, change: GroupChange) -> None:
        header = NotifyMinBrokerIdChangeHeader(
            min_broker_id=change.min_broker_id,
            broker_name=change.broker_name,
            min_broker_addr=change.min_broker_address,
            offline_broker_addr=change.offline_address,
            ha_broker_addr=change.ha_address,
        )
        command = Command.request(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, header, oneway=True)
        try:
            await self._client.oneway(address, command, TIMEOUT)
        except RemotingError as error:
            log.warning("%s not told that broker group %s changed: %s", address, change.broker_name, error)
