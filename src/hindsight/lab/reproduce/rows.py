"""Measured rows: one small text file per training and seed, in
experiments/results/NAME/SLUG-seedS.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from hindsight import api
from hindsight.config import TrainConfig, from_json
from hindsight.errors import HindsightError
from hindsight.lab.reproduce.configs import command, horizon, last_step, spec_of
from hindsight.lab.reproduce.experiment import Entry, Training
from hindsight.saving.files import read_json, write_aside
from hindsight.settings import plain
from hindsight.training.run import Run, machine, versions

FORMAT, POINTS, LEAST_EPISODES = 1, 60, 100
CURVES = {
    "alternate_per_actual": "replay/alternate_per_actual",
    "reached": "replay/reached",
    "moved": "train/moved",
    "score": "eval/score",
}
"""Curves that figures and tables need, besides success, and their names in metrics.jsonl."""

Row = dict[str, Any]


def row_of(
    entry: Training, seed: int, run: Run, shared_machine: bool, episodes: int | None = None
) -> Row:
    """The row of a run that has ended: its policy is evaluated on fresh episodes."""
    metrics = run.metrics
    evaluated = [row for row in metrics if "eval/success_rate" in row]
    if not evaluated:
        raise HindsightError(f"{run.path} has no evaluation yet")
    best = max(evaluated, key=lambda row: row["eval/success_rate"])
    result = api.evaluate(run.path, episodes or entry.episodes)
    final = {
        "episodes": result.episodes,
        "success_rate": result.success_rate,
        "mean_return": result.mean_return,
    }
    if entry.best_score is not None:
        longest = horizon(run.config, spec_of(entry))
        final |= {"score": result.mean_return + longest, "best_score": entry.best_score}
        metrics = [
            r | {"eval/score": r["eval/mean_return"] + longest} if "eval/mean_return" in r else r
            for r in metrics
        ]
    summary = run.summary if (run.path / "summary.json").is_file() else {}
    steps = last_step(run)
    row = {
        "format": FORMAT,
        "kind": "training",
        "experiment": entry.home,
        "slug": entry.slug,
        "seed": seed,
        "command": command(entry, seed),
        "config": plain(run.config),
        "steps": steps,
        "minutes": round(metrics[-1]["time/total"] / 60, 3),
        "shared_machine": shared_machine,
        "machine": summary.get("machine", machine()),
        "versions": summary.get("versions", dict(versions())),
        "final": final,
        "best": {
            "success_rate": best["eval/success_rate"],
            "step": int(best["step"]),
            "evaluations": len(evaluated),
            "episodes": run.config.eval_episodes,
        },
        "curve": [
            [int(row["step"]), round(row["time/total"] / 60, 3), round(row["eval/success_rate"], 4)]
            for row in _thinned(evaluated)
        ],
        "replay": {
            name: [
                [int(row["step"]), round(row[key], 4)]
                for row in _thinned([r for r in metrics if key in r])
            ]
            for name, key in CURVES.items()
            if any(key in r for r in metrics)
        },
    }
    if steps < run.config.steps:
        row["stopped_at"] = steps
    return row


def measured_row(entry: Entry, seed: int, values: Any, minutes: float, shared_machine: bool) -> Row:
    """The row of a measurement."""
    return {
        "format": FORMAT,
        "kind": "measurement",
        "experiment": entry.home,
        "slug": entry.slug,
        "seed": seed,
        "command": command(entry, seed),
        "minutes": round(minutes, 3),
        "shared_machine": shared_machine,
        "machine": machine(),
        "versions": dict(versions()),
        "values": values,
    }


def _thinned(rows: list[dict[str, float]]) -> list[dict[str, float]]:
    """At most POINTS of them, evenly spread, the first and the last among them."""
    if len(rows) <= POINTS:
        return rows
    return [rows[i] for i in np.linspace(0, len(rows) - 1, POINTS).round().astype(int)]


def write(path: Path, row: Row) -> None:
    """A line per key, so that changes show."""
    check(row, str(path))
    lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in row.items())
    path.parent.mkdir(parents=True, exist_ok=True)
    write_aside(path, f"{{\n{lines}\n}}\n".encode())


def read(path: Path) -> Row:
    """The row in a file, checked."""
    row = read_json(path)
    check(row, str(path))
    return row


def results_path(results: Path, entry: Entry, seed: int) -> Path:
    return results / entry.home / f"{entry.slug}-seed{seed}.json"


def rows_of(results: Path, entry: Entry) -> dict[int, Row]:
    """The measured rows of an entry, by seed, in the order of its seeds."""
    rows = {}
    for seed in sorted(entry.seeds):
        path = results_path(results, entry, seed)
        if path.is_file():
            rows[seed] = row = read(path)
            if (row["experiment"], row["slug"], row["seed"]) != (entry.home, entry.slug, seed):
                raise HindsightError(
                    f"{path} is the row of {row['experiment']} {row['slug']}, seed {row['seed']}"
                )
    return rows


_COMMON: dict[str, type | tuple[type, ...]] = {
    "format": int,
    "kind": str,
    "experiment": str,
    "slug": str,
    "seed": int,
    "command": str,
    "minutes": (int, float, type(None)),  # None: not timed
    "shared_machine": bool,
    "machine": dict,
    "versions": dict,
}
_KINDS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "training": {
        "config": dict,
        "steps": int,
        "final": dict,
        "best": dict,
        "curve": list,
        "replay": dict,
    },
    "measurement": {"values": dict},
}


def check(row: Row, name: str, least_episodes: int = LEAST_EPISODES) -> None:
    """Refuse a row that is not whole, in one line."""

    def refuse(text: str) -> None:
        raise HindsightError(f"{name}: {text}")

    if row.get("format") != FORMAT:
        refuse(f"format must be {FORMAT}, got {row.get('format')!r}")
    if row.get("kind") not in _KINDS:
        refuse(f"kind must be training or measurement, got {row.get('kind')!r}")
    expected = _COMMON | _KINDS[row["kind"]]
    for key, kind in expected.items():
        if key not in row:
            refuse(f"{key!r} is missing")
        if not isinstance(row[key], kind) or (isinstance(row[key], bool) and kind is not bool):
            refuse(f"{key!r} cannot be {row[key]!r}")
    for key in row:
        if key not in expected and key != "stopped_at":
            refuse(f"unknown key {key!r}")
    untimed = row["minutes"] is None and row["kind"] == "measurement"
    if not untimed and not (_number(row["minutes"]) and row["minutes"] >= 0):
        refuse(f"'minutes' cannot be {row['minutes']}")
    if row["kind"] == "training":
        _check_training(row, refuse, least_episodes)


def _check_training(row: Row, refuse: Any, least_episodes: int) -> None:
    final, best = row["final"], row["best"]
    if not isinstance(final.get("episodes"), int) or final["episodes"] < least_episodes:
        refuse(
            f"the final evaluation needs {least_episodes} episodes or more, got "
            f"{final.get('episodes')!r}"
        )
    for part, key in ((final, "success_rate"), (best, "success_rate")):
        if not _number(part.get(key)) or not 0 <= part[key] <= 1:
            refuse(f"a success rate cannot be {part.get(key)!r}")
    if not isinstance(best.get("step"), int) or not 0 < best["step"] <= row["steps"]:
        refuse(f"the best evaluation cannot be at step {best.get('step')!r}")
    curves: Mapping[str, Any] = {"curve": row["curve"], **row["replay"]}
    for name, points in curves.items():
        width = 3 if name == "curve" else 2
        if not isinstance(points, list) or not 0 < len(points) <= POINTS:
            refuse(f"{name!r} must have 1 to {POINTS} points")
        if any(
            not isinstance(p, list) or len(p) != width or not all(map(_number, p)) for p in points
        ):
            refuse(f"a point of {name!r} must be {width} numbers")
        if any(a[0] >= b[0] for a, b in pairwise(points)):
            refuse(f"the steps of {name!r} must rise")
    if "stopped_at" in row and row["stopped_at"] != row["steps"]:
        refuse(f"'stopped_at' must be the last step, {row['steps']}, got {row['stopped_at']!r}")
    try:
        config = config_in(row)
    except (HindsightError, KeyError, TypeError) as error:
        refuse(f"its config cannot be read: {error}")
    else:
        if config.seed != row["seed"]:
            refuse(f"seed {row['seed']}, but its config has {config.seed}")


def _number(value: Any) -> bool:
    return (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and abs(value) < float("inf")
    )


def config_in(row: Row) -> TrainConfig:
    """The settings that a row was measured with."""
    return from_json(row["config"])
