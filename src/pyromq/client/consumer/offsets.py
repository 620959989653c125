"""Consume offsets: on the broker for groups that share the work, in a file for those that all get everything.

Both keep them in memory between writes. A frozen offset was corrected from outside (an operator, or a broker that no
longer has the old one) and no late result may move it until the queue is forgotten.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from pathlib import Path
from typing import Protocol

from pyromq.client.errors import BrokerError, ClientError
from pyromq.client.instance.instance import ClientInstance
from pyromq.configfile import DamagedFileError, read_config, write_config
from pyromq.protocol import requests
from pyromq.protocol.bodies.offsets import ResetOffsetBody
from pyromq.protocol.errors import ProtocolError
from pyromq.protocol.message import MessageQueue
from pyromq.remoting.errors import RemotingError

log = logging.getLogger(__name__)

TIMEOUT = 5.0
NONE_STORED = -1
NOT_READABLE = -2


class Read(Enum):
    """Where to look for an offset."""

    STORE = "store"
    MEMORY_THEN_STORE = "memory then store"


class OffsetStore(Protocol):
    """Offsets of one group by queue (names on the wire)."""

    async def load(self) -> None:
        """Once, at start."""

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool = False) -> None:
        """Remember an offset, to be written later. Ignored for a frozen queue."""

    def freeze(self, queue: MessageQueue, offset: int) -> None:
        """Fix an offset until the queue is removed."""

    def known(self, queue: MessageQueue) -> int | None:
        """What is in memory."""

    def table(self, topic: str | None = None) -> dict[MessageQueue, int]:
        """A copy of what is in memory, of one topic or of all."""

    async def read(self, queue: MessageQueue, where: Read = Read.MEMORY_THEN_STORE) -> int:
        """The offset; NONE_STORED (-1) when there is none, NOT_READABLE (-2) when that cannot be found out."""

    async def persist_all(self, owned: Collection[MessageQueue]) -> None:
        """Write the offsets of these queues and forget all others. Failures are logged."""

    async def persist(self, queue: MessageQueue, *, confirm: bool = False) -> None:
        """Write one offset; with `confirm`, return only after the store has it. Failures are logged."""

    def remove(self, queue: MessageQueue) -> None:
        """Forget what is in memory."""


class OffsetTable:
    """The part in memory, and reading past it."""

    def __init__(self) -> None:
        self._offsets: dict[MessageQueue, int] = {}
        self._frozen: set[MessageQueue] = set()

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool = False) -> None:
        if queue in self._frozen:
            return
        known = self._offsets.get(queue)
        if known is None or not increase_only or offset > known:
            self._offsets[queue] = offset

    def freeze(self, queue: MessageQueue, offset: int) -> None:
        self._offsets[queue] = offset
        self._frozen.add(queue)

    def known(self, queue: MessageQueue) -> int | None:
        return self._offsets.get(queue)

    def table(self, topic: str | None = None) -> dict[MessageQueue, int]:
        return {queue: offset for queue, offset in self._offsets.items() if topic is None or queue.topic == topic}

    def remove(self, queue: MessageQueue) -> None:
        self._offsets.pop(queue, None)
        self._frozen.discard(queue)

    async def read(self, queue: MessageQueue, where: Read = Read.MEMORY_THEN_STORE) -> int:
        if where is not Read.STORE and (known := self.known(queue)) is not None:
            return known
        try:
            offset = await self._stored(queue)
        except (ClientError, RemotingError, ProtocolError) as error:
            log.warning("offset of %s not read: %s", queue, error)
            return NOT_READABLE
        if offset is None:
            return NONE_STORED
        self.update(queue, offset)
        return offset

    async def _stored(self, queue: MessageQueue) -> int | None:  # noqa: ARG002 - for those who have a store
        return None


class RemoteOffsets(OffsetTable):
    """On the broker that has the queue."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        super().__init__()
        self._instance = instance
        self._group = group

    async def load(self) -> None:
        """Nothing: offsets are asked for queue by queue."""

    async def persist_all(self, owned: Collection[MessageQueue]) -> None:
        if not owned:
            return
        for queue in self.table():
            if queue not in owned:
                self.remove(queue)
        await asyncio.gather(*(self.persist(queue) for queue in owned))

    async def persist(self, queue: MessageQueue, *, confirm: bool = False) -> None:
        offset = self.known(queue)
        if offset is None:
            return
        try:
            await self._write(queue, offset, confirm=confirm)
        except (ClientError, RemotingError) as error:
            log.warning("offset %d of %s not written: %s", offset, queue, error)

    async def _stored(self, queue: MessageQueue) -> int | None:
        broker, address = await self._address(queue)
        request = requests.consumer_offset(self._group, queue.topic, queue.queue_id, broker=broker)
        try:
            response = await self._instance.invoke(self._instance.vip(address), request.command, TIMEOUT, broker=broker)
        except BrokerError as error:
            if error.code == request.absent:
                return None
            raise
        return request.read(response)

    async def _write(self, queue: MessageQueue, offset: int, *, confirm: bool) -> None:
        broker, address = await self._address(queue)
        command = requests.commit_offset(self._group, queue.topic, queue.queue_id, offset, broker=broker).command
        if confirm:
            await self._instance.invoke(self._instance.vip(address), command, TIMEOUT, broker=broker)
        else:
            await self._instance.oneway(self._instance.vip(address), command, TIMEOUT)

    async def _address(self, queue: MessageQueue) -> tuple[str, str]:
        """The master of the queue, else any process of its broker."""
        topology = self._instance.topology
        broker = topology.broker_of(queue)
        address = topology.publish_address(broker) or topology.admin_address(broker)
        if address is None:
            await self._instance.routes.refresh(queue.topic)
            broker = topology.broker_of(queue)
            address = topology.publish_address(broker) or topology.admin_address(broker)
        if address is None:
            raise ClientError(f"broker {broker!r} of {queue} is not known", broker=broker, retryable=True)
        return broker, address


