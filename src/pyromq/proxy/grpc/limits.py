"""Bounds of a gRPC server beside those of its HTTP/2 connections, and what it counts."""

from collections import Counter
from dataclasses import dataclass, field

from pyromq.proxy.grpc.method import GrpcStatus
from pyromq.proxy.http2.limits import MIB, Http2Limits, Http2Stats
from pyromq.remoting.limits import Limits
from pyromq.remoting.stats import Stats


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcLimits:
    """Sizes in bytes, times in seconds. `transport` bounds connections, times of silence and bytes that wait."""

    transport: Limits = field(default_factory=Limits)
    http2: Http2Limits = field(default_factory=Http2Limits)
    message: int = 130 * MIB
    """Longest message, as it came and unpacked. A longer one ends its call with RESOURCE_EXHAUSTED."""
    bytes_per_connection: int = 160 * MIB
    """Requests of one connection that are not answered yet. One that exceeds it ends with RESOURCE_EXHAUSTED."""
    bytes_total: int = 512 * MIB
    """The same for all connections."""
    keepalive: float = 60.0
    """A connection with calls that is silent for so long is pinged."""
    keepalive_timeout: float = 20.0
    """It is closed if nothing comes for so long after that."""


@dataclass(slots=True)
class GrpcStats:
    """Counters of one server, live."""

    transport: Stats = field(default_factory=Stats)
    http2: Http2Stats = field(default_factory=Http2Stats)
    bytes_in_flight: int = 0
    """Bytes of requests that are not answered yet."""
    calls: Counter[str] = field(default_factory=Counter)
    """Calls that have begun, by path."""
    ended: list[int] = field(default_factory=lambda: [0] * len(GrpcStatus))
    """Calls that have ended, by status."""
    cancelled: int = 0
    """Calls that the client gave up, or that went with their connection."""
    faults: int = 0
    """Calls that ended with an error nobody expected."""
