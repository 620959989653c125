"""Files written for older brokers load: keys that were spelt or called otherwise mean what they meant."""

from pathlib import Path

import pytest

from pyromq.broker.config import BrokerConfig
from pyromq.settings.errors import ConfigError, NotReloadableError

OLD = """
brokerClusterName=rocketmq-cluster
brokerName=broker-a
brokerId=0
defaultTopicQueueNums=4
storePathRootDir=/data/store
storePathCommitLog=/data/store/commitlog
storePathConsumeQueue=/data/store/consumequeue
storePathIndex=/data/store/index
storeCheckpoint=/data/store/checkpoint
abortFile=/data/store/abort
mapedFileSizeCommitLog=536870912
mapedFileSizeConsumeQueue=300010
mapedFileSizeConsumeQueueExt=50331648
haSlaveFallbehindMax=1000000
destroyMapedFileIntervalForcibly=120000
redeleteHangedFileInterval=120000
diskMaxUsedSpaceRatio=88
sendMessageThreadPoolNums=128
"""
"""As guides for 3.x and 4.x have it."""


def load(tmp_path: Path, text: str) -> BrokerConfig:
    file = tmp_path / "broker.conf"
    file.write_text(text)
    return BrokerConfig.load(file=file, environ={})


def test_a_file_of_an_old_broker_loads_and_counts(tmp_path: Path) -> None:
    config = load(tmp_path, OLD)
    assert config.mapped_file_size_commit_log == 512 << 20
    assert config.ha_max_gap_not_in_sync == 1_000_000
    assert config.store_config().mapped_file_size_consume_queue == 300_020, "up to whole entries, as Apache's has it"
    assert config.printable()["mappedFileSizeCommitLog"] == str(512 << 20)


def test_one_setting_under_two_names(tmp_path: Path) -> None:
    both = "mapedFileSizeCommitLog=1048576\nmappedFileSizeCommitLog=2097152\n"
    with pytest.raises(ConfigError, match=r"mapedFileSizeCommitLog is an old name of mappedFileSizeCommitLog.* both"):
        load(tmp_path, both)
    assert load(tmp_path, both.replace("2097152", "1048576")).mapped_file_size_commit_log == 1 << 20


def test_old_names_can_be_changed_like_new_ones() -> None:
    config = BrokerConfig()
    assert config.change({"haSlaveFallbehindMax": "5"}) == {"ha_max_gap_not_in_sync": 5}
    with pytest.raises(NotReloadableError):
        config.change({"mapedFileSizeCommitLog": "1048576"})
