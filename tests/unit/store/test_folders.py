"""Where a store keeps its files."""

from pathlib import Path

from pyromq.store.config import StoreConfig


def test_everything_lies_below_one_folder(tmp_path: Path) -> None:
    # S-02
    assert StoreConfig().commit_log_dir == Path.home() / "store" / "commitlog"
    config = StoreConfig(store_path_root_dir=tmp_path)
    assert config.commit_log_dir == tmp_path / "commitlog"
    assert config.consume_queue_dir == tmp_path / "consumequeue"
    assert config.index_dir == tmp_path / "index"
    elsewhere = StoreConfig(store_path_root_dir=tmp_path, store_path_commit_log=tmp_path / "fast")
    assert elsewhere.commit_log_dir == tmp_path / "fast"
