"""Figures as SVG text. Colours, dashes and type come from the page's style sheet, so they follow dark mode and the
reader's own font size; lines differ in dash and marker, too, for those who do not see the colours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from hindsight.lab.series import Line
from hindsight.types import Array

WIDTH, HEIGHT = 400, 260
LEFT, RIGHT, TOP, BOTTOM = 52, 20, 10, 42
DASHES = ("", "7 3", "2 3", "9 3 2 3", "12 4", "5 2 1 2 1 2", "3 2")
STYLES = len(DASHES)
"""So many groups look different; the next ones begin again."""
MARKERS = 9
"""Markers along a line, about."""


@dataclass(frozen=True)
class Axes:
    """What a figure is of."""

    title: str
    x: str
    y: str
    top: float | None = None
    """Upper end of the y axis; made from the data if not given."""


def figure(axes: Axes, lines: Sequence[Line], number: str) -> str:
    """One SVG element. `number` makes its ids unique within the page."""
    right = max(float(line.x[-1]) for line in lines) or 1.0
    ticks_x = [x for x in ticks(0, right, 5) if x <= right * 1.001]
    lowest, highest = min(float(line.low.min()) for line in lines), max(float(line.high.max()) for line in lines)
    ticks_y = ticks(min(lowest, 0), axes.top or highest, 5)
    scale_x = (WIDTH - LEFT - RIGHT) / right
    bottom, top = ticks_y[0], ticks_y[-1]
    scale_y = (HEIGHT - TOP - BOTTOM) / (top - bottom)

    def at(x: Array, y: Array) -> list[tuple[float, float]]:
        across, down = LEFT + x * scale_x, HEIGHT - BOTTOM - (y - bottom) * scale_y
        return [(round(float(a), 1), round(float(d), 1)) for a, d in zip(across, down, strict=True)]

    parts = [
        f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="{number}-t {number}-d">',
        f'<title id="{number}-t">{escape(axes.title)}</title>',
        f'<desc id="{number}-d">{escape(described(axes, lines))}</desc>',
        *_grid(ticks_x, ticks_y, scale_x, scale_y),
        f'<text class="x-axis" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}">{escape(axes.x)}</text>',
        f'<text class="y-axis" transform="translate(13 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)">',
        f"{escape(axes.y)}</text>",
    ]
    for line in lines:
        if line.seeds > 1:
            edge = at(line.x, line.high) + at(line.x, line.low)[::-1]
            parts.append(f'<polygon class="band c{line.style % STYLES}" points="{_points(edge)}"/>')
    for line in lines:
        places = at(line.x, line.y)
        style = line.style % STYLES
        parts.append(f'<polyline class="line c{style}" stroke-dasharray="{DASHES[style]}" points="{_points(places)}"/>')
        step = max(1, math.ceil(len(places) / MARKERS))
        for i in sorted(set(range(len(places) - 1, -1, -step))):
            parts.append(marker(style, *places[i], f"{line.label}: {said(line, i)} at {number_text(line.x[i])}"))
    return "".join([*parts, "</svg>"])


def _grid(xs: Sequence[float], ys: Sequence[float], scale_x: float, scale_y: float) -> list[str]:
    """Rules and tick labels."""
    floor, parts = HEIGHT - BOTTOM, []
    for y in ys:
        down = round(floor - (y - ys[0]) * scale_y, 1)
        parts.append(f'<path class="rule" d="M{LEFT} {down}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text class="y-tick" x="{LEFT - 6}" y="{down + 4}">{number_text(y)}</text>')
    for x in xs:
        across = round(LEFT + x * scale_x, 1)
        parts.append(f'<path class="rule" d="M{across} {floor}v4"/>')
        parts.append(f'<text class="x-tick" x="{across}" y="{floor + 17}">{number_text(x)}</text>')
    return parts


def marker(style: int, x: float, y: float, title: str = "") -> str:
    """The marker of a style, which says what it stands for when pointed at."""
    r = 3.4
    shapes = (
        f"M{x - r} {y}a{r} {r} 0 1 0 {2 * r} 0a{r} {r} 0 1 0 {-2 * r} 0z",
        f"M{x - 3:.1f} {y - 3:.1f}h6v6h-6z",
        f"M{x} {y - 4:.1f}l4 7h-8z",
        f"M{x} {y - 4.5:.1f}l4.5 4.5l-4.5 4.5l-4.5 -4.5z",
        f"M{x} {y + 4:.1f}l4 -7h-8z",
        f"M{x - 4:.1f} {y - 1.2:.1f}h8v2.4h-8zM{x - 1.2:.1f} {y - 4:.1f}h2.4v8h-2.4z",
        f"M{x - 4:.1f} {y - 2:.1f}h8v4h-8z",
    )
    inner = f"<title>{escape(title)}</title>" if title else ""
    return f'<path class="mark c{style % STYLES}" d="{shapes[style % STYLES]}">{inner}</path>'


def swatch(style: int) -> str:
    """A piece of a group's line, for legends and tables."""
    kind = style % STYLES
    line = f'<path class="line c{kind}" stroke-dasharray="{DASHES[kind]}" d="M0 6H34"/>'
    return f'<svg class="swatch" viewBox="0 0 34 12" aria-hidden="true">{line}{marker(kind, 17, 6)}</svg>'


def strip(values: Sequence[float], low: float, high: float, middle: float, style: int) -> str:
    """A scale from 0 to 1 with a dot per seed, the interval as a bar and the estimate as a tick."""
    kind = style % STYLES
    x = [round(4 + 112 * v, 1) for v in (low, high, middle)]
    dots = "".join(f'<circle class="mark c{kind}" cx="{4 + 112 * v:.1f}" cy="11" r="3.2"/>' for v in values)
    return (
        f'<svg class="strip" viewBox="0 0 120 22" aria-hidden="true"><path class="rule" d="M4 11H116M4 6v10M116 6v10"/>'
        f'<path class="interval c{kind}" d="M{x[0]} 11H{x[1]}"/>{dots}<path class="estimate" d="M{x[2]} 3v16"/></svg>'
    )


def described(axes: Axes, lines: Sequence[Line]) -> str:
    """The figure in words, for those who do not see it."""
    ends = "; ".join(f"{line.label} goes from {said(line, 0)} to {said(line, -1)}" for line in lines)
    return f"{axes.y} against {axes.x}. {ends}. The numbers are in the table below the figure."


def said(line: Line, i: int) -> str:
    value = number_text(float(line.y[i]))
    return (
        value if line.seeds == 1 else f"{value} [{number_text(float(line.low[i]))}, {number_text(float(line.high[i]))}]"
    )


def ticks(bottom: float, top: float, count: int) -> list[float]:
    """Round numbers from `bottom` (or less) to `top` (or more), about `count` of them, a whole step beyond neither."""
    if not top > bottom:
        return [bottom, bottom + 1.0]
    raw = (top - bottom) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= raw * 0.999)
    first, last = math.floor(bottom / step + 0.001), math.ceil(top / step - 0.001)
    return [float(f"{i * step:.10g}") for i in range(first, last + 1)]


def number_text(x: float) -> str:
    """Short: 400k, 1.5M, 0.25, 2e-05."""
    if abs(x) >= 1e6:
        return f"{x / 1e6:.3g}M"
    if abs(x) >= 1e4:
        return f"{x / 1e3:.3g}k"
    return f"{x:.0f}" if abs(x) >= 1000 else f"{x:.3g}"


def _points(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in places)
