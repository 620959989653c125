"""Replication, and a slave that acts for its master."""

from pyromq.settings.declaration import Settings, settings
from pyromq.settings.option import Address, Addresses, option

KB = 1 << 10
MB = 1 << 20


@settings
class ReplicationSettings(Settings):
    """Replication."""

    ha_listen_port: int = option(
        0, "Port that slaves connect to; 0: the one above listenPort.", minimum=0, maximum=65535
    )
    ha_master_address: Address = option("", "Where a slave finds it; empty: the name servers know.")
    master_broker_address: Address = option(
        "",
        "Main port of a slave's master, which is asked about its log; empty: the name servers know, or it is one below "
        "haMasterAddress.",
    )
    ha_trusted_addresses: Addresses = option(
        (),
        "With authentication: addresses and ranges from which slaves may follow without a ticket, as Apache's do.",
    )
    ha_transfer_batch_size: int = option(
        32 * KB, "Bytes of the log sent at a time.", unit="bytes", minimum=64, maximum=4 * MB, reloadable=True
    )
    ha_send_heartbeat_interval: int = option(
        5_000, "Silence after which a sign of life is sent.", unit="ms", minimum=10, reloadable=True
    )
    ha_housekeeping_interval: int = option(
        20_000, "Silence after which the other is given up.", unit="ms", minimum=100, reloadable=True
    )
    ha_max_gap_not_in_sync: int = option(
        256 * MB, "Bytes behind which a slave still counts as in sync.", unit="bytes", minimum=0, reloadable=True
    )
    sync_from_last_file: bool = option(False, "Give an empty slave the newest file only, not the whole log.")
    slave_timeout: int = option(
        3_000, "How long a SYNC_MASTER waits for slaves.", unit="ms", minimum=1, reloadable=True
    )
    in_sync_replicas: int = option(
        0,
        "Copies, its own included, before a SYNC_MASTER acknowledges; 0: 2 of them, 1: it does not wait.",
        minimum=0,
        maximum=64,
        reloadable=True,
    )
    min_in_sync_replicas: int = option(
        1, "To how many copies it may fall back.", minimum=1, maximum=64, reloadable=True
    )
    enable_auto_in_sync_replicas: bool = option(
        False, "Fall back to as many copies as there are slaves in sync.", reloadable=True
    )
    all_ack_in_sync_state_set: bool = option(
        False, "Wait for every slave in sync, however few copies would do.", reloadable=True
    )


@settings
class ActingSettings(Settings):
    """A slave that acts for its master."""

    enable_slave_acting_master: bool = option(
        False, "While there is no master, let the slave with the smallest id act for it; for master and slaves."
    )
    enable_remote_escape: bool = option(
        False, "Let it send delayed messages, retries and half messages to another master of the cluster."
    )
    skip_pre_online: bool = option(False, "Let a master come back without asking the slave that acted for it.")
    broker_heartbeat_interval: int = option(
        1_000, "Time between two signs of life to name servers.", unit="ms", minimum=50
    )
    broker_not_active_timeout_millis: int = option(
        10_000, "Silence after which they take the broker for dead.", unit="ms", minimum=100
    )
    sync_broker_member_group_period: int = option(
        1_000, "Time between two looks at who else is alive under this name.", unit="ms", minimum=50
    )
