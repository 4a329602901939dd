"""Learning curves of one run or several, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import matplotlib

from hindsight.errors import HindsightError
from hindsight.lab import series
from hindsight.lab.groups import Group

matplotlib.use("Agg")
from matplotlib import pyplot as plt

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # Okabe and Ito: safe for the colour-blind
STYLES = ("-", "--", "-.", ":")


Against = Literal["both", "steps", "minutes"]


def draw(groups: Sequence[Group], path: Path, title: str, against: Against = "both") -> None:
    """Success against steps, minutes or both: a line per group (interquartile mean), a band for its interval."""
    if path.suffix not in (".png", ".svg", ".pdf", ".jpg"):
        raise HindsightError(f"cannot write {path}: the name of a figure ends in .png, .svg, .pdf or .jpg")
    columns: list[series.Against] = ["steps", "minutes"] if against == "both" else [against]
    size = (5 * len(columns) + 2 * (len(columns) == 1), 4)
    figure, grid = plt.subplots(1, len(columns), figsize=size, sharey=True, layout="constrained", squeeze=False)
    axes = grid[0]
    for axis, x in zip(axes, columns, strict=True):
        for i, group in enumerate(groups):
            line = series.success(group, x, i)
            if line is None:
                raise HindsightError(f"{group.runs[0].path} has no evaluation yet")
            style = {"color": COLOURS[i % len(COLOURS)], "linestyle": STYLES[i % len(STYLES)]}
            label = f"{line.label} ({line.seeds} seeds)" if line.seeds > 1 else line.label
            axis.plot(line.x, line.y, label=label, marker=".", **style)
            if line.seeds > 1:
                axis.fill_between(line.x, line.low, line.high, alpha=0.15, color=style["color"], lw=0)
        axis.grid(alpha=0.3)
        axis.set_xlim(left=0)
        axis.set_xlabel({"steps": "env steps", "minutes": "minutes of training"}[x])
        if x == "steps":
            axis.xaxis.set_major_formatter(matplotlib.ticker.EngFormatter(sep=""))
    axes[0].set(ylabel="success rate", ylim=(-0.02, 1.02))
    if len(groups) > 1 or len(groups[0].runs) > 1:
        axes[0].legend(loc="best", frameon=False)
    figure.suptitle(title)
    figure.savefig(path, dpi=120)
    plt.close(figure)
