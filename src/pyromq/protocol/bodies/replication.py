"""Replication: state of master and slaves, replica sets of the controller, epochs."""

from msgspec import field

from pyromq.protocol.bodies.base import Body, Int, Long
from pyromq.protocol.bodies.route import BrokerMemberGroup


class HAConnectionInfo(Body):
    """One slave, as its master sees it."""

    addr: str = ""
    diff: Long = 0
    in_sync: bool = False
    slave_ack_offset: Long = 0
    transfer_from_where: Long = 0
    transferred_byte_in_second: Long = 0


class HAClientInfo(Body):
    """The master, as a slave sees it."""

    last_read_timestamp: Long = 0
    last_write_timestamp: Long = 0
    master_addr: str | None = None
    master_flush_offset: Long = 0
    max_offset: Long = 0
    transferred_byte_in_second: Long = 0


class HARuntimeInfo(Body):
    ha_client_runtime_info: HAClientInfo = field(default_factory=HAClientInfo)
    ha_connection_info: list[HAConnectionInfo] = field(default_factory=list)
    in_sync_slave_nums: Int = 0
    master: bool = False
    master_commit_log_max_offset: Long = 0


class Stretch(Body):
    """A piece of a log: where it begins, how long it is, and the CRC-32 of its bytes."""

    crc: Long = 0
    length: Int = 0
    offset: Long = 0


class LogProof(Body):
    """Body of COMPARE_LOG: pieces of a slave's log, the one at its end first."""

    stretches: list[Stretch] = field(default_factory=list)


class SyncStateSet(Body):
    """Ids of the brokers that are in sync with the master."""

    sync_state_set: list[Long] = field(default_factory=list)
    sync_state_set_epoch: Int = 0


class ElectMasterBody(Body):
    broker_member_group: BrokerMemberGroup | None = None
    sync_state_set: list[Long] = field(default_factory=list)


class ReplicaIdentity(Body):
    alive: bool | None = None
    broker_address: str = ""
    broker_id: Long = 0
    broker_name: str = ""


class ReplicasInfo(Body):
    in_sync_replicas: list[ReplicaIdentity] = field(default_factory=list)
    master_address: str | None = None
    master_broker_id: Long | None = None
    master_epoch: Int = 0
    not_in_sync_replicas: list[ReplicaIdentity] = field(default_factory=list)
    sync_state_set_epoch: Int = 0


class BrokerReplicasInfo(Body):
    """Replica sets by broker name. The request is an array of names: `decode_as(list[str], body)`."""

    replicas_info_table: dict[str, ReplicasInfo] = field(default_factory=dict)


class EpochEntry(Body):
    end_offset: Long = 2**63 - 1
    epoch: Int = 0
    start_offset: Long = 0


class EpochEntryCache(Body):
    broker_id: Long = 0
    broker_name: str = ""
    cluster_name: str = ""
    epoch_list: list[EpochEntry] = field(default_factory=list)
    max_offset: Long = 0
