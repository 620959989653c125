"""Locks on queues, which a broker grants to one member of a group, so that ordered consumption has one owner."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping

from pyromq.client.consumer.config import ConsumerConfig
from pyromq.client.consumer.member import Member
from pyromq.client.consumer.offsets import NOT_READABLE, Read
from pyromq.client.consumer.process_queue import ProcessQueue
from pyromq.client.errors import ClientError
from pyromq.protocol.bodies.queues import LockBatchRequest, LockBatchResponse, UnlockBatchRequest
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command
from pyromq.protocol.errors import ProtocolError
from pyromq.protocol.headers.consume import LockBatchMqHeader
from pyromq.protocol.message import MessageQueue
from pyromq.remoting.errors import RemotingError

log = logging.getLogger(__name__)

TIMEOUT = 1.0


class QueueLocks:
    """Locks of one member of a group. `overtaken` is called when another member had a queue while its lock was lost."""

    def __init__(self, member: Member[ConsumerConfig], overtaken: Callable[[], None]) -> None:
        self._instance = member.instance
        self._group = member.group
        self._offsets = member.offsets
        self._overtaken = overtaken

    async def lock(self, queue: MessageQueue) -> bool:
        """Whether the queue is mine now."""
        held = await self._lock_at(self._instance.topology.broker_of(queue), [queue])
        return held is not None and queue in held

    async def regain(self, queue: MessageQueue, held: ProcessQueue) -> bool:
        """The broker granted the lock of an owned queue: whether it is of use.

        Not when it was lost for a while and another member consumed under it: what is held here is behind then, and
        the queue has to be taken over again.
        """
        if not held.holds_lock:
            known = self._offsets.known(queue)
            stored = await self._offsets.read(queue, Read.STORE)
            if stored == NOT_READABLE:
                return False
            if known is not None:
                self._offsets.update(queue, known)  # reading replaced it
                if stored > known:
                    log.info("%s was consumed up to %d by another member, and is taken over again", queue, stored)
                    held.dropped = True
                    self._overtaken()
                    return False
        held.lock()
        return True

    async def renew(self, owned: Mapping[MessageQueue, ProcessQueue]) -> None:
        """Ask for all queues again, broker by broker. A broker that cannot be asked leaves things as they are."""

        async def at(broker: str, queues: list[MessageQueue]) -> None:
            held = await self._lock_at(broker, queues)
            if held is None:
                return
            for queue in queues:
                if queue in held:
                    await self.regain(queue, owned[queue])
                else:
                    log.warning("lock on %s was lost", queue)
                    owned[queue].locked = False

        by_broker = self._by_broker(queue for queue, process in owned.items() if not process.dropped)
        await asyncio.gather(*(at(broker, queues) for broker, queues in by_broker.items()))

    async def unlock(self, queues: Collection[MessageQueue], *, confirm: bool = False) -> None:
        """Give queues back; failures are logged, the broker's own expiry then does it."""
        for broker, mine in self._by_broker(queues).items():
            address = self._instance.topology.publish_address(broker)
            if address is None:
                continue
            body = UnlockBatchRequest(client_id=self._instance.client_id, consumer_group=self._group, mq_set=mine)
            command = Command.request(RequestCode.UNLOCK_BATCH_MQ, body=body.encode())
            try:
                if confirm:
                    await self._instance.invoke(address, command, TIMEOUT, broker=broker)
                else:
                    await self._instance.oneway(address, command, TIMEOUT)
            except (ClientError, RemotingError) as error:
                log.warning("%d queues not unlocked at broker %s: %s", len(mine), broker, error)

    async def _lock_at(self, broker: str, queues: list[MessageQueue]) -> set[MessageQueue] | None:
        """Those that are mine now; None when the broker could not be asked."""
        address = self._instance.topology.publish_address(broker)
        if address is None:
            return None
        body = LockBatchRequest(client_id=self._instance.client_id, consumer_group=self._group, mq_set=queues)
        # Nothing is begun under a lock whose connection was lost, see `PushOwnership.connection_lost`.
        header = LockBatchMqHeader(ends_with_connection=True)
        command = Command.request(RequestCode.LOCK_BATCH_MQ, header, body=body.encode())
        try:
            response = await self._instance.invoke(address, command, TIMEOUT, broker=broker)
            return set(LockBatchResponse.decode(response.body).lock_ok_mq_set)
        except (ClientError, RemotingError, ProtocolError) as error:
            log.warning("queues not locked at broker %s: %s", broker, error)
            return None

    def _by_broker(self, queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
        by_broker: dict[str, list[MessageQueue]] = defaultdict(list)
        for queue in queues:
            by_broker[self._instance.topology.broker_of(queue)].append(queue)
        return by_broker
