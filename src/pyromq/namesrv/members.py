"""What the route table knows of single brokers, is told by them and tells them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pyromq.protocol.bodies.route import TopicQueueMappingInfo
from pyromq.protocol.bodies.tables import DataVersion
from pyromq.protocol.bodies.topics import TopicConfig

RIVAL_SECONDS = 90.0
"""How long a broker is told of another that tried to take its place."""


class BrokerKey(NamedTuple):
    """What identifies one broker process."""

    cluster: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What a broker says about itself."""

    cluster: str
    name: str
    broker_id: int
    address: str
    ha_address: str = ""
    version: DataVersion
    topics: Mapping[str, TopicConfig]
    mappings: Mapping[str, TopicQueueMappingInfo] = field(default_factory=dict)
    filter_servers: Sequence[str] | None = None
    acting_master: bool | None = None
    """None from brokers that do not know the switch."""
    zone: str | None = None
    timeout: float | None = None
    """Seconds without a sign of life after which the broker counts as dead."""

    @property
    def key(self) -> BrokerKey:
        return BrokerKey(self.cluster, self.address)


@dataclass(slots=True)
class LiveBroker:
    """A broker's last sign of life, and over which connection it registered."""

    name: str
    last_update: float
    timeout: float
    version: DataVersion
    connection: object
    ha_address: str
    rival: str = ""
    """Address of another broker that wants its name and id, and when that was last heard of."""
    rival_seen: float = 0.0

    def is_silent(self, now: float) -> bool:
        """Whether it counts as dead."""
        return self.last_update + self.timeout < now


@dataclass(frozen=True, slots=True)
class GroupChange:
    """The smallest broker id of a group became another; `tell` are the members that should know."""

    broker_name: str
    min_broker_id: int
    min_broker_address: str
    tell: tuple[str, ...]
    offline_address: str | None = None
    ha_address: str | None = None


@dataclass(frozen=True, slots=True)
class Registered:
    """The answer to a registration: where a slave finds its master, and whom to tell of a change."""

    master_address: str | None = None
    ha_address: str | None = None
    change: GroupChange | None = None
    rival: str | None = None
    """Another broker that tries to register under the same name and id."""
