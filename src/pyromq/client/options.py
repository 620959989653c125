"""Keyword arguments of clients, for type checkers and editors: the options that `config.py` declares, but `namesrv`.

A test holds that names and types are those of the declarations, which say what each one means.
"""

from collections.abc import Mapping
from concurrent.futures import Executor
from typing import TypedDict

from pyromq.client.config import AccessChannel
from pyromq.client.producer.faults import AvoidanceTable
from pyromq.protocol.records.compression import CompressionType
from pyromq.protocol.release import Language
from pyromq.remoting.connect.socks import SocksProxy
from pyromq.remoting.hooks import RequestHook
from pyromq.remoting.tls import ClientTls


class ClientOptions(TypedDict, total=False):
    """Those of `ClientConfig`."""

    namesrv_domain: str
    namesrv_subgroup: str
    client_ip: str | None
    instance_name: str
    unit_name: str | None
    unit_mode: bool
    callback_threads: int
    callback_executor: Executor | None
    namespace: str | None
    namespace_v2: str | None
    access_channel: AccessChannel
    poll_name_server_interval: float
    heartbeat_interval: float
    persist_offset_interval: float
    pull_delay_on_error: float
    trace_batch_size: int
    decode_body: bool
    decompress_body: bool
    max_body_size: int
    vip_channel: bool
    heartbeat_v2: bool
    heartbeat_on_connect: bool
    tls: ClientTls | None
    socks_proxies: Mapping[str, SocksProxy]
    api_timeout: float
    connect_timeout: float
    max_idle: float
    max_frame: int
    async_permits: int
    oneway_permits: int
    language: Language
    stream_requests: bool
    latency_faults: bool
    avoidance: AvoidanceTable
    detector: bool
    detect_timeout: float
    detect_interval: float
    enable_trace: bool
    trace_topic: str | None
    recall_trace: bool
    page_size: int
    access_key: str | None
    secret_key: str | None
    security_token: str | None
    zone: str | None
    zone_mode: str | None
    binary_headers: bool
    request_hooks: tuple[RequestHook, ...]


class ProducerOptions(ClientOptions, total=False):
    """Those of `ProducerConfig`."""

    topics: tuple[str, ...]
    create_topic_key: str
    default_topic_queues: int
    send_timeout: float
    max_timeout_per_request: float | None
    compress_over: int
    compress_level: int
    compress_type: CompressionType
    retries: int
    async_retries: int
    retry_when_not_stored: bool
    retryable_codes: frozenset[int]
    max_message_size: int
    smart_send: bool
    async_queue: int
    auto_batch: bool
    batch_delay: float
    batch_bytes: int
    total_batch_bytes: int
    backpressure: bool
    backpressure_count: int
    backpressure_bytes: int
    check_threads: int
    check_queue: int
    close_timeout: float
