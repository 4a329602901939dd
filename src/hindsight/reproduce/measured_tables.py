"""Tables of the measurements that are no trainings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hindsight.bench import replay
from hindsight.reproduce.experiment import Measurement


def table(entry: Measurement, rows: Mapping[int, dict[str, Any]]) -> str:
    if not rows:
        return "not run\n"
    values = next(iter(rows.values()))["values"]
    return _bound(values) if entry.what == "bound" else _speed(values)


def _bound(values: Mapping[str, list[dict[str, float]]]) -> str:
    lines = [
        "| median of \\|gap\\| / \\|gain\\| over updates | surrogate of App. D | with the states of the goal itself |",
        "|---|---|---|",
    ]
    for env, found in values.items():
        for suffix, step in (("", "whole updates"), ("_small", "a hundredth of each")):
            gain = np.maximum(np.abs([row[f"gain{suffix}"] for row in found]), 1e-12)
            gaps = [np.median(np.abs([row[f"{k}{suffix}"] for row in found]) / gain) for k in ("gap", "corrected_gap")]
            lines.append(f"| {env}, {step} ({len(found)}) | {gaps[0]:.2g} | {gaps[1]:.2g} |")
    return "\n".join(lines) + "\n"


_PEERS = {"cpprb": "cpprb, proportional", "stable_baselines3": "Stable-Baselines3, HER", "nnabla_rl": "nnabla-rl, rank"}


def _speed(values: Mapping[str, Any]) -> str:
    lines = ["| microseconds | add an episode of 50 | sample | update | bytes per pair |", "|---|---|---|---|---|"]
    found = dict(values["hindsight"])
    found |= {f"{name} ({values[key]['version']})": values[key] for key, name in _PEERS.items() if values[key]}
    for name, row in found.items():
        cells = [f"{row[k]:,.0f}" if k in row else "" for k in ("add_episode", "sample", "update")]
        cells.append(f"{row['bytes_per_pair']:.1f}" if "bytes_per_pair" in row else "")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    ratios = [f"- {text}: {ratio:,.1f}" for text, ratio in replay.ratios(dict(values)).items()]
    return "\n".join([*lines, "", "How many times as fast ours is:", "", *ratios]) + "\n"
