"""Learning curves of one run or several, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import matplotlib
import numpy as np

from hindsight.errors import HindsightError
from hindsight.settings import flatten
from hindsight.training.run import Run
from hindsight.types import Array

matplotlib.use("Agg")
from matplotlib import pyplot as plt

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # Okabe and Ito: safe for the colour-blind
STYLES = ("-", "--", "-.", ":")


def curve(run: Run) -> tuple[Array, Array, Array]:
    """Steps, minutes and success rates of a run's evaluations."""
    rows = [row for row in run.metrics if "eval/success_rate" in row]
    if not rows:
        raise HindsightError(f"{run.path} has no evaluation yet")
    steps, seconds, success = (np.array([row[k] for row in rows]) for k in ("step", "time/total", "eval/success_rate"))
    return steps, seconds / 60, success


Against = Literal["both", "steps", "minutes"]


def draw(groups: dict[str, Sequence[Run]], path: Path, title: str, against: Against = "both") -> None:
    """Success against steps, minutes or both: a line per group (mean of its runs), a band from worst to best."""
    if path.suffix not in (".png", ".svg", ".pdf", ".jpg"):
        raise HindsightError(f"cannot write {path}: the name of a figure ends in .png, .svg, .pdf or .jpg")
    columns = [0, 1] if against == "both" else [0 if against == "steps" else 1]
    size = (5 * len(columns) + 2 * (len(columns) == 1), 4)
    figure, grid = plt.subplots(1, len(columns), figsize=size, sharey=True, layout="constrained", squeeze=False)
    axes = grid[0]
    for i, (label, runs) in enumerate(groups.items()):
        curves = [curve(run) for run in runs]
        for axis, x in zip(axes, columns, strict=True):
            points = min(len(c[0]) for c in curves)
            across = np.mean([c[x][:points] for c in curves], axis=0)
            success = np.array([c[2][:points] for c in curves])
            style = {"color": COLOURS[i % len(COLOURS)], "linestyle": STYLES[i % len(STYLES)]}
            axis.plot(across, success.mean(axis=0), label=label, marker=".", **style)
            if len(runs) > 1:
                axis.fill_between(
                    across, success.min(axis=0), success.max(axis=0), alpha=0.15, color=style["color"], lw=0
                )
    axes[0].set(ylabel="success rate", ylim=(-0.02, 1.02))
    for axis, x in zip(axes, columns, strict=True):
        axis.grid(alpha=0.3)
        axis.set_xlim(left=0)
        axis.set_xlabel(("env steps", "minutes of training")[x])
        if x == 0:
            axis.xaxis.set_major_formatter(matplotlib.ticker.EngFormatter(sep=""))
    if len(groups) > 1 or len(next(iter(groups.values()))) > 1:
        axes[0].legend(loc="best", frameon=False)
    figure.suptitle(title)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def group(runs: Sequence[Run]) -> dict[str, Sequence[Run]]:
    """Runs that differ in seed only, together, under a label made of the settings in which the groups differ."""
    settings = [{k: str(v) for k, v in flatten(run.config).items() if k not in ("seed", "workers")} for run in runs]
    differing = [k for k in settings[0] if len({s.get(k) for s in settings}) > 1]
    groups: dict[str, list[Run]] = {}
    for run, values in zip(runs, settings, strict=True):
        label = ", ".join(f"{k.rpartition('.')[2]} {values.get(k)}" for k in differing) or run.config.env
        groups.setdefault(label, []).append(run)
    return {f"{label} ({len(group)} seeds)" if len(group) > 1 else label: group for label, group in groups.items()}
