"""The walks of the architecture page are taken as it says, and are short."""

import asyncio

import pytest

from tests.architecture.page import listed
from tests.architecture.walks import Walk, broker_walks, client_walks, spark_walk

MOST_FILES = 16
MOST_STEPS = 25
MOST_LEVELS = 6


@pytest.fixture(scope="module")
def walks() -> dict[str, Walk]:
    taken = [*asyncio.run(broker_walks()), *asyncio.run(client_walks()), spark_walk()]
    return {walk.title: walk for walk in taken}


@pytest.mark.parametrize("title", ["A send", "A pull", "A producer's send", "A push delivery", "A Spark batch"])
def test_the_page_tells_the_way(title: str, walks: dict[str, Walk]) -> None:
    taken = {str(step) for step in walks[title].steps}
    told = listed(title)
    assert told
    assert [step for step in told if step not in taken] == [], "python -m tests.architecture rewrites the page"


@pytest.mark.parametrize("title", ["A send", "A pull"])
def test_the_page_leaves_nothing_out(title: str, walks: dict[str, Walk]) -> None:
    told = listed(title)
    assert [step for step in map(str, walks[title].beyond_frames) if step not in told] == []


def test_a_send_is_read_in_one_sitting() -> None:
    steps = listed("A send")
    assert len({step.partition(":")[0] for step in steps}) <= MOST_FILES
    assert len(steps) <= MOST_STEPS


def test_a_producer_hands_a_message_over_in_few_levels(walks: dict[str, Walk]) -> None:
    depth = {str(step): step.depth for step in walks["A producer's send"].calls}
    levels = (
        depth["client/producer/departure.py:Departure.leave"] - depth["client/producer/producer.py:Producer.send"] + 1
    )
    assert levels <= MOST_LEVELS
