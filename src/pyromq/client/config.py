"""Options of clients, with RocketMQ's defaults. Durations are seconds, sizes bytes.

A settings object is immutable: a client instance keeps the one it was made with, so nothing changed later can reach it.
What RocketMQ reads from Java system properties is read from the environment (`environment.py`), below explicit
arguments. No behaviour lives here beyond checking values. `options.py` has the same names for type checkers.
"""

import os
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import replace
from enum import StrEnum
from typing import Any, ClassVar, Self

from pyromq.client.environment import binary, boolean, compression, environment_options, millis, proxies
from pyromq.client.errors import ClientError
from pyromq.client.producer.faults import CURRENT_TABLE, AvoidanceTable
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.records.compression import MAX_INFLATED, CompressionType
from pyromq.protocol.release import Language
from pyromq.remoting.connect.socks import SocksProxy
from pyromq.remoting.hooks import RequestHook
from pyromq.remoting.tls import ClientTls
from pyromq.settings.declaration import Settings, frozen_settings, nearest, options
from pyromq.settings.option import Secret, computed, option

KIB = 1024
MIB = 1024 * KIB
INT_MAX = 2**31 - 1
DEFAULT_INSTANCE = "DEFAULT"
DEFAULT_TOPIC_KEY = "TBW102"

RETRYABLE_CODES = frozenset(
    {
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.NO_PERMISSION,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
        ResponseCode.GO_AWAY,
    }
)
"""Answers after which a synchronous send tries another broker."""


class AccessChannel(StrEnum):
    """Where traces go: the broker's own trace topic, or the region topic of a cloud service."""

    LOCAL = "LOCAL"
    CLOUD = "CLOUD"


