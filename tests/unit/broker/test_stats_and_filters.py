"""Counters with their figures, tag filters, the settings of a broker."""

from pathlib import Path

import pytest

from pyromq.broker.admin.stats import SAMPLE_INTERVAL_MS, UNUSED_AFTER_MS, BrokerStats, Stat
from pyromq.broker.config import BrokerConfig
from pyromq.broker.filter.filters import Filters
from pyromq.protocol.bodies.clients import SubscriptionData
from pyromq.protocol.records.tags import tags_code
from pyromq.settings.errors import ConfigError, NotReloadableError, UnknownKeyError
from pyromq.store.config import BrokerRole, FlushDiskType
from tests.unit.broker.clock import FakeClock


def test_figures_cover_the_last_minute() -> None:
    clock = FakeClock()
    stats = BrokerStats(clock)
    for _ in range(12):
        stats.add(Stat.TOPIC_PUT_NUMS, "t", 10)
        clock.forward(SAMPLE_INTERVAL_MS)
        stats.sample()
    data = stats.data("TOPIC_PUT_NUMS", "t")
    assert data is not None
    assert data.stats_minute.sum == 60
    assert data.stats_minute.tps == pytest.approx(1.0)
    assert data.stats_day.sum == 120
    assert stats.total(Stat.TOPIC_PUT_NUMS, "t") == 120
    assert stats.data("TOPIC_PUT_NUMS", "other") is None


def test_counters_that_nobody_touches_go_after_a_day() -> None:
    clock = FakeClock()
    stats = BrokerStats(clock)
    stats.add(Stat.TOPIC_PUT_NUMS, "t")
    stats.sample()
    clock.forward(UNUSED_AFTER_MS)
    stats.sample()
    assert stats.data("TOPIC_PUT_NUMS", "t") is not None
    clock.forward(1)
    stats.sample()
    assert stats.data("TOPIC_PUT_NUMS", "t") is None


def test_counters_are_of_topics_and_groups_that_exist_and_everything_else_is_one() -> None:
    stats = BrokerStats(FakeClock(), known=lambda topic, group: topic == "t" and group in ("", "g"), cluster="c")
    for number in range(50):
        stats.add(Stat.DLQ_PUT_NUMS, f"made-up-{number}@g")
        stats.add(Stat.DLQ_PUT_NUMS, f"t@made-up-{number}")
        stats.add(Stat.GROUP_GET_LATENCY, f"0@t@made-up-{number}")
        stats.add_put(f"made-up-{number}", 1, 10)
    stats.add(Stat.DLQ_PUT_NUMS, "t@g")
    stats.add(Stat.GROUP_GET_LATENCY, "0@t@g", 7)
    stats.add_put("t", 1, 10)
    assert dict(stats.totals(Stat.DLQ_PUT_NUMS)) == {"(other)@(other)": 100, "t@g": 1}
    assert dict(stats.totals(Stat.TOPIC_PUT_NUMS)) == {"(other)": 50, "t": 1}
    assert dict(stats.totals(Stat.GROUP_GET_LATENCY)) == {"(other)@(other)@(other)": 50, "0@t@g": 7}
    assert dict(stats.totals(Stat.BROKER_PUT_NUMS)) == {"c": 51}


def test_there_are_so_many_counters_and_no_more() -> None:
    stats = BrokerStats(FakeClock(), capacity=10)
    for number in range(50):
        stats.add(Stat.TOPIC_PUT_NUMS, f"t{number}")
    assert dict(stats.totals(Stat.TOPIC_PUT_NUMS)) == {f"t{number}": 1 for number in range(10)} | {"(other)": 40}


@pytest.mark.parametrize(
    ("expression", "tags"), [("*", []), ("", []), (None, []), ("a || b", ["a", "b"]), (" a||  ||b ", ["a", "b"])]
)
def test_tag_expressions(expression: str | None, tags: list[str]) -> None:
    # F-01
    assert SubscriptionData.of_tags("t", expression).tags_set == tags


def test_a_tag_filter_decides_by_hash() -> None:
    # F-01; polygenelubricants hashes to the smallest int, which a queue entry holds sign-extended
    chosen = Filters(BrokerConfig(), FakeClock()).inline("t", "a || polygenelubricants", "TAG")
    assert chosen.entry is not None
    assert chosen.entry(tags_code("a"))
    assert chosen.entry(tags_code("polygenelubricants"))
    assert not chosen.entry(tags_code("b"))
    assert not chosen.entry(tags_code(None))
    assert chosen.arrival(tags_code("a"), {})
    assert Filters(BrokerConfig(), FakeClock()).inline("t", "*", None).entry is None


def test_apaches_file_loads_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(
        "# a comment\nbrokerClusterName = DefaultCluster\nbrokerName = broker-a\nbrokerId = 0\ndeleteWhen = 04\n"
        "fileReservedTime = 48\nbrokerRole = ASYNC_MASTER\nflushDiskType = ASYNC_FLUSH\n"
        "sendMessageThreadPoolNums=128\nnamesrvAddr=127.0.0.1:9876;127.0.0.2:9876\n"
    )
    config = BrokerConfig.load(file=file)
    assert config.broker_role is BrokerRole.ASYNC_MASTER
    assert config.flush_disk_type is FlushDiskType.ASYNC_FLUSH
    assert config.namesrv_addr == ("127.0.0.1:9876", "127.0.0.2:9876")
    assert config.store_config().file_reserved_time == 48
    assert config.store_config().flush_disk_type is FlushDiskType.ASYNC_FLUSH


def test_an_unknown_key_is_an_error_with_the_nearest_name(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("fileReservedTme = 48\n")
    with pytest.raises(ConfigError, match="fileReservedTime"):
        BrokerConfig.load(file=file)


@pytest.mark.parametrize(
    "text",
    [
        "enableDLegerCommitLog=true",
        "storeType=defaultRocksDB",
        "brokerRole=SLAVE",
        "brokerId=1",
        "brokerIP1=0.0.0.0",
        "brokerName=a/b",
        "listenPort=70000",
        "flushDiskType=MAYBE",
    ],
)
def test_settings_that_cannot_be_honoured_stop_the_start(tmp_path: Path, text: str) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(text + "\n")
    with pytest.raises(ConfigError):
        BrokerConfig.load(file=file)


def test_remote_changes_are_an_allow_list() -> None:
    config = BrokerConfig()
    config.change({"brokerPermission": "4"})
    assert config.broker_permission == 4
    for key, value in (
        ("storePathRootDir", "/etc"),
        ("namesrvAddr", "evil:1"),
        ("bindAddress", "192.0.2.1"),
        ("rocketmqHome", "-c $@|sh . echo id"),
        ("filterServerNums", "1"),
    ):
        with pytest.raises((NotReloadableError, UnknownKeyError)):
            config.change({key: value})
    assert not {"storePathRootDir", "namesrvAddr", "bindAddress"} & config.public().keys()
