"""Queue offsets are never given twice, also when messages, files or both are gone."""

import shutil
from pathlib import Path

import pytest

from tests.unit.store.storage import bodies, crash_copy, open_store, put


@pytest.mark.parametrize("stop", ["clean", "killed"])
@pytest.mark.parametrize("lost", ["its files", "all queues", "nothing"])
def test_a_queue_whose_messages_left_the_log_goes_on(tmp_path: Path, stop: str, lost: str) -> None:
    store = open_store(tmp_path / "a")
    for n in range(70):
        put(store, "idle", 3, b"%d" % n)
    for n in range(300):
        put(store, "busy", 0, b"%d" % n + bytes(100))
    store.flush()
    while len(store.commit_log.files) > 1:
        store.commit_log.files.drop_first()
    store.queues.delete_before(store.min_physical_offset)
    store._upkeep.save()
    root = tmp_path / "b"
    if stop == "killed":
        crash_copy(store, root)
        store.close()
    else:
        store.close()
        shutil.copytree(tmp_path / "a", root)
    if lost == "its files":
        shutil.rmtree(root / "consumequeue" / "idle")
    elif lost == "all queues":
        shutil.rmtree(root / "consumequeue")
    again = open_store(root)
    assert (again.min_offset("idle", 3), again.max_offset("idle", 3)) == (70, 70)
    assert put(again, "idle", 3, b"more").queue_offset == 70
    again.flush()
    assert bodies(again, "idle", 3) == [b"more"]
    assert put(again, "busy", 0).queue_offset == 300
    assert again.min_offset("busy", 0) > 0
    again.close()
