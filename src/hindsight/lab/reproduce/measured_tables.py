"""Tables of the measurements that are no trainings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hindsight.lab.reproduce.experiment import Measurement
from hindsight.lab.statistics import estimate


def table(entry: Measurement, rows: Mapping[int, dict[str, Any]]) -> str:
    if not rows:
        return "not run\n"
    values = [row["values"] for row in rows.values()]
    if entry.what == "estimators":
        return _estimators(values)
    if entry.what == "push_gradient":
        return _push_gradient(values)
    return _bound(values[0]) if entry.what == "bound" else _speed(values[0])


def _bound(values: Mapping[str, list[dict[str, float]]]) -> str:
    lines = [
        "| median of \\|gap\\| / \\|gain\\| over updates | surrogate of App. D | with the states "
        "of the goal itself |",
        "|---|---|---|",
    ]
    for env, found in values.items():
        for suffix, step in (("", "whole updates"), ("_small", "a hundredth of each")):
            gain = np.maximum(np.abs([row[f"gain{suffix}"] for row in found]), 1e-12)
            gaps = [
                np.median(np.abs([row[f"{k}{suffix}"] for row in found]) / gain)
                for k in ("gap", "corrected_gap")
            ]
            lines.append(f"| {env}, {step} ({len(found)}) | {gaps[0]:.2g} | {gaps[1]:.2g} |")
    return "\n".join(lines) + "\n"


PLAYED = ("add_episode", "sample", "update")
"""What `benchmarks/replay.py` measures of each replay."""


def _speed(values: Mapping[str, Any]) -> str:
    return "\n".join(speed_lines(values)) + "\n"


def speed_lines(values: Mapping[str, Any]) -> list[str]:
    """By `benchmarks/replay.py`, in turns."""
    lines = [
        "| CPU microseconds | add an episode of 50 | sample | update | bytes per pair |",
        "|---|---|---|---|---|",
    ]
    for name, row in values["players"].items():
        cells = [f"{row[k]:,.0f}" if k in row else "" for k in PLAYED]
        cells.append(f"{row['bytes_per_pair']:.1f}" if "bytes_per_pair" in row else "")
        installed = f" {row['version']}" if "version" in row else ""
        lines.append(f"| {name}{installed} | {' | '.join(cells)} |")
    lines += ["", "How many times as fast ours is, and the middle half of the turns:", ""]
    for text, ratio in values["ratios"].items():
        low, high = ratio["middle_half_of_turns"]
        lines.append(f"- {text}: {ratio['hindsight_is']:,.2f} [{low:,.2f}, {high:,.2f}]")
    return lines


def _estimators(values: Sequence[Mapping[str, Any]]) -> str:
    """Cosines by steps, estimator and baseline, of one batch and of the mean of all."""
    first = values[0]
    names = list(dict.fromkeys((row["steps"], row["estimator"]) for row in first["cosines"]))
    columns = list(dict.fromkeys(row["baseline"] for row in first["cosines"]))
    headings = {
        "one": f"a batch of {first['episodes']} episodes",
        "mean": f"the mean of {first['batches']} batches",
    }
    lines = []
    for key, heading in headings.items():
        lines += [
            f"| cosine of {heading} | after steps | {' | '.join(columns)} |",
            "|---" * (2 + len(columns)) + "|",
        ]
        for steps, name in names:
            places = [(steps, name, column) for column in columns]
            cells = [
                estimate([row[key] for v in values for row in v["cosines"] if _place(row) == p])
                for p in places
            ]
            lines.append(f"| {name} | {steps} | {' | '.join(map(str, cells))} |")
        lines.append("")
    seeds = f"{len(values)} seeds" if len(values) > 1 else "1 seed"
    lines += [f"Score of the policy that learns by {first['learnt_by']} ({seeds}):", ""]
    for i, row in enumerate(first["scores"]):
        sampled, greedy = (
            estimate([v["scores"][i][key] for v in values]) for key in ("sampled", "greedy")
        )
        lines.append(f"- after {row['steps']} steps: {sampled} as it plays, {greedy} greedy")
    return "\n".join(lines) + "\n"


def _push_gradient(values: Sequence[Mapping[str, Any]]) -> str:
    """What is learnt by exact gradients, then every part of the estimate, by policy."""
    seeds = f"{len(values)} seed{'s' * (len(values) > 1)}"
    lines = [
        f"| learnt by exact gradients ({seeds}) | steps | success at the end | box moved "
        "| cosine of its way with the way to the goal | nearer to the goal, cells |",
        "|---" * 6 + "|",
    ]
    shown = ("success", "moved", "cosine", "nearer")
    for i, row in enumerate(values[0]["learnt"]):
        if row["steps"] == 0 and i > 0:
            continue
        name = f"{row['objective']}, {row['by']}" if row["steps"] else "none"
        cells = [str(estimate([v["learnt"][i][key] for v in values])) for key in shown]
        lines.append(f"| {name} | {row['steps']} | {' | '.join(cells)} |")
    first = values[0]
    heading = (
        "| part | cosine of its expectation with the exact gradient of its own objective "
        "| with that of the time at the goal, goals not met at the start | of one batch, with its "
        "own | a step along it changes success by | nearer to the goal by |"
    )
    for steps in dict.fromkeys(row["steps"] for row in first["parts"]):
        when = f"After {steps} steps of Adam, until first reached" if steps else "Untrained"
        lines += ["", f"{when}:", "", heading, "|---" * 6 + "|"]
        for i, row in enumerate(first["parts"]):
            if row["steps"] == steps:
                keys = ("own", "wanted", "one", "success", "nearer")
                found = [[v["parts"][i][key] for v in values] if key in row else [] for key in keys]
                cells = [str(estimate(x)) if x else "" for x in found]
                lines.append(f"| {row['part']} | {' | '.join(cells)} |")
    episodes, batches = first["episodes"], first["batches"]
    lines += ["", f"Expectations are means of {batches} batches of {episodes} episodes."]
    return "\n".join(lines) + "\n"


def _place(row: Mapping[str, Any]) -> tuple[int, str, str]:
    return row["steps"], row["estimator"], row["baseline"]
