"""A route table with a clock that only moves when told to, and short ways to register brokers."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from pyromq.namesrv.config import NamesrvConfig
from pyromq.namesrv.members import Registered, Registration
from pyromq.namesrv.routes import RouteTable
from pyromq.protocol.bodies.route import TopicQueueMappingInfo
from pyromq.protocol.bodies.tables import DataVersion
from pyromq.protocol.bodies.topics import TopicConfig


@dataclass
class Clock:
    """Seconds that pass on request."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def config() -> NamesrvConfig:
    return NamesrvConfig()


@pytest.fixture
def table(config: NamesrvConfig, clock: Clock) -> RouteTable:
    return RouteTable(config, clock)


Register = Callable[..., Registered]


@pytest.fixture
def register(table: RouteTable) -> Register:
    return registrar(table)


def registrar(table: RouteTable) -> Register:
    """register("a", 0, "T1", "T2", version=2 …): one call is one registration."""

    def call(
        name: str,
        broker_id: int,
        *topics: str,
        address: str = "",
        cluster: str = "c",
        version: int = 1,
        state: int = 0,
        perm: int = 6,
        flag: int = 0,
        acting: bool | None = None,
        ha: str = "10.0.0.1:10912",
        filters: list[str] | None = None,
        timeout: float | None = None,
        zone: str | None = None,
        mappings: dict[str, TopicQueueMappingInfo] | None = None,
        connection: object = None,
    ) -> Registered:
        return table.register(
            Registration(
                cluster=cluster,
                name=name,
                broker_id=broker_id,
                address=address or f"{name}-{broker_id}:10911",
                ha_address=ha,
                version=DataVersion(counter=version, state_version=state, timestamp=7),
                topics={
                    topic: TopicConfig(
                        topic_name=topic, read_queue_nums=8, write_queue_nums=4, perm=perm, topic_sys_flag=flag
                    )
                    for topic in topics
                },
                mappings=mappings or {},
                filter_servers=filters,
                acting_master=acting,
                zone=zone,
                timeout=timeout,
            ),
            connection,
        )

    return call
