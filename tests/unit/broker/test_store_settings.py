"""The store's options are the broker's: what its file, flags and remote changes say reaches the store."""

import asyncio
import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyromq.broker.admin.reload import change_settings
from pyromq.broker.config import BrokerConfig
from pyromq.settings.declaration import options
from pyromq.settings.errors import ConfigError
from pyromq.settings.option import Option
from pyromq.store.config import CHANGEABLE, StoreConfig, StoreSettings
from pyromq.store.errors import StoreError
from pyromq.store.messagestore import MessageStore

OPTIONS = options(StoreSettings)
TEXTS = {"delete_when": "05;17", "message_delay_level": "2s 3m"}


def another_value(each: Option) -> object:
    """One that is allowed and is not the default."""
    default = getattr(StoreConfig(), each.name)
    if each.name in TEXTS:
        return TEXTS[each.name]
    if each.type is Path:
        return Path("somewhere") / each.name
    if each.choices:
        return next(choice for choice in each.choices if choice != default)
    if each.type is bool:
        return not default
    step = 20  # a queue file has whole entries
    return default - step if each.maximum is not None and default + step > each.maximum else default + step


@pytest.mark.parametrize("each", OPTIONS.values(), ids=OPTIONS)
def test_each_option_in_the_file_of_a_broker_reaches_the_store(each: Option, tmp_path: Path) -> None:
    value = another_value(each)
    file = tmp_path / "broker.conf"
    file.write_text(f"{each.key}={each.render(value)}\n")
    store = BrokerConfig.load(file=file).store_config()
    assert getattr(store, each.name) == value
    others = [name for name in options(StoreConfig) if name != each.name]
    assert [getattr(store, name) for name in others] == [getattr(StoreConfig(), name) for name in others]


def test_a_broker_has_every_option_of_the_store_as_it_is_declared() -> None:
    assert OPTIONS.items() <= options(BrokerConfig).items()


@pytest.mark.parametrize("name", sorted(CHANGEABLE))
def test_what_can_be_changed_changes_the_store(name: str, tmp_path: Path) -> None:
    each = OPTIONS[name]
    config = BrokerConfig(store_path_root_dir=tmp_path)
    broker: Any = SimpleNamespace(config=config, store=MessageStore(config.store_config()))
    value = another_value(each)
    assert asyncio.run(change_settings(broker, {each.key: each.render(value)})) == [name]
    assert getattr(broker.store.config, name) == getattr(config, name) == value


def test_a_store_refuses_to_change_what_it_was_opened_with(tmp_path: Path) -> None:
    store = MessageStore(StoreConfig(store_path_root_dir=tmp_path))
    for name in OPTIONS.keys() - CHANGEABLE:
        with pytest.raises(StoreError, match=f"{name} cannot be changed while the store is open"):
            store.change(**{name: another_value(OPTIONS[name])})
    with pytest.raises(dataclasses.FrozenInstanceError, match="max_message_size"):
        store.config.max_message_size = 1


@pytest.mark.parametrize(
    ("key", "text"), [("deleteWhen", "25"), ("deleteWhen", "noon"), ("storePathCommitLog", "/a,/b")]
)
def test_what_no_store_takes_is_an_error_of_the_settings(key: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(f"{key}={text}\n")
    with pytest.raises(ConfigError, match=key):
        BrokerConfig.load(file=file)
