"""Records that are appended together are written one by one: a kill in between leaves sound ones and then nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyromq import native
from pyromq.protocol.message import Message
from pyromq.protocol.records.batch import encode_batch
from pyromq.store.config import BrokerRole
from pyromq.store.log.put import PutMessage
from pyromq.store.messagestore import MessageStore
from tests.unit.store.storage import bodies, crash_copy, message, open_store, put

BODIES = [b"%d" % number + b"x" * 40 for number in range(1, 5)]
HEAD = 64
"""How much of the beginning a copy may write last."""


class Killed(BaseException):
    """The process ends here."""


class TornMap:
    """A mapping whose last write before the kill has everything but its first bytes."""

    def __init__(self, raw: Any, writes: int) -> None:
        self._raw = raw
        self._left = writes

    def _torn(self, begin: int, data: bytes) -> None:
        self._left -= 1
        if self._left < 0:
            self._raw[begin + HEAD : begin + len(data)] = data[HEAD:]
            raise Killed

    def write(self, data: bytes) -> int:
        self._torn(self._raw.tell(), bytes(data))
        return int(self._raw.write(data))

    def __setitem__(self, place: slice, data: bytes) -> None:
        self._torn(place.start, bytes(data))
        self._raw[place] = data

    def __getitem__(self, place: slice) -> bytes:
        return bytes(self._raw[place])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)


def group(store: MessageStore) -> None:
    store.put_many([_plain(body) for body in BODIES])


def batch(store: MessageStore) -> None:
    store.put_batch(message(body=encode_batch([Message("orders", body) for body in BODIES])))


def _plain(body: bytes) -> PutMessage:
    found = message(body=body)
    found.property_map = {}
    return found


@pytest.mark.parametrize("append", [group, batch])
@pytest.mark.parametrize("whole", range(len(BODIES)))
def test_a_kill_while_messages_are_stored_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, append: Callable[[MessageStore], None], whole: int
) -> None:
    monkeypatch.setattr(native.core, "on", False)  # which takes mapped memory only
    store = open_store(tmp_path / "store", allocate_step_commit_log=4096)
    put(store, body=b"first")
    _append_and_die(store, append, whole)
    _check(tmp_path, whole)
    store.close()


@pytest.mark.parametrize("whole", range(len(BODIES)))
def test_a_kill_while_a_slave_writes_a_block(tmp_path: Path, whole: int) -> None:
    master = open_store(tmp_path / "master")
    slave = open_store(tmp_path / "store", broker_role=BrokerRole.SLAVE)
    put(master, body=b"first")
    slave.replica.append(0, bytes(master.read_raw(0, 1 << 20) or b""))
    group(master)
    block = bytes(master.read_raw(slave.max_physical_offset, 1 << 20) or b"")
    _append_and_die(slave, lambda store: store.replica.append(store.max_physical_offset, block), whole)
    _check(tmp_path, whole)
    for each in (master, slave):
        each.close()


def _append_and_die(store: MessageStore, append: Callable[[MessageStore], None], whole: int) -> None:
    file = store.commit_log.last
    assert file is not None
    raw, file.raw = file.raw, TornMap(file.raw, whole)  # type: ignore[assignment]
    with pytest.raises(Killed):
        append(store)
    crash_copy(store, store.config.store_path_root_dir.parent / "found")
    file.raw = raw


def _check(folder: Path, whole: int) -> None:
    found = open_store(folder / "found")
    assert bodies(found) == [b"first", *BODIES[:whole]]
    assert not len(found.damage)
    found.close()
