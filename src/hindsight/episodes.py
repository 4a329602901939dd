"""Episodes: the one currency. Collectors make them, replay stores them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from hindsight.types import Array, Bools, Floats, Ints


@dataclass(frozen=True)
class Episodes:
    """N whole episodes of at most T steps, padded: step t of episode n is real where t < length[n].

    Observations are flat features, float32 or the uint8 of pixels; goals keep the env's own shape
    and dtype, because rewards are recomputed from them.
    """

    observation: Array  # [N, T+1, observation]
    achieved_goal: Array  # [N, T+1, ...]
    desired_goal: Array  # [N, ...]
    action: Array  # [N, T, action] as chosen, before it is clipped to the box; discrete: [N, T]
    reward: Floats  # [N, T] of the desired goal
    terminated: Bools  # [N, T]
    success: Bools  # [N, T]
    length: Ints  # [N]
    log_prob: Floats | None = (
        None  # [N, T] of the actions, under the policy that played; None if it is deterministic
    )

    def __len__(self) -> int:
        return len(self.length)

    @property
    def transitions(self) -> int:
        return int(self.length.sum())

    @property
    def real(self) -> Bools:
        """[N, T] True for steps that happened."""
        return np.arange(self.reward.shape[1]) < self.length[:, None]

    def final_success(self) -> Bools:
        """[N] success at the last step of each episode."""
        return self.success[np.arange(len(self)), self.length - 1]

    def failed(self) -> Bools:
        """[N] the env ended the episode, and not on success."""
        last = np.arange(len(self)), self.length - 1
        failed: Bools = self.terminated[last] & ~self.success[last]
        return failed

    def returns(self) -> Floats:
        """[N] undiscounted return of the desired goal."""
        returns: Floats = np.where(self.real, self.reward, 0.0).sum(axis=1, dtype=np.float32)
        return returns

    def distance_moved(self) -> Floats:
        """[N] how far the achieved goal ever got from where it was at the start (Euclidean)."""
        n, steps = self.achieved_goal.shape[:2]
        goals = self.achieved_goal.reshape(n, steps, -1).astype(np.float64)
        distance = np.linalg.norm(goals - goals[:, :1], axis=-1)
        visited = np.arange(steps) <= self.length[:, None]
        furthest: Floats = np.where(visited, distance, 0.0).max(axis=1).astype(np.float32)
        return furthest

    def largest_change(self) -> Floats:
        """[N, 2g] how far each number of the achieved goal ever got above, then below, where it
        was at the start."""
        n, steps = self.achieved_goal.shape[:2]
        goals = self.achieved_goal.reshape(n, steps, -1).astype(np.float64)
        visited = np.arange(steps) <= self.length[:, None]
        change = np.where(visited[..., None], goals - goals[:, :1], 0.0)
        both: Floats = np.concatenate([change.max(axis=1), -change.min(axis=1)], axis=1)
        return both

    def select(self, rows: Array) -> Episodes:
        """Some of the episodes, by mask or indices."""
        return Episodes(**{name: values[rows] for name, values in self._arrays().items()})

    def _arrays(self) -> dict[str, Array]:
        arrays = {f.name: getattr(self, f.name) for f in fields(Episodes)}
        return {name: values for name, values in arrays.items() if values is not None}

    @staticmethod
    def concatenate(parts: Sequence[Episodes]) -> Episodes:
        if len(parts) == 1:
            return parts[0]
        return Episodes(
            **{
                name: np.concatenate([getattr(p, name) for p in parts])
                for name in parts[0]._arrays()
            }
        )
