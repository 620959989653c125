"""The broker's settings, under RocketMQ's own property names. Values only; each is used by the module it names.

Defaults are Apache's, except where PyroMQ promises more: loopback, and synchronous flush.
"""

import os
import platform
import re
from collections.abc import Mapping
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

from pyromq.auth.settings import AuthSettings
from pyromq.broker.apache_keys import OLD_NAMES, WITHOUT_EFFECT
from pyromq.protocol.bodies.enums import MessageRequestMode
from pyromq.protocol.records.queueentry import ENTRY_SIZE
from pyromq.remoting.accept.settings import NETTY_KEYS, ServerSettings
from pyromq.settings.declaration import Settings, options, settings
from pyromq.settings.errors import ConfigError
from pyromq.settings.option import Address, Addresses, computed, option
from pyromq.store.config import DELAY_LEVELS, BrokerRole, FlushDiskType, StoreConfig
from pyromq.store.errors import StoreError
from pyromq.store.log.soundness import CrcOnRead

KB, MB, GB = 1 << 10, 1 << 20, 1 << 30
DAY = 86_400
WILDCARDS = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - compared with, never bound by default


def default_broker_name() -> str:
    """The host name, reduced to characters that a broker name may have."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", platform.node()) or "broker"


@settings
class IdentitySettings(ServerSettings):
    """Identity and addresses."""

    broker_name: str = option(computed(default_broker_name, "the host name"), "Name shared by a master and its slaves.")
    broker_cluster_name: str = option("DefaultCluster", "Cluster this broker belongs to.")
    broker_id: int = option(0, "0 for a master, a number above it for a slave.", minimum=0, maximum=2**31 - 1)
    broker_role: BrokerRole = option(BrokerRole.ASYNC_MASTER, "What the broker is to its replicas.")
    broker_permission: int = option(
        6, "4 read, 2 write, 6 both; what is missing is taken from every topic.", minimum=0, maximum=6, reloadable=True
    )
    listen_port: int = option(10911, "Main port; 0 takes a free one.", minimum=0, maximum=65535)
    fast_listen: bool = option(True, "Also listen on the port two below the main one, as old clients expect.")
    advertised_host: Address = option(
        "", "Host name or address that clients are told to use; empty: the bound one.", key="brokerIP1"
    )
    replication_host: Address = option("", "Like brokerIP1, for slaves; empty: the same.", key="brokerIP2")
    namesrv_addr: Addresses = option((), "Name servers to register with.", env="NAMESRV_ADDR", short="n")
    http_port: int | None = option(
        None,
        "Port of /metrics and /health; empty: 8090 or, while that is taken, a free one; 0: a free one, -1: none.",
        minimum=-1,
        maximum=65535,
    )
    http_host: Address = option(
        "127.0.0.1", "Address of /metrics and /health, which ask nobody who they are.", key="httpBindAddress"
    )
    metrics_otel_cardinality_limit: int = option(
        10_000, "Sets of labels that one metric has; the rest is shown as one.", minimum=10, reloadable=True
    )


@settings
class RegistrationSettings(Settings):
    """Registration with name servers."""

    register_name_server_period: int = option(
        30_000, "Time between two registrations.", unit="ms", minimum=10_000, maximum=60_000
    )
    register_broker_timeout_mills: int = option(
        24_000, "How long one name server may take to answer.", unit="ms", minimum=100, reloadable=True
    )


@settings
class TopicSettings(Settings):
    """Topics and groups."""

    auto_create_topic_enable: bool = option(True, "Create a topic when its first message arrives.", reloadable=True)
    default_topic_queue_nums: int = option(8, "Queues of the template TBW102.", minimum=1, maximum=1024)
    auto_create_subscription_group: bool = option(True, "Create a group when it is first used.", reloadable=True)
    enable_create_sys_group: bool = option(True, "Create system groups in any case.", reloadable=True)
    cluster_topic_enable: bool = option(True, "Let the topic named like the cluster be used.")
    broker_topic_enable: bool = option(True, "Let the topic named like the broker be used.")
    trace_topic_enable: bool = option(False, "Own the topic of message traces.")
    msg_trace_topic_name: str = option("RMQ_SYS_TRACE_TOPIC", "Its name.")
    trace_on: bool = option(True, "Tell clients that tracing is welcome.", reloadable=True)
    region_id: str = option("DefaultRegion", "Region written into messages and responses.")
    validate_system_topic_when_update_topic: bool = option(True, "Refuse changes of system topics.", reloadable=True)
    enable_mixed_message_type: bool = option(False, "Accept the topic attribute message.type=MIXED.", reloadable=True)
    max_topics: int = option(50_000, "Bound on the number of topics.", minimum=16, reloadable=True)
    max_groups: int = option(50_000, "Bound on the number of consumer groups.", minimum=16, reloadable=True)
    max_new_topics_per_user: int = option(
        25_000, "Topics that one user, or else one address, may create by sending, at once and in an hour.", minimum=1
    )
    max_new_groups_per_user: int = option(
        25_000, "The same of consumer groups that are created when they are first used.", minimum=1
    )


@settings
class SendSettings(Settings):
    """Sending."""

    start_accept_send_request_time_stamp: int = option(
        0, "Refuse messages before this time.", unit="ms since 1970", reloadable=True
    )
    reject_transaction_message: bool = option(False, "Refuse transactional messages.", reloadable=True)
    store_reply_message_enable: bool = option(True, "Store replies as well as push them.", reloadable=True)
    max_message_size: int = option(4 * MB, "Largest body.", unit="bytes", minimum=1, maximum=15 * MB, reloadable=True)
    max_flush_waiters: int = option(
        65_536, "Messages that may wait for the disk at a time.", minimum=1, reloadable=True
    )
    max_writers: int = option(
        10_000, "Writers whose messages are stored once; the most silent one makes room.", minimum=1
    )
    max_writer_lanes: int = option(
        100_000, "Tasks of all of them together, and queues that each task writes to.", minimum=1
    )
    writer_reserved_time: int = option(
        168, "How long a silent writer is remembered.", unit="hours", minimum=1, reloadable=True
    )


@settings
class DelaySettings(Settings):
    """Delayed messages."""

    flush_delay_offset_interval: int = option(
        10_000, "Time between two saves of what was delivered.", unit="ms", minimum=100
    )
    delay_offset_update_version_step: int = option(200, "Deliveries per data version.", minimum=1)
    timer_wheel_enable: bool = option(True, "Accept messages with a time of their own.")
    timer_precision_ms: int = option(
        1_000, "How exactly they are delivered; only before the first one.", unit="ms", choices=(100, 200, 500, 1_000)
    )
    timer_max_delay_sec: int = option(3 * DAY, "Furthest time ahead.", unit="s", minimum=1, reloadable=True)
    timer_roll_window_slot: int = option(
        2 * DAY, "Slots ahead after which a timed message is written again.", minimum=2, maximum=7 * DAY - 60
    )
    timer_congest_num_each_slot: int = option(
        2**31 - 1, "Timed messages per slot above which more are refused, by chance.", minimum=1, reloadable=True
    )
    timer_flush_interval_ms: int = option(1_000, "Time between two saves of the timer.", unit="ms", minimum=10)
    mapped_file_size_timer_log: int = option(100 * MB, "Size of a timer log file.", unit="bytes", minimum=128)
    recall_message_enable: bool = option(False, "Let producers take timed messages back.", reloadable=True)
    allow_recall_when_broker_not_writeable: bool = option(
        True, "Also while brokerPermission forbids sending.", reloadable=True
    )


@settings
class TransactionSettings(Settings):
    """Transactions."""

    transaction_time_out: int = option(
        6_000,
        "How long a half message waits for its outcome before the first check.",
        unit="ms",
        minimum=1,
        reloadable=True,
    )
    transaction_check_interval: int = option(
        30_000, "Time between two checks of one message.", unit="ms", minimum=100, reloadable=True
    )
    transaction_check_max: int = option(15, "Checks before a half message is given up.", minimum=1, reloadable=True)
    max_pending_transactions: int = option(
        200_000, "Half messages without an outcome; more are refused.", minimum=1, maximum=10_000_000
    )


@settings
class PullSettings(Settings):
    """Pulling."""

    long_polling_enable: bool = option(True, "Hold a pull that finds nothing.", reloadable=True)
    short_polling_time_mills: int = option(
        1_000, "How long it is held otherwise.", unit="ms", minimum=1, reloadable=True
    )
    max_parked_pulls: int = option(200_000, "Pulls that may be held at a time.", minimum=1)
    lite_pull_message_enable: bool = option(True, "Serve lite pulls.", reloadable=True)
    reject_pull_consumer_enable: bool = option(False, "Refuse pulls of groups that did not register.", reloadable=True)
    slave_read_enable: bool = option(False, "Let slaves serve pulls, and send slow readers to them.", reloadable=True)
    enable_property_filter: bool = option(True, "Serve SQL92 subscriptions.", reloadable=True)
    filter_support_retry: bool = option(False, "Filter retries like the topic they come from.")
    filter_data_clean_time_span: int = option(
        24 * 3_600_000, "How long a SQL92 filter is kept without consumers.", unit="ms", minimum=0
    )
    max_transfer_bytes_on_message_in_memory: int = option(256 * KB, "Bytes a pull returns at most.", minimum=1)
    max_transfer_count_on_message_in_memory: int = option(32, "Messages a pull returns at most.", minimum=1)
    max_transfer_bytes_on_message_in_disk: int = option(64 * KB, "The same, far behind the end.", minimum=1)
    max_transfer_count_on_message_in_disk: int = option(8, "The same, far behind the end.", minimum=1)
    access_message_in_memory_max_ratio: int = option(
        40, "Share of memory within which a reader counts as near the end.", unit="%", minimum=1, maximum=95
    )
    offset_check_in_slave: bool = option(False, "Let a slave correct offsets.")
    max_filter_message_size: int = option(16_000, "Bytes of queue entries looked at per pull.", minimum=20)


@settings
class FilterServerSettings(Settings):
    """Filter servers."""

    filter_server_nums: int = option(
        0, "Filter server processes beside the broker; needs the extra pyromq[filters].", minimum=0, maximum=16
    )
    filter_server_host: Address = option(
        "127.0.0.1", "Address they listen on, which consumers are told; a wider one needs `insecure`."
    )
    client_upload_filter_class_enable: bool = option(
        False, "Let consumers upload filter classes, Python text that runs locked up beside the broker."
    )
    filter_class_memory: int = option(
        128 * MB, "Address space of the process of one filter class.", unit="bytes", minimum=64 * MB
    )
    filter_class_cpu_time: int = option(
        1_000, "Processor time of a filter class for one batch of messages.", unit="ms", minimum=10, maximum=60_000
    )


@settings
class PopSettings(Settings):
    """Pops."""

    revive_queue_num: int = option(8, "Queues of the revive topic; never fewer than before.", minimum=1, maximum=998)
    pop_from_retry_probability: int = option(
        20, "How often retries come before new messages.", unit="%", minimum=0, maximum=100, reloadable=True
    )
    enable_retry_topic_v2: bool = option(
        False, "Name retry topics of pop consumers group+topic, not group_topic.", key="enableRetryTopicV2"
    )
    retrieve_message_from_pop_retry_topic_v1: bool = option(
        True, "Then also read those named in the old way.", key="retrieveMessageFromPopRetryTopicV1"
    )
    pop_response_return_actual_retry_topic: bool = option(
        False, "Leave retried messages the name of the retry topic.", reloadable=True
    )
    init_pop_offset_by_check_msg_in_mem: bool = option(
        True, "Let a new group have a whole queue that is still in memory.", reloadable=True
    )
    pop_polling_size: int = option(1_024, "Pops of one group and queue that may be held at a time.", minimum=1)
    max_pop_polling_size: int = option(100_000, "Pops that may be held at a time.", minimum=1)
    pop_long_polling_force_notify_interval: int = option(
        800, "Wake a held pop at every so many messages of a queue, whether they match or not.", minimum=1
    )
    enable_pop_buffer_merge: bool = option(
        False, "Keep what was popped in memory for a while and store only what is not acknowledged meanwhile."
    )
    pop_ck_stay_buffer_time: int = option(10_000, "How long it is kept.", unit="ms", minimum=1)
    pop_ck_stay_buffer_time_out: int = option(
        3_000, "How long before it is due it is stored at the latest.", unit="ms", minimum=1
    )
    pop_ck_max_buffer_size: int = option(200_000, "Pops that may be kept at a time.", minimum=1)
    pop_ck_offset_max_queue_size: int = option(20_000, "The same for one group and queue.", minimum=1)
    skip_when_ck_re_put_reach_max_times: bool = option(
        False,
        "Give up on a message that could not be brought back 17 times.",
        key="skipWhenCKRePutReachMaxTimes",
        reloadable=True,
    )


@settings
class ClientSettings(Settings):
    """Clients, groups and offsets."""

    channel_expired_timeout: int = option(
        120_000, "Silence after which a client is dropped.", unit="ms", minimum=100, reloadable=True
    )
    queue_lock_grace_time: int = option(
        3_000,
        "How long a lost connection leaves its client the locks on queues it consumes in order.",
        unit="ms",
        minimum=0,
        maximum=60_000,
        reloadable=True,
    )
    notify_consumer_ids_changed_enable: bool = option(True, "Tell members when their group changes.", reloadable=True)
    flush_consumer_offset_interval: int = option(5_000, "Time between two saves of offsets.", unit="ms", minimum=100)
    use_server_side_reset_offset: bool = option(True, "Keep a reset at the broker until pulled.", reloadable=True)
    consumer_offset_update_version_step: int = option(500, "Commits per data version.", minimum=1)
    disable_consume_if_consumer_read_slowly: bool = option(
        False, "Stop a group that is too far behind.", reloadable=True
    )
    consumer_fallbehind_threshold: int = option(16 * GB, "What too far is.", unit="bytes", reloadable=True)
    server_load_balancer_enable: bool = option(True, "Serve assignments made by the broker.", reloadable=True)
    default_message_request_mode: MessageRequestMode = option(
        MessageRequestMode.PULL,
        "How members of a group get messages, unless set for topic and group.",
        choices=(MessageRequestMode.PULL, MessageRequestMode.POP),
        reloadable=True,
    )
    default_pop_share_queue_num: int = option(
        -1, "With how many further members queues are shared in pop mode; -1: with all.", minimum=-1, reloadable=True
    )
    default_query_max_num: int = option(32, "Messages that a query by unique key looks at.", minimum=1, reloadable=True)


@settings
class StoreSettings(Settings):
    """Message store."""

    store_path_root_dir: Path = option(
        computed(lambda: Path.home() / "store", "~/store"), "Folder of everything the broker keeps."
    )
    store_path_commit_log: Path | None = option(None, "Folder of the commit log; empty: below the root.")
    flush_disk_type: FlushDiskType = option(
        FlushDiskType.SYNC_FLUSH, "SYNC_FLUSH: a message is on disk before it is acknowledged."
    )
    sync_flush_timeout: int = option(5_000, "Wait for a flush before FLUSH_DISK_TIMEOUT.", unit="ms", minimum=1)
    flush_interval_commit_log: int = option(500, "Time between asynchronous flushes.", unit="ms", minimum=1)
    flush_commit_log_least_pages: int = option(4, "Dirty pages that make one worth it.", minimum=0)
    flush_commit_log_thorough_interval: int = option(10_000, "Flush everything this often.", unit="ms", minimum=1)
    flush_interval_consume_queue: int = option(1_000, "Time between flushes of queues.", unit="ms", minimum=1)
    flush_consume_queue_least_pages: int = option(2, "Dirty pages that make one worth it.", minimum=0)
    flush_consume_queue_thorough_interval: int = option(60_000, "Flush all this often.", unit="ms", minimum=1)
    mapped_file_size_commit_log: int = option(GB, "Size of a commit-log file.", unit="bytes", minimum=64 * KB)
    mapped_file_size_consume_queue: int = option(
        6_000_000, "Size of a queue file, rounded up to a multiple of 20.", minimum=20
    )
    message_index_enable: bool = option(True, "Keep an index by key.")
    message_index_safe: bool = option(False, "Rebuild the whole index after a crash.")
    max_hash_slot_num: int = option(5_000_000, "Hash slots of an index file.", minimum=1)
    max_index_num: int = option(20_000_000, "Entries of an index file.", minimum=2)
    max_msgs_num_batch: int = option(64, "Messages a key query returns at most.", minimum=1)
    check_crc_on_recover: bool = option(True, "Verify bodies when recovering.", key="checkCRCOnRecover")
    check_crc_on_read: CrcOnRead = option(
        CrcOnRead.SAMPLED,
        "Verify bodies that are read: `always`, `never`, or `sampled`: all that an earlier run wrote or that has left "
        "memory, and one read in 64 of the others.",
        key="checkCRCOnRead",
    )
    message_delay_level: str = option(DELAY_LEVELS, "Delay of each level, from 1.")


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


@settings
class RetentionSettings(Settings):
    """Retention."""

    file_reserved_time: int = option(72, "Age at which a log file may go.", unit="hours", minimum=0, reloadable=True)
    delete_when: str = option("04", "Local hours in which aged files go, separated by ;", reloadable=True)
    disk_max_used_space_ratio: int = option(
        75, "Used disk above which aged files go at once.", unit="%", maximum=100, reloadable=True
    )
    disk_space_clean_forcibly_ratio: int = option(
        85, "Used disk above which any old file goes.", unit="%", maximum=100, reloadable=True
    )
    disk_space_warning_level_ratio: int = option(
        90, "Used disk above which sends are refused.", unit="%", maximum=100, reloadable=True
    )
    clean_file_forcibly_enable: bool = option(True, "Allow files to go before their age.", reloadable=True)
    clean_resource_interval: int = option(10_000, "Time between two looks.", unit="ms", minimum=10)
    delete_file_batch_max: int = option(10, "Files that go at a time.", minimum=1, reloadable=True)
    max_commit_log_size: int = option(
        0, "Total size of the log to keep; 0: any.", unit="bytes", minimum=0, reloadable=True
    )


class _Only(StrEnum):
    """The single value of a key whose other values ask for something that PyroMQ does not do."""

    DEFAULT = "default"


@settings
class UnsupportedSettings(Settings):
    """Known but refused, unless left at their default.

    Ignoring these would open a door or misread files, so any other value stops the start.
    """

    enable_d_leger_commit_log: bool = option(False, "A Raft commit log.", key="enableDLegerCommitLog", choices=(False,))
    enable_controller_mode: bool = option(False, "Fail-over by a controller.", choices=(False,))
    pop_consumer_kv_service_enable: bool = option(
        False, "State of pop consumers in RocksDB.", key="popConsumerKVServiceEnable", choices=(False,)
    )
    store_type: _Only = option(_Only.DEFAULT, "Another engine for queues.")
    enable_consume_queue_ext: bool = option(False, "Extended queue files.", choices=(False,))


@settings
class BrokerConfig(
    UnsupportedSettings,
    RetentionSettings,
    ActingSettings,
    ReplicationSettings,
    StoreSettings,
    ClientSettings,
    PopSettings,
    FilterServerSettings,
    PullSettings,
    DelaySettings,
    TransactionSettings,
    SendSettings,
    TopicSettings,
    RegistrationSettings,
    AuthSettings,
    IdentitySettings,
):
    """Everything a broker can be told."""

    ignored: ClassVar[frozenset[str]] = WITHOUT_EFFECT | NETTY_KEYS
    old_names: ClassVar[Mapping[str, str]] = OLD_NAMES

    def check_together(self) -> None:
        super().check_together()
        if self.broker_role is BrokerRole.SLAVE and self.broker_id == 0:
            raise ConfigError("brokerId must be above 0 for brokerRole = SLAVE: 0 is the master's")
        if self.broker_role is not BrokerRole.SLAVE and self.broker_id != 0:
            raise ConfigError(f"brokerId must be 0 for brokerRole = {self.broker_role}; only a slave has another")
        for key, name in (("brokerName", self.broker_name), ("brokerClusterName", self.broker_cluster_name)):
            if not re.fullmatch(r"[%|a-zA-Z0-9_-]{1,127}", name):
                raise ConfigError(f"{key} = {name!r} may hold letters, digits and %|_- only, 1 to 127 of them")
        if self.in_sync_replicas and self.min_in_sync_replicas > self.in_sync_replicas:
            raise ConfigError(f"minInSyncReplicas is {self.min_in_sync_replicas}, above inSyncReplicas")
        if self.advertised_host in WILDCARDS - {""}:
            raise ConfigError(f"brokerIP1 = {self.advertised_host} is no address a client can connect to; name one")
        try:
            self.store_config()
        except StoreError as error:
            raise ConfigError(str(error)) from error

    @property
    def config_dir(self) -> Path:
        """Where topics, groups and offsets are kept."""
        return self.store_path_root_dir / "config"

    def store_config(self) -> StoreConfig:
        """The part of these settings that the store uses."""
        shared = options(type(self)).keys() & {each.name for each in fields(StoreConfig)}
        values = {name: getattr(self, name) for name in shared}
        # Up to whole entries, as Apache's does with sizes that old guides recommend.
        values["mapped_file_size_consume_queue"] += -self.mapped_file_size_consume_queue % ENTRY_SIZE
        return StoreConfig(**values)


def load(file: Path | None = None, flags: dict[str, str] | None = None) -> BrokerConfig:
    """Settings from file, environment and flags, in that order of precedence from low to high."""
    return BrokerConfig.load(file=file, environ=os.environ, flags=flags)
