"""What is replayed: transitions under goals, as a learner reads them, and where each of them is
stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hindsight.replay.pairs import Addresses, Places
from hindsight.types import Ints, Tensor


class Fresh(NamedTuple):
    """How fresh TD errors choose among candidates (`replay/fresh.py`)."""

    draws: Tensor  # [B] uniform numbers, one for each transition that is chosen
    alpha: Tensor  # exponent of the fresh priorities
    epsilon: Tensor  # added to them
    ranked: Tensor  # [2] how many entries of each queue are ranked by them; 0: their sizes count
    queue: Tensor | None = None  # [C] of two queues, the one that a candidate is of: 0 or 1
    due: Tensor | None = None  # [B] and the one that each chosen is to be of, in ascending order


class Batch(NamedTuple):
    """B transitions under goals. Of U batches drawn together every array is [U, B, ...]."""

    observation: Tensor
    next_observation: Tensor
    goal: Tensor  # features
    action: Tensor
    reward: Tensor
    terminated: Tensor  # 0 or 1
    importance: Tensor  # 1 / (N P(i)): 1 if all were drawn alike
    beta: Tensor = 0.0  # exponent of the importance weights in the critic's loss
    actor_beta: Tensor = 0.0  # and in the actor's
    fresh: Fresh | None = (
        None  # then these are candidates, several times as many as are learnt from
    )
    actor: Batch | None = None  # what the actor learns from, if it is something else


@dataclass(frozen=True)
class RewardScale:
    """Rewards such that all values are less by `offset`, and then in units of `unit`.

    Q = r + gamma Q' becomes (Q - offset) / unit. At an end no Q' follows: there the whole offset
    is subtracted.
    """

    offset: float = 0.0
    unit: float = 1.0
    gamma: float = 1.0

    @property
    def is_identity(self) -> bool:
        return self.offset == 0.0 and self.unit == 1.0

    def __call__(self, reward: Tensor, terminated: Tensor) -> Tensor:
        """Scaled rewards, of rewards and of what is terminated, 0 or 1."""
        if self.is_identity:
            return reward
        follows = self.gamma * (1.0 - np.asarray(terminated, np.float64))
        return ((reward - self.offset * (1.0 - follows)) / self.unit).astype(np.float32)


class TDErrors(NamedTuple):
    """TD errors r + gamma Q'(s'||g, .) - Q(s||g, a) and values Q(s||g, a), of one shape."""

    error: Tensor
    value: Tensor


class Sample(NamedTuple):
    """U batches, and where they come from."""

    batch: Batch  # [U, B, ...]
    addresses: Addresses  # [U, B]
    pairs: Ints | None  # [U, B] numbers of the prioritised pairs; None: there are none
    sampled_at: int  # how many times episodes had been stored


class NewPairs(NamedTuple):
    """The pairs of new episodes, found where those were played: with goals and TD errors."""

    places: Places
    td: TDErrors | None  # None: they get the largest priority

    @staticmethod
    def concatenate(parts: Sequence[NewPairs], episodes: Sequence[int]) -> NewPairs:
        """Those of several parts of so many episodes."""
        before = np.cumsum([0, *episodes[:-1]])
        places = [
            part.places._replace(episode=part.places.episode + first)
            for part, first in zip(parts, before, strict=True)
        ]
        errors = [part.td for part in parts if part.td is not None]
        return NewPairs(
            Places(*map(np.concatenate, zip(*places, strict=True))),
            TDErrors(*map(np.concatenate, zip(*errors, strict=True))) if errors else None,
        )