@frozen_settings
class ClientConfig(Settings):
    """Every client.

    What producers, consumers and admin have in common.
    """

    are_keywords: ClassVar[bool] = True

    namesrv: str | None = option(
        None,
        "Name servers, `host:port;host:port`; None: they are looked up over HTTP.",
        env={"NAMESRV_ADDR": str, "ROCKETMQ_NAMESRV_ADDR": str},
    )
    namesrv_domain: str = option(
        "jmenv.tbsite.net", "Host of that lookup, with a port if it is not 8080.", env={"ROCKETMQ_NAMESRV_DOMAIN": str}
    )
    namesrv_subgroup: str = option("nsaddr", "Last part of its path.", env={"ROCKETMQ_NAMESRV_SUBGROUP": str})
    client_ip: str | None = option(None, "Address in the client id; None: that of this machine.")
    instance_name: str = option(
        DEFAULT_INSTANCE,
        "Clients of one name share connections and threads; `DEFAULT`: a name for each client.",
        env={"ROCKETMQ_CLIENT_NAME": str},
    )
    unit_name: str | None = option(None, "Unit of a deployment in several, part of the client id and of the lookup.")
    unit_mode: bool = option(False, "Mark topics, groups and messages as belonging to a unit.")
    callback_threads: int = option(0, "Threads for callbacks; 0: as many as there are processors.")
    callback_executor: Executor | None = option(
        None, "A pool of your own for callbacks, instead of the bounded one of the client.", value="an executor"
    )
    namespace: str | None = option(
        None, "Prefix of topics and groups, `namespace%name`; names that you give and see stay without it."
    )
    namespace_v2: str | None = option(None, "Namespace that is sent beside the bare names with every request.")
    access_channel: AccessChannel = option(AccessChannel.LOCAL, "Where traces go.")
    poll_name_server_interval: float = option(30.0, "Time between two looks at routes.", unit="s", above=0)
    heartbeat_interval: float = option(30.0, "Time between two heartbeats to brokers.", unit="s", above=0)
    persist_offset_interval: float = option(5.0, "Time between two saves of what was consumed.", unit="s", above=0)
    pull_delay_on_error: float = option(1.0, "Pause after a pull that failed.", unit="s")
    trace_batch_size: int = option(10, "Traces that are sent at a time.")
    decode_body: bool = option(
        True, "Accepted as Java's clients have it; without effect.", env={"COM_ROCKETMQ_READ_BODY": boolean}
    )
    decompress_body: bool = option(
        True, "Inflate bodies that producers compressed.", env={"COM_ROCKETMQ_DECOMPRESS_BODY": boolean}
    )
    max_body_size: int = option(
        MAX_INFLATED,
        "Largest body that is inflated; a larger one counts as damaged and stays as it is.",
        unit="bytes",
        above=0,
    )
    vip_channel: bool = option(
        False,
        "Reach brokers at the port two below their main one.",
        env={"COM_ROCKETMQ_SENDMESSAGEWITHVIPCHANNEL": boolean},
    )
    heartbeat_v2: bool = option(
        False, "Send only a fingerprint while a heartbeat says nothing new.", env={"COM_ROCKETMQ_HEARTBEAT_V2": boolean}
    )
    heartbeat_on_connect: bool = option(True, "Send a heartbeat as soon as a broker is connected.")
    tls: ClientTls | None = option(None, "Encrypt connections.", value="a ClientTls")
    socks_proxies: Mapping[str, SocksProxy] = option(
        computed(dict, "{}"),
        "Networks in CIDR form and their proxies; the first that contains an address is used.",
        value="a mapping of networks to SocksProxy",
        env={"COM_ROCKETMQ_SOCKS_PROXY_CONFIG": proxies},
    )
    api_timeout: float = option(
        3.0, "How long route query, heartbeat, unregistration and consumer list may take.", unit="s", above=0
    )
    connect_timeout: float = option(
        3.0, "How long a connection may take.", unit="s", env={"COM_ROCKETMQ_REMOTING_CLIENT_CONNECT_TIMEOUT": millis}
    )
    max_idle: float = option(
        120.0,
        "A connection that neither sent nor received for so long is closed.",
        unit="s",
        env={"COM_ROCKETMQ_REMOTING_CLIENT_CHANNEL_MAXIDLETIMESECONDS": float},
    )
    max_frame: int = option(
        16 * MIB, "Largest frame that is read.", unit="bytes", env={"COM_ROCKETMQ_REMOTING_FRAMEMAXLENGTH": int}
    )
    async_permits: int = option(
        65535, "Requests under way at a time.", env={"COM_ROCKETMQ_REMOTING_CLIENTASYNCSEMAPHOREVALUE": int}
    )
    oneway_permits: int = option(
        65535, "One-way requests under way at a time.", env={"COM_ROCKETMQ_REMOTING_CLIENTONEWAYSEMAPHOREVALUE": int}
    )
    language: Language = option(Language.PYTHON, "Language that requests name.", value="a Language")
    stream_requests: bool = option(False, "Mark requests and the client id as those of a stream.")
    latency_faults: bool = option(
        False,
        "Avoid brokers that were slow or failed. Not for ordered sending.",
        env={"COM_ROCKETMQ_SENDLATENCYENABLE": boolean},
    )
    avoidance: AvoidanceTable = option(
        computed(lambda: CURRENT_TABLE, "Apache's steps since 5.1.4"), "For how long.", value="an AvoidanceTable"
    )
    detector: bool = option(
        False, "Probe brokers that became unreachable.", env={"COM_ROCKETMQ_STARTDETECTORENABLE": boolean}
    )
    detect_timeout: float = option(0.2, "How long a probe may take.", unit="s")
    detect_interval: float = option(2.0, "Time between two probes.", unit="s")
    enable_trace: bool = option(False, "Trace what is sent or consumed.")
    trace_topic: str | None = option(None, "Topic of traces; None: the usual one.")
    recall_trace: bool = option(
        False, "Trace recalls of timed messages as well.", env={"COM_ROCKETMQ_RECALL_DEFAULT_TRACE_ENABLE": boolean}
    )
    page_size: int = option(2000, "Entries per page when an admin client reads configuration tables.")
    access_key: str | None = option(None, "Access key, where the servers ask for one.")
    secret_key: Secret | None = option(None, "Its secret.")
    security_token: Secret | None = option(None, "Token of temporary credentials.")
    zone: str | None = option(None, "Zone that requests name.", env={"ROCKETMQ_ZONE": str})
    zone_mode: str | None = option(None, "What it means to the servers.", env={"ROCKETMQ_ZONE_MODE": str})
    binary_headers: bool = option(
        False, "Write headers in RocketMQ's binary form instead of JSON.", env={"ROCKETMQ_SERIALIZE_TYPE": binary}
    )
    request_hooks: tuple[RequestHook, ...] = option(
        (), "Called with every request before it is signed, and with its response.", value="request hooks"
    )

    @classmethod
    def build(cls, given: Mapping[str, Any], *, environ: Mapping[str, str] | None = None) -> Self:
        """Settings from explicit options over the environment over the defaults.

        Raises ClientError for an unknown option, naming the nearest one, and for values out of range.
        """
        known = options(cls)
        for name in given:
            if name not in known:
                near = nearest(name, known)
                raise ClientError(f"unknown option {name!r}" + (f"; did you mean {near!r}?" if near else ""))
        config = cls(**environment_options(known, os.environ if environ is None else environ) | dict(given))
        config.check()
        return config

    @classmethod
    def told(cls, config: Self | None, namesrv: str | None, given: Mapping[str, Any]) -> Self:
        """What a constructor was told: its arguments over `config` or, without one, as `build` has it."""
        changes = dict(given) if namesrv is None else {**given, "namesrv": namesrv}
        return cls.build(changes) if config is None else config.with_options(**changes)

    @classmethod
    def out_of(cls, other: "ClientConfig") -> Self:
        """Settings of this kind, with what those of another kind have in common with it."""
        return cls(**{name: getattr(other, name) for name in options(cls) if name in options(type(other))})

    def __post_init__(self) -> None:
        """Nothing: what is built of values is checked by `check`."""

    def with_options(self, **changes: Any) -> Self:
        """A copy with some settings changed, checked."""
        changed = replace(self, **changes)
        changed.check()
        return changed

    def check(self) -> None:
        """Raise ClientError for a value that cannot work."""
        if self.namesrv is not None and not isinstance(self.namesrv, str):
            given = type(self.namesrv).__name__
            raise ClientError(f"namesrv must be text such as 'host:9876;other:9876', not {given}")
        for name, each in options(type(self)).items():
            value = getattr(self, name)
            if each.above is not None and not each.allows(value):
                raise ClientError(f"{name} is {value}, but must be above {each.above}")
            if each.minimum is not None and not each.allows(value):
                raise ClientError(f"{name} is {value}, outside {each.minimum}..{each.maximum}")
        if (self.access_key is None) != (self.secret_key is None):
            raise ClientError("access_key and secret_key belong together; only one of them is set")


