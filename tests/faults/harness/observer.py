"""Looks at a cluster from outside, past all faults of the network: sets it up, asks for positions, reads its queues."""

import asyncio
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from pyromq.aio import Admin, PyroMQError
from pyromq.protocol.bodies.enums import MessageRequestMode
from pyromq.protocol.bodies.offsets import ConsumerOffsetTable
from pyromq.protocol.bodies.replication import HARuntimeInfo
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.consume import PullMessageHeader, PullMessageResponseHeader
from pyromq.protocol.records.record import decode_records
from pyromq.remoting.client import Client
from tests.faults.harness.cluster import BROKERS, MASTERS, SLAVES, Cluster
from tests.faults.harness.history import Found, Position
from tests.faults.harness.workload import GROUPS, QUEUES, TOPICS, name_in

TIMEOUT = 10.0
LOOK_AGAIN = 0.1
SAMPLE_TIMEOUT = 2.0
INLINE = 4
"""The subscription comes with the pull."""

BROKER_OF = {machine: broker for broker, pair in BROKERS.items() for machine in pair}


class Observer:
    """A client that no fault reaches."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._client = Client({})

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.close()

    async def set_up(self) -> None:
        """Make topics and groups, and wait until the slaves follow and know them."""
        async with Admin(namesrv=self._cluster.name_servers) as admin:
            while set((await admin.cluster_info()).broker_addr_table) != set(BROKERS):  # noqa: ASYNC110
                await asyncio.sleep(LOOK_AGAIN)
            for topic in TOPICS:
                await admin.create_topic(topic, queues=QUEUES, cluster="DefaultCluster")
            for group in GROUPS:
                await admin.create_group(group.name, cluster="DefaultCluster")
                if group.mode == "pop":
                    await admin.set_request_mode(
                        group.name, group.topic, MessageRequestMode.POP, cluster="DefaultCluster"
                    )
        for name in MASTERS:
            while not await self._followed(name):  # noqa: ASYNC110 - other processes bring it about
                await asyncio.sleep(LOOK_AGAIN)

    async def _followed(self, name: str) -> bool:
        answer = await self._call(name, RequestCode.GET_BROKER_HA_STATUS)
        return HARuntimeInfo.decode(answer.body).in_sync_slave_nums > 0

    async def positions(self) -> list[Position]:
        """Every group's offsets at every broker that answers."""
        found = await asyncio.gather(*(self._positions(name) for name in (*MASTERS, *SLAVES)))
        return [position for positions in found for position in positions]

    async def _positions(self, name: str) -> list[Position]:
        try:
            answer = await self._call(name, RequestCode.GET_ALL_CONSUMER_OFFSET, timeout=SAMPLE_TIMEOUT)
        except PyroMQError:
            return []
        table = ConsumerOffsetTable.decode(answer.body).offset_table
        return [
            Position(node=name, group=group.name, topic=group.topic, broker=BROKER_OF[name], queue=queue, offset=offset)
            for group in GROUPS
            for queue, offset in table.get(f"{group.topic}@{group.name}", {}).items()
        ]

    async def contents(self, name: str) -> list[Found]:
        """Everything in the queues of a broker. Raises PyroMQError."""
        found = []
        for topic, queue in self._queues():
            found += await self._read(name, topic, queue)
        return found

    @staticmethod
    def _queues() -> Iterator[tuple[str, int]]:
        return ((topic, queue) for topic in TOPICS for queue in range(QUEUES))

    async def _read(self, name: str, topic: str, queue: int) -> list[Found]:
        found: list[Found] = []
        offset = 0
        while True:
            header = PullMessageHeader(
                consumer_group="auditors",
                topic=topic,
                queue_id=queue,
                queue_offset=offset,
                max_msg_nums=32,
                sys_flag=INLINE,
                commit_offset=0,
                suspend_timeout_millis=0,
                subscription="*",
                sub_version=0,
                expression_type="TAG",
            )
            answer = await self._call(name, RequestCode.PULL_MESSAGE, header)
            if answer.code != ResponseCode.SUCCESS:
                return found
            found += [
                Found(
                    id=name_in(message.body),
                    node=name,
                    topic=topic,
                    broker=BROKER_OF[name],
                    queue=queue,
                    offset=message.queue_offset,
                )
                for message in decode_records(answer.body)
            ]
            offset = answer.header(PullMessageResponseHeader).next_begin_offset

    async def _call(
        self,
        name: str,
        code: RequestCode,
        header: PullMessageHeader | None = None,
        timeout: float = TIMEOUT,  # noqa: ASYNC109 - of the request
    ) -> Command:
        return await self._client.call(self._cluster.address(name), Command.request(code, header), timeout)
