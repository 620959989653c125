"""The two faces of consumers, and of the small objects reached from them, have the same few methods."""

import inspect

import pytest

import pyromq
import pyromq.aio
from pyromq.client.blocking.consumer import BlockingQueries
from pyromq.client.blocking.pull_consumer import BlockingManualPulls
from pyromq.client.consumer.pull.manual import ManualPulls
from pyromq.client.queries import Queries

FOR_ITERATION = {"next_buffered", "refill"}
"""What the iterator for threads asks of the consumer for asyncio."""


def methods(face: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(face, inspect.isfunction) if not name.startswith("_")}


@pytest.mark.parametrize("name", ["PushConsumer", "PullConsumer"])
def test_both_faces_have_the_same_few_methods(name: str) -> None:
    blocking, twin = methods(getattr(pyromq, name)), methods(getattr(pyromq.aio, name))
    assert blocking == twin - FOR_ITERATION
    assert len(twin) < 25


@pytest.mark.parametrize(("blocking", "twin"), [(BlockingQueries, Queries), (BlockingManualPulls, ManualPulls)])
def test_parts_have_the_same_methods(blocking: type, twin: type) -> None:
    assert methods(blocking) == methods(twin)
    for name in methods(twin):
        ours, theirs = inspect.signature(getattr(blocking, name)), inspect.signature(getattr(twin, name))
        assert list(ours.parameters) == list(theirs.parameters)
