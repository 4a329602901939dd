from __future__ import annotations

from dataclasses import replace

import numpy as np

from conftest import LineEnv, random_episodes
from hindsight.envs.contract import inspect
from hindsight.episodes import Episodes

SPEC = inspect(LineEnv())


def test_distance_moved_ignores_padding() -> None:
    episodes = random_episodes(np.random.default_rng(0), 2, SPEC.horizon, SPEC)
    achieved = np.zeros_like(episodes.achieved_goal)
    achieved[0, 3] = 2.0
    achieved[1, 4] = 9.0
    episodes = replace(episodes, achieved_goal=achieved, length=np.array([3, 3]))
    assert episodes.distance_moved().tolist() == [2.0, 0.0]
    assert episodes.largest_change().tolist() == [[2.0, 0.0], [0.0, 0.0]]


def test_concatenate_keeps_order() -> None:
    rng = np.random.default_rng(0)
    parts = [random_episodes(rng, n, SPEC.horizon, SPEC, mark) for n, mark in ((2, 0), (3, 2))]
    assert Episodes.concatenate(parts).observation[:, 0, 0].tolist() == [0, 1, 2, 3, 4]
