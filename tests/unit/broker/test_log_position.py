"""Saving where the log ended when everything was saved."""

import threading
from pathlib import Path

import pytest

from pyromq import durable
from pyromq.broker.tables.tail import LogPosition


def test_a_thread_that_is_still_writing_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    position = LogPosition(tmp_path / "logPosition.json")
    write, begun, go_on = durable.write_file, threading.Event(), threading.Event()

    def slowly(path: Path, data: bytes) -> None:
        if not begun.is_set():
            begun.set()
            go_on.wait(30)
        write(path, data)

    monkeypatch.setattr(durable, "write_file", slowly)
    first = threading.Thread(target=position.persist, args=(1,))
    second = threading.Thread(target=position.persist, args=(2,))
    first.start()
    assert begun.wait(30)
    second.start()
    second.join(0.2)
    assert second.is_alive(), "both would write the same temporary file"
    go_on.set()
    first.join(30)
    second.join(30)
    assert position.load() == 2
