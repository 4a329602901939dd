"""What several seeds say: interquartile mean and bootstrap intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

_DRAWS = 5000


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
    means = [wins[np.ix_(row, column)].mean() for row, column in zip(rows, columns, strict=True)]
    low, high = np.quantile(means, [0.025, 0.975])
    return Estimate(float(wins.mean()), float(low), float(high), min(wins.shape))
