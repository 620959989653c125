"""Bar and line charts as SVG text. Pure functions; every text that comes from data is escaped."""

from collections.abc import Mapping, Sequence
from html import escape
from math import floor, log10

WIDTH, HEIGHT = 720, 260
LEFT, RIGHT, TOP, BOTTOM = 70, 16, 32, 40
COLOURS = ("#d9480f", "#1971c2", "#2f9e44", "#6741d9", "#e67700", "#0c8599", "#c2255c", "#495057")

SMALLEST = 1e-9
"""Below this an axis has nothing to show."""

Point = tuple[float, float]


def bars(values: Mapping[str, float], *, unit: str) -> str:
    """One bar for each name.

    >>> "<svg" in bars({"Berlin": 3.0, "Lisbon": 4.5}, unit="EUR")
    True
    """
    top = nice(max(values.values(), default=0.0))
    parts = [_grid(top, unit)]
    step = (WIDTH - LEFT - RIGHT) / max(len(values), 1)
    for number, (name, value) in enumerate(values.items()):
        x, y = LEFT + number * step, _y(value, top)
        height = HEIGHT - BOTTOM - y
        colour = COLOURS[number % len(COLOURS)]
        parts.append(
            f'<rect x="{x + step * 0.15:.1f}" y="{y:.1f}" width="{step * 0.7:.1f}" height="{height:.1f}" rx="3" '
            f'fill="{colour}"><title>{escape(name)}: {value:,.2f} {escape(unit)}</title></rect>'
        )
        parts.append(_text(x + step / 2, HEIGHT - BOTTOM + 18, name, "middle"))
    return _svg(parts)


def lines(series: Mapping[str, Sequence[Point]], *, unit: str, along: str) -> str:
    """One line for each name; `along` says what the horizontal axis is."""
    points = [point for line in series.values() for point in line]
    top = nice(max((y for _, y in points), default=0.0))
    first, last = min((x for x, _ in points), default=0.0), max((x for x, _ in points), default=1.0)
    span = (last - first) or 1.0
    parts = [_grid(top, unit)]
    for number, (name, line) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        places = [(LEFT + (x - first) / span * (WIDTH - LEFT - RIGHT), _y(y, top)) for x, y in line]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in places[:200]]
        if len(series) > 1:
            parts.append(_text(LEFT + 8 + number * 90, TOP - 14, name, "start", colour))
    parts.append(_text(LEFT, HEIGHT - BOTTOM + 18, f"{first:,.0f}", "middle"))
    parts.append(_text(WIDTH - RIGHT, HEIGHT - BOTTOM + 18, f"{last:,.0f}", "end"))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, along, "middle"))
    return _svg(parts)


def nice(value: float) -> float:
    """The next round number that five steps divide well.

    >>> [nice(value) for value in (0, 0.7, 3, 42, 120)]
    [1.0, 0.75, 5.0, 50.0, 150.0]
    """
    if value < SMALLEST:
        return 1.0
    power = 10.0 ** floor(log10(value))
    return next(factor * power for factor in (1.0, 1.5, 2.0, 2.5, 5.0, 7.5, 10.0, 20.0) if factor * power >= value)


def _y(value: float, top: float) -> float:
    return HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM)


def _grid(top: float, unit: str) -> str:
    parts = []
    decimals = max(0, 1 - floor(log10(top)))
    for part in range(6):
        value = top * part / 5
        y = _y(value, top)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dee2e6"/>')
        parts.append(_text(LEFT - 6, y + 4, f"{value:,.{decimals}f}", "end"))
    parts.append(_text(LEFT - 6, TOP - 14, unit, "end"))
    return "".join(parts)


def _text(x: float, y: float, text: str, anchor: str, colour: str = "#495057") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="12" fill="{colour}">{escape(text)}</text>'


def _svg(parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{"".join(parts)}</svg>'
