"""What every benchmark needs: the best of several interleaved runs, and a table or one JSON object at the end.

Absolute numbers depend on the machine and on who else is busy on it, so a benchmark always measures its contenders in
turn, within one run, and reports ratios.
"""

import argparse
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

Figure = float | int | str


def arguments(description: str, *, rounds: int = 5) -> argparse.Namespace:
    """Parse the options all benchmarks share: `json` (bool) and `rounds` (int)."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--rounds", type=int, default=rounds, help="take the best of this many (default: %(default)s)")
    return parser.parse_args()


def best_of(rounds: int, *contenders: Callable[[], float]) -> list[float]:
    """Run the contenders in turn, `rounds` times; the fewest seconds that each of them reported."""
    times = [[contender() for contender in contenders] for _ in range(rounds)]
    return [min(column) for column in zip(*times, strict=True)]


def show(title: str, figures: Mapping[str, Figure], *, as_json: bool) -> None:
    """Print the figures of one benchmark."""
    if as_json:
        print(json.dumps({"benchmark": title, **figures}))
        return
    width = max(map(len, figures))
    print(title)
    for name, figure in figures.items():
        text = figure if isinstance(figure, str) else f"{figure:,.0f}" if figure >= 1000 else f"{figure:,.3g}"
        print(f"  {name:<{width}}  {text:>12}")


def write_section(path: Path, heading: str, measured: str) -> None:
    """Put it under its heading, or at the end of the page; what follows from the next heading on stays."""
    before, _, after = path.read_text().partition(heading)
    rest = re.search(r"\n##+ .*", after, re.DOTALL)
    path.write_text(f"{before.rstrip()}\n{heading}\n{measured}{rest[0] if rest else ''}")