RunInThread = Callable[[Callable[[], None]], "asyncio.Future[None]"]


class LocalOffsets(OffsetTable):
    """In `offsets.json` in a folder of the client and group, in the form of Apache's client; the last one as `.bak`."""

    def __init__(self, folder: Path, run: RunInThread) -> None:
        super().__init__()
        self.path = folder / "offsets.json"
        self._run = run
        self._writing = asyncio.Lock()

    async def load(self) -> None:
        await self._run(self._load)

    async def _stored(self, queue: MessageQueue) -> int | None:
        found: list[int | None] = []
        await self._run(lambda: found.append(self._read_file().get(queue)))
        return found[0]

    async def persist_all(self, owned: Collection[MessageQueue]) -> None:
        await self._merge({queue: offset for queue, offset in self.table().items() if queue in owned})

    async def persist(self, queue: MessageQueue, *, confirm: bool = False) -> None:  # noqa: ARG002 - always confirmed
        offset = self.known(queue)
        if offset is not None:
            await self._merge({queue: offset})

    async def _merge(self, offsets: Mapping[MessageQueue, int]) -> None:
        if not offsets:
            return
        async with self._writing:
            try:
                await self._run(lambda: self._write_file(offsets))
            except (OSError, ClientError) as error:
                log.warning("offsets not written to %s: %s", self.path, error)

    def _load(self) -> None:
        self._offsets = dict(self._read_file())

    def _read_file(self) -> dict[MessageQueue, int]:
        """What the file has, else its backup; nothing when there is neither. Raises ClientError."""
        try:
            stored = read_config(self.path, ResetOffsetBody.decode)
        except DamagedFileError as error:
            raise ClientError(f"local offsets cannot be read: {error}") from error
        return stored.offset_table if stored is not None else {}

    def _write_file(self, offsets: Mapping[MessageQueue, int]) -> None:
        merged = self._read_file() | dict(offsets)
        write_config(self.path, ResetOffsetBody(offset_table=merged).pretty())
