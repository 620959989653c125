"""Costs as work grows: the stores it is measured on are ours, and its tables say how much grew."""

from pathlib import Path

import pytest
from benchmarks import bulk
from benchmarks.growth import table

from pyromq.store.config import StoreConfig
from pyromq.store.messagestore import MessageStore
from pyromq.store.offline.check import check_store


@pytest.mark.parametrize("count", [1, 7, 5000])
def test_a_store_written_at_once_is_one_of_ours(tmp_path: Path, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "StoreConfig", small)
    bulk.build(tmp_path, count)
    with MessageStore(small(store_path_root_dir=tmp_path)) as store:
        assert store.was_in_order
        assert not store.damage
        for number in (0, count // 2, count - 1):
            found = store.get(bulk.TOPIC, number % bulk.QUEUES, number // bulk.QUEUES, 1).messages()
            assert [(message.topic, message.body) for message in found] == [(bulk.TOPIC, bulk.BODY)]
        assert sum(queue.max_offset for queue in store.queues) == count
    assert not check_store(small(store_path_root_dir=tmp_path)).findings


def test_a_table_says_how_many_times_the_first_size_the_last_one_takes() -> None:
    text = table([{"topics": 1, "send_us": 2.0}, {"topics": 10_000, "send_us": 3.0}])
    assert text.splitlines() == [
        "| Topics | send, µs |",
        "| ---: | ---: |",
        "| 1 | 2 |",
        "| 10,000 | 3 |",
        "| last / first | 1.50 |",
    ]


def small(*, store_path_root_dir: Path) -> StoreConfig:
    return StoreConfig(
        store_path_root_dir=store_path_root_dir,
        mapped_file_size_commit_log=1 << 17,
        mapped_file_size_consume_queue=20 * 100,
    )
