"""What is replayed, as metrics: the mean over a cycle's samples."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hindsight.replay.batch import Sample
from hindsight.replay.replay import HindsightReplay
from hindsight.types import Array


class Means:
    """Running means of metrics by name."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._weights: dict[str, float] = {}

    def add(self, values: Mapping[str, float], prefix: str = "", weight: float = 1.0) -> None:
        for name, value in values.items():
            self._sums[prefix + name] = self._sums.get(prefix + name, 0.0) + weight * float(value)
            self._weights[prefix + name] = self._weights.get(prefix + name, 0.0) + weight

    def values(self) -> dict[str, float]:
        return {name: total / self._weights[name] for name, total in self._sums.items()}


def replay_metrics(replay: HindsightReplay, sample: Sample) -> dict[str, float]:
    """Of one sample [U, B]: which goals, rewards, time steps and priorities it has. Call it
    before the update."""
    spec, at, batch = replay.spec, sample.addresses, sample.batch
    best = np.float32(np.inf if spec.success_reward is None else spec.success_reward)
    hit = batch.reward >= replay.reward_scale(best, batch.terminated)
    alternate = float(np.mean(at.alternate))
    others = at.alternate & (at.goal_time < 0)  # desired goals of other episodes
    quarters = (
        np.bincount(np.minimum(at.step.ravel() * 4 // spec.horizon, 3), minlength=4) / at.step.size
    )
    metrics = {
        "reached": float(np.mean(hit)),
        "terminated": float(np.mean(batch.terminated)),
        "alternate": alternate,
        "other_goals": float(np.mean(others)),
        **{f"time_quarter_{i + 1}": float(share) for i, share in enumerate(quarters)},
        "duplicates": _duplicates(np.stack([part[0] for part in at], axis=-1)),
    }
    if alternate < 1.0:
        metrics["alternate_per_actual"] = alternate / (1.0 - alternate)
    if replay.priorities is not None and sample.pairs is not None:
        importance = np.asarray(batch.importance, np.float64)
        effective = importance.sum(axis=1) ** 2 / (importance**2).sum(axis=1)
        metrics |= {
            "priority_age": float(np.mean(replay.priorities.age(sample.pairs))),
            "effective_share": float(np.mean(effective)) / importance.shape[1],
        }
    return metrics


def _duplicates(addresses: Array) -> float:
    """Share of the rows [B, 4] that repeat an earlier one."""
    return 1.0 - len(np.unique(addresses, axis=0)) / len(addresses)
