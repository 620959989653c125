"""The ports as operators see them: connections, requests, whom the limits and the guard refused."""

from collections.abc import Iterable

from pyromq.broker.core import Core
from pyromq.broker.part import Every, Figure, Part, gauge, limit

GATE_TICK = 1.0


class Transport(Part):
    """Looks after who may come in."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def every(self) -> Iterable[Every]:
        """Take in users and rules that changed on disk."""
        return [Every(GATE_TICK, self._core.gate.tick)] if self._core.gate is not None else []

    def metrics(self) -> Iterable[Figure]:
        """Who is there, and who is not let in."""
        config, stats, gate = self._core.config, self._core.ports.server.stats, self._core.gate
        yield gauge("rocketmq_broker_permission", "Permission bits.", config.broker_permission)
        yield gauge("pyromq_connections", "Open connections.", stats.connections)
        yield gauge("pyromq_requests_in_flight", "Requests not answered yet.", stats.requests_in_flight)
        yield limit("connections", stats.connections_refused)
        yield limit("connections_per_peer", stats.connections_refused_per_peer)
        yield limit("connection_rate", stats.connections_refused_rate)
        yield limit("request_rate", stats.requests_refused_rate)
        yield limit("strangers", stats.closed_strangers)
        yield limit("handshakes", stats.handshakes_failed)
        yield limit("busy", stats.busy)
        yield limit("idle", stats.closed_idle)
        yield limit("malformed", stats.closed_malformed)
        yield limit("slow", stats.closed_slow)
        if gate is not None and gate.directory is not None:
            doc = "Whether files of users and rules changed and cannot be read; what was known before holds."
            yield gauge("pyromq_access_files_damaged", doc, bool(gate.directory.trouble))
        if gate is not None and gate.guard is not None:
            checked = gate.guard.stats
            results = [
                (("verified",), checked.verified),
                (("unauthenticated",), checked.unauthenticated),
                (("unauthorized",), checked.unauthorized),
                (("limited",), checked.limited),
            ]
            yield Figure("pyromq_requests_checked", "Signed requests.", results, ("result",), counts=True)
