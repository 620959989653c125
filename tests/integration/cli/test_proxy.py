"""`pyromq proxy`, and the port for gRPC clients of `pyromq standalone`, as people start them."""

import signal
import socket
import urllib.request
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]

from pyromq.proxy.schema import messages
from pyromq.proxy.schema.enums import Code
from tests.processes import Server, port_of, run, standalone


def route(address: str, topic: str) -> Any:
    with grpc.insecure_channel(address) as channel:
        method = channel.unary_unary(
            f"/{messages.SERVICE}/QueryRoute",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=messages.QueryRouteResponse.FromString,
        )
        request = messages.QueryRouteRequest(topic=messages.Resource(name=topic))
        return method(request, metadata=[("x-mq-client-id", "c")], timeout=30)


def test_both_serve_clients_and_end_when_they_are_told(tmp_path: Path) -> None:
    with (
        standalone(tmp_path / "data", "--grpc-port", "0") as server,
        Server(
            "proxy", "--namesrv", server["namesrv"], "--grpc-port", "0", "--http-port", "0",
            "--data-dir", str(tmp_path / "proxy"),
        ) as proxy,
    ):  # fmt: skip
        for address in (server["grpc"], proxy["grpc"]):
            assert route(address, "first").status.code == Code.OK
        for pages, mode in ((server["http"], "local"), (proxy["http"], "cluster")):
            with urllib.request.urlopen(f"http://{pages}/metrics", timeout=30) as answer:
                text = answer.read().decode()
            assert f'proxy_mode="{mode}"' in text
            assert 'pyromq_grpc_calls_total{cluster="DefaultCluster",method="QueryRoute"' in text
        shown = run("admin", "brokerStatus", "-b", server["broker"], "-n", server["namesrv"])
        assert server["grpc"] in shown.stdout
        assert proxy.terminate(signal.SIGTERM) == 0
        assert server.terminate(signal.SIGTERM) == 0
        for each in (proxy, server):
            assert "Traceback" not in each.text


def test_the_usual_port_is_left_to_who_has_it_and_one_that_was_chosen_is_not(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        arguments = ["--namesrv-port", "0", "--broker-port", "0", "--http-port", "-1", "--grpc-port", str(port)]
        done = run("standalone", "--data", str(tmp_path / "x"), *arguments, "--log-level", "error")
        assert done.returncode == 1
        assert str(port) in done.stderr
        assert "grpcServerPort" in done.stderr
        done = run("proxy", "--grpc-port", "0")
        assert done.returncode == 2
        assert "namesrvAddr" in done.stderr
    with Server(
        "standalone", "--data", str(tmp_path / "y"), "--namesrv-port", "0", "--broker-port", "0", "--http-port", "-1"
    ) as first, Server(
        "standalone", "--data", str(tmp_path / "z"), "--namesrv-port", "0", "--broker-port", "0", "--http-port", "-1"
    ) as second:  # fmt: skip
        assert port_of(first["grpc"]) != port_of(second["grpc"])
        assert route(second["grpc"], "first").status.code == Code.OK
