"""The key-value configuration and its file."""

import asyncio
from pathlib import Path

import pytest

from pyromq.configfile import backup_of
from pyromq.namesrv import kv as kv_module
from pyromq.namesrv.kv import MAX_KEY, MAX_VALUE, KVConfig, KVError
from pyromq.protocol.errors import ValidationError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "namesrv" / "kvConfig.json"


def opened(path: Path, max_entries: int = 100) -> KVConfig:
    kv = KVConfig(path, max_entries=max_entries)
    kv.load()
    return kv


def test_values_survive_a_restart(path: Path) -> None:
    # N-02
    async def fill() -> None:
        kv = opened(path)
        await kv.put("ORDER_TOPIC_CONFIG", "T", "broker-a:4")
        await kv.put("ORDER_TOPIC_CONFIG", "Ü", "x")
        await kv.put("other", "k", "")
        await kv.delete("other", "never")
        await kv.delete("nowhere", "never")

    asyncio.run(fill())
    again = opened(path)
    assert again.namespace("ORDER_TOPIC_CONFIG") == {"T": "broker-a:4", "Ü": "x"}
    assert again.get("other", "k") == ""
    assert again.get("other", "x") is None
    assert again.namespace("nowhere") == {}


def test_the_file_is_apaches(path: Path) -> None:
    asyncio.run(opened(path).put("ns", "key", "value"))
    assert path.read_bytes() == b'{"configTable":{"ns":{"key":"value"}}}'


def test_deleting_the_last_key_removes_the_namespace(path: Path) -> None:
    async def run() -> None:
        kv = opened(path)
        await kv.put("ns", "a", "1")
        await kv.put("ns", "b", "2")
        await kv.delete("ns", "a")
        assert kv.namespace("ns") == {"b": "2"}
        await kv.delete("ns", "b")

    asyncio.run(run())
    assert path.read_bytes() == b'{"configTable":{}}'


@pytest.mark.parametrize("damage", [b"", b"  ", b'{"configTable":{"ns"', b"\xff\xfe", None])
def test_a_damaged_file_falls_back_to_the_one_before(path: Path, damage: bytes | None) -> None:
    async def run() -> None:
        kv = opened(path)
        await kv.put("ns", "k", "old")
        await kv.put("ns", "k", "new")

    asyncio.run(run())
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage)
    assert opened(path).get("ns", "k") == "old"


def test_two_damaged_files_stop_the_start(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"{")
    backup_of(path).write_bytes(b"[")
    with pytest.raises(KVError, match=r"kvConfig\.json"):
        opened(path)
    assert path.read_bytes() == b"{"


def test_a_value_that_cannot_be_written_is_not_there(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, text: bytes) -> None:
        raise OSError(28, "No space left on device", str(path))

    async def run() -> None:
        kv = opened(path)
        await kv.put("ns", "k", "old")
        monkeypatch.setattr(kv_module, "write_config", full)
        with pytest.raises(KVError, match="No space left") as failure:
            await kv.put("ns", "k", "new")
        assert str(path) not in str(failure.value)
        with pytest.raises(KVError):
            await kv.delete("ns", "k")
        assert kv.get("ns", "k") == "old"

    asyncio.run(run())


def test_concurrent_changes_are_all_kept(path: Path) -> None:
    async def run() -> None:
        kv = opened(path)
        await asyncio.gather(*(kv.put("ns", f"k{number}", "v") for number in range(20)))

    asyncio.run(run())
    assert len(opened(path).namespace("ns")) == 20


def test_sizes_and_count_are_bounded(path: Path) -> None:
    async def run() -> None:
        kv = opened(path, max_entries=2)
        for namespace, key, value in (("", "k", "v"), ("n", "", "v"), ("n" * (MAX_KEY + 1), "k", "v")):
            with pytest.raises(ValidationError):
                await kv.put(namespace, key, value)
        with pytest.raises(ValidationError, match="value"):
            await kv.put("n", "k", "v" * (MAX_VALUE + 1))
        await kv.put("n", "a", "1")
        await kv.put("m", "a", "1")
        await kv.put("n", "a", "2")
        with pytest.raises(ValidationError, match="maxKvEntries"):
            await kv.put("n", "b", "1")
        await kv.delete("m", "a")
        await kv.put("n", "b", "1")

    asyncio.run(run())


def test_the_whole_file_is_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        kv = opened(path)
        await kv.put("n", "a", "x" * 100)
        monkeypatch.setattr(kv_module, "MAX_TEXT", 200)
        with pytest.raises(ValidationError, match="more than 200"):
            await kv.put("n", "b", "x" * 100)
        assert kv.get("n", "b") is None
        await kv.delete("n", "a")
        await kv.put("n", "b", "x" * 100)

    asyncio.run(run())
