"""What is fuzzed with coverage by `make fuzz`, fed without a fuzzer: its seeds, broken by chance."""

import random

import pytest

from pyromq.native import core
from tests.fuzz.__main__ import NAMES, NATIVE
from tests.fuzz.targets import TARGETS
from tests.hostile.targets import mutated

ROUNDS = {"servers": 400, "twins": 400}
ROUNDS_ELSEWHERE = 2_000


def test_the_fuzzer_knows_all_targets() -> None:
    assert set(NAMES) == set(TARGETS)


@pytest.mark.parametrize("name", NAMES)
def test_broken_seeds_end_in_errors_of_ours(name: str, pytestconfig: pytest.Config) -> None:
    if name in NATIVE and not core.on:
        pytest.skip(f"there are no twins to compare: {core}")
    chance = random.Random(name)
    rounds = ROUNDS.get(name, ROUNDS_ELSEWHERE) * (25 if pytestconfig.getoption("--long") else 1)
    seeds = TARGETS[name].seeds()
    with TARGETS[name].open() as feed:
        for seed in seeds:
            feed(seed)
        for _ in range(rounds):
            feed(mutated(chance.choice(seeds), chance))
