"""What the proxy tells of itself, for Prometheus: in a broker on its page, else on a page of its own.

`rocketmq_proxy_up` is the name of RocketMQ's own proxy. What starts with `pyromq_` has no counterpart there.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from pyromq.proxy.grpc.method import GrpcStatus

if TYPE_CHECKING:
    from pyromq.proxy.proxy import Proxy

Values = list[tuple[tuple[str, ...], float]]


class ProxyFigure(NamedTuple):
    """A metric as it is now; `counts` for one that only grows."""

    name: str
    doc: str
    values: Values
    labels: tuple[str, ...] = ()
    counts: bool = False


def figures(proxy: "Proxy") -> Iterator[ProxyFigure]:
    """Who is there, what is called, and what was refused."""
    stats = proxy.stats
    transport, http2 = stats.transport, stats.http2
    yield ProxyFigure("rocketmq_proxy_up", "1 while gRPC clients are served.", [((proxy.mode,), 1)], ("proxy_mode",))
    yield ProxyFigure("pyromq_grpc_connections", "Open connections of gRPC clients.", [((), transport.connections)])
    yield ProxyFigure("pyromq_grpc_streams", "Calls under way, telemetry included.", [((), http2.streams)])
    yield ProxyFigure("pyromq_grpc_telemetry", "Telemetry streams.", [((), proxy.telemetry.streams)])
    yield ProxyFigure("pyromq_grpc_clients", "Clients by settings and heartbeats.", [((), len(proxy.sessions))])
    yield ProxyFigure("pyromq_grpc_bytes_in_flight", "Bytes of unanswered requests.", [((), stats.bytes_in_flight)])
    calls: Values = [((path.rpartition("/")[2],), count) for path, count in stats.calls.items()]
    yield ProxyFigure("pyromq_grpc_calls", "Calls that have begun.", calls, ("method",), counts=True)
    ended: Values = [((status.name,), stats.ended[status]) for status in GrpcStatus if stats.ended[status]]
    ended.append((("gone",), stats.cancelled))
    yield ProxyFigure("pyromq_grpc_calls_ended", "Calls by status; gone: given up.", ended, ("status",), counts=True)
    refused: Values = [
        (("grpc_clients",), proxy.sessions.refused),
        (("grpc_connections",), transport.connections_refused),
        (("grpc_connections_per_peer",), transport.connections_refused_per_peer),
        (("grpc_connection_rate",), transport.connections_refused_rate),
        (("grpc_streams",), http2.streams_refused),
        (("grpc_header_lists",), http2.header_lists_refused),
        *(((f"grpc_{name}",), count) for name, count in http2.floods.items()),
    ]
    yield ProxyFigure("pyromq_limits", "How often a limit was met.", refused, ("limit",), counts=True)


def page(proxy: "Proxy", cluster: str, node: str) -> bytes:
    """The text that Prometheus scrapes."""
    # Loaded with the first scrape: the library takes a good part of the time that a start may take.
    from prometheus_client import CollectorRegistry  # noqa: PLC0415
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric  # noqa: PLC0415
    from prometheus_client.exposition import generate_latest  # noqa: PLC0415
    from prometheus_client.registry import Collector  # noqa: PLC0415

    class Figures(Collector):
        def collect(self) -> Iterator[Metric]:
            for figure in figures(proxy):
                kind = CounterMetricFamily if figure.counts else GaugeMetricFamily
                labels = ("cluster", "node_type", "node_id", *figure.labels)
                family: CounterMetricFamily | GaugeMetricFamily = kind(figure.name, figure.doc, labels=labels)
                for values, number in figure.values:
                    family.add_metric((cluster, "proxy", node, *values), number)
                yield family

    registry = CollectorRegistry()
    registry.register(Figures())
    return generate_latest(registry)
