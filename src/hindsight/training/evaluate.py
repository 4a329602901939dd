"""Greedy evaluation on fresh episodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hindsight.collect import Act, Collecting, episode_seeds
from hindsight.episodes import Episodes


@dataclass(frozen=True)
class Evaluation:
    success_rate: float
    """Share of episodes that are a success at their last step."""
    mean_return: float
    episodes: int

    @staticmethod
    def of(episodes: Episodes, asked: int) -> Evaluation:
        """Of `asked` episodes, those that are missing (their simulation diverged) count as
        failures."""
        mean_return = float(np.mean(episodes.returns(), dtype=np.float64))
        return Evaluation(int(episodes.final_success().sum()) / asked, mean_return, asked)


TRAINING, EVALUATION, FRESH = 0, 1, 2
"""Streams of reset seeds: episodes trained on, evaluated during training, and evaluated or
watched afterwards."""


def evaluate(
    collector: Collecting, act: Act, episodes: int, seed: int, stream: int = FRESH, first: int = 0
) -> Evaluation:
    """Play `episodes` episodes with `act`, from the number `first` of the stream on. Their starts
    depend on nothing else."""
    seeds = episode_seeds(seed, stream, first, episodes)
    return Evaluation.of(collector.collect(act, seeds), episodes)
