"""The rounds of a race: each row on one contender after the other, and what all of them come to."""

import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence

from benchmarks.contenders import APACHE, OURS, PURE, Contender
from benchmarks.race import Pacing, Row
from benchmarks.standings import Standing, broker_aim


class Rounds:
    """Collects the figures of all rounds: name of the figure → contender → values."""

    def __init__(self, contenders: Sequence[str], aim: Callable[[str, str], float] = broker_aim) -> None:
        self.values: dict[str, dict[str, list[float]]] = defaultdict(lambda: {name: [] for name in contenders})
        self.units: dict[str, str] = {}
        self.lower: set[str] = set()
        self.busy: dict[str, float] = defaultdict(float)
        self.failed: dict[str, int] = defaultdict(int)
        self._aim = aim

    def add(self, contender: str, figure: str, value: float, unit: str, *, lower: bool) -> None:
        """Note one value."""
        self.values[figure][contender].append(value)
        self.units[figure] = unit
        if lower:
            self.lower.add(figure)

    def run(self, count: int, chosen: Sequence[Row], contenders: Sequence[Contender], pacing: Pacing) -> None:
        """So many rounds; each begins with another contender."""
        for row in chosen:
            for contender in contenders:
                row.prepare(contender)
        for number in range(count):
            turn = number % len(contenders)
            self._round(number, chosen, [*contenders[turn:], *contenders[:turn]], pacing)

    def standings(self) -> list[Standing]:
        """The outcome, figure by figure; those of the processor time last. What not all have is left out."""
        whole = [figure for figure, values in self.values.items() if len({len(seen) for seen in values.values()}) == 1]
        figures = sorted(whole, key=lambda figure: figure.startswith("CPU"))
        return [self._standing(figure) for figure in figures]

    def _standing(self, figure: str) -> Standing:
        values = self.values[figure]
        pure = tuple(values.get(PURE, ())) if OURS in values else ()
        ours = tuple(values[OURS if OURS in values else PURE])
        return Standing(
            figure,
            self.units[figure],
            figure in self.lower,
            tuple(values[APACHE]),
            ours,
            self._ratio(figure, ours),
            self.busy[figure],
            pure,
            self._ratio(figure, pure) if pure else 0.0,
            self._aim(figure, self.units[figure]),
        )

    def _ratio(self, figure: str, ours: Sequence[float]) -> float:
        pairs = zip(self.values[figure][APACHE], ours, strict=True)
        return statistics.median(theirs / mine if figure in self.lower else mine / theirs for theirs, mine in pairs)

    def _round(self, number: int, chosen: Sequence[Row], contenders: Sequence[Contender], pacing: Pacing) -> None:
        for row in chosen:
            begun = time.monotonic()
            for contender in contenders:
                known = {
                    figure: tuple(value for seen in values.values() for value in seen)
                    for figure, values in self.values.items()
                }
                sample = row.measure(contender, pacing, known)
                for figure, value in sample.figures.items():
                    self.add(contender.name, figure, value, row.units[figure], lower=figure in row.lower)
                    self.busy[figure] = max(self.busy[figure], sample.busy)
                if sample.failed:
                    self.failed[f"{row.name}: {contender.name}"] += sample.failed
            print(f"round {number + 1}: {row.name} ({time.monotonic() - begun:.1f} s)", file=sys.stderr)
