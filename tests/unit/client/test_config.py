"""Settings, identity, names."""

import os
from pathlib import Path
from typing import Any

import pytest

from pyromq.client.config import RETRYABLE_CODES, ClientConfig, ProducerConfig
from pyromq.client.consumer.pull.consumer import PullConsumer
from pyromq.client.consumer.push.consumer import PushConsumer
from pyromq.client.errors import ClientError
from pyromq.client.instance.decoration import request_hooks
from pyromq.client.instance.identity import client_id, instance_name, local_ip
from pyromq.client.instance.lookup import lookup_url, parse_addresses
from pyromq.client.producer.faults import CLASSIC_TABLE
from pyromq.client.producer.producer import Producer
from pyromq.client.state import ServiceState
from pyromq.protocol.command import Command, Serialization
from pyromq.protocol.errors import ValidationError
from pyromq.protocol.headers.consume import GetMaxOffsetHeader
from pyromq.protocol.records.compression import CompressionType
from pyromq.protocol.release import Language
from tests.unit.client.fakes import asyncio_test


@pytest.mark.parametrize("client", [Producer, PushConsumer, PullConsumer])
def test_groups_and_addresses_are_text(client: Any) -> None:
    with pytest.raises(ValidationError, match="the name of a topic or group must be text, not int: 5"):
        client(5, namesrv="a:1")
    with pytest.raises(ClientError, match="namesrv must be text such as 'host:9876;other:9876', not list"):
        client("g", namesrv=["a:1"])


def test_headline_defaults() -> None:
    # P-36
    config = ProducerConfig()
    assert config.create_topic_key == "TBW102"
    assert config.default_topic_queues == 4
    assert config.send_timeout == 3.0
    assert not config.retry_when_not_stored
    assert (config.retries, config.async_retries) == (2, 2)
    assert config.max_message_size == 4 * 1024 * 1024
    assert config.compress_over == 4096
    # P-83, P-87: both off
    assert not config.latency_faults
    assert not config.vip_channel


def test_common_defaults() -> None:
    config = ClientConfig()
    assert (config.poll_name_server_interval, config.heartbeat_interval, config.persist_offset_interval) == (30, 30, 5)
    assert (config.api_timeout, config.detect_timeout, config.detect_interval) == (3.0, 0.2, 2.0)
    assert config.language is Language.PYTHON
    assert config.heartbeat_on_connect


def test_retryable_codes() -> None:
    # P-68
    assert set(RETRYABLE_CODES) == {17, 14, 1, 2, 16, 204, 205, 1500}


def test_environment_beneath_arguments() -> None:
    environ = {
        "NAMESRV_ADDR": "plain:1",
        "ROCKETMQ_NAMESRV_ADDR": "property:1",
        "ROCKETMQ_MESSAGE_COMPRESSTYPE": "zstd",
        "ROCKETMQ_MESSAGE_COMPRESSLEVEL": "7",
        "COM_ROCKETMQ_SENDMESSAGEWITHVIPCHANNEL": "TRUE",
        "COM_ROCKETMQ_SENDLATENCYENABLE": "no",
        "COM_ROCKETMQ_REMOTING_CLIENT_CONNECT_TIMEOUT": "1500",
        "ROCKETMQ_SERIALIZE_TYPE": "ROCKETMQ",
        "COM_ROCKETMQ_SOCKS_PROXY_CONFIG": '{"0.0.0.0/0":{"addr":"p:1","username":"u","password":"w"}}',
    }
    config = ProducerConfig.build({"compress_level": 3}, environ=environ)
    assert config.namesrv == "property:1"
    assert config.compress_type is CompressionType.ZSTD
    assert config.compress_level == 3
    assert config.vip_channel
    assert not config.latency_faults
    assert config.connect_timeout == 1.5
    assert config.binary_headers
    assert config.socks_proxies["0.0.0.0/0"].address == "p:1"
    assert "w" not in repr(config.socks_proxies["0.0.0.0/0"]).replace("password", "")
    assert ProducerConfig.build({"namesrv": "mine:1"}, environ=environ).namesrv == "mine:1"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ROCKETMQ_MESSAGE_COMPRESSTYPE", "brotli"),
        ("ROCKETMQ_SERIALIZE_TYPE", "xml"),
        ("COM_ROCKETMQ_SOCKS_PROXY_CONFIG", "["),
    ],
)
def test_unreadable_environment_is_named(variable: str, value: str) -> None:
    with pytest.raises(ClientError, match=variable):
        ProducerConfig.build({}, environ={variable: value})


