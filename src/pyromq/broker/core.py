"""`Core`: what nearly every part of a broker needs. Made once, complete, when the store is open and ports are bound."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from pyromq.broker.admin.stats import BrokerStats
from pyromq.broker.cluster.addresses import Identity
from pyromq.broker.cluster.clients import Consumers, Producers
from pyromq.broker.cluster.rights import Rights
from pyromq.broker.config import BrokerConfig
from pyromq.broker.durability import Durability
from pyromq.broker.ports import Ports
from pyromq.broker.tables.groups import Groups
from pyromq.broker.tables.offsets import ConsumerOffsets
from pyromq.broker.tables.positions import Positions
from pyromq.broker.tables.tables import Tables
from pyromq.broker.tables.topics import Topics
from pyromq.clock import steady_for
from pyromq.protocol import names
from pyromq.remoting.client import Client
from pyromq.store.config import BrokerRole
from pyromq.store.messagestore import MessageStore

if TYPE_CHECKING:
    from pyromq.auth.gate import Gate


@dataclass(slots=True)
class Role:
    """What a slave does in the place of its master at the moment. Set by who decides it, read by all others."""

    acting: bool = False
    """Whether it serves consumers as their master."""
    working: bool = False
    """Whether it delivers what is due."""


@dataclass(frozen=True, slots=True)
class Core:
    """`clock` gives Unix milliseconds, `steady` milliseconds for durations."""

    config: BrokerConfig
    clock: Callable[[], int]
    steady: Callable[[], int]
    started_at: int
    store: MessageStore
    client: Client
    ports: Ports
    identity: Identity
    """Under which name and addresses others know this broker."""
    gate: "Gate | None"
    """What checks requests and keeps the audit log, if anything does."""
    rights: Rights
    tables: Tables
    consumers: Consumers
    producers: Producers
    stats: BrokerStats
    durability: Durability
    positions: Positions
    role: Role

    @classmethod
    def make(
        cls,
        config: BrokerConfig,
        clock: Callable[[], int],
        store: MessageStore,
        client: Client,
        ports: Ports,
        identity: Identity,
        tables: Tables,
        gate: "Gate | None" = None,
    ) -> Self:
        """With everything that follows from these."""
        topics, groups = tables.topics, tables.groups

        def known(topic: str, group: str) -> bool:
            """Whether counters of a topic, and of a group unless it is empty, are kept."""
            exists = topic in topics or topic in names.SYSTEM_TOPICS
            return exists and (not group or group in groups or group in names.SYSTEM_GROUPS)

        is_sync = config.broker_role is BrokerRole.SYNC_MASTER
        return cls(
            config=config,
            clock=clock,
            steady=steady_for(clock),
            started_at=clock(),
            store=store,
            client=client,
            ports=ports,
            identity=identity,
            gate=gate,
            rights=Rights(gate.guard if gate is not None else None),
            tables=tables,
            consumers=Consumers(clock),
            producers=Producers(clock, max_groups=config.max_groups),
            stats=BrokerStats(clock, known, cluster=config.broker_cluster_name),
            durability=Durability(store, ports.replicas.waits if is_sync else None),
            positions=Positions(store, tables.offsets, tables.delays, tables.batches),
            role=Role(),
        )

    @property
    def topics(self) -> Topics:
        """The topics of the broker."""
        return self.tables.topics

    @property
    def groups(self) -> Groups:
        """Its consumer groups."""
        return self.tables.groups

    @property
    def offsets(self) -> ConsumerOffsets:
        """Where each group stands."""
        return self.tables.offsets

    @property
    def address(self) -> str:
        """What clients are told, as `host:port`."""
        return self.identity.address

    @property
    def is_slave(self) -> bool:
        """Whether it follows a master."""
        return self.config.broker_role is BrokerRole.SLAVE
