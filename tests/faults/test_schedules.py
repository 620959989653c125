"""A whole cluster under schedules of faults. `make faults` runs others, by seed or by chance, and many of them."""

import random
from pathlib import Path

import pytest

from tests.faults.harness import report
from tests.faults.harness.__main__ import run
from tests.faults.harness.cluster import BROKERS
from tests.faults.harness.conduct import Outcome


def judge(outcome: Outcome, folder: Path) -> None:
    numbers = report.line(outcome, tuple(BROKERS))
    print(f"{report.head()}\n{report.row(numbers)}\nhistory and logs: {folder}")  # noqa: T201 - shown when it fails
    assert not outcome.violations, report.excerpt(outcome.history, outcome.violations)
    assert numbers.acknowledged, "nothing was acknowledged: this schedule shows nothing"
    assert {event.group for event in outcome.history.delivered} == {each.group for each in outcome.history.subscribed}


@pytest.mark.parametrize("seed", [1, 26, 45])  # between them, nearly every kind of fault
def test_no_promise_is_broken(tmp_path: Path, seed: int) -> None:
    folder = tmp_path / f"seed-{seed}"
    judge(run(seed, folder), folder)


@pytest.mark.long
@pytest.mark.parametrize("number", range(5))
def test_no_promise_is_broken_by_chance(tmp_path: Path, number: int, long_run: bool) -> None:
    if not long_run:
        pytest.skip("needs --long")
    seed = random.SystemRandom().randrange(1, 1_000_000)
    folder = tmp_path / f"seed-{seed}"
    judge(run(seed, folder, long=True), folder)
