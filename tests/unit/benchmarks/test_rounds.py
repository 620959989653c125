"""Rounds are put together figure by figure, as ratios within each round."""

from pathlib import Path

from benchmarks.contenders import APACHE, OURS, PURE, Contender
from benchmarks.race import QUICK, Known, Pacing, Row, Sample
from benchmarks.rounds import Rounds


def contender(name: str) -> Contender:
    return Contender(name, "127.0.0.1:1", "127.0.0.1:2", 1, 0.0, Path())


def test_each_round_begins_with_another_contender() -> None:
    order: list[str] = []

    def measure(measured: Contender, _: Pacing, __: Known) -> Sample:
        order.append(measured.name)
        return Sample({"sends": 1.0})

    row = Row("sends", "ASYNC_FLUSH", measure, {"sends": "msgs/s"}, prepare=lambda one: order.append(f"+{one.name}"))
    Rounds((APACHE, OURS)).run(2, [row], [contender(APACHE), contender(OURS)], QUICK)
    assert order == ["+apache", "+pyromq", "apache", "pyromq", "pyromq", "apache"]


def test_ratios_are_taken_within_a_round() -> None:
    rounds = Rounds((APACHE, OURS, PURE), lambda _figure, _unit: 2.0)
    for apache, ours, pure in ((10.0, 40.0, 5.0), (100.0, 100.0, 50.0), (1.0, 3.0, 0.5)):
        rounds.add(APACHE, "sends", apache, "msgs/s", lower=False)
        rounds.add(OURS, "sends", ours, "msgs/s", lower=False)
        rounds.add(PURE, "sends", pure, "msgs/s", lower=False)
    (standing,) = rounds.standings()
    assert (standing.ratio, standing.pure_ratio, standing.aim) == (3.0, 0.5, 2.0)


def test_less_is_more_where_it_is_said() -> None:
    rounds = Rounds((APACHE, OURS))
    rounds.add(APACHE, "CPU: sends", 8.0, "s/million", lower=True)
    rounds.add(OURS, "CPU: sends", 2.0, "s/million", lower=True)
    rounds.add(APACHE, "memory", 100.0, "MB", lower=True)
    rounds.add(OURS, "memory", 50.0, "MB", lower=True)
    rounds.add(APACHE, "half measured", 1.0, "MB", lower=True)
    assert [(one.figure, one.ratio) for one in rounds.standings()] == [("memory", 2.0), ("CPU: sends", 4.0)]
