"""The member that had a queue before: whether it still works on it, and waiting until it does not.

A member that is told of a change gives its queues up when what it has in work is done and its offsets are written. The
next owner asks it, by way of a broker, which queues it has; that is an old request, which clients of all languages
answer. Apache's brokers want Get on the group for it, ours Sub: who may not ask begins after `first_pull_delay`.
"""

import asyncio
import contextlib
import logging
from collections.abc import Collection, Sequence

from pyromq.client.clock import sleep
from pyromq.client.consumer.config import ConsumerConfig
from pyromq.client.consumer.member import Member
from pyromq.client.consumer.rebalance.allocation import AllocationStrategy
from pyromq.client.errors import BrokerError, ClientError
from pyromq.protocol.bodies.clients import ConsumerRunningInfo
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.errors import ProtocolError
from pyromq.protocol.headers.admin import GetConsumerRunningInfoHeader
from pyromq.protocol.message import MessageQueue
from pyromq.remoting.errors import RemotingError

log = logging.getLogger(__name__)

ASK_AGAIN_AFTER = 0.2
MARGIN = 1.0
"""Longer than an owner keeps a queue for what it has in work, so that its last commit is seen."""
MANY_MEMBERS = 200
"""In larger groups nobody works out who had which queue: that takes the square of their number."""


def last_owners(
    strategy: AllocationStrategy,
    queues: Sequence[MessageQueue],
    members: Sequence[str],
    wanted: Collection[MessageQueue],
) -> dict[MessageQueue, str]:
    """Who had the wanted queues when these sorted members shared these sorted queues; without those nobody had."""
    if len(members) > MANY_MEMBERS or not wanted:
        return {}
    owners: dict[MessageQueue, str] = {}
    with contextlib.suppress(Exception):  # a strategy of the user's may know nothing of others
        for member in members:
            owners |= {queue: member for queue in strategy.allocate(member, queues, members) if queue in wanted}
    return owners


class LastOwners:
    """Asks for one member of a group."""

    def __init__(self, member: Member[ConsumerConfig]) -> None:
        self._instance = member.instance
        self._group = member.group
        self._patience = member.config.handover_timeout + MARGIN
        self._asking: dict[tuple[str, str], asyncio.Task[Collection[MessageQueue]]] = {}
        self._allowed = True

    async def let_go(self, owner: str, queue: MessageQueue) -> None:
        """Return when the owner does not have the queue any more, cannot be asked, or takes too long."""
        clock = self._instance.clock
        deadline = clock.monotonic() + self._patience
        while self._allowed and queue in await self._queues_of(owner, queue):
            if clock.monotonic() >= deadline:
                log.warning("%s is still with %s after %g s and is pulled all the same", queue, owner, self._patience)
                return
            await sleep(clock, ASK_AGAIN_AFTER)

    async def _queues_of(self, owner: str, queue: MessageQueue) -> Collection[MessageQueue]:
        """What the owner has; those who want to know at the same time share one answer."""
        topology = self._instance.topology
        address = topology.publish_address(topology.broker_of(queue))
        if address is None:
            return ()
        key = (address, owner)
        task = self._asking.get(key)
        if task is None:
            task = self._asking[key] = asyncio.get_running_loop().create_task(self._ask(address, owner))
            task.add_done_callback(lambda _: self._asking.pop(key, None))
        return await asyncio.shield(task)

    async def _ask(self, address: str, owner: str) -> Collection[MessageQueue]:
        header = GetConsumerRunningInfoHeader(consumer_group=self._group, client_id=owner, jstack_enable=False)
        command = Command.request(RequestCode.GET_CONSUMER_RUNNING_INFO, header)
        try:
            response = await self._instance.invoke(self._instance.vip(address), command)
            return ConsumerRunningInfo.decode(response.body).mq_table.keys()
        except (ClientError, RemotingError, ProtocolError) as error:
            if isinstance(error, BrokerError) and error.code == ResponseCode.NO_PERMISSION:
                self._allowed = False
            log.info("queues of %s, a member of group %s, not learned: %s", owner, self._group, error)
            return ()
