"""Reading run directories: what they hold, their state, and why some cannot be used."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from hindsight.config import TrainConfig
from hindsight.errors import HindsightError, printable
from hindsight.saving.files import is_sealed, read_json
from hindsight.saving.metrics import METRICS, read_metrics
from hindsight.settings import flatten
from hindsight.training.run import SUMMARY, Run
from hindsight.types import Array

SUCCESS = "eval/success_rate"
IGNORED = ("seed", "workers")
"""Settings in which runs of a group may differ: results do not depend on workers."""


STATES = ("finished", "stopped", "interrupted", "failed")


@dataclass(frozen=True)
class LoadedRun:
    """A run as its files are at one moment."""

    run: Run
    rows: tuple[dict[str, float], ...]
    state: str
    """finished, running, or how it ended: stopped, interrupted, failed."""
    summary: dict[str, Any]
    """Empty if there is none yet."""

    @property
    def path(self) -> Path:
        return self.run.path

    @property
    def config(self) -> TrainConfig:
        return self.run.config

    @cached_property
    def settings(self) -> dict[str, str]:
        """Every setting by dotted name, as text."""
        flat = flatten(self.config)
        env = {f"env.{name}": value for name, value in flat.pop("env_kwargs").items()}
        return {name: str(value) for name, value in (flat | env).items() if name not in IGNORED}

    def series(self, key: str) -> tuple[Array, Array, Array]:
        """Steps, minutes and values of a metric, where it was written and is finite."""
        found = [row for row in self.rows if key in row and math.isfinite(row[key])]
        steps, seconds, values = (
            np.array([row[name] for row in found], np.float64)
            for name in ("step", "time/total", key)
        )
        return steps, seconds / 60, values

    @cached_property
    def success(self) -> Array:
        """Success rates of its evaluations."""
        return self.series(SUCCESS)[2]

    @property
    def final(self) -> float | None:
        return float(self.success[-1]) if len(self.success) else None

    @property
    def best(self) -> float | None:
        return float(self.success.max()) if len(self.success) else None

    @property
    def steps(self) -> int:
        return int(self.rows[-1]["step"]) if self.rows else 0

    @property
    def minutes(self) -> float:
        return self.rows[-1]["time/total"] / 60 if self.rows else 0.0


@dataclass(frozen=True)
class Skipped:
    """A directory that was given and cannot be used."""

    path: Path
    reason: str


def load(paths: Sequence[Path]) -> tuple[list[LoadedRun], list[Skipped]]:
    """The runs in some directories, and those directories that cannot be used, with the reason."""
    runs: list[LoadedRun] = []
    skipped: list[Skipped] = []
    for path in paths:
        try:
            found = load_run(path)
            _refuse_twin(found, runs)
        except HindsightError as error:
            # Most messages begin with the path, which is named anyway.
            skipped.append(
                Skipped(path, str(error).removeprefix(f"{path} ").removeprefix(f"{path}/"))
            )
        except OSError as error:
            skipped.append(Skipped(path, f"cannot be read: {error.strerror or error}"))
        else:
            runs.append(found)
    return runs, skipped


def load_run(path: Path) -> LoadedRun:
    """One run; HindsightError if it is broken, or has no evaluation and never will have one."""
    if not path.is_dir():
        raise HindsightError("is no directory" if path.exists() else "does not exist")
    if not any(path.iterdir()):
        raise HindsightError("is empty")
    if not (path / "config.json").is_file():
        raise HindsightError("is no run directory: it has no config.json")
    run = Run.open(path)
    locked = run.is_locked
    just_begun = locked and not (path / METRICS).exists()
    rows = [] if just_begun else read_metrics(path)
    summary = _summary(path / SUMMARY)
    # A run that goes on still has the summary of the time it was stopped: the lock counts more.
    state = "running" if locked else str(summary.get("status", "stopped"))
    found = LoadedRun(run, tuple(rows), state, summary)
    if found.final is None and state != "running":
        raise HindsightError(f"has no evaluation, and is {state}")
    return found


def _summary(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    summary = read_json(path)
    if "sha256" in summary and not is_sealed(summary):
        raise HindsightError(f"{SUMMARY} is broken: its SHA-256 differs")
    if summary.get("status", "stopped") not in STATES:
        raise HindsightError(
            f"{SUMMARY} is broken: it has the status {printable(str(summary['status']))[:50]!r}"
        )
    return summary


def _refuse_twin(found: LoadedRun, runs: Sequence[LoadedRun]) -> None:
    """The same settings and seed give the same result: twice, it is no more evidence."""
    for other in runs:
        if other.path.resolve() == found.path.resolve():
            raise HindsightError("is given twice: counted once")
        if (other.settings, other.config.seed) == (found.settings, found.config.seed):
            raise HindsightError(f"has the settings and the seed of {other.path}: counted once")
