"""Exploring towards other goals: points on the way to far ones (relay goals: test_relay.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hindsight
from conftest import LineEnv, fingerprint
from hindsight.config import config_of
from hindsight.envs.contract import inspect
from hindsight.errors import HindsightError
from hindsight.settings import with_settings
from hindsight.training.exploration import Led, nearer, nearer_goals

QUICK: dict[str, Any] = {"quiet": True, "steps": 240, "num_envs": 2, "episodes_per_cycle": 2}
QUICK |= {"gradient_steps": 2, "batch_size": 16, "eval_episodes": 2, "eval_every": 4}
QUICK |= {"agent.net_arch": (8,), "checkpoint.minutes": 0.0, "method": "sac"}


class WithoutPlace(gym.ObservationWrapper[Any, Any, Any]):
    """Its observations are always 0: only the achieved goal says where the point is."""

    def observation(self, observation: Any) -> Any:
        return observation | {"observation": np.zeros(1)}


def blind_line() -> gym.Env[Any, Any]:
    return WithoutPlace(LineEnv())


@given(st.integers(0, 10**6), st.integers(1, 4), st.floats(0.01, 3.0))
def test_goals_are_moved_along_the_way(seed: int, size: int, distance: float) -> None:
    rng = np.random.default_rng(seed)
    achieved, goal = rng.normal(size=(2, 8, size)).astype(np.float32)
    goal[0] = achieved[0]  # reached
    moved = nearer(achieved, goal, distance)
    before = np.linalg.norm(goal - achieved, axis=1)
    after = np.linalg.norm(moved - achieved, axis=1)
    left = np.linalg.norm(goal - moved, axis=1)
    np.testing.assert_allclose(after, np.minimum(before, distance), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(after + left, before, rtol=1e-4, atol=1e-5)  # on the line
    np.testing.assert_array_equal(moved[before < distance], goal[before < distance])


def test_only_exploration_is_shown_other_goals() -> None:
    seen = []

    class Agent:
        def actor(self, state: Any) -> Any:
            return state

        def explorer(self, *_: Any) -> Any:
            return lambda observation, goal: seen.append(goal.copy()) or observation

    agent = Led(Agent(), nearer_goals(0.5, inspect(blind_line())))
    act = agent.explorer(None, 0.0, np.random.default_rng(0))  # type: ignore[arg-type]
    observation = np.array([[7.0, 1.0], [7.0, -1.0]], np.float32)  # the last feature is the place
    assert act(observation, np.array([[4.0], [-1.2]], np.float32)) is observation
    np.testing.assert_allclose(seen[0], [[1.5], [-1.2]])
    assert agent.actor("policy") == "policy"


def test_a_training(tmp_path: Path) -> None:
    """It changes what is explored, the same each time, and a stopped one goes on as if nothing
    had been."""
    within: dict[str, Any] = QUICK | {"explore_within": 0.5}
    plain = hindsight.train(blind_line, run_dir=tmp_path / "plain", **QUICK)
    first = hindsight.train(blind_line, run_dir=tmp_path / "first", **within)
    stop = [lambda progress: progress.cycle == 4]
    again = hindsight.train(blind_line, run_dir=tmp_path / "again", callbacks=stop, **within)
    again = hindsight.resume(again.path, env=blind_line, quiet=True)
    assert fingerprint(first) == fingerprint(again) != fingerprint(plain)


def test_where_it_does_not_work_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HindsightError, match="explore_within works where"):
        hindsight.train(LineEnv, run_dir=tmp_path / "run", explore_within=0.5, **QUICK)
    relay = {"relay": True, "explore_within": 1.0}
    with pytest.raises(HindsightError, match="leave out explore_within"):
        with_settings(config_of("ddpg", "FetchPush-v4"), relay)
