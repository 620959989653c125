"""Property files that were written for Apache's brokers load as they are."""

import logging
from pathlib import Path

import pytest

from pyromq.broker.config import BrokerConfig
from pyromq.settings.errors import UnknownKeyError


def load(path: Path, text: str) -> BrokerConfig:
    file = path / "broker.conf"
    file.write_text(text)
    return BrokerConfig.load(file=file)


@pytest.mark.parametrize("key", ["storePathIndex", "commercialEnable", "sendMessageThreadPoolNums", "useTLS"])
def test_keys_without_meaning_here_are_accepted_and_reported(
    tmp_path: Path, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        load(tmp_path, f"{key} = 1\n")
    assert f"{key} has no effect" in caplog.text


def test_a_file_of_either_release(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        "brokerClusterName = DefaultCluster\nbrokerName = broker-a\nbrokerId = 0\ndeleteWhen = 04\n"
        "fileReservedTime = 48\nbrokerRole = ASYNC_MASTER\nflushDiskType = ASYNC_FLUSH\nautoCreateTopicEnable=true\n"
        "maxMessageSize=65536\nwarmMapedFileEnable=false\ntransientStorePoolEnable=false\n",
    )
    assert (config.broker_name, config.file_reserved_time, config.max_message_size) == ("broker-a", 48, 65536)


def test_an_unknown_key_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="did you mean fileReservedTime") as caught:
        load(tmp_path, "fileReservdTime = 48\n")
    assert isinstance(caught.value.__cause__, UnknownKeyError)
