"""What all connections of one gRPC server share."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from pyromq.proxy.grpc.deadlines import Deadlines
from pyromq.proxy.grpc.limits import GrpcLimits, GrpcStats
from pyromq.proxy.grpc.method import GrpcError, GrpcStatus, Service
from pyromq.remoting.accept.quota import ConnectionQuota

if TYPE_CHECKING:
    from pyromq.proxy.grpc.connection import GrpcConnection


class Endpoint:
    """Methods by path, limits, counters, deadlines, and the connections that are up."""

    __slots__ = ("clock", "connections", "deadlines", "limits", "logger", "methods", "quota", "stats")

    def __init__(self, service: Service, limits: GrpcLimits, clock: Callable[[], float]) -> None:
        self.limits = limits
        self.stats = GrpcStats()
        self.clock = clock
        self.logger = logging.getLogger("pyromq.grpc")
        self.deadlines = Deadlines(clock)
        self.quota = ConnectionQuota(limits.transport, self.stats.transport, clock)
        self.connections: set[GrpcConnection] = set()
        self.methods = {path.encode(): (path, method) for path, method in service.items()}

    def missing(self, path: bytes) -> NoReturn:
        """Raise GrpcError for a path without a method."""
        raise GrpcError(GrpcStatus.UNIMPLEMENTED, f"there is no method {path[:256].decode('latin-1')}")
