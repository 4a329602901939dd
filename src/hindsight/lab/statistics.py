"""What several seeds say: interquartile mean, learning speed, and bootstrap intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from hindsight.types import Array

_DRAWS = 5000
FEW_SEEDS = 5
"""Of fewer nothing is claimed."""
GOOD = 0.9
"""The success that a method is to reach soon."""
HALF = 0.5
"""From where on swings of success are told."""


@dataclass(frozen=True)
class Estimate:
    """An interquartile mean with its 95 % bootstrap interval, over `seeds` values."""

    value: float
    low: float
    high: float
    seeds: int

    def __str__(self) -> str:
        return (
            f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"
            if self.seeds > 1
            else f"{self.value:.2f}"
        )


def interquartile_mean(values: Sequence[float]) -> float:
    """The mean of the middle half; of fewer than four values, of all."""
    return float(stats.trim_mean(np.asarray(values, float), 0.25))


def estimate(values: Sequence[float]) -> Estimate:
    """Interquartile mean over seeds, and how far it could be off: percentile bootstrap, the same
    for the same values.

    One value has no interval: low and high are the value itself.
    """
    data = np.asarray(values, float)
    draws = np.random.default_rng(0).choice(data, (_DRAWS, len(data)))
    low, high = np.quantile(stats.trim_mean(draws, 0.25, axis=1), [0.025, 0.975])
    return Estimate(interquartile_mean(values), float(low), float(high), len(data))


def difference(a: Sequence[float], b: Sequence[float]) -> Estimate:
    """Interquartile mean of a minus that of b; they differ if its interval leaves out 0."""
    rng = np.random.default_rng(0)
    x, y = np.asarray(a, float), np.asarray(b, float)
    gaps = stats.trim_mean(rng.choice(x, (_DRAWS, len(x))), 0.25, axis=1) - stats.trim_mean(
        rng.choice(y, (_DRAWS, len(y))), 0.25, axis=1
    )
    low, high = np.quantile(gaps, [0.025, 0.975])
    return Estimate(
        interquartile_mean(a) - interquartile_mean(b), float(low), float(high), min(len(x), len(y))
    )


def improvement(a: Sequence[float], b: Sequence[float]) -> Estimate:
    """The probability that a seed of a is better than one of b, ties counting half (Agarwal et
    al., 2021), with its 95 % bootstrap interval: better or worse if that leaves out 0.5."""
    x, y = np.asarray(a, float), np.asarray(b, float)
    wins = (x[:, None] > y) + 0.5 * (x[:, None] == y)
    rng = np.random.default_rng(0)
    rows, columns = (rng.integers(0, n, (_DRAWS, n)) for n in wins.shape)
    means = wins[rows[:, :, None], columns[:, None, :]].mean(axis=(1, 2))
    low, high = np.quantile(means, [0.025, 0.975])
    return Estimate(float(wins.mean()), float(low), float(high), min(wins.shape))


def improvement_text(found: Estimate | None) -> str:
    """In words, if the interval says so; `None` is for too few seeds."""
    if found is None:
        return f"fewer than {FEW_SEEDS} seeds"
    word = "better" if found.low > 0.5 else "worse" if found.high < 0.5 else "cannot be told"
    return f"{found}: {word}"


def improvement_of_many(a: Sequence[float], b: Sequence[float]) -> Estimate | None:
    """The probability of improvement; None for too few seeds."""
    return improvement(a, b) if min(len(a), len(b)) >= FEW_SEEDS else None


# ------------------------------------------------------------------------------ learning speed


def area(steps: Sequence[float], success: Sequence[float], until: float | None = None) -> float:
    """Mean success up to a step: the area under the learning curve over its length, straight lines
    between evaluations, and before the first one as at it. So it depends little on how often a
    run was evaluated."""
    x, y = np.array([0.0, *steps]), np.array([success[0], *success])
    end = x[-1] if until is None else min(until, x[-1])
    before = x < end
    x, y = np.append(x[before], end), np.append(y[before], np.interp(end, x, y))
    return float(np.trapezoid(y, x) / end)


def first_good(steps: Sequence[float], success: Sequence[float]) -> float | None:
    """The step of the first evaluation of 0.9 or more."""
    return next((x for x, y in zip(steps, success, strict=True) if y >= GOOD), None)


def swing(success: Sequence[float]) -> float | None:
    """The mean change between successive evaluations, up or down, from the first one of 0.5 or more
    on; None if there are not two of these."""
    since = next((i for i, y in enumerate(success) if y >= HALF), len(success))
    changes = np.abs(np.diff(success[since:]))
    return float(changes.mean()) if len(changes) else None


@dataclass(frozen=True)
class StepsToGood:
    """How many seeds have an evaluation of 0.9 or more, and the median of their first ones. Seeds
    that have none count as later than all others."""

    reached: int
    seeds: int
    median: Estimate | None
    """Over all seeds, with its 95 % bootstrap interval, which may be open upwards; None if most
    have none."""

    def __str__(self) -> str:
        return f"{self.reached} of {self.seeds}" + (
            f", {self.median.value / 1000:.0f}k" if self.median else ""
        )

    @property
    def with_interval(self) -> str:
        if self.median is None or self.median.seeds < FEW_SEEDS:
            return str(self)
        high = f"{self.median.high / 1000:.0f}k" if math.isfinite(self.median.high) else "never"
        return f"{self} [{self.median.low / 1000:.0f}k, {high}]"


def steps_to_good(firsts: Sequence[float | None]) -> StepsToGood:
    """Of the first good evaluations of each seed; None for a seed that has none."""
    steps = np.array([math.inf if step is None else step for step in firsts])
    reached = int(np.isfinite(steps).sum())
    middle = _median(steps)
    if not math.isfinite(middle):
        return StepsToGood(reached, len(steps), None)
    draws = np.random.default_rng(0).choice(steps, (_DRAWS, len(steps)))
    low, high = np.quantile(_median(draws), [0.025, 0.975], method="nearest")
    return StepsToGood(reached, len(steps), Estimate(middle, float(low), float(high), len(steps)))


def _median(steps: Array) -> Any:
    """Of the last axis. Of an even number the later middle one: the mean with infinity is none."""
    return np.sort(steps, axis=-1)[..., steps.shape[-1] // 2]
