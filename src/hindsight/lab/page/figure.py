"""Where everything in a figure goes, in the units of its SVG; `templates/parts.html.j2` draws it.

Colours, dashes and type come from the style sheet, so that they follow dark mode and the reader's
own font size. Lines differ in dash and marker, too, for those who do not see the colours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hindsight.lab.series import Line
from hindsight.types import Array

WIDTH, HEIGHT = 400, 260
LEFT, RIGHT, TOP, BOTTOM = 52, 20, 10, 42
MARKERS = (
    "M-3.4 0a3.4 3.4 0 1 0 6.8 0a3.4 3.4 0 1 0 -6.8 0z",
    "M-3 -3h6v6h-6z",
    "M0 -4l4 7h-8z",
    "M0 -4.5l4.5 4.5l-4.5 4.5l-4.5 -4.5z",
    "M0 4l4 -7h-8z",
    "M-4 -1.2h8v2.4h-8zM-1.2 -4h2.4v8h-2.4z",
    "M-4 -2h8v4h-8z",
)
"""Shapes around (0, 0). So many groups look different; the next ones begin again."""
PER_LINE = 9
"""Markers along a line, about."""


class Axes(NamedTuple):
    """What a figure is of."""

    title: str
    x: str
    y: str
    top: float | None = None
    """Upper end of the y axis; made from the data if not given."""
    note: str = ""


class Tick(NamedTuple):
    at: float
    text: str


@dataclass(frozen=True)
class Curve:
    """A line as it is drawn: its points and markers, and the numbers for the table below."""

    label: str
    style: int
    points: str
    band: str
    marks: list[tuple[float, float]]
    rows: list[tuple[str, ...]]


@dataclass(frozen=True)
class Figure:
    id: str
    axes: Axes
    description: str
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    curves: list[Curve]


def figure(name: str, axes: Axes, lines: Sequence[Line]) -> Figure:
    """Lay out lines on axes. `name` must be unique within the page."""
    right = max(float(line.x[-1]) for line in lines) or 1.0
    lowest, highest = (
        min(float(line.low.min()) for line in lines),
        max(float(line.high.max()) for line in lines),
    )
    ys = ticks(min(lowest, 0), axes.top or highest, 5)
    bottom, top = ys[0], ys[-1]

    def across(x: float) -> float:
        return round(LEFT + x * (WIDTH - LEFT - RIGHT) / right, 1)

    def down(y: float) -> float:
        return round(HEIGHT - BOTTOM - (y - bottom) * (HEIGHT - TOP - BOTTOM) / (top - bottom), 1)

    def places(x: Array, y: Array) -> list[tuple[float, float]]:
        return [(across(float(a)), down(float(b))) for a, b in zip(x, y, strict=True)]

    def curve(line: Line) -> Curve:
        found = places(line.x, line.y)
        edge = places(line.x, line.high) + places(line.x, line.low)[::-1] if line.seeds > 1 else []
        step = max(1, math.ceil(len(found) / PER_LINE))
        marks = found[(len(found) - 1) % step :: step]
        return Curve(
            line.label, line.style % len(MARKERS), _points(found), _points(edge), marks, _rows(line)
        )

    return Figure(
        name,
        axes,
        describe(axes, lines),
        [Tick(across(x), number_text(x)) for x in ticks(0, right, 5) if x <= right * 1.001],
        [Tick(down(y), number_text(y)) for y in ys],
        [curve(line) for line in lines],
    )


def _rows(line: Line) -> list[tuple[str, ...]]:
    """x, y, low and high; no band of one seed."""
    x_form = ".0f" if line.x[-1] >= 1000 else ".3g"
    bands = [
        (f"{a:.4g}", f"{b:.4g}") if line.seeds > 1 else ("", "")
        for a, b in zip(line.low, line.high, strict=True)
    ]
    return [
        (format(x, x_form), f"{y:.4g}", *band)
        for x, y, band in zip(line.x, line.y, bands, strict=True)
    ]


def describe(axes: Axes, lines: Sequence[Line]) -> str:
    """The figure in words, for those who do not see it."""
    ends = "; ".join(
        f"{line.label} goes from {value_text(line, 0)} to {value_text(line, -1)}" for line in lines
    )
    return f"{axes.y} against {axes.x}. {ends}. The numbers are in the table below the figure."


def value_text(line: Line, i: int) -> str:
    value, low, high = (number_text(float(values[i])) for values in (line.y, line.low, line.high))
    return value if line.seeds == 1 else f"{value} [{low}, {high}]"


def ticks(bottom: float, top: float, count: int) -> list[float]:
    """About `count` round numbers that enclose `bottom` and `top`, by less than a step."""
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
