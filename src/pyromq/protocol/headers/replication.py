"""Headers between brokers, from master to slave and from broker to controller."""

from pyromq.protocol.bounds import Name, Text
from pyromq.protocol.headers.base import Header, Int, Long


class ExchangeBrokerHaInfoHeader(Header, kw_only=True):
    """Empty it asks, filled it tells; the answer has the same fields."""

    master_ha_address: Text | None = None
    master_flush_offset: Long | None = None
    master_address: Text | None = None


class ExchangeBrokerHaInfoResponseHeader(ExchangeBrokerHaInfoHeader, kw_only=True):
    """The master's own values."""


class CompareLogHeader(Header, kw_only=True):
    """COMPARE_LOG, PyroMQ's own: a slave that would begin at `offset` proves that it has what comes before."""

    offset: Long


class CompareLogResponseHeader(Header, kw_only=True):
    """`ticket` goes before the first report to the replication port; without one the logs differ at `differs`."""

    ticket: Long | None = None
    differs: Long | None = None


class ResetMasterFlushOffsetHeader(Header, kw_only=True):
    master_flush_offset: Long


class ControllerAlterSyncStateSetHeader(Header, kw_only=True):
    broker_name: Name | None = None
    master_broker_id: Long | None = None
    master_epoch: Int | None = None
    invoke_time: Long | None = None


class ControllerAlterSyncStateSetResponseHeader(Header, kw_only=True):
    new_sync_state_set_epoch: Int | None = None


class ControllerElectMasterHeader(Header, kw_only=True):
    cluster_name: Name
    broker_name: Name
    broker_id: Long
    designate_elect: bool
    invoke_time: Long | None = None


class ControllerElectMasterResponseHeader(Header, kw_only=True):
    master_broker_id: Long | None = None
    master_address: str | None = None
    master_epoch: Int | None = None
    sync_state_set_epoch: Int | None = None


class ControllerRegisterBrokerHeader(Header, kw_only=True):
    cluster_name: Name | None = None
    broker_name: Name | None = None
    broker_id: Long | None = None
    broker_address: Text | None = None
    invoke_time: Long | None = None


class ControllerRegisterBrokerResponseHeader(Header, kw_only=True):
    cluster_name: str | None = None
    broker_name: str | None = None
    master_broker_id: Long | None = None
    master_address: str | None = None
    master_epoch: Int | None = None
    sync_state_set_epoch: Int | None = None


class ControllerGetReplicaInfoHeader(Header, kw_only=True):
    broker_name: Name | None = None


class ControllerGetReplicaInfoResponseHeader(Header, kw_only=True):
    master_broker_id: Long | None = None
    master_address: str | None = None
    master_epoch: Int | None = None


class ControllerGetMetadataInfoResponseHeader(Header, kw_only=True):
    group: str | None = None
    controller_leader_id: str | None = None
    controller_leader_address: str | None = None
    is_leader: bool | None = None
    peers: str | None = None


class NotifyBrokerRoleChangedHeader(Header, kw_only=True):
    master_address: Text | None = None
    master_epoch: Int | None = None
    sync_state_set_epoch: Int | None = None
    master_broker_id: Long | None = None


class CleanBrokerDataHeader(Header, kw_only=True):
    cluster_name: Name | None = None
    broker_name: Name
    broker_controller_ids_to_clean: Text | None = None
    is_clean_living_broker: bool | None = None
    invoke_time: Long | None = None


class ControllerGetNextBrokerIdHeader(Header, kw_only=True):
    cluster_name: Name | None = None
    broker_name: Name | None = None


class ControllerGetNextBrokerIdResponseHeader(Header, kw_only=True):
    cluster_name: str | None = None
    broker_name: str | None = None
    next_broker_id: Long | None = None


class ControllerApplyBrokerIdHeader(Header, kw_only=True):
    cluster_name: Name | None = None
    broker_name: Name | None = None
    applied_broker_id: Long | None = None
    register_check_code: Text | None = None


class ControllerApplyBrokerIdResponseHeader(Header, kw_only=True):
    cluster_name: str | None = None
    broker_name: str | None = None
