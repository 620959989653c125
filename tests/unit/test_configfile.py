"""Files that servers keep beside their data: what is new, what is damaged, and where the backup steps in."""

import json
import logging
from pathlib import Path

import pytest

from pyromq.broker.config import BrokerConfig
from pyromq.broker.delay.delayoffsets import DelayOffsets
from pyromq.broker.filter.filterdata import FilterTable
from pyromq.broker.pop.batches import OrderedBatches
from pyromq.broker.tables.groups import Groups
from pyromq.broker.tables.offsets import ConsumerOffsets
from pyromq.broker.tables.requestmodes import RequestModes
from pyromq.broker.tables.topics import Topics
from pyromq.configfile import backup_of, read_config, write_config
from pyromq.errors import PyroMQError
from pyromq.namesrv.kv import KVConfig
from pyromq.protocol.bodies.offsets import ConsumerOffsetTable
from pyromq.protocol.errors import BodyError, ProtocolError
from tests.unit.broker.clock import FakeClock


def decode(data: bytes) -> object:
    try:
        return json.loads(data)
    except ValueError as error:
        raise BodyError(str(error)) from None


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config" / "table.json"


def test_a_file_that_never_was_there_is_new(path: Path) -> None:
    assert read_config(path, decode) is None


@pytest.mark.parametrize("damage", [b"", b" \n", b"{", b"\0" * 64])
def test_an_existing_file_that_cannot_be_read_is_damage(path: Path, damage: bytes) -> None:
    write_config(path, damage)
    with pytest.raises(ProtocolError) as refused:
        read_config(path, decode)
    for hint in (str(path), "restore", "move it away"):
        assert hint in str(refused.value)
    assert path.read_bytes() == damage


@pytest.mark.parametrize("damage", [b"", b"{", None])
def test_the_backup_steps_in_with_a_warning(path: Path, damage: bytes | None, caplog: pytest.LogCaptureFixture) -> None:
    write_config(path, b"[1]")
    write_config(path, b"[2]")
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage)
    with caplog.at_level(logging.WARNING):
        assert read_config(path, decode) == [1]
    assert backup_of(path).name in caplog.text
    # What is damaged must not take the place of the backup with the next save.
    assert not path.exists()
    if damage is not None:
        assert path.with_name("table.json.damaged").read_bytes() == damage
    write_config(path, b"[3]")
    assert (read_config(path, decode), backup_of(path).read_bytes()) == ([3], b"[1]")


@pytest.mark.parametrize("damage", [b"", b"{"])
def test_a_damaged_backup_alone_is_damage_too(path: Path, damage: bytes) -> None:
    path.parent.mkdir()
    backup_of(path).write_bytes(damage)
    with pytest.raises(ProtocolError, match="table"):
        read_config(path, decode)


def test_a_file_that_the_disk_does_not_give_is_damage(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(ProtocolError, match="restore"):
        read_config(path, decode)


def test_no_table_takes_an_empty_file_for_a_new_one(tmp_path: Path) -> None:
    config, clock = BrokerConfig(store_path_root_dir=tmp_path), FakeClock()
    folder = config.config_dir
    loads = {
        "topics.json": Topics(config, clock).load,
        "subscriptionGroup.json": Groups(config, clock).load,
        "consumerOffset.json": ConsumerOffsets(folder / "consumerOffset.json", clock).load,
        "delayOffset.json": DelayOffsets(folder / "delayOffset.json", clock).load,
        "consumerOrderInfo.json": OrderedBatches(folder / "consumerOrderInfo.json", clock).load,
        "messageRequestMode.json": RequestModes(config).load,
        "consumerFilter.json": FilterTable(folder / "consumerFilter.json", clock, 1).load,
        "kvConfig.json": KVConfig(folder / "kvConfig.json", max_entries=1).load,
    }
    folder.mkdir()
    for name, load in loads.items():
        load()
        (folder / name).write_bytes(b"")
        with pytest.raises(PyroMQError, match=name):
            load()


def test_decoded_tables_are_read_back(path: Path) -> None:
    table = ConsumerOffsetTable(offset_table={"orders@g": {0: 7}})
    write_config(path, table.pretty())
    assert read_config(path, ConsumerOffsetTable.decode) == table