def test_credentials_file(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("AccessKey=rocketmq2\nSecretKey=12345678\n")
    config = ClientConfig.build({}, environ={"ROCKETMQ_CLIENT_KEYFILE": str(path)})
    assert (config.access_key, config.secret_key) == ("rocketmq2", "12345678")
    assert "12345678" not in repr(config)
    with pytest.raises(ClientError, match="cannot be read"):
        ClientConfig.build({}, environ={"ROCKETMQ_CLIENT_KEYFILE": str(tmp_path / "none")})
    path.write_text("SecretKey=do-not-show-me\\u12\n")
    with pytest.raises(ClientError, match="cannot be read") as caught:
        ClientConfig.build({}, environ={"ROCKETMQ_CLIENT_KEYFILE": str(path)})
    assert "do-not-show-me" not in str(caught.value)


def test_unknown_option_names_the_nearest() -> None:
    with pytest.raises(ClientError, match="did you mean 'send_timeout'"):
        Producer("PG", sendtimeout=3)  # type: ignore[call-arg]  # what type checkers refuse as well


@pytest.mark.parametrize(
    "options",
    [
        {"send_timeout": 0},
        {"heartbeat_interval": -1},
        {"access_key": "a"},
        {"batch_delay": 31.0},
        {"batch_bytes": 3 * 1024 * 1024},
        {"retries": -1},
    ],
)
def test_values_out_of_range(options: dict[str, object]) -> None:
    with pytest.raises(ClientError):
        ProducerConfig.build(options, environ={})


def test_settings_do_not_change_afterwards() -> None:
    # P-26
    config = ProducerConfig()
    with pytest.raises(AttributeError):
        setattr(config, "send_timeout", 9)  # noqa: B010 - an assignment would not pass the type checker
    assert config.with_options(avoidance=CLASSIC_TABLE).avoidance is CLASSIC_TABLE
    assert config.avoidance is not CLASSIC_TABLE


def test_instance_name() -> None:
    # P-24
    first, second = instance_name("DEFAULT", "PG"), instance_name("DEFAULT", "PG")
    assert first != second
    assert first.startswith(f"{os.getpid()}#")
    assert instance_name("mine", "PG") == "mine"
    assert instance_name("DEFAULT", "CLIENT_INNER_PRODUCER") == "DEFAULT"


def test_client_id() -> None:
    # P-25
    assert client_id("10.0.0.9", "i") == "10.0.0.9@i"
    assert client_id("10.0.0.9", "i", " ") == "10.0.0.9@i"
    assert client_id("10.0.0.9", "i", "u") == "10.0.0.9@i@u"
    assert client_id("10.0.0.9", "i", "u", stream=True) == "10.0.0.9@i@u@STREAM"


def test_local_address_is_an_address() -> None:
    assert local_ip()


@pytest.mark.parametrize("group", ["", " ", "DEFAULT_PRODUCER", "x" * 121, "no spaces", "dot.dot"])
@asyncio_test
async def test_producer_group_rules(group: str) -> None:
    # P-23
    producer = Producer(group, namesrv="ns:1")
    with pytest.raises(ClientError):
        await producer.start()
    assert producer.state is ServiceState.CREATE_JUST


def test_name_server_addresses() -> None:
    assert parse_addresses("a:1;b:2; a:1;") == ["a:1", "b:2"]
    assert parse_addresses("http://a.example:80") == ["a.example:80"]
    assert parse_addresses("") == []


def test_http_lookup_address() -> None:
    assert lookup_url(ClientConfig()) == ("jmenv.tbsite.net:8080", "/rocketmq/nsaddr")
    config = ClientConfig(namesrv_domain="ns.example:80", namesrv_subgroup="sub", unit_name="cell")
    assert lookup_url(config) == ("ns.example:80", "/rocketmq/sub-cell?nofix=1")


def test_namespace_from_the_endpoint() -> None:
    assert Producer("PG", namesrv="http://MQ_INST_1_A.example.com:80").config.namespace == "MQ_INST_1_A"
    assert Producer("PG", namesrv="10.0.0.1:9876").config.namespace is None


def decorated(config: ClientConfig) -> Command:
    command = Command.request(30, GetMaxOffsetHeader(topic="T", queue_id=0), body=b"hello")
    for hook in request_hooks(config):
        hook.before(command, "b:1")
    return command


def test_plain_requests_are_left_alone() -> None:
    assert request_hooks(ClientConfig()) == ()


def test_request_fields() -> None:
    config = ClientConfig(namespace_v2="N", stream_requests=True, zone="z", zone_mode="m", binary_headers=True)
    command = decorated(config)
    expected = {"ns": "N", "nsd": "true", "ReqT": "0", "__ZONE_NAME": "z", "__ZONE_MODE": "m", "topic": "T"}
    assert expected.items() <= command.ext.items()
    assert command.serialization is Serialization.ROCKETMQ


def test_signature_comes_last() -> None:
    class Hook:
        def before(self, command: Command, address: str) -> None:
            command.ext["own"] = address

        def after(self, command: Command, response: Command, address: str) -> None:
            """Not called here."""

    config = ClientConfig(access_key="a", secret_key="s")  # noqa: S106 - no secret
    plain = decorated(config)
    hooked = decorated(config.with_options(request_hooks=(Hook(),)))
    assert hooked.ext["own"] == "b:1"
    assert plain.ext["Signature"] != hooked.ext["Signature"]
    assert plain.ext["AccessKey"] == "a"
