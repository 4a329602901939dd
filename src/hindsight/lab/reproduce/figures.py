"""Figures drawn from measured rows only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

from hindsight.errors import HindsightError
from hindsight.lab import plots
from hindsight.lab.reproduce.experiment import Entry, Experiment, Training
from hindsight.lab.reproduce.tables import areas
from hindsight.lab.series import Line
from hindsight.lab.statistics import FEW_SEEDS, estimate
from hindsight.types import Array

_LABELS = {"success": "success rate", "score": "score", "ratio": "alternate goals per actual one"}
Rows = Mapping[int, dict[str, Any]]


def draw(
    experiment: Experiment, entries: Sequence[Entry], found: Sequence[Rows], path: Path
) -> None:
    """Draw an experiment's figure: means over seeds, bands from the worst to the best."""
    measured = [(entry, rows) for entry, rows in zip(entries, found, strict=True) if rows]
    if not measured:
        raise HindsightError("nothing to draw: none of its runs is measured yet")
    path.parent.mkdir(parents=True, exist_ok=True)
    values = next(iter(measured[0][1].values())).get("values", {})
    if experiment.figure == "bound":
        _bound(values, path)
        return
    if experiment.figure == "speed":
        _speed(values, path)
        return
    if experiment.figure == "areas":
        _areas(experiment, [(e, rows) for e, rows in measured if isinstance(e, Training)], path)
        return
    _curves(experiment, [(e, rows) for e, rows in measured if isinstance(e, Training)], path)


def _areas(experiment: Experiment, measured: Sequence[tuple[Training, Rows]], path: Path) -> None:
    """The areas under the learning curves with their intervals, of entries with enough seeds; a
    dot per seed."""
    enough = [(entry, rows) for entry, rows in measured if len(rows) >= FEW_SEEDS]
    if not enough:
        raise HindsightError(f"nothing to draw: no training has {FEW_SEEDS} seeds yet")
    size = (7.5, 0.27 * len(enough) + 1.1)
    figure, axis = plt.subplots(figsize=size, layout="constrained")
    for place, (entry, rows) in enumerate(enough):
        found = areas(experiment, rows)
        middle = estimate(found)
        colour = plots.COLOURS[plots.ORANGE if entry.slug == experiment.base else plots.BLUE]
        axis.plot(found, [place] * len(found), ".", color=colour, alpha=0.35, ms=5)
        axis.plot([middle.low, middle.high], [place, place], "-", color=colour, lw=2)
        axis.plot(middle.value, place, "o", color=colour, ms=5)
        if entry.slug == experiment.base:
            axis.axvline(middle.value, color=colour, lw=0.8, ls=":")
    labels = [f"{entry.label} ({len(rows)})".replace("`", "") for entry, rows in enough]
    axis.set_yticks(range(len(enough)), labels, fontsize=8)
    axis.invert_yaxis()
    axis.set_xlim(left=min(0.0, axis.get_xlim()[0]))
    plots.name_axes(axis, "area under the learning curve, interquartile mean and 95 %", "")
    axis.set_title(f"{experiment.title} (in brackets: seeds)", fontsize=9, loc="right")
    plots.save(figure, path)


def _curves(experiment: Experiment, measured: Sequence[tuple[Training, Rows]], path: Path) -> None:
    panels: dict[str, list[tuple[str, Rows]]] = {}
    drawn: set[tuple[str, str]] = set()  # lines of a table may share a training: once is enough
    for entry, rows in measured:
        if (entry.home, entry.slug) in drawn or not any(
            _points(row, experiment.figure) for row in rows.values()
        ):
            continue
        drawn.add((entry.home, entry.slug))
        label = (entry.column or entry.label or entry.slug).replace("`", "")
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
            curves = [
                points for row in rows.values() if (points := _points(row, experiment.figure))
            ]
            line = _line(curves, f"{label} ({len(rows)})", labels.index(label))
            plots.draw_line(axis, line, lw=1.3, marker="." if len(line.x) < 40 else "")
        for curve in experiment.published:
            if curve.line == title:
                steps = curve.epoch_steps * np.arange(1, len(curve.success) + 1)
                marker = "*" if len(steps) == 1 else ""
                axis.plot(
                    steps, curve.success, marker, color="0.45", lw=1, ls=":", label=curve.label
                )
        axis.set_title(title, fontsize=9)
        plots.name_axes(axis, "env steps", _LABELS[experiment.figure])
        axis.legend(frameon=False, fontsize=7)
    for axis in list(grid.flat)[len(panels) :]:
        axis.remove()
    figure.suptitle(f"{experiment.title} (in brackets: seeds)", fontsize=10)
    plots.save(figure, path)


