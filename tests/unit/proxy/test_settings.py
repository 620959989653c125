"""Settings of the proxy: the file of RocketMQ's own loads as it is, and what must be said is asked for."""

import json
from pathlib import Path

import pytest

from pyromq.proxy.settings import ProxyConfig
from pyromq.settings.errors import ConfigError


def load(path: Path, text: str) -> ProxyConfig:
    file = path / "rmq-proxy.json"
    file.write_text(text)
    return ProxyConfig.load(file=file)


def test_the_file_of_rocketmqs_own_proxy_loads_as_it_is(tmp_path: Path) -> None:
    given = {
        "rocketMQClusterName": "orders",
        "namesrvAddr": "10.0.0.1:9876;10.0.0.2:9876",
        "grpcServerPort": 18081,
        "grpcShutdownTimeSeconds": 30,
        "proxyMode": "cluster",
        "grpcThreadPoolNums": 32,
        "tlsTestModeEnable": True,
        "authenticationEnabled": False,
        "remotingListenPort": None,
    }
    config = load(tmp_path, json.dumps(given, indent=2))
    assert config.namesrv == ("10.0.0.1:9876", "10.0.0.2:9876")
    assert (config.grpc_port, config.grpc_shutdown_time_seconds, config.tls_test_mode) == (18081, 30, True)
    assert config.rocketmq_cluster_name == "orders"


def test_properties_do_too(tmp_path: Path) -> None:
    assert load(tmp_path, "namesrvAddr=10.0.0.1:9876\ngrpcServerPort=0\n").grpc_port == 0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "no object of settings"),
        ('{"namesrvAddr": ["a"]}', "no object of settings"),
        ('{"namesrvAddr": "a:1", "grpcPort": 1}', "unknown key 'grpcPort'"),
        ('{"grpcServerPort": 0}', "namesrvAddr is not set"),
    ],
)
def test_what_cannot_be_is_said(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        load(tmp_path, text)
