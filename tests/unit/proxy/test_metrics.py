"""The page of a proxy that has been called a little."""

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from pyromq.proxy.grpc.limits import GrpcStats
from pyromq.proxy.grpc.method import GrpcStatus
from pyromq.proxy.metrics import page

if TYPE_CHECKING:
    from pyromq.proxy.proxy import Proxy


class Clients(list[str]):
    refused = 4


def test_the_page_names_what_rocketmq_names_and_every_bound() -> None:
    stats = GrpcStats()
    stats.transport.connections = 2
    stats.calls["/apache.rocketmq.v2.MessagingService/SendMessage"] += 3
    stats.ended[GrpcStatus.OK] += 3
    stats.http2.floods["pings"] += 1
    proxy = SimpleNamespace(stats=stats, mode="cluster", sessions=Clients(["a"]), telemetry=SimpleNamespace(streams=1))
    text = page(cast("Proxy", proxy), "c", "n").decode()
    node = 'cluster="c",node_id="n",node_type="proxy"'
    for line in (
        f'rocketmq_proxy_up{{{node},proxy_mode="cluster"}} 1.0',
        f"pyromq_grpc_connections{{{node}}} 2.0",
        f"pyromq_grpc_clients{{{node}}} 1.0",
        'pyromq_grpc_calls_total{cluster="c",method="SendMessage",node_id="n",node_type="proxy"} 3.0',
        f'pyromq_grpc_calls_ended_total{{{node},status="OK"}} 3.0',
        'limit="grpc_clients",node_id="n",node_type="proxy"} 4.0',
        'limit="grpc_pings",node_id="n",node_type="proxy"} 1.0',
    ):
        assert line in text, line
