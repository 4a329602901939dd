"""The plotter: lines with bands on axes, in colours and dashes for everyone; learning curves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import matplotlib

from hindsight.errors import HindsightError
from hindsight.lab import series
from hindsight.lab.groups import Group

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Okabe and Ito: safe for the colour-blind.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
BLUE, ORANGE, BLACK = 0, 1, 6
DASHES = ("-", "--", "-.", ":")

Against = Literal["both", "steps", "minutes"]


def draw_line(axis: Axes, line: series.Line, **style: Any) -> None:
    """A line, and its band if it is of several seeds."""
    colour = COLOURS[line.style % len(COLOURS)]
    dashes = DASHES[line.style % len(DASHES)]
    default = {"label": line.label, "color": colour, "linestyle": dashes, "marker": "."}
    axis.plot(line.x, line.y, **(default | style))
    if line.seeds > 1:
        axis.fill_between(line.x, line.low, line.high, alpha=0.15, color=colour, lw=0)


def name_axes(axis: Axes, x: str, y: str = "") -> None:
    axis.set(xlabel=x, ylabel=y)
    axis.grid(alpha=0.3)
    if x in series.AXES.values():
        axis.set_xlim(left=0)
    if x == series.AXES["steps"]:
        axis.xaxis.set_major_formatter(matplotlib.ticker.EngFormatter(sep=""))
    if y == "success rate":
        axis.set_ylim(-0.02, 1.02)


def save(figure: Figure, path: Path, dpi: int = 110) -> None:
    """Write and close a figure; the same figure gives the same bytes."""
    figure.savefig(path, dpi=dpi, metadata={"Software": None} if path.suffix == ".png" else None)
    plt.close(figure)


def learning_curves(
    groups: Sequence[Group], path: Path, title: str, against: Against = "both"
) -> None:
    """Success against steps, minutes or both: interquartile means with their intervals."""
    if path.suffix not in (".png", ".svg", ".pdf", ".jpg"):
        raise HindsightError(
            f"cannot write {path}: the name of a figure ends in .png, .svg, .pdf or .jpg"
        )
    columns: list[series.Against] = ["steps", "minutes"] if against == "both" else [against]
    size = (5 * len(columns) + 2 * (len(columns) == 1), 4)
    figure, grid = plt.subplots(
        1, len(columns), figsize=size, sharey=True, layout="constrained", squeeze=False
    )
    for axis, x in zip(grid[0], columns, strict=True):
        for i, group in enumerate(groups):
            line = series.success(group, x, i)
            if line is None:
                raise HindsightError(f"{group.runs[0].path} has no evaluation yet")
            draw_line(
                axis,
                line,
                label=f"{line.label} ({line.seeds} seeds)" if line.seeds > 1 else line.label,
            )
        name_axes(axis, series.AXES[x])
    grid[0, 0].set(ylabel="success rate", ylim=(-0.02, 1.02))
    if len(groups) > 1 or len(groups[0].runs) > 1:
        grid[0, 0].legend(loc="best", frameon=False)
    figure.suptitle(title)
    save(figure, path, dpi=120)