def _points(row: Mapping[str, Any], figure: str) -> list[tuple[float, float]]:
    if figure == "ratio":
        return [(p[0], p[1]) for p in row["replay"].get("alternate_per_actual", [])]
    if figure == "score" and "score" in row["replay"]:
        return [(p[0], p[1]) for p in row["replay"]["score"]]
    return [(p[0], p[2]) for p in row["curve"]]


def _line(curves: Sequence[Sequence[tuple[float, float]]], label: str, style: int) -> Line:
    """Mean and range of seeds, at the steps of the one that ended first."""
    shortest = min(curves, key=lambda c: c[-1][0])
    steps = np.array([p[0] for p in shortest])
    values = np.array([np.interp(steps, [p[0] for p in c], [p[1] for p in c]) for c in curves])
    return Line(
        label,
        steps,
        values.mean(axis=0),
        values.min(axis=0),
        values.max(axis=0),
        len(curves),
        style,
    )


def _bound(values: Mapping[str, list[dict[str, float]]], path: Path) -> None:
    """Per env: gain and surrogates of updates, and gaps relative to the gain."""
    figure, axes = plt.subplots(
        2, len(values), figsize=(5.5 * len(values), 6.5), layout="constrained", squeeze=False
    )
    for column, (name, rows) in enumerate(values.items()):
        found = {key: np.array([row[key] for row in rows]) for key in rows[0]}
        upper, lower = axes[:, column]

        def draw(
            axis: Any,
            label: str,
            y: Array,
            colour: int,
            dashes: str = "-",
            x: Array = found["batch"],
        ) -> None:
            plots.draw_line(
                axis, Line(label, x, y, y, y, 1, colour), linestyle=dashes, marker="", lw=1
            )

        draw(upper, "gain of the new policy", found["gain"], plots.BLACK)
        draw(upper, "surrogate of App. D: states of another goal", found["surrogate"], plots.ORANGE)
        draw(upper, "surrogate with the states of the goal itself", found["corrected"], plots.BLUE)
        for suffix, dashes, step in (
            ("", "-", "whole update"),
            ("_small", "--", "a hundredth of it"),
        ):
            scale = np.maximum(np.abs(found[f"gain{suffix}"]), 1e-12)
            for key, colour in (("gap", plots.ORANGE), ("corrected_gap", plots.BLUE)):
                ratio = np.abs(found[f"{key}{suffix}"]) / scale
                draw(lower, f"{key.replace('_', ' ')}, {step}", ratio, colour, dashes)
        lower.set_yscale("log")
        upper.set_title(name)
        plots.name_axes(upper, "", "per episode")
        plots.name_axes(lower, "batch", "|gap| / |gain|")
        for axis in (upper, lower):
            axis.legend(frameon=False, fontsize=8)
    plots.save(figure, path, dpi=120)


def _speed(values: Mapping[str, Any], path: Path) -> None:
    """Sample and update of every buffer, stacked."""
    found = values["players"]
    figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
    sample = np.array([row["sample"] for row in found.values()])
    update = np.array([row.get("update", 0.0) for row in found.values()])
    axis.barh(list(found), sample, color=plots.COLOURS[0], label="sample a batch of 256")
    axis.barh(
        list(found), update, left=sample, color=plots.COLOURS[1], label="update its priorities"
    )
    axis.invert_yaxis()
    axis.set_xlabel(f"CPU microseconds, {values['entries']:,} transitions stored")
    axis.legend(frameon=False)
    plots.save(figure, path)
