from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from conftest import LineEnv, random_episodes
from hindsight.envs.contract import inspect
from hindsight.replay.samplers import MovedSampler, Movement
from hindsight.replay.storage import Storage

LINE = inspect(LineEnv())


def test_rare_moves_count_by_how_rare_they_are() -> None:
    movement = Movement(20, directions=3)
    movement.moved[:9, 0] = 0.1  # nine pushes
    movement.moved[9, 2] = 0.05  # one lift
    weight = movement.weight(10, 1.0, 0.0)
    # Usual moves: 0.1 sqrt(9/10) along the first direction, 0.05 sqrt(1/10) along the third.
    assert weight[9] / weight[0] == pytest.approx(np.sqrt(10) / np.sqrt(10 / 9))
    movement.moved[:9, 2] = 0.05  # now all lift
    weight = movement.weight(10, 1.0, 0.0)
    assert weight[9] < weight[0]
    assert movement.far(11, 0.04).tolist() == [True] * 10 + [False]


def test_without_directions_the_weight_is_the_distance() -> None:
    movement = Movement(4)
    movement.moved[:3, 0] = np.float32([0.3, 0.0, 0.1])
    assert movement.weight(3, 2.0, 0.01) == pytest.approx([0.09, 1e-4, 0.01])


def test_share_and_power_together_weigh_those_that_moved() -> None:
    rng = np.random.default_rng(0)
    episodes = random_episodes(rng, 4, LINE.horizon, LINE)
    achieved = np.zeros_like(episodes.achieved_goal)
    achieved[1, 1:], achieved[2, 1:] = 1.0, 3.0
    episodes = replace(episodes, achieved_goal=achieved, length=np.full(4, LINE.horizon))
    storage = Storage(LINE, 4 * LINE.horizon)
    movement = Movement(storage.slots)
    movement.add(storage.add(episodes), episodes)
    sampler = MovedSampler(movement, share=0.8, power=1.0, threshold=0.5)
    sampler.stored(storage)
    slots, steps = sampler.sample(1, 50_000, rng)
    share = np.bincount(slots.ravel(), minlength=4) / slots.size
    assert share == pytest.approx([0.05, 0.05 + 0.2, 0.05 + 0.6, 0.05], abs=0.01)
    assert (steps.min(), steps.max()) == (0, LINE.horizon - 1)
