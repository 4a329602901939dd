"""Figures drawn from measured rows only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from hindsight.errors import HindsightError
from hindsight.lab import bound_training as bound
from hindsight.lab.reproduce.experiment import Entry, Experiment, Training

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # safe for the colour-blind
STYLES = ("-", "--", "-.", ":")
_LABELS = {"success": "success rate", "score": "score", "ratio": "alternate goals per actual one"}
Rows = Mapping[int, dict[str, Any]]


def draw(experiment: Experiment, entries: Sequence[Entry], found: Sequence[Rows], path: Path) -> None:
    """Draw an experiment's figure. A line is the mean of the seeds, a band reaches from the worst to the best."""
    measured = [(entry, rows) for entry, rows in zip(entries, found, strict=True) if rows]
    if not measured:
        raise HindsightError("nothing to draw: none of its runs is measured yet")
    path.parent.mkdir(parents=True, exist_ok=True)
    values = next(iter(measured[0][1].values())).get("values", {})
    if experiment.figure == "bound":
        bound.draw(values, path)
        return
    if experiment.figure == "speed":
        _speed(values, path)
        return
    _curves(experiment, [(e, rows) for e, rows in measured if isinstance(e, Training)], path)


def _curves(experiment: Experiment, measured: Sequence[tuple[Training, Rows]], path: Path) -> None:
    panels: dict[str, list[tuple[str, Rows]]] = {}
    drawn: set[tuple[str, str]] = set()  # lines of a table may share a training: once is enough
    for entry, rows in measured:
        if (entry.home, entry.slug) in drawn or not any(_points(row, experiment.figure) for row in rows.values()):
            continue
        drawn.add((entry.home, entry.slug))
        label = entry.column or entry.label or entry.slug
        panels.setdefault(entry.line.replace(" | ", ", ") or entry.env, []).append((label, rows))
    labels = list(dict.fromkeys(label for lines in panels.values() for label, _ in lines))
    across = min(len(panels), 4)
    down = -(-len(panels) // max(across, 1))
    if not panels:
        raise HindsightError("nothing to draw: its rows have no such curve")
    size = (7, 4.2) if len(panels) == 1 else (3.6 * across + 0.5, 3.0 * down)
    figure, grid = plt.subplots(down, across, figsize=size, layout="constrained", squeeze=False)
    for axis, (title, lines) in zip(grid.flat, panels.items(), strict=False):
        for label, rows in lines:
            i = labels.index(label)
            style = {"color": COLOURS[i % len(COLOURS)], "linestyle": STYLES[i % len(STYLES)]}
            _line(axis, [_points(row, experiment.figure) for row in rows.values()], f"{label} ({len(rows)})", style)
        axis.set_title(title, fontsize=9)
        axis.set_xlabel("env steps")
        axis.set_ylabel(_LABELS[experiment.figure])
        if experiment.figure == "success":
            axis.set_ylim(-0.02, 1.02)
        axis.set_xlim(left=0)
        axis.xaxis.set_major_formatter(matplotlib.ticker.EngFormatter(sep=""))
        axis.grid(alpha=0.3)
        axis.legend(frameon=False, fontsize=7)
    for axis in list(grid.flat)[len(panels) :]:
        axis.remove()
    figure.suptitle(f"{experiment.title} (in brackets: seeds)", fontsize=10)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)


def _points(row: Mapping[str, Any], figure: str) -> list[tuple[float, float]]:
    if figure == "ratio":
        return [(p[0], p[1]) for p in row["replay"].get("alternate_per_actual", [])]
    if figure == "score" and "score" in row["replay"]:
        return [(p[0], p[1]) for p in row["replay"]["score"]]
    return [(p[0], p[2]) for p in row["curve"]]


def _line(axis: Axes, curves: Sequence[Sequence[tuple[float, float]]], label: str, style: dict[str, Any]) -> None:
    """Seeds are read at the steps of the one that ended first, because episodes differ in length."""
    curves = [c for c in curves if c]
    shortest = min(curves, key=lambda c: c[-1][0])
    steps = np.array([p[0] for p in shortest])
    values = np.array([np.interp(steps, [p[0] for p in c], [p[1] for p in c]) for c in curves])
    marker = "." if len(steps) < 40 else ""
    axis.plot(steps, values.mean(axis=0), label=label, marker=marker, lw=1.3, **style)
    if len(curves) > 1:
        axis.fill_between(steps, values.min(axis=0), values.max(axis=0), alpha=0.15, color=style["color"], lw=0)


def _speed(values: Mapping[str, Any], path: Path) -> None:
    """Sample and update of every buffer, stacked."""
    peers = {key: values[key] for key in ("cpprb", "stable_baselines3", "nnabla_rl") if values.get(key)}
    found = {**values["hindsight"], **peers}
    figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
    sample = np.array([row["sample"] for row in found.values()])
    update = np.array([row.get("update", 0.0) for row in found.values()])
    axis.barh(list(found), sample, color=COLOURS[0], label="sample a batch of 256")
    axis.barh(list(found), update, left=sample, color=COLOURS[1], label="update its priorities")
    axis.invert_yaxis()
    axis.set_xlabel(f"microseconds, {values['entries']:,} transitions stored")
    axis.legend(frameon=False)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)
