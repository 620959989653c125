"""Settings of consumers: defaults, ranges, environment."""

from pathlib import Path
from typing import Any

import pytest

from pyromq.client.consumer.config import PullConfig, PushConfig
from pyromq.client.errors import ClientError
from pyromq.protocol.bodies.enums import ConsumeFromWhere, MessageModel

MIB = 1024 * 1024


def test_defaults_of_push_consumers() -> None:  # C-03
    config = PushConfig.build({}, environ={})
    assert config.model is MessageModel.CLUSTERING
    assert config.consume_from is ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    assert config.allocation.name == "AVG"
    assert (config.consume_thread_min, config.consume_thread_max, config.consume_batch_size) == (20, 20, 1)
    assert (config.max_span, config.pull_threshold_for_queue) == (2000, 1000)
    assert config.pull_threshold_size_for_queue == 100 * MIB
    assert (config.pull_batch_size, config.pull_batch_bytes, config.pull_interval) == (32, 262144, 0)
    assert (config.max_reconsume_times, config.suspend_time, config.consume_timeout) == (-1, 1.0, 900.0)
    assert (config.rebalance_interval, config.rebalance_min_interval, config.pull_max_idle) == (20, 1, 120)
    assert (config.lock_interval, config.lock_life, config.unlock_delay) == (20, 30, 20)
    assert config.client_rebalance


def test_defaults_of_pull_consumers() -> None:
    config = PullConfig.build({}, environ={})
    assert (config.suspend_timeout, config.suspend_call_timeout, config.pull_timeout) == (20, 30, 10)
    assert (config.auto_commit, config.auto_commit_interval, config.pull_batch_size) == (True, 5, 10)
    assert (config.pull_threshold_for_all, config.pull_threshold_for_queue, config.max_span) == (10_000, 1000, 2000)
    assert (config.poll_timeout, config.topic_check_interval, config.max_reconsume_times) == (5, 30, 16)


@pytest.mark.parametrize(
    "options",
    [
        {"consume_thread_max": 1001},
        {"consume_thread_min": 0},
        {"consume_thread_min": 30},
        {"max_span": 65536},
        {"pull_threshold_for_queue": 0},
        {"pull_threshold_size_for_queue": MIB - 1},
        {"pull_threshold_for_topic": 0},
        {"pull_threshold_for_topic": 6_553_501},
        {"pull_threshold_size_for_topic": 102_401 * MIB},
        {"pull_interval": 66.0},
        {"consume_batch_size": 1025},
        {"pull_batch_size": 0},
        {"pop_invisible_time": 4.9},
        {"pop_batch_size": 33},
        {"rebalance_interval": 0.0},
        {"model": "EVERYBODY"},
        {"consume_from": ConsumeFromWhere.UNKNOWN},
    ],
)
def test_values_out_of_range_are_refused_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(ClientError, match=next(iter(options))):
        PushConfig.build(options, environ={})


def test_pull_must_wait_longer_than_the_broker_holds() -> None:
    with pytest.raises(ClientError, match="suspend_call_timeout"):
        PullConfig.build({"suspend_timeout": 31.0}, environ={})


def test_environment_of_java_clients() -> None:
    environ = {
        "ROCKETMQ_CLIENT_LOCALOFFSETSTOREDIR": "/var/offsets",
        "ROCKETMQ_CLIENT_REBALANCE_WAITINTERVAL": "5000",
        "ROCKETMQ_CLIENT_REBALANCE_LOCKINTERVAL": "7000",
        "ROCKETMQ_CLIENT_PULL_PULLMAXIDLETIME": "60000",
    }
    config = PushConfig.build({}, environ=environ)
    assert config.local_offset_dir == Path("/var/offsets")
    assert (config.rebalance_interval, config.lock_interval, config.pull_max_idle) == (5, 7, 60)