@frozen_settings
class ProducerConfig(ClientConfig):
    """Producers."""

    topics: tuple[str, ...] = option((), "Topics whose routes are fetched at start; a missing one is only logged.")
    create_topic_key: str = option(DEFAULT_TOPIC_KEY, "Topic that one which does not exist is created after.")
    default_topic_queues: int = option(4, "Queues of a topic created so.", minimum=1, maximum=INT_MAX)
    send_timeout: float = option(3.0, "How long a send may take with all its attempts.", unit="s", above=0)
    max_timeout_per_request: float | None = option(None, "How long one attempt may take; None: the rest.", unit="s")
    compress_over: int = option(4 * KIB, "Bodies of this size or more are compressed.", unit="bytes")
    compress_level: int = option(5, "How hard.", env={"ROCKETMQ_MESSAGE_COMPRESSLEVEL": int})
    compress_type: CompressionType = option(
        CompressionType.ZLIB, "How.", env={"ROCKETMQ_MESSAGE_COMPRESSTYPE": compression}
    )
    retries: int = option(2, "Further attempts of a synchronous send.", minimum=0, maximum=1000)
    async_retries: int = option(2, "Further attempts of an asynchronous send.", minimum=0, maximum=1000)
    retry_when_not_stored: bool = option(False, "Try another broker when the store answered other than SEND_OK.")
    retryable_codes: frozenset[int] = option(
        computed(lambda: RETRYABLE_CODES, ", ".join(map(str, sorted(RETRYABLE_CODES)))),
        "Answers after which a synchronous send tries another broker.",
        value="response codes",
    )
    max_message_size: int = option(4 * MIB, "Largest body.", unit="bytes", minimum=1, maximum=INT_MAX)
    smart_send: bool = option(
        True, "One-letter header names (SEND_MESSAGE_V2).", env={"ORG_APACHE_ROCKETMQ_CLIENT_SENDSMARTMSG": boolean}
    )
    async_queue: int = option(
        50_000,
        "Asynchronous sends not yet finished, beyond which further ones are refused.",
        minimum=1,
        maximum=INT_MAX,
    )
    auto_batch: bool = option(False, "Send messages of one topic that come close together as a batch.")
    batch_delay: float = option(0.010, "How long a batch waits for more.", unit="s", minimum=0.001, maximum=30.0)
    batch_bytes: int = option(32 * KIB, "Size at which it waits no longer.", unit="bytes", minimum=1, maximum=2 * MIB)
    total_batch_bytes: int = option(
        32 * MIB,
        "Size of all batches that wait; beyond it messages go alone.",
        unit="bytes",
        minimum=1,
        maximum=2**63 - 1,
    )
    backpressure: bool = option(False, "Let asynchronous sends wait instead of piling up without end.")
    backpressure_count: int = option(1024, "Messages under way before they do.")
    backpressure_bytes: int = option(100 * MIB, "Bytes under way before they do.", unit="bytes")
    check_threads: int = option(
        1, "Threads of a transactional producer that answer check-backs.", minimum=1, maximum=1000
    )
    check_queue: int = option(2000, "Check-backs that may wait for them.", minimum=1, maximum=INT_MAX)
    close_timeout: float = option(
        5.0, "How long closing waits for asynchronous sends and callbacks that are under way.", unit="s"
    )
