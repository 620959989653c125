"""Settings of clients, with RocketMQ's defaults. Durations are seconds, sizes bytes.

A settings object is immutable: a client instance keeps the one it was made with, so nothing changed later can reach it.
What RocketMQ reads from Java system properties is read from the environment (`environment.py`), below explicit
arguments. No behaviour lives here beyond checking values.
"""

import difflib
import os
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Self

from pyromq.client.environment import environment_options
from pyromq.client.errors import ClientError
from pyromq.client.producer.faults import CURRENT_TABLE, AvoidanceTable
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.records.compression import MAX_INFLATED, CompressionType
from pyromq.protocol.release import Language
from pyromq.remoting.connect.socks import SocksProxy
from pyromq.remoting.hooks import RequestHook
from pyromq.remoting.tls import ClientTls

KIB = 1024
MIB = 1024 * KIB
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """What producers, consumers and admin have in common."""

    namesrv: str | None = None
    """`host:port;host:port`; none means the HTTP lookup."""
    namesrv_domain: str = "jmenv.tbsite.net"
    namesrv_subgroup: str = "nsaddr"
    client_ip: str | None = None
    instance_name: str = DEFAULT_INSTANCE
    unit_name: str | None = None
    unit_mode: bool = False
    callback_threads: int = 0
    """Threads for user callbacks; 0 means the number of processors."""
    callback_executor: Executor | None = None
    """A pool of the user's own for callbacks, instead of the bounded one of the client instance."""
    namespace: str | None = None
    """Prefix scheme `ns%name`; names given to and shown by the client stay without it."""
    namespace_v2: str | None = None
    """Sent beside the bare names with every request."""
    access_channel: AccessChannel = AccessChannel.LOCAL
    poll_name_server_interval: float = 30.0
    heartbeat_interval: float = 30.0
    persist_offset_interval: float = 5.0
    pull_delay_on_error: float = 1.0
    trace_batch_size: int = 10
    decode_body: bool = True
    decompress_body: bool = True
    max_body_size: int = MAX_INFLATED
    """Largest body that is inflated; a larger one counts as damaged and stays as it is."""
    vip_channel: bool = False
    heartbeat_v2: bool = False
    heartbeat_on_connect: bool = True
    tls: ClientTls | None = None
    socks_proxies: Mapping[str, SocksProxy] = field(default_factory=dict)
    """Network in CIDR form to proxy; the first that contains an address is used."""
    api_timeout: float = 3.0
    """Route query, heartbeat, unregister, consumer list."""
    connect_timeout: float = 3.0
    max_idle: float = 120.0
    max_frame: int = 16 * MIB
    async_permits: int = 65535
    oneway_permits: int = 65535
    language: Language = Language.PYTHON
    stream_requests: bool = False
    latency_faults: bool = False
    """Avoid brokers that were slow or failed. Not for ordered sending."""
    avoidance: AvoidanceTable = CURRENT_TABLE
    detector: bool = False
    """Probe brokers that became unreachable."""
    detect_timeout: float = 0.2
    detect_interval: float = 2.0
    enable_trace: bool = False
    trace_topic: str | None = None
    recall_trace: bool = False
    page_size: int = 2000
    """Entries per page when an admin client reads configuration tables."""
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    security_token: str | None = field(default=None, repr=False)
    zone: str | None = None
    zone_mode: str | None = None
    binary_headers: bool = False
    """Write headers in RocketMQ's binary form instead of JSON."""
    request_hooks: tuple[RequestHook, ...] = ()

    @classmethod
    def build(cls, options: Mapping[str, Any], *, environ: Mapping[str, str] | None = None) -> Self:
        """Settings from explicit options over the environment over the defaults.

        Raises ClientError for an unknown option, naming the nearest one, and for values out of range.
        """
        known = {item.name for item in fields(cls)}
        for name in options:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                raise ClientError(f"unknown option {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        found = environment_options(os.environ if environ is None else environ)
        merged = {name: value for name, value in found.items() if name in known} | dict(options)
        config = cls(**merged)
        config.check()
        return config

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
        for name in ("poll_name_server_interval", "heartbeat_interval", "persist_offset_interval", "api_timeout"):
            _above_zero(name, getattr(self, name))
        _above_zero("max_body_size", self.max_body_size)
        if (self.access_key is None) != (self.secret_key is None):
            raise ClientError("access_key and secret_key belong together; only one of them is set")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig(ClientConfig):
    """What producers add."""

    topics: tuple[str, ...] = ()
    """Topics whose routes are fetched at start; a missing one is only logged."""
    create_topic_key: str = DEFAULT_TOPIC_KEY
    default_topic_queues: int = 4
    send_timeout: float = 3.0
    max_timeout_per_request: float | None = None
    compress_over: int = 4 * KIB
    compress_level: int = 5
    compress_type: CompressionType = CompressionType.ZLIB
    retries: int = 2
    """Further attempts of a synchronous send."""
    async_retries: int = 2
    retry_when_not_stored: bool = False
    """Try another broker when the store answered other than SEND_OK."""
    retryable_codes: frozenset[int] = RETRYABLE_CODES
    max_message_size: int = 4 * MIB
    smart_send: bool = True
    """One-letter header names (SEND_MESSAGE_V2)."""
    async_queue: int = 50_000
    """Asynchronous sends not yet finished, beyond which further ones are refused."""
    auto_batch: bool = False
    batch_delay: float = 0.010
    batch_bytes: int = 32 * KIB
    total_batch_bytes: int = 32 * MIB
    backpressure: bool = False
    backpressure_count: int = 1024
    backpressure_bytes: int = 100 * MIB
    check_threads: int = 1
    """Threads of a transactional producer that answer check-backs."""
    check_queue: int = 2000
    close_timeout: float = 5.0
    """How long closing waits for asynchronous sends and callbacks that are under way."""

    def check(self) -> None:
        ClientConfig.check(self)  # not super(): a dataclass with slots is a copy of the class that super() knows
        _above_zero("send_timeout", self.send_timeout)
        for name, low, high in (
            ("batch_delay", 0.001, 30.0),
            ("batch_bytes", 1, 2 * MIB),
            ("default_topic_queues", 1, 2**31 - 1),
            ("max_message_size", 1, 2**31 - 1),
            ("retries", 0, 1000),
            ("async_retries", 0, 1000),
            ("async_queue", 1, 2**31 - 1),
            ("check_threads", 1, 1000),
            ("check_queue", 1, 2**31 - 1),
            ("total_batch_bytes", 1, 2**63 - 1),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise ClientError(f"{name} is {value}, outside {low}..{high}")


def _above_zero(name: str, value: float) -> None:
    if value <= 0:
        raise ClientError(f"{name} is {value}, but must be above 0")
