"""What is imported is no garbage: workers of Spark are told so once."""

import gc
from collections.abc import Iterator

import pytest

from pyromq.spark.task import worker


@pytest.fixture(autouse=True)
def thawed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(worker, "_settled", [0])
    gc.unfreeze()
    yield
    gc.unfreeze()


def test_a_worker_that_is_used_again_freezes_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REUSE_WORKER", "1")
    worker.settle()
    assert gc.get_freeze_count() > 0


def test_it_does_so_once_so_that_later_garbage_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REUSE_WORKER", "1")
    worker.settle()
    gc.unfreeze()
    worker.settle()
    assert gc.get_freeze_count() == 0


def test_other_processes_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_REUSE_WORKER", raising=False)
    worker.settle()
    assert gc.get_freeze_count() == 0
